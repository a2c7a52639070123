"""What a journal that is only in the cluster may ask for: whoever may write a ConfigMap may have written it.

A run changes what is in namespaces that consented, machines and pools that its spec named, and what is in no namespace
where it carries the consent label; it deletes what it made. A journal that asks for anything else is nobody's word: the
machine that ran it has a journal of its own, and a person can do what it says by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, dig, labels_of
from killcheck.safety.consent import LABEL as CONSENT
from killcheck.safety.journal import Entry
from killcheck.safety.undo import LABEL, insist

__all__ = ["Hearsay"]

#: A part of such a path: names of RBAC's objects may have colons; nothing is only dots.
_WORD = re.compile(r"(?!\.+$)[A-Za-z0-9.:_-]+")
#: What is in no namespace and is named in a spec instead of being labelled.
_NAMED = {"nodes", "nodepools", "nodeclaims"}


@dataclass
class Hearsay:
    """The journal of ``run`` in a ConfigMap of the namespace ``home``, which the API server says is there ``since``."""

    kube: Kube
    loop: Loop
    run: str
    home: str
    since: str = ""
    _consents: dict[str, str] = field(default_factory=dict)

    def refused(self, entries: Iterable[Entry]) -> list[str]:
        """Why entries are not undone on its word alone; a sentence each."""
        problems = []
        for entry in entries:
            if entry.lever or entry.undo.action == "aws":
                continue  # programs are out of its reach; in an account only what carries the run's tag is touched
            try:
                why = self._without_consent(self.home) or self._unnamed(entry)
            except KubeError as error:
                why = f"whether it may be could not be asked: {error}"
            if why:
                by_hand = f", or run: {entry.undo.manual}" if entry.undo.manual else ""
                problems.append(
                    f"{entry.what}: not undone, for only the ConfigMap in {self.home} asks for it, and {why} "
                    f"(killcheck restore on the machine that run {self.run} was on has a journal of its own{by_hand})"
                )
        return problems

    def _unnamed(self, entry: Entry) -> str:
        """Why what an entry would act on is nothing that a run acts on; empty where it is."""
        if entry.run != self.run:
            return f"it speaks of another run, {entry.run}"
        if not _is_plain(entry.undo.path):
            return f"{entry.undo.path} is no path of an object"
        namespace, plural, name = _parts(entry.undo.path)
        if namespace and (why := self._without_consent(namespace)):
            return why
        if entry.undo.action == "delete":
            found = self._find(entry.undo.path)
            ours = (
                found is None
                or labels_of(found).get(LABEL) == self.run
                or (
                    # What Karpenter made for a canary carries nobody's label; it is younger than the journal.
                    plural == "nodeclaims" and self.since <= dig(found, "metadata", "creationTimestamp", default="")
                )
            )
            return "" if ours else f"{plural} {name} was not made by that run"
        if namespace or plural in _NAMED or labels_of(self._find(entry.undo.path) or {}).get(CONSENT) == "true":
            return ""
        return f"{plural} {name} is in no namespace and does not carry {CONSENT}=true"

    def _without_consent(self, namespace: str) -> str:
        if namespace not in self._consents:
            found = insist(self.loop, lambda: self.kube.find(r.NAMESPACES, namespace))
            # Where the namespace itself has gone, so has all that could be done in it.
            consents = found is None or labels_of(found).get(CONSENT) == "true"
            self._consents[namespace] = "" if consents else f"namespace {namespace} does not carry {CONSENT}=true"
        return self._consents[namespace]

    def _find(self, path: str) -> Obj | None:
        def look() -> Obj | None:
            try:
                return self.kube.call("GET", path).body  # type: ignore[no-any-return]
            except NotFound:
                return None

        return insist(self.loop, look)


def _is_plain(path: str) -> bool:
    """Whether a path is an object's, its status's or its scale's, or a collection's, and is sent as it is read.

    Clients and servers resolve dots and escapes on the way; what they lead to was never looked at.
    """
    words = path.removeprefix("/").split("/")
    if words[0] not in ("api", "apis") or not all(_WORD.fullmatch(word) for word in words):
        return False
    words = words[2:] if words[0] == "api" else words[3:]
    if words[:1] == ["namespaces"] and len(words) > 2:
        words = words[2:]
    return words != ["finalize"] and words[2:] in ([], ["status"], ["scale"])


def _parts(path: str) -> tuple[str, str, str]:
    """The namespace (of a Namespace: itself), the resource and the name that a URL path of the API speaks of."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    if words[:1] == ["namespaces"] and len(words) > 1:
        return words[1], *_padded(words[2:] or words)
    return "", *_padded(words)


def _padded(words: list[str]) -> tuple[str, str]:
    plural, name, *_ = [*words, "", ""]
    return plural, name
