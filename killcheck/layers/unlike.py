"""What makes one firing of a switch unlike the next, and that no number of nights settles: chance, and what only grows.

Other nights are tried in a drill; a toss may still fall otherwise in one that was not, and a number that grows with
each of them passes any limit once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from killcheck.entries import Entry, Status
from killcheck.executor.calendar import tossed
from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["entries"]

#: Numbers that are counted up: with every write of an object, with every end of a container. A roll-out is waited for
#: by comparing two of them.
_GROWS = lazy_re.compile(r"\bmetadata\.generation\b|(?<![\w.])\.?generation\b(?=[\"'\]}|)])|\brestartCount\b")
_WAITED_FOR = lazy_re.compile(r"observedGeneration|\bdel\(|sort-by")
_ALIKE = "let it do the same in every firing, or say under assume: why it turns the GPUs off in each"


def _words(cron_job: Obj, config_map: Callable[[str], Obj | None]) -> Iterator[str]:
    """What the program of a CronJob is made of: its own words, and scripts that lie in ConfigMaps of its namespace."""
    for template in templates(cron_job):
        spec = template.spec
        for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
            yield "\n".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()))))
        for name in dict.fromkeys(_mounted(spec)):
            yield from map(str, dig(config_map(name), "data", default={}).values())


def _mounted(spec: Obj) -> Iterator[str]:
    """The ConfigMaps that the volumes of a pod are made of."""
    for volume in spec.get("volumes") or ():
        for source in (volume, *dig(volume, "projected", "sources", default=[])):
            name = dig(source, "configMap", "name")
            if name:
                yield str(name)


def entries(cron_job: Obj, config_map: Callable[[str], Obj | None], late_s: float) -> Iterator[Entry]:
    """An open entry for a switch that tosses, or that goes by what grows. ``late_s``: when it has to be over."""
    texts = list(_words(cron_job, config_map))
    limit = dig(cron_job, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
    toss = tossed(texts, min(late_s, float(limit)) if limit is not None else late_s)
    if toss is not None:
        said = f"what it does is left to chance ('{toss}'): a night on which it falls otherwise was not seen"
        yield Entry(ref_of(cron_job), Status.NOT_MODELLED, said, _ALIKE)
    lines = [line for text in texts for line in text.splitlines()]
    grown = next((line for line in lines if _GROWS.search(line) and not _WAITED_FOR.search(line)), None)
    if grown is not None:
        shown = redact(" ".join(grown.split()))[:60]
        said = f"it goes by a number that only grows ('{shown}'): from some night on it may not act"
        yield Entry(ref_of(cron_job), Status.NOT_MODELLED, said, _ALIKE)
