"""From an alert that fires to whoever is told: the Prometheus that sends it, the Alertmanagers, the silences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from killcheck.alerting import servers
from killcheck.alerting.alertmanagers import of_manager, written
from killcheck.alerting.loading import Server
from killcheck.alerting.routing import Routing, alert_labels, delivered
from killcheck.alerting.rules import Evaluated
from killcheck.alerting.silences import silenced, who_silences
from killcheck.kube.objects import Obj
from killcheck.text.values import replace

__all__ = ["Chain"]


class Chain(Struct):
    """Every server and Alertmanager that was seen. ``manifests``: where configurations stand, and silences."""

    found: Sequence[Server] = ()
    manifests: Sequence[Obj] = ()
    managers: Sequence[Obj] = ()
    services: Sequence[Obj] = ()
    spaces: Mapping[str, dict[str, str]] = field(default_factory=dict)

    def delivered(self, one: Evaluated, within_s: float) -> Evaluated:
        """An alert that fires, with who is told of it; none that nobody is told of fires."""
        if one.fires_s is None:
            return one
        server = next((each.obj for each in self.found if each.ref == one.rule.by), None)
        external = servers.external_labels(server) if server is not None else None
        certain, doubt = silenced(alert_labels(one, external), who_silences(self.manifests))
        if certain or doubt:
            return replace(one, fires_s=None, silent=certain, unproven=doubt)
        return self._told(one, server, external, within_s)

    def _told(
        self, one: Evaluated, server: Obj | None, external: Mapping[str, str] | None, within_s: float
    ) -> Evaluated:
        texts = written(self.manifests)
        if not self.managers:
            return _by_all(one, texts, within_s, external)
        heard = list(self.managers) if server is None else servers.managers_of(server, self.managers, self.services)
        if heard is None:
            return replace(one, fires_s=None, unproven=f"{one.rule.by} sends it to an Alertmanager that is not here")
        ways = [of_manager(each, self.manifests, dict(self.spaces)) for each in heard]
        return _by_all(one, ways, within_s, external) if server is None else delivered(one, ways, within_s, external)


def _by_all(one: Evaluated, ways: Sequence[Routing], within_s: float, external: Mapping[str, str] | None) -> Evaluated:
    """Where nobody saw which of some configurations is used: by the one that tells the least."""
    each = [delivered(one, [way], within_s, external) for way in ways]
    return next((told for told in each if told.fires_s is None), each[0] if each else one)
