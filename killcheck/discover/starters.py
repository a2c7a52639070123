"""Who starts a target again by itself: scalers that wake it, sources of GitOps that put it back, sleepers that end.

What may *not* live here: schedules of CronJobs (:mod:`killcheck.watch.starts`), and programs that were seen to do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from killcheck.discover.sleepers import takes_down
from killcheck.kube import downtimes
from killcheck.kube import resources as r
from killcheck.kube.gitops_owners import puts_back
from killcheck.kube.objects import Obj, dig, mappings, name_of, namespace_of, ref_of
from killcheck.spec.killpath import Target

__all__ = ["named"]


def named(
    objects: Sequence[Obj], targets: Sequence[Target], by_target: Mapping[str, Obj], file_of: Callable[[Obj], str]
) -> Iterator[str]:
    """A sentence for each object that starts targets again. ``file_of``: where a manifest lies, empty if nowhere."""
    files = {target.name: file_of(by_target[target.name]).replace("\\", "/") for target in targets}
    for obj in objects:
        found: dict[str, list[str]] = {}
        for target in targets:
            how = _how(obj, by_target[target.name], files[target.name], objects)
            if how:
                found.setdefault(how, []).append(str(target))
        yield from (f"{ref_of(obj)} starts {', '.join(who)} again: {how}" for how, who in found.items())


def _how(obj: Obj, target: Obj, file: str, objects: Sequence[Obj]) -> str | None:
    """How an object starts a workload again; None: it does not."""
    if r.is_of(obj, r.SCALEDOBJECTS, r.HTTPSCALEDOBJECTS):
        return _wakes(obj) if _scales(obj, target) else None
    if takes_down(obj, target, objects):
        wakes = dig(obj, "spec", "wakeUpAt") if downtimes.is_sleep_info(obj) else "the end of its downtime"
        return f"it wakes it at {wakes}" if wakes else None
    return puts_back(obj, target, file)


def _wakes(scaler: Obj) -> str:
    if r.is_of(scaler, r.HTTPSCALEDOBJECTS):
        return "a request wakes it"
    types = dict.fromkeys(str(trigger.get("type")) for trigger in mappings(dig(scaler, "spec", "triggers")))
    return f"its triggers wake it ({', '.join(types) or 'none is given'})"


def _scales(scaler: Obj, target: Obj) -> bool:
    ref = dig(scaler, "spec", "scaleTargetRef", default={})
    kind = str(ref.get("kind") or "Deployment")
    name = ref.get("name") or ref.get("deployment")
    same = (namespace_of(scaler) or "default") == (namespace_of(target) or "default")
    return same and (kind, name) == (target.get("kind"), name_of(target))
