"""Where the pods of a switch may run at all: node labels that nothing in the manifests gives a node, and schedulers.

killcheck assumes a node with each label that a pod selects, since most manifests bring no nodes, and places the pods of
each scheduler that they name. That a pod of something else selects the same label, or names the same scheduler, speaks
for there being such; what the switch alone selects may be a slip, and then its pods stay Pending, every night.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.entries import Assumption, Entry, Status
from killcheck.kube.objects import Obj, name_of, ref_of
from killcheck.kube.selectors import labels_selected
from killcheck.kube.workloads import templates
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

_SCHEDULER = "scheduler "

_RUNS = "leave schedulerName out, drill where the scheduler runs (--on CONTEXT), or say under assume: that it does"
_SETTLES = (
    "add a Node or node pool with the label to the manifests, drill where the nodes are (--on CONTEXT), or say under "
    "assume: who gives nodes the label (kind: 'node label*')"
)


def entries(stakes: Stakes, assumed: Iterable[Assumption]) -> Iterator[Entry]:
    """An open entry for each label that a switch alone selects, and that a node was ``assumed`` to have.

    So for a scheduler that it alone names.
    """
    named = {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    about = {said.about for said in assumed}
    others = {
        label
        for obj in stakes.objects
        if (obj.get("kind"), home_of(obj), name_of(obj)) not in named
        for label in _selected(obj)
    }
    for obj in stakes.objects:
        if (obj.get("kind"), home_of(obj), name_of(obj)) in named:
            for label in sorted((_selected(obj) & about) - others):
                if label.startswith(_SCHEDULER):
                    because, settles = f"{ref_of(obj)} alone names it: whether it places pods was not seen", _RUNS
                else:
                    because = f"{ref_of(obj)} alone selects it, and nothing in the manifests gives it to a node"
                    settles = _SETTLES
                yield Entry(label, Status.NOT_MODELLED, because, settles)


def _selected(obj: Obj) -> set[str]:
    """What pods of an object select, as an assumption names it."""
    return {
        said
        for one in templates(obj)
        for said in (
            *(f"node label {key}={value}" for key, value in labels_selected(one.spec).items()),
            f"{_SCHEDULER}{one.spec.get('schedulerName')}",
        )
    }
