"""One text of manifests: its objects with their lines, and all in it that the API server would refuse to read."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from msgspec import Struct

from killcheck.kube import machine_texts, outside_schedules, provider_pools, secret_text, terraform_pools
from killcheck.kube.machine_floors import floors
from killcheck.kube.objects import Obj, dig
from killcheck.kube.passed_over import SPEC, Cause, Skipped, kind_of, names_accelerators, outside
from killcheck.text import lazy_re
from killcheck.text.files import text_of
from killcheck.text.problems import Problem
from killcheck.text.values import replace
from killcheck.text.yamlfile import Document, Gaps, Path, YamlError, documents, each_document, format_path

__all__ = [
    "SPEC",
    "Found",
    "Manifest",
    "Skipped",
    "is_definition",
    "is_template_of_objects",
    "placeholder",
    "read",
    "runs_something",
    "unrendered",
]

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
_CONFIGURATION = lazy_re.compile(
    r"kustomize\.config\.k8s\.io|kind\.x-k8s\.io|.*kubelet\.config\.k8s\.io|kubeadm\.k8s\.io|.*\.config\.k8s\.io"
    r"|skaffold|eksctl\.io|ctlptl\.dev|audit\.k8s\.io|config\.kueue\.x-k8s\.io",
)
#: A comment above a document, for what killcheck shall not look at.
IGNORE = "killcheck:ignore"
#: What a program of its own has too.
_SHELL = ("'${', a variable of a shell or of Terraform", lazy_re.compile(r"\$\{|\$\(|\$[A-Za-z_]\w*"))
#: A text of a shell's variables, which envsubst fills in; Terraform's have small letters.
_VARIABLES = lazy_re.compile(r"(?:[^${}]*(?:\$[A-Z_][A-Z0-9_]*|\$\{[A-Z_][A-Z0-9_]*\}))+[^${}]*")
#: A variable where a value, an item or a key begins.
_FOR_A_VALUE = lazy_re.compile(r"(?:^\s*|[:,\[{-]\s*)\$[{(]?[A-Za-z_]")
#: The marks of template engines, the surest first.
_ENGINES = (
    ("'{{', Helm?", lazy_re.compile(r"\{\{")),
    ("'{%', Jinja?", lazy_re.compile(r"\{%")),
    ("'%{', Terraform?", lazy_re.compile(r"%\{")),
    ("'<%', ERB?", lazy_re.compile(r"<%")),
    ("'<<', a placeholder of the project's own", lazy_re.compile(r"<<[-\s\w.]+>>")),
    _SHELL,
    ("'#@', ytt?", lazy_re.compile(r"^\s*#@", re.M)),
    ("'@NAME@', a placeholder of the project's own", lazy_re.compile(r"@[A-Z_]{2,}@|__[A-Z_]{2,}__")),
)
#: Fields of custom resources that hold somebody else's configuration, of any type: a chart's values.
_FREE_FORM = frozenset({"values", "valuesObject", "valuesInline", "parameters"})
#: What a name must look like to be one; other texts may be somebody's placeholder.
_NAME = lazy_re.compile(r"[A-Za-z0-9.:_-]+")
#: ``validation.IsDNS1123Label``; none is written as an empty text, too.
_NAMESPACE = lazy_re.compile(r"(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?)?")
_PLACEHOLDER = lazy_re.compile(r".*<[^<>]+>.*|.*\[[^\[\]]+\].*|.*@\w+@.*|.*\(\(.+\)\).*|.*%\w+%.*|.*#\{.+\}.*")
#: A word that no name may be, and the fields in which names are.
_CAPITALS = lazy_re.compile(r"[A-Z][A-Z0-9]*(?:[-_][A-Z0-9]+)*")
_NAMING = frozenset({"apiVersion", "namespace", "serviceAccountName", "secretName", "claimName", "priorityClassName"})
#: What says which object it is, and how long that is at most (``validation.IsDNS1123Subdomain``, ``IsDNS1123Label``;
#: a kind's name in lower case is such a label).
_LONGEST = {
    ("apiVersion",): 317,
    ("kind",): 63,
    ("metadata", "name"): 253,
    ("metadata", "namespace"): 253,
    ("metadata", "generateName"): 253,
}
_DEFINITION = lazy_re.compile(r"^kind: *['\"]?CustomResourceDefinition['\"]? *$", re.M)
_KEYS_OF_AN_OBJECT = [
    lazy_re.compile(rf"(?:^[ \t]*(?:- )?{key}|[\"']{key}[\"'])[ \t]*:", re.M) for key in ("kind", "apiVersion")
]
_SAID = [lazy_re.compile(rf"^{key}: *['\"]?([\w./-]+)['\"]? *$", re.M) for key in ("apiVersion", "kind")]
#: The schema of a version of one, as far in as that stands; what a schema says of a field ``schema`` is inside it.
_SCHEMA = lazy_re.compile(r"\n( {2,6})schema: *(?=\n)")
_ANY = "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
#: The next line that is no further in than a field is that stands so many spaces in.
_NO_FURTHER = {spaces: lazy_re.compile(rf"\n {{0,{spaces}}}[^ \s]") for spaces in range(2, 7)}
_SPEC = lazy_re.compile(r"^apiVersion: *killcheck/", re.M)
_NO_GAPS: Gaps = ()
_CONTENT = lazy_re.compile(r"^[ \t]*(?!---|\.\.\.)[^#\s]", re.M)
#: How SOPS writes a value that it has encrypted.
_ENCRYPTED = "ENC["
#: A key that is written in escapes: ``"k\\u0069nd"``.
_ESCAPED_KEY = lazy_re.compile(r"\\[ux]00(6|4)")
_BUILTIN = lazy_re.compile(r"v1|(apps|batch|autoscaling|policy|extensions)/.*|[^/]*\.k8s\.io/.*")


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

    def place_within(self, path: Path, number: int) -> tuple[str, int]:
        """(file, line) of line ``number`` of the text at ``path``: of a generated ConfigMap, in the file that it was
        made from, where that lies beside."""
        text, whole = dig(self.obj, *path), (*self._base, *path)
        beside = self.file.rpartition("/")[0] + "/" * ("/" in self.file) + str(path[-1])
        if self._doc.line_of(whole) == self._doc.line_of(whole[:-2]) and _says(beside, text):
            return beside, number
        return self.file, self._doc.line_within(whole, number)


def _says(file: str, text: object) -> bool:
    """Whether a file holds just that text."""
    try:
        return isinstance(text, str) and text_of(FilePath(file)) == text
    except (OSError, ValueError):
        return False


class Found(Struct):
    """What one text holds. ``surprises`` are read, and otherwise than their writer may think (a key given twice)."""

    manifests: list[Manifest] = []
    skipped: list[Skipped] = []
    surprises: list[Problem] = []


def read(text: str, file: str, *, schemas: bool = True) -> Found:
    """The objects of a text (YAML documents or JSON, Lists taken apart), and what of it is passed over, and why.

    Without ``schemas`` those of CustomResourceDefinitions are left out: megabytes, of which no question is asked.
    """
    found = Found()
    if not _may_hold_objects(text):
        found.manifests += [Manifest(obj, file, 1, doc) for obj, doc in provider_pools.exported(text, file)]
        found.skipped += [] if found.manifests else [_no_manifest(text, file)]
        return found
    whole, gaps = text, _NO_GAPS
    if not schemas and is_definition(text):
        text, gaps = _without_schemas(text)
    lines = _Lines(whole, IGNORE in text)
    docs = _json_documents(text, file) if file.endswith(".json") else each_document(text, file, gaps)
    for doc in docs:
        if isinstance(doc, YamlError):
            found.skipped.append(_unreadable(lines, file, doc))
        elif lines.leave_out(doc.line):
            why = f"its comment says {IGNORE}"
            named = names_accelerators(lines.around(doc.line))
            found.skipped.append(Skipped(file, doc.line, why, Cause.LEFT_OUT, named))
        else:
            _document(doc, found, lines)
    if not docs:
        found.skipped.append(Skipped(file, 0, "empty"))
    return found


class _Lines(Struct):
    """A text by its lines, which are looked at where something is wrong with one."""

    text: str
    ignores: bool
    _split: list[str] = []

    def around(self, line: int) -> str:
        """The text of the document that a line (1-based) is in."""
        lines = self._lines()
        begin = end = max(0, min(line, len(lines)) - 1)
        while begin > 0 and not lines[begin].startswith("---"):
            begin -= 1
        while end + 1 < len(lines) and not lines[end + 1].startswith("---"):
            end += 1
        return "\n".join(lines[begin : end + 1])

    def before(self, line: int) -> list[str]:
        """A line (1-based) and the two above it: a mistake may come to light only in the next line."""
        return self._lines()[max(0, line - 3) : line]

    def leave_out(self, line: int) -> bool:
        """Whether a comment above a document's first line, or on it, says that killcheck shall not look at it."""
        if not self.ignores:
            return False
        lines = self._lines()
        at = min(line, len(lines)) - 1
        while at >= 0:
            text = lines[at].strip()
            if IGNORE in text and "#" in text:
                return True
            if at < line - 1 and text and not text.startswith("#"):
                return False
            at -= 1
        return False

    def _lines(self) -> list[str]:
        if not self._split:
            self._split = self.text.split("\n")
        return self._split


def is_definition(text: str) -> bool:
    """Whether a YAML text has a CustomResourceDefinition in it."""
    return "CustomResourceDefinition" in text and _DEFINITION.search(text) is not None


def is_template_of_objects(text: str) -> bool:
    """Whether a text that is no YAML yet becomes Kubernetes objects: both keys of one begin a line, or JSON's."""
    return all(pattern.search(text) for pattern in _KEYS_OF_AN_OBJECT)


#: How Pulumi's YAML names a type of Kubernetes.
_OBJECT_OF_PULUMI = lazy_re.compile(r"\btype[\"']?:\s*[\"']?kubernetes:")
#: What a helmfile says of its releases.
_KEYS_OF_A_HELMFILE = [lazy_re.compile(r"(?m)^releases:"), lazy_re.compile(r"(?m)^[ \t]+(?:-[ \t]+)?chart:")]


def runs_something(program: str) -> bool:
    """Whether a program that makes objects says that it makes schedules or scalers."""
    return _SCHEDULING.search(program) is not None


#: Kinds that turn things on or off, however a language's library spells them.
_SCHEDULING = lazy_re.compile(r"(?i)cron_?job|cron_?workflow|scaled_?object|sleep_?info")


def _without_schemas(text: str) -> tuple[str, Gaps]:
    """The text with schemas that take anything, and the lines that are left out: nothing is asked or told of them."""
    kept: list[str] = []
    gaps: list[tuple[int, int]] = []
    at = lines = 0
    while (schema := _SCHEMA.search(text, at)) is not None:
        kept.append(text[at : schema.start()])
        after = _NO_FURTHER[len(schema[1])].search(text, schema.end())
        kept.append(f"\n{schema[1]}schema: {_ANY}")
        lines += text.count("\n", at, schema.start()) + 1
        at = after.start() if after else len(text)
        gaps.append((lines + 1, text.count("\n", schema.start(), at) - 1))
    return "".join([*kept, text[at:]]), gaps


def _may_hold_objects(text: str) -> bool:
    """Whether an object can be in a text at all: every one has these two keys."""
    return ("kind" in text and "apiVersion" in text) or ("\\" in text and _ESCAPED_KEY.search(text) is not None)


def _no_manifest(text: str, file: str) -> Skipped:
    if not _CONTENT.search(text):
        return Skipped(file, 0, "empty")
    if "killcheck/" in text and _SPEC.search(text):
        return Skipped(file, 1, SPEC, Cause.SPEC)
    scheduled = outside_schedules.in_text(text)
    if scheduled is not None:
        return Skipped(file, 0, outside(scheduled), Cause.OUTSIDE, starts=scheduled, launching=_making(text, file))
    named = names_accelerators(text)
    if all(key.search(text) for key in _KEYS_OF_A_HELMFILE):
        why = "a helmfile, which is not rendered here: helmfile template > rendered.yaml"
        return Skipped(file, 0, why, Cause.CHART, named, launching=_making(text, file))
    if named and _OBJECT_OF_PULUMI.search(text):
        why = "a Pulumi program, which makes objects that ask for GPUs: name what comes of it"
        return Skipped(file, 0, why, Cause.TEMPLATE, named)
    why = "not a Kubernetes object (no kind and apiVersion)"
    return Skipped(
        file,
        0,
        why,
        Cause.NO_MANIFEST,
        named,
        floors=_kept(text, file),
        launching=_making(text, file),
        costing=_costs(text, file),
    )


def _making(text: str, file: str) -> tuple[str, ...]:
    """What in a text that is no object makes machines: Terraform's JSON, a template, a program."""
    if file.endswith(terraform_pools.JSON):
        return tuple(terraform_pools.launching_json(text))
    return tuple(machine_texts.makes(file, text))


def _costs(text: str, file: str) -> tuple[str, ...]:
    """What in it makes machines without accelerators."""
    return () if file.endswith(terraform_pools.JSON) else tuple(machine_texts.costs(file, text))


def _kept(text: str, file: str) -> tuple[tuple[str, int], ...]:
    """The machines that a list of resources always keeps, as CloudFormation and Pulumi have them."""
    if not _RESOURCES.search(text):
        return ()
    try:
        return tuple(one for doc in documents(text, file) if isinstance(doc.value, dict) for one in floors(doc.value))
    except YamlError:
        return ()


#: The key under which they are.
_RESOURCES = lazy_re.compile(r"""^[{"' ]*[Rr]esources?["']?:""", re.MULTILINE)


def _json_documents(text: str, file: str) -> list[Document | YamlError]:
    """JSON, also where tabs indent it (which YAML forbids)."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return [YamlError(file, error.lineno, f"not JSON: {error.msg}")]
    except RecursionError:
        return [YamlError(file, 1, "not JSON: nested too deep")]
    except ValueError:  # what Python makes of a number of thousands of digits
        return [YamlError(file, 1, "not JSON: a number in it has more digits than any reader takes")]
    if isinstance(value, dict) and _no_object(value):
        line = 1 if text.startswith("{") else text[: text.find("{")].count("\n") + 1
        return [Document(value, file, line, (), (), None)]
    loose = re.sub(r"^[ \t]+", lambda m: " " * len(m[0]), text, flags=re.M)
    try:
        return [replace(doc, value=value) for doc in documents(loose, file)]
    except YamlError as error:
        return [error]


def _unreadable(lines: _Lines, file: str, error: YamlError) -> Skipped:
    """A document that is no YAML: a template's where it has an engine's marks, else broken."""
    text = lines.around(error.line)
    if not _may_hold_objects(text):
        why = "not a Kubernetes object (no kind and apiVersion, and not YAML either)"
        return Skipped(file, error.line, why, Cause.NO_MANIFEST, names_accelerators(text))
    engine = _engine_of_broken(text, lines.before(error.line))
    if engine:
        why = f"a template ({engine}), not YAML yet: render it first{_how(engine)}"
        return Skipped(file, error.line, why, Cause.TEMPLATE, names_accelerators(text))
    why = f"not YAML: {error.problem}" if "JSON" not in error.problem else error.problem
    return Skipped(file, error.line, why, Cause.BROKEN, names_accelerators(text), of=_kind_said(text))


def _kind_said(text: str) -> tuple[str, str]:
    """The ``apiVersion`` and ``kind`` that a text begins lines with, each once; empty where it does not."""
    version, kind = (pattern.findall(text) for pattern in _SAID)
    return (version[0], kind[0]) if len(version) == len(kind) == 1 else ("", "")


def _engine(text: str) -> str:
    """The template engine whose marks a text has; empty: none that is known."""
    return next((name for name, marks in _ENGINES if marks.search(text)), "")


def _engine_of_broken(text: str, before: Iterable[str]) -> str:
    """The same of a text that is no YAML, by the lines up to where it is none.

    A script's own variables break none: only one that stands for a value makes a template of it.
    """
    engine = _engine(text)
    if engine == _SHELL[0] and not any(_FOR_A_VALUE.search(line) for line in before):
        return ""
    return engine


def placeholder(value: Any, path: Path = ()) -> str:
    """What a value that no API server takes still waits for: the engine or hand that fills it in; empty: it is none."""
    if not isinstance(value, str):
        return ""
    engine = _engine(value)
    if engine == _SHELL[0] and len(value.split()) > 1:  # a command's own
        return ""
    names = path[-1:] and (path[-1] in _NAMING or path[-2:] == ("metadata", "name"))
    capitals = names and _CAPITALS.fullmatch(value)
    return engine or ("a placeholder" if capitals or _PLACEHOLDER.fullmatch(value) else "")


def _how(engine: str) -> str:
    return " (helm template ... > rendered.yaml)" if "Helm" in engine else ""


def unrendered(engine: str, text: str, file: str) -> str:
    """That a value is a placeholder still, and what fills it in: a shell's variables are what envsubst knows."""
    by_hand = f" (envsubst < {shlex.quote(file)} > rendered.yaml)" if _VARIABLES.fullmatch(text) else _how(engine)
    return f"a template ({engine}) that was not rendered: render it first{by_hand}"


# -- one document ------------------------------------------------------------------------------------------
def _document(doc: Document, found: Found, lines: _Lines) -> None:
    cause, reason = _no_object(doc.value) or (None, "")
    if cause is not None:
        named = names_accelerators(lines.around(doc.line))
        kept = tuple(floors(doc.value)) if cause is Cause.CONFIGURATION else ()
        machines = doc.value if cause is Cause.CONFIGURATION and doc.value.get("kind") == "ClusterConfig" else None
        makes = _making(lines.around(doc.line), doc.file) if cause is Cause.NO_MANIFEST else ()
        costs = _costs(lines.around(doc.line), doc.file) if cause is Cause.NO_MANIFEST else ()
        said = (doc.file, doc.line, reason, cause, named)
        found.skipped.append(Skipped(*said, floors=kept, document=machines, launching=makes, costing=costs))
        return
    refused = list(_refused_keys(doc))
    found.surprises += _surprises(doc)
    for base, obj in _flattened(doc.value, ()):
        problems = [*refused, *_object_problems(doc, base, obj)]
        if problems:
            found.skipped += _passed_over(problems, lines, obj)
            continue
        known = secret_text.as_present(obj)
        found.manifests.append(Manifest(known, doc.file, doc.line_of(base) if base else doc.line, doc, base))
        made = secret_text.made_by(obj)
        if made is not None:
            found.manifests.append(Manifest(made, doc.file, doc.line, doc, base))


def _passed_over(problems: list[tuple[Cause, Problem]], lines: _Lines, obj: Any) -> Iterator[Skipped]:
    named = names_accelerators(lines.around(problems[0][1].line))
    for cause, one in problems:
        why = f"{one.path}: {one.message}" if one.path else one.message
        yield Skipped(one.file, one.line, why, cause, named, of=kind_of(obj))


def _no_object(value: Any) -> tuple[Cause, str] | None:
    """Why a document is no Kubernetes object; None if it is one."""
    if not isinstance(value, dict):
        return Cause.NO_MANIFEST, "not a Kubernetes object (not a mapping)"
    kind, version = value.get("kind"), str(value.get("apiVersion") or "")
    if version.partition("/")[0] == "killcheck":
        return Cause.SPEC, SPEC
    if not isinstance(kind, str) or not kind or not version:
        return Cause.NO_MANIFEST, "not a Kubernetes object (no kind and apiVersion)"
    if version.startswith(_ENCRYPTED) or kind.startswith(_ENCRYPTED):
        return Cause.UNREADABLE, "encrypted by SOPS, its kind too: sops --decrypt FILE > readable.yaml, and give that"
    if _CONFIGURATION.fullmatch(version.partition("/")[0]) or (version, kind) == ("v1", "Config"):
        return Cause.CONFIGURATION, f"configuration of a program ({version} {kind}), not an object"
    if kind.endswith(("Config", "Configuration")) and not isinstance(value.get("metadata"), dict):
        return Cause.CONFIGURATION, f"configuration of a program ({version} {kind}), not an object"
    if "." in version.partition("/")[0] and kind != "List" and not {"metadata", "spec", "items"} & set(value):
        return Cause.CONFIGURATION, f"a file of a program ({version} {kind}: no metadata, no spec), not an object"
    return None


def _flattened(obj: Any, base: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(obj, dict) and str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list):
        for i, item in enumerate(obj["items"]):
            yield from _flattened(item, (*base, "items", i))
    else:
        yield base, obj


def _surprises(doc: Document) -> Iterator[Problem]:
    """Keys given twice: kubectl's reader keeps the last one and says nothing; kustomize and Helm refuse them."""
    for path, line in doc.duplicates:
        yield Problem(doc.file, line, format_path(path), f"key {path[-1]!r} is given twice; the last one would win")


def _refused_keys(doc: Document) -> Iterator[tuple[Cause, Problem]]:
    for path, raw, line in doc.boolean_keys:
        message = f'YAML 1.1 reads the key {raw} as a boolean: Kubernetes would store {path[-1]!r}; write "{raw}"'
        yield Cause.REFUSED, Problem(doc.file, line, format_path((*path[:-1], raw)), message)


def _object_problems(doc: Document, base: Path, obj: Any) -> Iterator[tuple[Cause, Problem]]:
    def problem(path: Path, message: str, cause: Cause = Cause.REFUSED) -> tuple[Cause, Problem]:
        return cause, Problem(doc.file, doc.line_of((*base, *path)), format_path(path), message)

    if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str) or "apiVersion" not in obj:
        yield problem((), "an item of a List without kind and apiVersion")
        return
    whole = obj.get("metadata")
    if isinstance(whole, str) and (engine := _engine(whole)):
        yield problem(("metadata",), unrendered(engine, whole, doc.file), Cause.TEMPLATE)
        return
    if all(dig(obj, "metadata", key) in (None, "") for key in ("name", "generateName")):
        yield problem(("metadata",), f"{obj['kind']} without a metadata.name: kubectl apply takes none")
        return
    for where, most in _LONGEST.items():
        value = dig(obj, *where)
        if isinstance(value, list | dict):
            yield problem(where, "expected text: no API server would take it")
            return
        if isinstance(value, str) and not value.isprintable():
            yield problem(where, "has a line break, or what a terminal obeys: no API server would take it")
            return
        if isinstance(value, str) and len(value) > most:
            yield problem(where, f"longer than {most} characters: no API server would take it")
            return
    unfilled = dict(_templated(obj))
    for path, engine in unfilled.items():
        text = str(dig(obj, *path, default=""))
        yield problem(path, unrendered(engine, text, doc.file), Cause.TEMPLATE)
    place = dig(obj, "metadata", "namespace")
    if isinstance(place, str) and not (_NAMESPACE.fullmatch(place) or ("metadata", "namespace") in unfilled):
        message = f"{place!r} can be no namespace's name (a-z, 0-9 and -): fill it in"
        yield problem(("metadata", "namespace"), message, Cause.TEMPLATE)
    for path, message in _type_surprises(doc, base, obj):
        yield problem(path, message)


def _templated(obj: Obj) -> Iterator[tuple[Path, str]]:
    """What says which object it is, where that is still a placeholder; with the engine that fills it in."""
    for path in (("kind",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "generateName")):
        text = str(dig(obj, *path, default=""))
        if text and not _NAME.fullmatch(text):
            engine = _engine(text) or (_PLACEHOLDER.fullmatch(text) and "a placeholder")
            if engine:
                yield path, engine


def _type_surprises(doc: Document, base: Path, obj: Obj) -> Iterable[tuple[Path, str]]:
    """Every scalar that YAML 1.1 makes something of which the API server would not take there."""
    builtin = bool(_BUILTIN.fullmatch(str(obj["apiVersion"])))
    is_data = obj["kind"] in ("ConfigMap", "Secret")
    if obj["kind"] == "CustomResourceDefinition":  # a schema speaks *about* names and labels
        return
    for path, value in _scalars(obj, ()):
        if not builtin and not _FREE_FORM.isdisjoint(path):
            continue
        text = _wants_text(path, is_data)
        if isinstance(value, bool):
            if not text and (not builtin or path[-1] in _BOOLEAN_FIELDS):
                continue
            raw = doc.raw((*base, *path))
            if text or (raw is not None and raw.lower() not in ("true", "false")):
                yield path, _no_text(raw or str(value).lower(), f"the boolean {str(value).lower()}")
        elif text and not isinstance(value, list | dict):
            yield path, _no_text(doc.raw((*base, *path)) or str(value), "a number")


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
