"""Whether what a program does turns a target off: its API calls, its commands in a cloud, and what it may do at all.

A call *stops* where it takes replicas, pods, nodes or machines away, or edits what the target or its capacity is made
from: whether that works is for a drill to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from killcheck.discover.landing import Machines, grows, machines_of_call, machines_of_command, may_land
from killcheck.executor import Reading
from killcheck.executor.api_calls import ApiCall
from killcheck.kube import gpus
from killcheck.kube.objects import Obj, dig, labels_of, name_of, namespace_of
from killcheck.kube.permissions import Permissions
from killcheck.kube.plurals import plural_of
from killcheck.kube.workloads import templates
from killcheck.spec.killpath import Target
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["Stopping"]

#: Cloud commands that take capacity away.
_STOPS = lazy_re.compile(
    r"terminate|stop|delete|deallocate|scale|resize|set-desired|update-auto-scaling-group|update-nodegroup|drain"
)
#: What GPUs run on; where it goes, they go.
_CAPACITY = frozenset({"nodes", "nodeclaims", "nodepools", "machines", "machinesets", "machinedeployments"})
#: What an edit of capacity says where it takes some away: limits of Karpenter's, numbers of machines, evictions.
_SHRINKS = lazy_re.compile(r"limits|replicas|NoExecute", re.I)
#: Groups of workloads whose controllers read no labels or annotations of a person's.
_BUILT_IN = frozenset({"apps", "batch", ""})
#: An extended resource and its amount, as they are written: ``nvidia.com/gpu=1``, ``"nvidia.com/gpu": "1"``, and in a
#: JSON patch ``.../nvidia.com~1gpu", "value": 1``.
_AMOUNTS = lazy_re.compile(
    r"""([\w-]+(?:\.[\w-]+)+(?:/|~1)[\w.-]+)["'\\]*(?:\s*,\s*["'\\]*value["'\\]*)?\s*[:=]\s*["'\\]*(\d+)"""
)
#: A verb that nobody has, but who has all of them.
_ANYTHING = "any-verb-at-all"
#: Helm commands that take away what a release runs.
_HELM_OFF = lazy_re.compile(
    r"^helm (?:.* )?(?:uninstall|delete)\b|^helm .*\bupgrade\b.*(?:replica\w*=0|enabled=false)", re.I
)


class Stopping(Struct):
    """Which of ``targets`` the programs among ``objects`` turn off. ``notes``: what a reader should know of it."""

    objects: Sequence[Obj]
    targets: Sequence[Target]
    by_target: Mapping[str, Obj]
    permissions: Permissions
    notes: list[str] = field(default_factory=list)

    def named_by(self, reading: Reading, who: str) -> tuple[str, ...]:
        """The names of the targets that a program turns off by what could be read of it."""
        covers = [t.name for t in self.targets if any(self._stops(call, t, who) for call in reading.writes)]
        for command in (words for words in reading.not_understood if _HELM_OFF.search(words)):
            released = self._released(command)
            covers = list(dict.fromkeys([*covers, *released]))
            self.notes.append(f"{who} runs '{command}': taken to turn off {', '.join(released) or 'no target'}")
        whole = {command: _in_full(command, reading) for command in reading.outside if _STOPS.search(command)}
        clouds = [command for command, text in whole.items() if not grows(text)]
        self.notes += [f"{who} runs '{c}': it asks for machines, and turns none off" for c in whole if c not in clouds]
        if clouds and not covers:
            groups = [machines_of_command(whole[command], self.objects) or Machines({}) for command in clouds]
            covers = [t.name for t in self.targets if self._lands(t, groups)]
            what = "every target" if len(covers) == len(self.targets) else ", ".join(covers) or "no target"
            self.notes.append(f"{who} acts outside Kubernetes ({clouds[0]}): taken to turn off {what}")
        return tuple(covers)

    def _lands(self, target: Target, machines: Sequence[Machines]) -> bool:
        """Whether a target's pods may be on any of these machines; where nothing is known of them, they may."""
        return not machines or any(may_land(self.by_target[target.name], one) for one in machines)

    def _stops(self, call: ApiCall, target: Target, who: str) -> bool:
        """Whether an API call turns a target off."""
        if call.removes:
            return False  # a pause, a hold or a mark that goes stops nothing
        if call.resource in _CAPACITY:
            takes = not call.replicas and _takes_away(call)
            return takes and self._lands(target, machines_of_call(call, self.objects))
        if call.resource == "namespaces":
            return call.verb == "delete" and call.name in ("", target.namespace)
        obj = self.by_target[target.name]
        if call.resource == "pods":
            return self._stops_pods(call, target, obj)
        if call.resource == "configmaps":
            return call.verb in ("patch", "update") and bool(call.name) and _reads(obj, target, call)
        if call.resource in ("clusterqueues", "localqueues", "workloads") and call.verb in ("patch", "update"):
            return _is_queued(self.by_target[target.name])
        if target.name in self._scaled_by(call):
            return True
        group = target.api_version.rpartition("/")[0]
        if call.resource != plural_of(target.kind) or call.group != group:
            return False
        if not call.about(target.namespace, target.object, labels_of(obj)):
            return False
        if call.body in ("rollout restart", "rollout pause", "rollout resume"):
            self.notes.append(f"{who} {call.body.removeprefix('rollout ')}s {target}: as many pods are on after it")
            return False
        if call.marks and group in _BUILT_IN:
            self.notes.append(f"{who} labels or annotates {target}: nothing of Kubernetes' own turns it off for that")
            return False
        asked = _devices_in(call.body)
        if any(asked) or (call.body.startswith("set resources") and not asked):
            self.notes.append(f"{who} sets the resources of {target}: it asks for GPUs after it as before")
            return False
        if self.starts(call, target):
            self.notes.append(f"{who} scales {target} to {call.replicas}: it starts what others stop")
            return False
        if call.replicas:
            self.notes.append(f"{who} scales {target} to {call.replicas}, and not to zero: GPUs stay on")
        return call.verb.startswith("delete") or call.verb in ("patch", "update")

    def never_to_zero(self, reading: Reading, covers: Sequence[str]) -> bool:
        """Whether all that a program does to the targets it ``covers`` is to scale them to numbers that are no zero,
        or that could not be read."""
        named = [target for target in self.targets if target.name in covers]
        writes = [call for call in reading.writes if any(self.is_about(call, target) for target in named)]
        takes = any(call.resource in ("pods", "nodes") or call.verb.startswith("delete") for call in reading.writes)
        unread = [call for call in writes if call.replicas is None and call.body.startswith("--replicas=")]
        numbers = [*unread, *(call for call in writes if call.replicas)]
        return bool(numbers) and not takes and len(numbers) == len([c for c in writes if not c.removes])

    def _stops_pods(self, call: ApiCall, target: Target, obj: Obj) -> bool:
        """Pods that are deleted or evicted (``kubectl drain`` does): whoever makes them may make them again."""
        evicts = (call.verb, call.subresource) == ("create", "eviction")
        if not evicts and not call.verb.startswith("delete"):
            return False
        if target.kind == "Pod":
            return call.about(target.namespace, target.object, labels_of(obj))
        mine = call.name.startswith(target.object) if call.name else True
        return mine and replace(call, name="").about(target.namespace, "", _pod_labels(obj))

    def starts(self, call: ApiCall, target: Target) -> bool:
        """Whether a call sets more replicas of a target than are asked for now, or as many."""
        if not call.replicas or not self.is_about(call, target):
            return False
        return call.replicas >= int(dig(self.by_target[target.name], "spec", "replicas", default=1))

    def _released(self, command: str) -> list[str]:
        """The targets that a Helm release is made of: by its label, else by the namespace that the command names."""
        words = command.split()
        namespace = next((words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-n", "--namespace")), "")
        own = [
            t.name for t in self.targets if labels_of(self.by_target[t.name]).get("app.kubernetes.io/instance") in words
        ]
        return own or [t.name for t in self.targets if namespace in ("", t.namespace)]

    def _scaled_by(self, call: ApiCall) -> Iterator[str]:
        """The targets of the scalers (KEDA's, an HPA...) that a call changes."""
        for obj in self.objects if call.verb in ("patch", "update") else ():
            group = str(obj.get("apiVersion")).rpartition("/")[0]
            same = (plural_of(str(obj.get("kind"))), group) == (call.resource, call.group)
            same = same and call.name in ("", name_of(obj))
            if same and call.namespace in ("", namespace_of(obj)):
                target = self.scale_target(obj)
                if target is not None:
                    yield target.name

    def may_stop(self, obj: Obj, spec: Obj, target: Target) -> bool:
        """Whether the ServiceAccount of an object's pods (``spec``) may scale, change or delete a target."""
        ways = (("patch", "scale"), ("update", "scale"), ("delete", ""), ("patch", ""), ("update", ""))
        return any(self._may(obj, spec, target, verb, sub) for verb, sub in ways)

    def may_make(self, obj: Obj, spec: Obj, target: Target) -> bool:
        """Whether the ServiceAccount of an object's pods is allowed by name to make objects of a target's kind.

        Who may delete such objects may do so for those that it makes; who may do anything says nothing by that.
        """
        return self._may(obj, spec, target, "create") and not self._may(obj, spec, target, _ANYTHING)

    def _may(self, obj: Obj, spec: Obj, target: Target, verb: str, subresource: str = "") -> bool:
        return self.permissions.allows(
            str(spec.get("serviceAccountName") or "default"),
            namespace_of(obj) or "default",
            verb=verb,
            group=target.api_version.rpartition("/")[0],
            resource=plural_of(target.kind),
            subresource=subresource,
            name="" if verb == "create" else target.object,
            namespace=target.namespace,
        )

    def scale_target(self, obj: Obj) -> Target | None:
        """What a scaler's ``scaleTargetRef`` names, where that is a target."""
        ref = dig(obj, "spec", "scaleTargetRef", default={})
        name = ref.get("name") or ref.get("deployment")
        kind = ref.get("kind") or "Deployment"
        namespace = namespace_of(obj) or "default"
        return next((t for t in self.targets if (t.kind, t.namespace, t.object) == (kind, namespace, name)), None)

    def is_about(self, call: ApiCall, target: Target) -> bool:
        """Whether a call is about a target itself, as far as it could be read."""
        group = target.api_version.rpartition("/")[0]
        same = (call.resource, call.group) == (plural_of(target.kind), group)
        return same and call.about(target.namespace, target.object, labels_of(self.by_target[target.name]))


def _in_full(shown: str, reading: Reading) -> str:
    """A command of which messages show the beginning, without its secrets: to be read, and not shown."""
    begun = shown.removesuffix("...")
    whole = (" ".join(words) for words in reading.commands)
    return next((text for text in whole if text.startswith(begun)), shown)


def _takes_away(call: ApiCall) -> bool:
    """Whether a call leaves fewer machines, or is meant to."""
    if call.verb.startswith("delete") or call.subresource == "scale":
        return True
    return call.verb in ("patch", "update") and _SHRINKS.search(call.body) is not None


def _devices_in(body: str) -> list[int]:
    """The amounts of accelerators that an edit writes, in flags, merge patches and JSON patches."""
    return [int(number) for name, number in _AMOUNTS.findall(body) if gpus.is_known_device(name.replace("~1", "/"))]


def _reads(obj: Obj, target: Target, call: ApiCall) -> bool:
    """Whether a target's pods are configured by the ConfigMap that a call edits."""
    if call.namespace not in ("", target.namespace):
        return False
    sources = [
        *(volume.get("configMap") for t in templates(obj) for volume in t.spec.get("volumes") or ()),
        *(
            source.get("configMapRef")
            for t in templates(obj)
            for c in dig(t.spec, "containers", default=[])
            for source in c.get("envFrom") or ()
        ),
    ]
    return any(source and source.get("name") == call.name for source in sources)


def _pod_labels(obj: Obj) -> dict[str, str]:
    """The labels of a Job's pods, those included that the Job controller sets."""
    made = {"job-name": name_of(obj), "batch.kubernetes.io/job-name": name_of(obj)}
    return made | {key: value for t in templates(obj) for key, value in dig(t.metadata, "labels", default={}).items()}


def _is_queued(obj: Obj) -> bool:
    """Whether Kueue admits it: holding its queue stops it."""
    return "kueue.x-k8s.io/queue-name" in labels_of(obj)
