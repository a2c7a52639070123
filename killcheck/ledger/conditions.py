"""What a program goes by that ran in a drill and turned nothing on: on another night that may be another.

A schedule that says ``--replicas=1`` and did not do it waits for something. One that may turn a target on, and whose
words are not all known, may be given others: by a volume whose content no manifest holds, or one that somebody writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from killcheck.executor import ApiCall
from killcheck.kube.objects import Obj, dig, name_of, ref_of
from killcheck.kube.workloads import PodTemplate, templates
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["unmet"]

#: Sources of volumes whose content manifests hold, or a pod itself, by their fields.
_HELD = frozenset({"configMap", "downwardAPI", "emptyDir", "name", "projected", "secret"})
_WRITES = ("patch", "update")
#: The ConfigMap that the control plane puts into each namespace.
_IN_EACH = "kube-root-ca.crt"


def unmet(obj: Obj, stakes: Stakes) -> str | None:
    """What a program that ran would have to meet to turn a target on, half a sentence; None: nothing is known of."""
    return next(_unmet(obj, stakes), None)


def _unmet(obj: Obj, stakes: Stakes) -> Iterator[str]:
    for template in templates(obj):
        reading = stakes.reading(obj, template)
        if obj.get("kind") == "CronJob":
            said = [call for call in reading.writes if _lights(call, stakes)]
            yield from (f"says '{call}', and did not do so: it waits for something" for call in said[:1])
        if reading.not_understood:
            given = (*_not_held(template, home_of(obj), stakes), *_written(obj, template, stakes))
            yield from (f"goes by {one}" for one in given)


def _lights(call: ApiCall, stakes: Stakes) -> bool:
    """Whether a call would have put a target on, had it been made."""
    to_some = call.replicas != 0 if call.subresource == "scale" else bool(call.replicas)
    return to_some and any(
        call.resource == held.plural and call.about(held.namespace, held.name, held.labels[0] if held.labels else {})
        for held in stakes.targets
    )


def _not_held(template: PodTemplate, home: str, stakes: Stakes) -> Iterator[str]:
    """What it is given, and whose content no manifest holds: by a volume, or by its environment."""
    secrets = {(home_of(obj), name_of(obj)) for obj in stakes.objects if obj.get("kind") == "Secret"}
    for volume in dig(template.spec, "volumes", default=[]):
        how = next((key for key in volume if key not in _HELD), "")
        if how:
            yield f"what lies in its volume {volume.get('name')} ({how}), which is not known"
    for kind, name in dict.fromkeys(_given(template.spec)):
        known = secrets if kind == "secret" else stakes.config_maps
        if name and name != _IN_EACH and (home, name) not in known:
            yield f"{kind} {home}/{name}, which is not among the manifests"


def _given(spec: Obj) -> Iterator[tuple[str, str]]:
    """(secret or configMap, name) of each that its volumes and its containers' environments are made of."""
    for volume in dig(spec, "volumes", default=[]):
        for source in (volume, *dig(volume, "projected", "sources", default=[])):
            yield (
                "secret",
                str(dig(source, "secret", "secretName", default="") or dig(source, "secret", "name", default="")),
            )
            yield "configMap", str(dig(source, "configMap", "name", default=""))
    for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
        for source in dig(container, "envFrom", default=[]):
            yield "secret", str(dig(source, "secretRef", "name", default=""))
            yield "configMap", str(dig(source, "configMapRef", "name", default=""))
        for variable in dig(container, "env", default=[]):
            yield "secret", str(dig(variable, "valueFrom", "secretKeyRef", "name", default=""))
            yield "configMap", str(dig(variable, "valueFrom", "configMapKeyRef", "name", default=""))


def _written(obj: Obj, template: PodTemplate, stakes: Stakes) -> Iterator[str]:
    """ConfigMaps and Secrets that it is given, and that another workload may write."""
    home = home_of(obj)
    given = [
        (plural, str(name))
        for volume in dig(template.spec, "volumes", default=[])
        for plural, name in (
            ("configmaps", dig(volume, "configMap", "name", default="")),
            ("secrets", dig(volume, "secret", "secretName", default="")),
        )
        if name
    ]
    for (plural, name), (space, account) in product(given, sorted(stakes.permissions.accounts)):
        may = partial(stakes.permissions.allows, account, space, group="", resource=plural, name=name, namespace=home)
        others = [one for one in stakes.run_as(space, account) if one is not obj]
        if others and any(may(verb=verb) for verb in _WRITES):
            yield f"{plural} {home}/{name}, which {ref_of(others[0])} may write"
