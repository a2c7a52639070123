"""Requests that give up before a slow look-up of the API server's name is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import calls_by_name, command_path
from killcheck.probes.world import World

__all__ = ["Impatient"]


class Impatient(Probe):
    """A question to DNS that is lost costs the resolver five seconds; a request that has three gives up, every time."""

    id = "impatient"
    claim = "A request to the API server by name outlasts one look-up that is slow."
    remedy = "Give it 30 s and tries (curl --max-time 30 --retry 5), or call $KUBERNETES_SERVICE_HOST, an address."
    severity = "warning"
    failures = (25,)
    sources = ("kubernetes/kubernetes#56903", "coredns/coredns#3163", "resolv.conf(5): timeout", "curl(1): -m, --retry")

    def ask(self, world: World) -> Iterable[Finding]:
        """``-m`` and ``--connect-timeout`` of curl commands that name the API server and do not try again."""
        for one in world.layer_executors:
            if not calls_by_name(one):
                continue
            for words in one.reading.commands:
                given = min(_patience(words), default=_RESOLVER_S)
                if given < _RESOLVER_S and any("kubernetes" in word for word in words):
                    message = f"gives up after {given:g} s: one lost question to DNS costs {_RESOLVER_S:g} s"
                    yield self.finding(world, one.owner, command_path(one), message)


#: What glibc's resolver waits before it asks again, in seconds.
_RESOLVER_S = 5.0
_LIMITS = ("-m", "--max-time", "--connect-timeout")


def _patience(words: Sequence[str]) -> Iterator[float]:
    """Seconds of each limit of a curl command; none where it tries again, or is something else."""
    if basename(words[0]) != "curl" or any(word.startswith("--retry") for word in words):
        return
    for index, word in enumerate(words[1:], 1):
        name, _, value = word.partition("=")
        if name in _LIMITS and not value:
            value = words[index + 1] if index + 1 < len(words) else ""
        elif word.startswith("-m") and len(word) > 2:
            value = word[2:]
        elif name not in _LIMITS:
            continue
        try:
            yield float(value)
        except ValueError:
            continue
