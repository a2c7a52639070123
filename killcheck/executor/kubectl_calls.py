"""What a kubectl command asks of the API, request by request, so that RBAC can be checked for each.

The requests are those that kubectl 1.36 sends (read in its sources: scaling reads the object and patches its scale;
deleting by name sends DELETE and then waits by list and watch; drain reads the node, patches it and evicts).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from msgspec import Struct, field

from killcheck.executor.api_calls import ApiCall, removes_only, replicas_in
from killcheck.executor.shell_script import UNKNOWN
from killcheck.kube import resources
from killcheck.kube.resources import Resource
from killcheck.kube.workloads import devices_of
from killcheck.text import lazy_re
from killcheck.text.numbers import whole
from killcheck.text.values import replace

__all__ = ["CommandLine", "Kubectl", "command_line", "knows", "read"]

#: Options that take a value, of the commands that executors use.
_VALUES = frozenset(
    """
    -n --namespace -l --selector -f --filename -p --patch -o --output -c --container --replicas --current-replicas
    --limits --requests
    --context --cluster --user --kubeconfig -s --server --token --as --as-group --certificate-authority --timeout
    --grace-period --field-selector --type --subresource --patch-file --from --image --for --cascade --pod-selector
    --resource-version --field-manager --request-timeout --cache-dir --sort-by --to-revision --overrides --env
    --skip-wait-for-delete-timeout --chunk-size --min --max --dry-run-strategy -k --kustomize -L --v -v
""".split()
)
#: Options that take none.
_SWITCHES = frozenset(
    """
    --all --all-containers --all-namespaces --allow-missing-template-keys --debug --delete-emptydir-data
    --delete-local-data --disable-eviction --dry-run --follow --force --force-conflicts --help --ignore-daemonsets
    --ignore-errors --ignore-not-found --insecure-skip-tls-verify --interactive --keep-annotations --list --local
    --match-server-version --no-headers --now --overwrite --output-watch-events --previous --prune --quiet --record
    --recursive --rm --save-config --server-print --server-side --show-kind --show-labels --show-managed-fields --stdin
    --timestamps --tty --validate --wait --warnings-as-errors --watch --watch-only --windows-line-endings
""".split()
)
#: How alike flags are of which one is the other misspelt (0 to 1).
_MISSPELT = 0.85
#: What ``-f`` reads of a folder (k8s.io/cli-runtime resource.FileExtensions).
_MANIFESTS = (".json", ".yaml", ".yml")
_VERSION = lazy_re.compile(r"v\d+((alpha|beta)\d+)?")
_SHORT = {
    "po": "pods",
    "no": "nodes",
    "ns": "namespaces",
    "deploy": "deployments",
    "rs": "replicasets",
    "ds": "daemonsets",
    "sts": "statefulsets",
    "cj": "cronjobs",
    "cm": "configmaps",
    "svc": "services",
    "sa": "serviceaccounts",
    "pdb": "poddisruptionbudgets",
    "hpa": "horizontalpodautoscalers",
    "pvc": "persistentvolumeclaims",
    "rc": "replicationcontrollers",
    "quota": "resourcequotas",
    "limits": "limitranges",
    "netpol": "networkpolicies",
    "so": "scaledobjects",
    "app": "applications",
    "ev": "events",
    "lws": "leaderworkersets",
    "isvc": "inferenceservices",
    "ro": "rollouts",
    "cq": "clusterqueues",
    "lq": "localqueues",
    "wl": "workloads",
    "vcjob": "jobs.batch.volcano.sh",
    "vj": "jobs.batch.volcano.sh",
    "hr": "helmreleases",
    "ks": "kustomizations",
    "vm": "virtualmachines",
    "vms": "virtualmachines",
    "vmi": "virtualmachineinstances",
    "vmis": "virtualmachineinstances",
    "vmpool": "virtualmachinepools",
    "ksvc": "services.serving.knative.dev",
}
_MORE = (
    resources.LEADERWORKERSETS,
    Resource("ray.io", "v1", "rayclusters", "RayCluster"),
    Resource("ray.io", "v1", "rayjobs", "RayJob"),
    Resource("ray.io", "v1", "rayservices", "RayService"),
    Resource("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService"),
    Resource("kubeflow.org", "v1", "notebooks", "Notebook"),
    Resource("argoproj.io", "v1alpha1", "rollouts", "Rollout"),
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"),
    Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job"),
    Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    Resource("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue", False),
    Resource("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue"),
    Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload"),
    Resource("apps.nvidia.com", "v1alpha1", "nimservices", "NIMService"),
    Resource("serving.kserve.io", "v1alpha1", "llminferenceservices", "LLMInferenceService"),
    Resource("kubeai.org", "v1", "models", "Model"),
    Resource("kaito.sh", "v1beta1", "workspaces", "Workspace"),
    Resource("nvidia.com", "v1alpha1", "dynamographdeployments", "DynamoGraphDeployment"),
    Resource("sparkoperator.k8s.io", "v1beta2", "sparkapplications", "SparkApplication"),
    Resource("argoproj.io", "v1alpha1", "workflows", "Workflow"),
    Resource("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet"),
    Resource("kubevirt.io", "v1", "virtualmachines", "VirtualMachine"),
    Resource("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance"),
    Resource("pool.kubevirt.io", "v1beta1", "virtualmachinepools", "VirtualMachinePool"),
    Resource("machine.openshift.io", "v1beta1", "machinesets", "MachineSet"),
    Resource("cluster.x-k8s.io", "v1beta1", "machinedeployments", "MachineDeployment"),
)
#: kubectl commands that read one object and patch it.
_GET_AND_PATCH = frozenset({"patch", "label", "annotate", "set", "edit", "taint", "cordon", "uncordon"})


#: What ``rollout`` makes of an object (kubectl 1.36, ``pkg/polymorphichelpers``), and ``cordon`` of a node.
_ROLLED: Mapping[str, Any] = {
    "pause": {"spec": {"paused": True}},
    "resume": {"spec": {"paused": None}},
    "restart": {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": []}}}}},
}
_CORDONED: Mapping[str, Any] = {
    "cordon": {"spec": {"unschedulable": True}},
    "uncordon": {"spec": {"unschedulable": None}},
}


class CommandLine(Struct):
    """A kubectl command line taken apart. ``flags`` by name without dashes; a switch has the value 'true'."""

    words: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)

    def switch(self, name: str) -> bool:
        """Whether a switch is on (``--force``, ``--force=true``)."""
        return self.flags.get(name, "false") not in ("false", "0")

    def flag(self, *names: str) -> str:
        """The value of the first of these flags that is given; empty: none is."""
        return next((self.flags[name] for name in names if name in self.flags), "")


class Kubectl(Struct, frozen=True):
    """``calls`` in order; ``empty``: why it changes nothing (a dry run); ``unknown``: what was not understood."""

    calls: tuple[ApiCall, ...]
    empty: str = ""
    unknown: str = ""


def read(words: Sequence[str], namespace: str, files: Mapping[str, str] | None = None, stdin: str = "") -> Kubectl:
    """Read ``kubectl ...``. ``namespace`` is the pod's own; ``files`` are texts by path, for -f and --patch-file."""
    command = command_line(words[1:])
    verb = command.words.pop(0) if command.words else ""
    namespace = command.flag("n", "namespace") or namespace
    namespace = "" if UNKNOWN in namespace or command.flag("A", "all-namespaces") else namespace
    reader = _Reader(command, namespace, files or {}, stdin)
    handler = getattr(reader, f"read_{verb.replace('-', '_')}", None)
    dry = command.flag("dry-run")
    empty = f"--dry-run={dry}: nothing is changed" if dry not in ("", "none", "false") else ""
    if verb in _GET_AND_PATCH:
        calls = tuple(reader.get_and_patch(verb))
    elif handler is not None:
        calls = tuple(handler())
    else:
        return Kubectl((), empty, "kubectl " + " ".join(words[1:]))
    misspelt = _misspelt(words)
    wrong = misspelt or _no_strategic(command, verb, calls)
    if wrong:
        return Kubectl(() if misspelt else calls, empty, f"kubectl {' '.join(words[1:])}: {wrong}")
    silent = bool(calls) or verb in ("version", "config", "completion", "cluster-info")
    return Kubectl(calls, empty, "" if silent else "kubectl " + " ".join(words[1:]))


def _misspelt(words: Sequence[str]) -> str | None:
    """A flag that kubectl has not, and that is nearly one of its own: it then does nothing; empty: there is none."""
    known = sorted({flag for flag in (*_VALUES, *_SWITCHES) if flag.startswith("--")})
    ended = words.index("--") if "--" in words else len(words)
    for word in words[:ended]:
        flag = word.partition("=")[0]
        near = get_close_matches(flag, known, 1, _MISSPELT) if flag.startswith("--") and flag not in known else []
        if near:
            return f"there is no flag {flag}; did you mean {near[0]}?"
    return None


def _no_strategic(command: CommandLine, verb: str, calls: Sequence[ApiCall]) -> str | None:
    """Why a patch is refused for its type: custom resources take no strategic merge patch, kubectl's default."""
    custom = [call.resource for call in calls if call.verb == "patch" and _is_custom(call.group)]
    if verb != "patch" or command.flag("type") not in ("", "strategic") or not custom:
        return None
    return f"without --type=merge it is answered 415: {custom[0]} take no strategic merge patch"


def _is_custom(group: str) -> bool:
    """Whether a group has a domain, and none of Kubernetes' own."""
    return "." in group and (group.endswith("-k8s.io") or not group.endswith(".k8s.io"))


def command_line(words: Sequence[str]) -> CommandLine:
    """Take the arguments of kubectl apart (without its own name), as it would: switches, values, words."""
    command, rest = CommandLine(), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            command.words.append(word)
        elif equals:
            command.flags[name.lstrip("-")] = value
        elif name in _VALUES:
            command.flags[name.lstrip("-")] = rest.pop(0) if rest else ""
        elif len(name) > 2 and name[1] != "-" and name[:2] in _VALUES:
            command.flags[name[1]] = name[2:]
        else:
            command.flags[name.lstrip("-")] = "true"
    return command


def _resource(name: str) -> Resource | None:
    """The resource that a kubectl user names: plural, singular, short name, with its group or without."""
    plain, _, group = name.lower().partition(".")
    plain, _, own = _SHORT.get(plain, plain).partition(".")
    group = group or own
    for known in _known():
        if plain in (known.plural, known.kind.lower()) and (not group or _same_group(group, known)):
            return known
    if "." in group and plain.endswith("s"):  # pods.metrics.k8s.io, mpijobs.v1.kubeflow.org: said in full
        version, _, rest = group.partition(".")
        versioned = _VERSION.fullmatch(version)
        return Resource(rest if versioned else group, version if versioned else "v1", plain, plain)
    return None


def knows(kind: str) -> bool:
    """Whether what a kubectl user calls a kind is known here, or says its group: ``cm``, ``ledgers.example.org``."""
    return _resource(kind) is not None


def _marks_off(words: Sequence[str]) -> bool:
    """Whether all that is said of labels, annotations or taints is that they go: ``key-``."""
    marks = [word for word in words if "=" in word or word.endswith("-")]
    return bool(marks) and all(word.endswith("-") for word in marks)


def _marked(verb: str, words: Sequence[str]) -> dict[str, Any] | None:
    """The merge patch that ``label`` and ``annotate`` make of ``key=value`` and ``key-``."""
    if verb not in ("label", "annotate"):
        return None
    marks: dict[str, str | None] = {}
    for word in words:
        key, given, value = word.partition("=")
        if given or word.endswith("-"):
            marks[key if given else word[:-1]] = value if given else None
    return {"metadata": {"labels" if verb == "label" else "annotations": marks}} if marks else None


def _same_group(said: str, known: Resource) -> bool:
    """``kubectl`` takes RESOURCE.GROUP and RESOURCE.VERSION.GROUP, and the beginning of a group (client-go,
    restmapper): ``nodes.longhorn.io`` is no Node, and ``jobs.batch.volcano.sh`` no Job of batch."""
    version, _, rest = said.partition(".")
    group = rest if _VERSION.fullmatch(version) else said
    return known.group.startswith(group) if group else not known.group


@cache
def _known() -> tuple[Resource, ...]:
    return (*(value for value in vars(resources).values() if isinstance(value, Resource)), *_MORE)


def _lit(manifest: Mapping[str, Any]) -> int | None:
    """The replicas of pods with GPUs that a manifest writes; None where it says no number, or none of them has any."""
    spec = manifest.get("spec")
    replicas = spec.get("replicas") if isinstance(spec, dict) else None
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        return None
    return replicas if not replicas or devices_of(dict(manifest), wanted=True) else None


class _Reader:
    """One method for each kubectl command, named ``read_`` and the command."""

    def __init__(self, command: CommandLine, namespace: str, files: Mapping[str, str], stdin: str) -> None:
        self.command = command
        self.namespace = namespace
        self.files = files
        self.stdin = stdin
        self.everywhere = bool(command.flag("A", "all-namespaces"))
        #: The replicas of GPU pods that the manifest read last asks for; None where it says none, or has no GPUs.
        self.replicas: int | None = None
        #: The manifest read last; None: there is none.
        self.manifest: dict[str, Any] | None = None

    # -- what is meant ---------------------------------------------------------------------------------------
    def objects(self, default: str = "") -> Iterator[tuple[Resource, str]]:
        """(resource, name) of every argument: ``deploy/a b`` or ``deploy a b``; the name is empty for all of them."""
        words = list(self.command.words)
        if default:
            words = [word if "/" in word else f"{default}/{word}" for word in words] or [default]
        if words and "/" not in words[0]:
            kinds, *names = words
            words = [f"{kind}/{name}" for kind in kinds.split(",") for name in names or [""]]
        for word in words:
            kind, _, name = word.partition("/")
            found = _resource(kind)
            if found is not None:
                yield found, name
        yield from self._objects_in_files()

    def _objects_in_files(self) -> Iterator[tuple[Resource, str]]:
        from killcheck.text.yamlfile import YamlError, documents

        for file, text in self._texts(self.command.flag("f", "filename")):
            try:
                found = [doc.value for doc in documents(text, file) if isinstance(doc.value, dict)]
            except YamlError:
                continue
            for obj in found:
                resource = _resource(str(obj.get("kind", "")))
                if resource is not None:
                    metadata = obj.get("metadata") or {}
                    self.namespace = str(metadata.get("namespace") or self.namespace)
                    self.replicas, self.manifest = _lit(obj), obj
                    yield resource, str(metadata.get("name", ""))

    def _texts(self, file: str) -> Iterator[tuple[str, str]]:
        """(path, text) of what ``-f`` names: standard input, a file, or the files of a folder."""
        if file == "-":
            yield file, self.stdin
        elif file in self.files:
            yield file, self.files[file]
        elif file:
            folder = file.rstrip("/") + "/"
            inside = [path for path in self.files if path.startswith(folder) and path.endswith(_MANIFESTS)]
            yield from ((path, self.files[path]) for path in sorted(inside) if "/" not in path.removeprefix(folder))

    def call(
        self,
        verb: str,
        resource: Resource,
        name: str = "",
        subresource: str = "",
        *,
        replicas: int | None = None,
        body: str = "",
        patch: Any = None,
    ) -> ApiCall:
        """``name`` may be UNKNOWN: one object, whichever."""
        namespace = self.namespace if resource.namespaced else ""
        labels = "" if name else self.command.flag("l", "selector")
        return ApiCall(
            verb,
            resource.group,
            resource.plural,
            subresource,
            "" if UNKNOWN in name else name,
            namespace,
            replicas,
            "" if UNKNOWN in labels else labels,
            bool(name),
            body if verb in ("patch", "update") else "",
            not resource.namespaced or self.everywhere,
            patch=json.dumps(patch) if patch else "",
        )

    def reading(self, resource: Resource, name: str) -> ApiCall:
        """How kubectl finds what a command names: get by name, else list."""
        return self.call("get" if name else "list", resource, name)

    # -- the commands ----------------------------------------------------------------------------------------
    def read_scale(self) -> Iterator[ApiCall]:
        """``scale``: with a precondition it reads and replaces the scale, else it patches it."""
        text = self.command.flag("replicas")
        replicas = whole(text)
        guarded = self.command.flag("current-replicas") or self.command.flag("resource-version")
        for resource, name in self.objects():
            yield self.reading(resource, name)
            if guarded:
                yield self.call("get", resource, name, "scale")
            verb, body = "update" if guarded else "patch", f"--replicas={text}"
            yield self.call(verb, resource, name, "scale", replicas=replicas, body=body)

    def read_delete(self) -> Iterator[ApiCall]:
        """``delete``: what has no name is listed first, and unless told otherwise it waits until it is gone."""
        for resource, name in self.objects():
            if not name:
                yield self.call("list", resource)
            yield self.call("delete", resource, name)
            if self.command.flag("wait") not in ("false",):
                yield self.call("get", resource, name)

    def get_and_patch(self, verb: str) -> Iterator[ApiCall]:
        """``patch``, ``label``, ``annotate``, ``taint``, ``cordon``, ``set``...: read, then patch."""
        default = "nodes" if verb in ("cordon", "uncordon") else ""
        amounts = ""
        if verb == "set":
            given = (
                f"--{flag}={self.command.flag(flag)}" for flag in ("limits", "requests") if self.command.flag(flag)
            )
            amounts = " ".join(["set", *self.command.words[:1], *given])
            self.command.words[:1] = []
        words = self.command.words
        if verb in ("label", "annotate", "taint"):  # key=value, key-
            self.command.words = words[:1] + [w for w in words[1:] if "=" not in w and not w.endswith("-")]
        body = self.command.flag("p", "patch") or self.files.get(self.command.flag("patch-file"), "")
        away = removes_only(body) if body else _marks_off(words[1:])
        body = body or (amounts if amounts.startswith("set resources") else "")
        body = body or (verb if default else " ".join(word for word in words[1:] if "=" in word))
        subresource = self.command.flag("subresource")
        made = _marked(verb, words[1:]) or _CORDONED.get(verb)
        for resource, name in self.objects(default):
            yield self.reading(resource, name)
            call = self.call("patch", resource, name, subresource, replicas=replicas_in(body), body=body, patch=made)
            yield replace(call, removes=away, marks=verb in ("label", "annotate"))

    def read_get(self) -> Iterator[ApiCall]:
        """``get`` and ``describe``."""
        for resource, name in self.objects():
            yield self.reading(resource, name)
            if self.command.flag("w", "watch"):
                yield self.call("watch", resource, name)

    read_describe = read_get

    def read_wait(self) -> Iterator[ApiCall]:
        """``wait``: list, then watch."""
        for resource, name in self.objects():
            yield self.call("list", resource, name)
            yield self.call("watch", resource, name)

    def read_rollout(self) -> Iterator[ApiCall]:
        """``rollout``: status watches, what changes something patches."""
        action = self.command.words.pop(0) if self.command.words else ""
        for resource, name in self.objects():
            yield self.call("get", resource, name)
            if action in ("restart", "pause", "resume", "undo"):
                yield self.call("patch", resource, name, body=f"rollout {action}", patch=_ROLLED.get(action))
            elif action == "status":
                yield self.call("watch", resource, name)

    def read_drain(self) -> Iterator[ApiCall]:
        """``drain``: cordon, look for DaemonSets' pods, evict the rest and see them go."""
        for resource, name in self.objects("nodes"):
            yield self.reading(resource, name)
            yield self.call("patch", resource, name)
        self.namespace, self.everywhere = "", True
        pods = self.command.flag("pod-selector")  # -l is about nodes
        self.command.flags = {"l": pods} if pods else {}
        yield self.call("list", resources.PODS)
        self.everywhere = False
        yield self.call("get", resources.DAEMONSETS)
        yield self.call("create", resources.PODS, subresource="eviction")
        yield self.call("get", resources.PODS)

    def read_create(self) -> Iterator[ApiCall]:
        """``create``, also from another object, which is read first."""
        source = self.command.flag("from")
        if source:
            kind, _, name = source.partition("/")
            found = _resource(kind)
            if found is not None:
                yield self.call("get", found, name)
        for resource, _ in self.objects():
            yield self.call("create", resource)

    def read_apply(self) -> Iterator[ApiCall]:
        """``apply``: patch what is there, create what is not."""
        for resource, name in self.objects():
            yield self.call("get", resource, name)
            call = self.call("patch", resource, name, replicas=self.replicas, patch=self.manifest)
            yield replace(call, applied=not self.command.switch("server-side"))
            yield self.call("create", resource)

    def read_replace(self) -> Iterator[ApiCall]:
        """``replace``: read, then PUT."""
        for resource, name in self.objects():
            yield self.call("get", resource, name)
            yield self.call("update", resource, name, replicas=self.replicas, patch=self.manifest)

    def read_autoscale(self) -> Iterator[ApiCall]:
        """``autoscale``: an HPA for what is named."""
        for resource, name in self.objects():
            yield self.call("get", resource, name)
        yield self.call("create", resources.HPAS)

    def read_exec(self) -> Iterator[ApiCall]:
        """``exec``: the pod is read, then its subresource created."""
        name = self.command.words[0] if self.command.words else ""
        kind, slash, rest = name.partition("/")
        if slash and (found := _resource(kind)) is not None:
            yield self.call("get", found, rest)
        yield self.call("get", resources.PODS, "" if slash else name)
        yield self.call("create", resources.PODS, "" if slash else name, "exec")

    def read_logs(self) -> Iterator[ApiCall]:
        """``logs``: the pod, then its log."""
        yield self.call("get", resources.PODS)
        yield self.call("get", resources.PODS, subresource="log")

    def read_version(self) -> Iterator[ApiCall]:
        """``version``, ``config``, ``completion``, ``cluster-info``: nothing that needs a right."""
        yield from ()

    read_config = read_completion = read_cluster_info = read_version
