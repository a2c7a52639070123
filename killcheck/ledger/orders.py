"""Programs that order something of a system beside Kubernetes, about a target: a cloud, Argo CD, a pipeline.

A cloud's command line starts the machines of a node group, ``argocd app sync`` puts back what Git says, a POST to a
forge begins a deployment. None of it is followed here, and none needs a right in this cluster.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from posixpath import basename

from killcheck.executor import Reading
from killcheck.kube.objects import name_of
from killcheck.ledger import gitops
from killcheck.ledger.stakes import Stakes

__all__ = ["elsewhere"]

#: Whose orders are not read here, of those that a reading calls not understood.
_ORDERS = frozenset({"argocd", "flux", "helm", "gh", "glab", "fly", "tkn", "argo"})
_SENDS = re.compile(r"^(POST|PUT|PATCH|DELETE) ")
_WORD_OF_GPUS = re.compile(r"(?i)(?<![a-z])(gpus?|tpus?|accelerators?|[ahb][12]00)(?![a-z])")


def elsewhere(reading: Reading, stakes: Stakes) -> str | None:
    """What a program orders elsewhere that names a target, its namespace, its pool or source; None: nothing."""
    for order in dict.fromkeys(_orders(reading)):
        named = _named(order, stakes)
        if named:
            shown = order if len(order) <= _SHOWN else f"{order[:_SHOWN]}..."
            return f"its program says '{shown}', which names {named} and is not followed here"
    return None


#: So much of an order is quoted.
_SHOWN = 80


def _orders(reading: Reading) -> Iterator[str]:
    yield from reading.outside
    yield from (one for one in reading.not_understood if _SENDS.match(one))
    outside = {one.partition(" ")[0] for one in reading.outside}
    for words in reading.commands:
        if basename(words[0]) in _ORDERS | outside:
            yield shlex.join(words)


def _named(order: str, stakes: Stakes) -> str | None:
    sources = [name_of(obj) for obj in stakes.objects if gitops.is_gitops(obj) and gitops.may_apply(obj, stakes)]
    words = [*(held.name for held in stakes.targets), *stakes.namespaces, *stakes.pools, *sources]
    found = next((word for word in words if word and re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", order)), None)
    return found or ("accelerators" if _WORD_OF_GPUS.search(order) else None)
