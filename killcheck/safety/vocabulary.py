"""All that an undo may ever say: which resource, and what of it; or one of the few things that a capability takes back.

Nothing here asks whose word it is (:mod:`killcheck.safety.written`, :mod:`killcheck.safety.untrusted_journal`): what
is not in this vocabulary is done on nobody's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from msgspec import Struct

from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.safety.changes import Undo

__all__ = ["ENGINE", "TAKEN_BACK", "Place", "by_hand", "objection", "place_of"]

#: A part of a path: names of RBAC's objects may have colons; nothing is only dots, nor read as an option.
_WORD = lazy_re.compile(r"(?!\.+\Z|-)[A-Za-z0-9._:@+-]{1,253}")
#: The API group of what a Docker Engine has.
ENGINE = "docker.killcheck.dev"
#: A Docker Engine's tags are named by their images, escaped; this is a part of one.
_IMAGE_PART = lazy_re.compile(r"(?!\.+\Z)[A-Za-z0-9._:@\[\]-]{1,253}")
#: Subresources that are a part of what an object says; what others do is not written down anywhere.
_PARTS = ("", "status", "scale")
#: What a later process can take back with a capability of a machine: the methods, and the kinds of their arguments.
#: What was done with others went with the process that had them.
TAKEN_BACK: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "programs": {"put_back": (list, int, list, str), "take_from": (list, str)},
    "files": {"take_away": (str, str)},
}


class Place(Struct, frozen=True):
    """What a URL path of the API speaks of; ``name`` is empty for a collection, ``part`` for an object itself."""

    group: str
    plural: str
    namespace: str = ""
    name: str = ""
    part: str = ""

    @property
    def within(self) -> str:
        """The namespace that it is in; of a Namespace: itself."""
        return self.name if (self.group, self.plural) == ("", "namespaces") else self.namespace

    def __str__(self) -> str:
        kind = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{kind} {'/'.join(part for part in (self.namespace, self.name) if part)}".strip()


def place_of(path: Any) -> Place | None:
    """What a path speaks of; None: it is no object's, part's or collection's path, or not sent as it is read.

    Clients and servers resolve dots and escapes on the way; what they lead to was never looked at.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        return None
    words = path[1:].split("/")
    if not all(_WORD.fullmatch(word) for word in words):
        return None
    if words[0] == "api" and len(words) > 2:
        group, rest = "", words[2:]
    elif words[0] == "apis" and len(words) > 3:
        group, rest = words[1], words[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, part = [*rest, "", ""][:3]
    return Place(group, plural, namespace, name, part) if part in _PARTS else None


def objection(undo: Undo, lever: str = "") -> str | None:
    """Why an undo is nothing that may be said; None: it may."""
    if undo.action == "aws":
        from killcheck.cloud.account_undo import ACTIONS

        known = (
            undo.path in ACTIONS
            and isinstance(undo.body, dict)
            and all(isinstance(word, str) for word in undo.body.values())
        )
        return None if known and lever else f"{undo.path} is nothing that is undone in an account"
    if undo.action in ("call", "set"):
        return _of_lever(undo, lever)
    if lever:
        return f"{undo.action} is nothing that a lever takes back"
    return _of_api(undo)


def by_hand(undo: Undo, run: str = "") -> str:
    """What a person can run instead, made from what an undo says; empty where that is neither a patch of an object nor
    of ``run`` in an account, or leads where nothing is ever asked.
    """
    if undo.action == "aws":
        from killcheck.cloud.account_undo import told_by_hand

        return told_by_hand(undo.path, undo.body, run)
    place = place_of(undo.path)
    if place is None or undo.action != "merge" or not isinstance(undo.body, dict):
        return ""
    kind = f"{place.plural}.{place.group}" if place.group else place.plural
    where = f" -n {place.namespace}" if place.namespace else ""
    part = f" --subresource={place.part}" if place.part else ""
    patch = shlex.quote(json.dumps(undo.body))
    return f"kubectl patch {kind} {place.name}{where} --type=merge -p {patch}{part}"


def _of_lever(undo: Undo, lever: str) -> str | None:
    if lever not in TAKEN_BACK:
        return None if lever else f"{undo.action} {undo.path} takes a lever"
    kinds = TAKEN_BACK[lever].get(undo.path)
    if undo.action != "call" or kinds is None:
        return f"{undo.path} is nothing that {lever} takes back"
    given = list(undo.body) if isinstance(undo.body, (list, tuple)) else []
    if len(given) not in (len(kinds), len(kinds) - 1) or not all(map(isinstance, given, kinds)):
        return f"{undo.path} of {lever} does not take {given!r:.200}"
    return None


def _of_api(undo: Undo) -> str | None:
    place = place_of(undo.path)
    if place is None:
        return f"{undo.path} is no path of an object"
    collection = undo.action in ("create", "sweep")
    if collection == bool(place.name):
        return f"{undo.action} takes the path of {'a collection' if collection else 'an object'}, not {undo.path}"
    if place.part and undo.action != "merge":
        return f"{undo.action} takes the path of an object, not {undo.path}"
    checks = {"merge": _merge, "create": _whole, "put": _whole}
    check = checks.get(undo.action)
    return check(undo, place) if check is not None else None


def _merge(undo: Undo, place: Place) -> str | None:
    if not isinstance(undo.body, dict) or not (undo.left is None or isinstance(undo.left, dict)):
        return f"what {place} is set back to is no object"
    if not all(map(_shaped, (undo.body, undo.left or {}))):
        return f"what {place} is set back to has not the shape of one"
    return None


def _shaped(patch: Mapping[str, Any]) -> bool:
    """Whether what every object has, and what several write to, is of its own kind."""
    meta, spec = patch.get("metadata"), patch.get("spec")
    maps = [meta, *(meta.get(key) for key in ("labels", "annotations") if isinstance(meta, dict))]
    lists = [
        meta.get("finalizers") if isinstance(meta, dict) else None,
        spec.get("taints") if isinstance(spec, dict) else None,
    ]
    return all(one is None or isinstance(one, dict) for one in maps) and all(
        one is None or isinstance(one, list) for one in lists
    )


def _whole(undo: Undo, place: Place) -> str | None:
    """An object that is made again is the one that its path speaks of, in the namespace that it speaks of."""
    meta = undo.body.get("metadata") if isinstance(undo.body, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return f"what is made again in {place} has no name"
    if not _names(place, meta["name"]) or (place.name and meta["name"] != place.name):
        return f"what is made again has the name {meta['name']!r}, which is not that of {place}"
    if meta.get("namespace", place.namespace) != place.namespace:
        return f"what is made again in {place} is of another namespace"
    if undo.action == "put" and not isinstance(undo.body.get("spec"), dict):
        return f"what {place} is put back to has no spec"
    return None


def _names(place: Place, name: str) -> bool:
    """Whether that can be a name among what is in ``place``."""
    if (place.group, place.plural) != (ENGINE, "tags"):
        return bool(_WORD.fullmatch(name))
    image = unquote(name)
    return quote(image, safe="") == name and all(map(_IMAGE_PART.fullmatch, image.split("/")))
