"""What an executor carries from one firing to the next on a volume, which no drill here sees.

A volume that outlives its pods begins empty on the embedded cluster, for each pod anew: what a lock, a mark or a switch
that lies there would make of the next firing, or of this one, is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from killcheck.entries import Entry, Status
from killcheck.kube.objects import Obj, dig, ref_of
from killcheck.kube.workloads import templates

__all__ = ["on_volumes"]

#: Sources of volumes that go with their pod, or whose content the manifests say.
_PASSING = frozenset({"emptyDir", "configMap", "secret", "projected", "downwardAPI", "ephemeral", "image"})
_SETTLES = "drill it on a cluster that has the volume (--on CONTEXT), or say under assume: why nothing there stops it"


def on_volumes(cron_job: Obj, config_map: Callable[[str], Obj | None]) -> Iterator[Entry]:
    """An entry for each volume that outlives the pods of a CronJob and that its program looks at.

    ``config_map``: one of its namespace by name; its scripts may lie there.
    """
    for template in templates(cron_job):
        lasting = dict(_lasting(template.spec))
        scripts = list(_scripts(template.spec, config_map)) if lasting else []
        spec = template.spec
        for container in (*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])):
            said = " ".join(map(str, (*(container.get("command") or ()), *(container.get("args") or ()), *scripts)))
            for mount in container.get("volumeMounts") or ():
                if mount.get("name") in lasting and _looked_at(str(mount.get("mountPath")), said):
                    yield _entry(cron_job, mount, lasting[mount["name"]])


def _scripts(spec: Obj, config_map: Callable[[str], Obj | None]) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        name = dig(volume, "configMap", "name")
        yield from map(str, dig(config_map(str(name)) if name else None, "data", default={}).values())


def _entry(cron_job: Obj, mount: Obj, kind: str) -> Entry:
    return Entry(
        ref_of(cron_job),
        Status.NOT_MODELLED,
        f"it looks at {mount['mountPath']}, on a {kind} that outlives its pods: what lies there, also from the firing "
        "before, may stop it, and was not seen",
        _SETTLES,
    )


def _lasting(spec: Obj) -> Iterator[tuple[str, str]]:
    """(name, source) of the volumes of a pod that outlive it."""
    for volume in spec.get("volumes") or ():
        kind = next((key for key in volume if key != "name"), "emptyDir")
        if kind not in _PASSING:
            yield str(volume.get("name")), kind


def _looked_at(path: str, words: str) -> bool:
    """Whether a program's own words name something below a path, other than to write it."""
    named = re.finditer(rf"(?<![\w.-]){re.escape(path.rstrip('/'))}(?![\w-])", words)
    return any(not re.search(r"(>|\btee( -a)?)\s*[\"']?$", words[: found.start()]) for found in named)
