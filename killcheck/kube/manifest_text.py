"""One text of manifests: its objects with their lines, and all in it that the API server would refuse to read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from killcheck.kube.objects import Obj, dig
from killcheck.text.problems import Problem
from killcheck.text.yamlfile import Document, Path, YamlError, documents, format_path

__all__ = ["SPEC", "Found", "Manifest", "Skipped", "read"]

#: What a document is, and no object of Kubernetes.
SPEC = "a killcheck spec"
#: Fields that are booleans in the built-in types of Kubernetes 1.36 (from the client's schemas): the only places where
#: ``yes`` and ``off`` do no harm. Anywhere else in a built-in type the API server answers them with 400.
_BOOLEAN_FIELDS = frozenset(
    """
    adminAccess allNodes allocateLoadBalancerNodePorts allowMultipleAllocations allowPrivilegeEscalation
    allowVolumeExpansion allowed attachRequired attached automountServiceAccountToken bindsToNode blockOwnerDeletion
    bool chapAuthDiscovery chapAuthSession clusterScope controller denied deprecated enableServiceLinks
    exclusiveMaximum exclusiveMinimum globalDefault hostIPC hostNetwork hostPID hostProcess hostUsers immutable
    incomplete insecureSkipTLSVerify manualSelector namespaced nullable optional optionalOldSelf orphanDependents
    paused perDeviceNodeSelection podInfoOnMount preserveUnknownFields preventPodSchedulingIfMissing privileged
    publishNotReadyAddresses readOnly readOnlyRootFilesystem ready recursiveReadOnlyMounts requiresRepublish
    runAsNonRoot seLinuxMount served serving setHostnameAsFQDN shareProcessNamespace sslEnabled started stdin stdinOnce
    storage storageCapacity supplementalGroupsPolicy suspend terminating tty uniqueItems unschedulable
""".split()
)
#: Maps whose values are text in every API object that has them.
_TEXT_MAPS = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "stringData", "binaryData"})
#: Fields of containers that are text, or lists of it.
_TEXT_IN_CONTAINERS = frozenset({"name", "image", "command", "args", "value", "workingDir", "imagePullPolicy"})
#: Groups of files that configure programs: YAML with a kind, but nothing an API server keeps.
_CONFIGURATION = re.compile(
    r"kustomize\.config\.k8s\.io|kind\.x-k8s\.io|.*kubelet\.config\.k8s\.io|kubeadm\.k8s\.io|.*\.config\.k8s\.io"
    r"|skaffold|eksctl\.io|ctlptl\.dev|audit\.k8s\.io|config\.kueue\.x-k8s\.io",
)
_BUILTIN = re.compile(r"v1|(apps|batch|autoscaling|policy|extensions)/.*|[^/]*\.k8s\.io/.*")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and its place. ``line`` (1-based) is where it begins."""

    obj: Obj
    file: str
    line: int
    _doc: Document = field(repr=False, compare=False)
    _base: Path = field(default=(), repr=False, compare=False)

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    def line_of(self, path: Path) -> int:
        """The line of the field at ``path`` (``("spec", "template", "spec", "containers", 0, "image")``).

        Where it does not exist, the line of the nearest part of the path that does.
        """
        return self._doc.line_of((*self._base, *path))


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a document of one, that was not loaded, and why."""

    file: str
    line: int
    why: str


@dataclass(slots=True)
class Found:
    """What one text holds."""

    manifests: list[Manifest] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read(text: str, file: str) -> Found:
    """The objects of a text (YAML documents or JSON, Lists taken apart), and all that is wrong with it."""
    found = Found()
    try:
        docs = _json_documents(text, file) if file.endswith(".json") else documents(text, file)
    except YamlError as error:
        problem = _unreadable(text, file, error)
        if isinstance(problem, Problem):
            found.problems.append(problem)
        else:
            found.skipped.append(problem)
        return found
    if not docs:
        found.skipped.append(Skipped(file, 0, "empty"))
    for doc in docs:
        _document(doc, found)
    return found


def _json_documents(text: str, file: str) -> list[Document]:
    """JSON, also where tabs indent it (which YAML forbids)."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise YamlError(file, error.lineno, f"not JSON: {error.msg}") from error
    except RecursionError:
        raise YamlError(file, 1, "not JSON: nested too deep") from None
    loose = re.sub(r"^[ \t]+", lambda m: " " * len(m[0]), text, flags=re.M)
    return [replace(doc, value=value) for doc in documents(loose, file)]


def _unreadable(text: str, file: str, error: YamlError) -> Problem | Skipped:
    if "{{" in text:
        message = "a template ('{{', Helm?), not YAML yet: render it first (helm template ... > rendered.yaml)"
        return Problem(file, error.line, "", message)
    if file.endswith(".json") and '"kind"' not in text:
        return Skipped(file, error.line, "not a Kubernetes object (and not JSON)")
    return Problem(file, error.line, "", f"not YAML: {error.problem}" if "JSON" not in error.problem else error.problem)


# -- one document ------------------------------------------------------------------------------------------
def _document(doc: Document, found: Found) -> None:
    reason = _no_object(doc.value)
    if reason:
        found.skipped.append(Skipped(doc.file, doc.line, reason))
        return
    found.problems += _surprises(doc)
    for base, obj in _flattened(doc.value, ()):
        problems = list(_object_problems(doc, base, obj))
        found.problems += problems
        if not problems:
            found.manifests.append(Manifest(obj, doc.file, doc.line_of(base) if base else doc.line, doc, base))


def _no_object(value: Any) -> str:
    """Why a document is no Kubernetes object; empty if it is one."""
    if not isinstance(value, dict):
        return "not a Kubernetes object (not a mapping)"
    kind, version = value.get("kind"), str(value.get("apiVersion", ""))
    if version.partition("/")[0] == "killcheck":
        return SPEC
    if not isinstance(kind, str) or not version:
        return "not a Kubernetes object (no kind and apiVersion)"
    if _CONFIGURATION.fullmatch(version.partition("/")[0]):
        return f"configuration of a program ({version} {kind}), not an object"
    return ""


def _flattened(obj: Any, base: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(obj, dict) and str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
        for i, item in enumerate(obj["items"]):
            yield from _flattened(item, (*base, "items", i))
    else:
        yield base, obj


def _surprises(doc: Document) -> Iterator[Problem]:
    for path, line in doc.duplicates:
        yield Problem(doc.file, line, format_path(path), f"key {path[-1]!r} is given twice; the last one would win")
    for path, raw, line in doc.boolean_keys:
        message = f'YAML 1.1 reads the key {raw} as a boolean: Kubernetes would store {path[-1]!r}; write "{raw}"'
        yield Problem(doc.file, line, format_path((*path[:-1], raw)), message)


def _object_problems(doc: Document, base: Path, obj: Any) -> Iterator[Problem]:
    def problem(path: Path, message: str) -> Problem:
        return Problem(doc.file, doc.line_of((*base, *path)), format_path(path), message)

    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str) or "apiVersion" not in obj:
        yield problem((), "an item of a List without kind and apiVersion")
        return
    if all(dig(obj, "metadata", key) in (None, "") for key in ("name", "generateName")):
        yield problem(("metadata",), f"{obj['kind']} without a metadata.name: no API server would take it")
        return
    for key in ("name", "namespace"):
        if isinstance(dig(obj, "metadata", key), list | dict):
            yield problem(("metadata", key), "expected text: no API server would take it")
            return
    for path in _templated(obj):
        yield problem(path, "a template ('{{', Helm?) that was not rendered: render it first (helm template ...)")
    for path, message in _type_surprises(doc, base, obj):
        yield problem(path, message)


def _templated(obj: Obj) -> Iterator[Path]:
    for path in (("kind",), ("metadata", "name"), ("metadata", "namespace")):
        if "{{" in str(dig(obj, *path, default="")):
            yield path


def _type_surprises(doc: Document, base: Path, obj: Obj) -> Iterable[tuple[Path, str]]:
    """Every scalar that YAML 1.1 makes something of which the API server would not take there."""
    builtin = bool(_BUILTIN.fullmatch(str(obj["apiVersion"])))
    is_data = obj["kind"] in ("ConfigMap", "Secret")
    if obj["kind"] == "CustomResourceDefinition":  # a schema speaks *about* names and labels
        return
    for path, value in _scalars(obj, ()):
        text = _wants_text(path, is_data)
        raw = doc.raw((*base, *path))
        if isinstance(value, bool):
            word = raw is not None and raw.lower() not in ("true", "false")
            if text or (word and builtin and path[-1] not in _BOOLEAN_FIELDS):
                yield path, _no_text(raw or str(value).lower(), f"the boolean {str(value).lower()}")
        elif text and not isinstance(value, list | dict):
            yield path, _no_text(raw or str(value), "a number")


def _no_text(raw: str, what: str) -> str:
    return f'YAML 1.1 reads {raw} as {what}, and the API server, which wants text, answers 400; write "{raw}" in quotes'


def _scalars(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every value that is not text (those are never in doubt), with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(item, str):
                yield from _scalars(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            if not isinstance(item, str):
                yield from _scalars(item, (*path, i))
    elif value is not None and path:
        yield path, value


def _wants_text(path: Path, is_data: bool) -> bool:
    """Whether every API object has text at such a path."""
    parent = path[-2] if len(path) > 1 else ""
    if parent in _TEXT_MAPS and isinstance(path[-1], str):
        return True
    if is_data and path[0] in ("data", "stringData") and len(path) == 2:
        return True
    if path[0] == "metadata" and path[-1] in ("name", "namespace", "generateName") and len(path) == 2:
        return True
    for i, step in enumerate(path[:-1]):
        if step in ("containers", "initContainers") and isinstance(path[i + 1], int):
            rest = path[i + 2 :]
            return bool(rest) and _container_text(rest)
    return False


def _container_text(rest: Path) -> bool:
    if rest[0] in ("command", "args"):
        return len(rest) == 2
    if rest[0] == "env":
        return len(rest) == 3 and rest[2] in ("name", "value")
    return len(rest) == 1 and rest[0] in _TEXT_IN_CONTAINERS
