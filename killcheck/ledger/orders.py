"""Programs that order something of a system beside Kubernetes, about a target: a cloud, Argo CD, a pipeline.

A cloud's command line starts the machines of a node group, ``argocd app sync`` puts back what Git says, a POST to a
forge begins a deployment. None of it is followed here, and none needs a right in this cluster.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from posixpath import basename

from killcheck.executor import Reading
from killcheck.kube.furniture import is_gitops
from killcheck.kube.objects import name_of
from killcheck.ledger import gitops
from killcheck.ledger.stakes import Stakes
from killcheck.text import lazy_re

__all__ = ["elsewhere"]

#: Whose orders are not read here, of those that a reading calls not understood.
_ORDERS = frozenset({"argocd", "flux", "helm", "gh", "glab", "fly", "tkn", "argo"})
_SENDS = lazy_re.compile(r"^(POST|PUT|PATCH|DELETE) ")
_WORD_OF_GPUS = lazy_re.compile(r"(?i)(?<![a-z])(gpus?|tpus?|accelerators?|[ahb][12]00)(?![a-z])")


def elsewhere(reading: Reading, stakes: Stakes) -> str | None:
    """What a program orders elsewhere that names a target, its namespace, its pool or source; None: nothing."""
    asked = _asked(reading)
    if asked and _only_asks(reading, asked):
        return None
    for order in sorted(dict.fromkeys(_orders(reading)), key=asked.__contains__):  # what orders is quoted first
        named = _named(order, stakes)
        if named:
            shown = order if len(order) <= _SHOWN else f"{order[:_SHOWN]}..."
            return f"its program says '{shown}', which names {named} and is not followed here"
    return None


#: Groups of gcloud's commands. A word that is none of them may be an order, and what comes after it a name.
_GROUPS = (
    "compute|instances|instance-groups|managed|instance-templates|disks|snapshots|zones|regions|machine-types|networks"
    "|accelerator-types|reservations|resource-policies|addresses|firewall-rules|images|tpus|tpu-vm|queued-resources"
    "|container|clusters|node-pools|operations|projects|services|iam|service-accounts|logging|logs|monitoring|billing"
    "|accounts|budgets|storage|buckets|sql|databases|jobs|functions|scheduler|workflows|pubsub|topics|subscriptions"
    "|secrets|versions|artifacts|repositories|docker|dns|managed-zones|record-sets|kms|keys|keyrings|config"
    "|configurations|auth|ai|endpoints|models|custom-jobs|dataproc|composer|environments|builds|quotas"
)
#: The words before the first flag of a command that asks, or fetches, and orders nothing; of any other tool none is.
_ASKS = {
    "aws": r"[a-z0-9-]+ (describe|list)-[a-z-]+|cloudwatch get-metric-(statistics|data)|ce get-[a-z-]+|s3 ls( \S+)?"
    r"|s3 (cp|sync) s3:\S+ (?!s3:)\S+",
    "gcloud": rf"(alpha |beta )?(run )?(({_GROUPS}) )+(list|describe)( \S+)?|storage (cp|rsync) gs:\S+ (?!gs:)\S+",
    "az": r"([a-z-]+ )+(list|show)",
    "eksctl": r"get \S+( \S+)?",
    "helm": r"(list|ls|status|history)( \S+)?|get \S+ \S+",
    "argocd": r"app (list|get|diff|history|logs)( \S+)?",
    "flux": r"(get|events|logs|check|stats|tree)( \S+)*",
    "gh": r"(issue|pr|run|release) (list|view|status)( \S+)?",
}


#: How a reading tells of what takes out of its input, and does nothing.
_FILTERS = lazy_re.compile(r"(grep|sort|head|wc|cut|tr|uniq|column)\b")


def _asked(reading: Reading) -> set[str]:
    """The commands that only ask, in every way that a reading writes them."""
    return {told for words in reading.commands if _asks(words) for told in (shlex.join(words), " ".join(words))}


def _only_asks(reading: Reading, asked: set[str]) -> bool:
    """Whether every order of a program only asks, and there is nothing else in it that was not understood.

    What is asked may be piped into an order, which then names nothing: one order, and all of them count.
    """
    orders = (words for words in reading.commands if basename(words[0]) in _ORDERS | set(_ASKS))
    unknown = {one for one in (*reading.outside, *reading.not_understood) if not _FILTERS.match(one)} - asked
    return all(map(_asks, orders)) and not unknown and not reading.modules


def _asks(words: tuple[str, ...]) -> bool:
    before = " ".join(takewhile(lambda word: not word.startswith("-"), words[1:]))
    wanted = _ASKS.get(basename(words[0]))
    return wanted is not None and re.fullmatch(wanted, before) is not None


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
    sources = [name_of(obj) for obj in stakes.objects if is_gitops(obj) and gitops.may_apply(obj, stakes)]
    words = [*(held.name for held in stakes.targets), *stakes.namespaces, *stakes.pools, *sources]
    found = next((word for word in words if word and re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", order)), None)
    return found or ("accelerators" if _WORD_OF_GPUS.search(order) else None)
