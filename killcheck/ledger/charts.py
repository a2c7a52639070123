"""Helm charts beside a kill path that were not rendered: what may turn a target on may be in one of their templates.

A chart concerns a drill where its text names a target or a switch, or gives somebody a right to write a target's kind:
by a role of its own, or by one that is there without it (``edit``, a role among the manifests, one that nobody knows).
One whose templates are Services, ConfigMaps and the like, each by its own word, holds no program: one that another
chart makes, by an ``include`` or as a dependency, says nothing of what it is. A template whose output is among the
manifests was rendered: helm writes its file's name above it (``# Source: CHART/templates/...``). The others of that
chart came to nothing, but those that begin with an object, no condition. Charts label what they make, too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from killcheck.capabilities.inventory import Inventory
from killcheck.kube.objects import labels_of, name_of
from killcheck.kube.passed_over import Skipped
from killcheck.kube.permissions import Permissions
from killcheck.ledger.kinds import INERT
from killcheck.ledger.rights import may_create, may_write
from killcheck.ledger.stakes import Stakes
from killcheck.text import lazy_re
from killcheck.text.files import text_of

__all__ = ["concern", "rendered"]

_KIND = lazy_re.compile(r"^[ \t]*(?:- )?kind:\s*[\"']?([\w{][^\s\"']*)", re.M)
_ROLE = lazy_re.compile(r"^kind:\s*(?:Cluster)?Role\s*$", re.M)
_WRITES = lazy_re.compile(r"\b(?:patch|update)\b|[\"']\*[\"']")
_BINDING = lazy_re.compile(r"^kind:\s*((?:Cluster)?RoleBinding)\s*$", re.M)
_ROLE_REF = lazy_re.compile(r"^roleRef:[ \t]*\n((?:[ \t]+.*\n?)+)", re.M)
_NAMESPACE = lazy_re.compile(r"^  namespace:\s*[\"']?([\w-]+)[\"']?\s*$", re.M)
_SOURCE = lazy_re.compile(r"^# Source: ([^/\s]+)/((?:[^\s]+/)?(?:templates|crds)/\S+)", re.M)
_NAME = lazy_re.compile(r"^name:\s*[\"']?([\w.-]+)", re.M)
_DEPENDS = lazy_re.compile(r"^dependencies:(?!\s*\[\s*\])", re.M)
#: Of a template what makes nothing: comments, and where something begins and ends. An ``include`` may make anything.
_COMMENT = r"\{\{-?\s*/\*.*?\*/\s*-?\}\}|^[ \t]*#[^\n]*$"
_CONTROL = r"\{\{-?\s*(?:(?:if|else|end|with|range)\b|\$\w+\s*:?=)[^{}]*\}\}"
_NOTHING = lazy_re.compile(f"{_COMMENT}|{_CONTROL}", re.M | re.S)
#: What a chart labels its objects with is its name and version.
_LABELLED = lazy_re.compile(r"(.+?)-v?\d")
_CONDITION = lazy_re.compile(r"\{\{-?\s*(?:if|with|range|define)\b")
#: The account that is asked in a chart's stead.
_ANY = "killcheck-any"


def concern(chart: Skipped, stakes: Stakes, rendered: Mapping[str, frozenset[str]]) -> str | None:
    """What an unrendered chart has to do with a drill, as the beginning of a sentence; None: nothing is seen.

    ``rendered``: what was rendered of which chart (:func:`rendered`).
    """
    texts = dict(_texts(chart.files))
    templates = {file: text for file, text in texts.items() if "templates" in Path(file).parts}
    made = next((rendered[name] for name in _names(chart, texts) if name in rendered), None)
    if made is not None:
        templates = _left_out(templates, made)
        if not templates:
            return None
    inert = all(_is_inert(text) for file, text in templates.items() if not Path(file).name.startswith("_"))
    if inert and not _depends(texts):
        return None
    at_stake = [*(f"{one.kind}/{one.namespace}/{one.name}" for one in stakes.targets), *map(str, stakes.switches)]
    for said in at_stake:
        name = said.rpartition("/")[2]
        if any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for text in texts.values()):
            return f"it names {said}"
    return _gives(templates, stakes)


def rendered(inventory: Inventory) -> dict[str, frozenset[str]]:
    """The charts whose output is among the manifests, by name: the templates it is of; none named: of all."""
    labelled = (_LABELLED.match(labels_of(obj).get("helm.sh/chart", "")) for obj in inventory.objects)
    found = {one[1]: frozenset[str]() for one in labelled if one}
    files = {one.file for one in inventory.loaded.manifests} if inventory.loaded is not None else set()
    for _, text in _texts(files):
        for name, template in _SOURCE.findall(text):
            found[name] = found.get(name, frozenset()) | {template}
    return found


def _names(chart: Skipped, texts: Mapping[str, str]) -> Iterator[str]:
    """What a chart is called: by its own word, by its folder."""
    yield from (name for file, text in texts.items() if Path(file).name == "Chart.yaml" for name in _NAME.findall(text))
    yield Path(chart.file).name


def _left_out(templates: Mapping[str, str], made: frozenset[str]) -> dict[str, str]:
    """Of a chart that was rendered, the templates that begin with an object and whose output is not here."""
    if not made:
        return {}
    return {
        file: text
        for file, text in templates.items()
        if not Path(file).as_posix().endswith(tuple(f"/{one}" for one in made))
        and _KIND.search(_CONDITION.split(text, maxsplit=1)[0])
    }


def _gives(templates: Mapping[str, str], stakes: Stakes) -> str | None:
    """What right it gives somebody that turns a target on, as the beginning of a sentence; None: none is seen."""
    roles = [text for text in templates.values() if _ROLE.search(text)]
    for held in stakes.targets:
        resource = re.compile(rf"\b{held.plural}(?:/scale)?\b|resources:.*\*")
        if any(resource.search(text) and _WRITES.search(text) for text in roles):
            return f"it gives somebody the right to write {held.plural}, of which {held} is one"
    parts = (part for text in templates.values() for part in re.split(r"^---.*$", text, flags=re.M))
    return next((said for part in parts if (said := _bound(part, stakes, has_roles=bool(roles)))), None)


def _bound(part: str, stakes: Stakes, *, has_roles: bool) -> str | None:
    """What a binding of a chart gives by a role that is not the chart's own."""
    binding, refers = _BINDING.search(part), _ROLE_REF.search(part)
    if binding is None or refers is None or not re.search(r"kind:\s*[\"']?(?:ServiceAccount|\{\{)", part):
        return None
    home = _NAMESPACE.search(part)
    if binding[1] == "RoleBinding" and home and home[1] not in stakes.namespaces:
        return None
    kind, name = (_field(refers[1], field) for field in ("kind", "name"))
    if "{{" in name:
        return None if has_roles else f"it binds a role that its values name ({name})"
    if not _is_known(kind, name, stakes):
        return None if has_roles else f"it binds {kind} {name}, which is not here"
    may = next((may for home in sorted(stakes.namespaces) if (may := _would(kind, name, home, stakes))), None)
    return f"it binds {kind} {name}: somebody may {may}" if may else None


def _field(text: str, name: str) -> str:
    found = re.search(rf"^[ \t]+{name}:\s*(.+?)\s*$", text, re.M)
    return found[1].strip("\"'") if found else ""


def _is_known(kind: str, name: str, stakes: Stakes) -> bool:
    from killcheck.embedded import roles

    return any(one.get("kind") == kind and name_of(one) == name for one in (*roles(), *stakes.objects))


def _would(kind: str, name: str, home: str, stakes: Stakes) -> str:
    """What an account might do in a target's namespace with a role that is there."""
    asked = copy.copy(stakes)
    metadata = {"name": _ANY, "namespace": home}
    subject = {"kind": "ServiceAccount", **metadata}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    binding = {"kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}
    from killcheck.embedded import roles

    asked.__dict__["permissions"] = Permissions([*roles(), *stakes.objects, binding])
    asked.written = {}
    return may_write(asked, _ANY, home) or may_create(asked, _ANY, home) or ""


def _texts(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    for file in files:
        try:
            yield file, text_of(Path(file), errors="replace")
        except OSError as error:
            yield file, f"kind: {type(error).__name__}"  # what cannot be read may be anything


def _is_inert(text: str) -> bool:
    """Whether each part of a template says its kind, and none has a program or acts: data, names and rights."""
    parts = [part for part in re.split(r"^---.*$", _NOTHING.sub("", text), flags=re.M) if part.strip()]
    return not _ROLE.search(text) and all((found := set(_KIND.findall(part))) and found <= INERT for part in parts)


def _depends(texts: Mapping[str, str]) -> bool:
    """Whether another chart brings some of it."""
    return any(_DEPENDS.search(text) for file, text in texts.items() if Path(file).stem in ("Chart", "requirements"))
