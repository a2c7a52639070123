"""What is done on the word of a journal that this machine did not write: only what its author could do anyway.

Whoever may write a ConfigMap, or a file into a checkout, may have written it. So nothing is taken from it but *which*
change of a run is to be taken back; that there is such a change the object itself must say, by what was put there with
it: the run's label on what the run made, the mark of that very undo on what the run changed
(:mod:`killcheck.safety.marks`). What would make something anew, or give something back that nothing says was taken, is
told, and a person may ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct, field

from killcheck.clock import Loop
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import KubeError, NotFound
from killcheck.kube.objects import Obj, labels_of, uid_of
from killcheck.safety.changes import LABEL, Entry
from killcheck.safety.consent import LABEL as CONSENT
from killcheck.safety.marks import SHOWN, carries
from killcheck.safety.undo import compare, retry
from killcheck.safety.vocabulary import Place, place_of

__all__ = ["Answer", "Judged", "UntrustedJournal"]


class Answer(Enum):
    """What becomes of an entry."""

    DO = "do"  #: the object itself says that it was changed so
    NOTHING = "nothing"  #: there is nothing of that run to take back
    ASK = "ask"  #: a person has to say so


class Judged(Struct, frozen=True):
    """An entry, what becomes of it, and why."""

    entry: Entry
    answer: Answer
    why: str = ""


class UntrustedJournal(Struct):
    """What somebody wrote of ``run``, in a ConfigMap of the namespace ``home`` or in a file (``source`` names it)."""

    kube: Kube
    loop: Loop
    run: str
    home: str
    source: str
    _consents: dict[str, str] = field(default_factory=dict)

    def judged(self, entries: Iterable[Entry]) -> list[Judged]:
        """What becomes of each."""
        return [self._judged(entry) for entry in entries]

    def told(self, judged: Judged) -> str:
        """One that a person has to ask for, in a sentence; what it names is not what it says to run."""
        what = judged.entry.what[:200]
        return (
            f"{what}: not undone, for only {self.source} asks for it, and {judged.why}; killcheck restore on the "
            f"machine that run {self.run} was on has a journal of its own; with --believe a person says yes to it"
        )

    def _judged(self, entry: Entry) -> Judged:
        try:
            return self._of_lever(entry) if entry.lever else self._of_api(entry)
        except KubeError as error:
            return Judged(entry, Answer.ASK, f"whether it may be could not be asked: {error}")

    @staticmethod
    def _of_lever(entry: Entry) -> Judged:
        if entry.undo.action == "aws":  # in an account only what carries the run's tag is touched
            return Judged(entry, Answer.DO)
        return Judged(entry, Answer.ASK, f"nothing is done to the {entry.lever} of a machine on anybody's word")

    def _of_api(self, entry: Entry) -> Judged:
        place = place_of(entry.undo.path)
        if place is None or entry.run != self.run:
            return Judged(entry, Answer.ASK, "it speaks of another run")
        for namespace in dict.fromkeys((self.home, place.within)):
            why = self.without_consent(namespace) if namespace else ""
            if why:
                return Judged(entry, Answer.ASK, why)
        if entry.undo.action == "sweep":
            return Judged(entry, Answer.DO)  # takes only what carries the run's label
        if entry.undo.action == "create":
            return self._made_again(entry, place)
        if place.part == "status":  # a CronJob's controller forgets a Job that is gone by itself
            return Judged(entry, Answer.NOTHING, "a status is its controller's to put right")
        found = self.look(entry.undo.path)
        if entry.undo.action == "delete":
            return self._deleted(entry, place, found)
        return self._changed(entry, place, found)

    def _made_again(self, entry: Entry, place: Place) -> Judged:
        if self.look(f"{entry.undo.path}/{entry.undo.body['metadata']['name']}") is not None:
            return Judged(entry, Answer.NOTHING, "it is there")
        name = entry.undo.body["metadata"]["name"]
        return Judged(entry, Answer.ASK, f"nothing else says that there was a {name} among the {place.plural}")

    def _deleted(self, entry: Entry, place: Place, found: Obj | None) -> Judged:
        if found is None or (entry.undo.uid and uid_of(found) != entry.undo.uid):
            return Judged(entry, Answer.NOTHING, "it is gone")
        if labels_of(found).get(LABEL) == self.run:
            return Judged(entry, Answer.DO)
        return Judged(entry, Answer.ASK, f"{place} was not made by that run")

    def _changed(self, entry: Entry, place: Place, found: Obj | None) -> Judged:
        undo = entry.undo
        if found is None:
            return Judged(entry, Answer.NOTHING, "it is gone")
        if not self.kube.transport.keeps_labels:
            consents = labels_of(found).get(CONSENT) == "true"  # who writes a journal there may do anything there
            return Judged(entry, Answer.DO if consents else Answer.ASK, f"{place} does not carry {CONSENT}=true")
        if undo.action == "merge" and carries(found, entry):
            return Judged(entry, Answer.DO)
        if undo.action == "merge" and not compare(found, undo.left or undo.body, undo.body)[0]:
            return Judged(entry, Answer.NOTHING, "it is not as that run would have left it")
        return Judged(entry, Answer.ASK, f"{place} does not carry the mark of that change")

    def without_consent(self, namespace: str) -> str | None:
        """Why a namespace may not be written to; None where it may, or has gone with all that was in it.

        Where nothing keeps labels, on a Docker Engine, there are no namespaces either: a container consents itself.
        """
        if not self.kube.transport.keeps_labels:
            return None
        if namespace not in self._consents:
            found = retry(self.loop, lambda: self.kube.find(r.NAMESPACES, namespace))
            consents = found is None or labels_of(found).get(CONSENT) == "true"
            self._consents[namespace] = "" if consents else f"namespace {namespace} does not carry {CONSENT}=true"
        return self._consents[namespace]

    def look(self, path: str) -> Obj | None:
        """An object as it is; None: it is not there. Raises KubeError."""

        def once() -> Obj | None:
            try:
                return self.kube.call("GET", path, query=SHOWN).body  # type: ignore[no-any-return]
            except NotFound:
                return None

        return retry(self.loop, once)
