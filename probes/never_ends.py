"""Programs that do not come to an end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World

from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import dig
from killcheck.rehearsal.programs import CONTROLLERS
from killcheck.rehearsal.record import Outcome
from killcheck.spec.killpath import LayerType

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Firing

__all__ = ["NeverEnds"]

#: The last part of repositories whose images run until they are stopped, as their projects document: shippers of logs,
#: metrics and traces, proxies of meshes, databases and the web, agents that renew secrets.
_GO_ON = frozenset(
    {
        *("alloy", "filebeat", "fluent-bit", "fluentd", "grafana-agent", "promtail", "telegraf", "vector"),
        *(
            "dcgm-exporter",
            "node-exporter",
            "opentelemetry-collector",
            "opentelemetry-collector-contrib",
            "pushgateway",
        ),
        *("cloud-sql-proxy", "cloudflared", "envoy", "haproxy", "kube-rbac-proxy", "nginx", "oauth2-proxy", "proxyv2"),
        *("consul-dataplane", "daprd", "memcached", "postgres", "redis", "tailscale", "vault"),
    }
)


class NeverEnds(Probe):
    """Fired once in a rehearsal: a wait without an end before the kill, or a container beside it that goes on."""

    id = "never-ends"
    rehearsed = True
    claim = "An executor that is fired comes to its end."
    remedy = "Let the kill come first and each wait have a limit; beside it run sidecars (restartPolicy: Always)."
    failures = (8,)
    sources = ("KK#101584", "kubernetes.io/docs: sidecar containers", "hystax/optscale#568")

    def ask(self, world: World) -> Iterable[Finding]:
        """What had not ended after half an hour, after three times its deadline, or long after it began to wait."""
        for one in world.layer_executors:
            if one.seen is None and one.owner.get("kind") not in CONTROLLERS:
                yield from self._goes_on(world, one)
        for one in world.watched:
            first = one.seen.first if one.seen else None
            if first is None or first.outcome not in (Outcome.ENDLESS, Outcome.GIVEN_UP):
                continue
            if one.owner.get("kind") in CONTROLLERS:
                continue  # it is not meant to
            if first.outcome is Outcome.GIVEN_UP and not _is_long(first, one.seen.deadline_s if one.seen else None):
                last = f"; the last it asked was {first.calls[-1]}" if first.calls else ""
                yield self.unproven(
                    world, one.owner, f"whether it ends: it was still at work after {first.seconds:.0f} s{last}"
                )
            elif first.services and not first.off:
                yield self._waits(world, one, first)
            else:
                yield self._about(world, one, first)

    def _goes_on(self, world: World, one: Executor) -> Iterable[Finding]:
        """Of what could not be fired: a container that its own image keeps running, beside the one that kills."""
        ordinary = dig(one.spec, "containers", default=[])
        for index, container in enumerate(ordinary if len(ordinary) > 1 else []):
            if container.get("command") or _name(str(container.get("image", ""))) not in _GO_ON:
                continue
            bounded = dig(one.owner, "spec", "jobTemplate", "spec", "activeDeadlineSeconds") is not None
            yield self.finding(
                world,
                one.owner,
                (*one.path, "containers", index),
                f"container {container.get('name')} ({container.get('image')}) goes on until it is stopped: the Job is "
                "never Complete",
                severity="warning" if bounded else "error",
            )

    def _waits(self, world: World, one: Executor, first: Firing) -> Finding:
        """It asks a Service before it acts. Who watches may well wait for what it watches; who must kill may not."""
        said = f"had not ended after {first.seconds:.0f} s, and asks Service {first.services[0]}: nothing answers there"
        if one.layer is None or one.layer.type is LayerType.IDLE_MONITOR:
            return self.unproven(world, one.owner, f"it {said}")
        return self.finding(
            world,
            one.owner,
            command_path(one),
            f"waits without an end before the kill: it {said}, and nothing goes off",
            severity="warning",
        )

    def _about(self, world: World, one: Executor, first: Firing) -> Finding:
        running = [ending.container for ending in first.endings if ending.code is None]
        deadline = dig(one.owner, "spec", "jobTemplate", "spec", "activeDeadlineSeconds")
        ended = [ending.container for ending in first.endings if ending.code is not None]
        last = f"; the last it asked was {first.calls[-1]}" if first.calls and not ended else ""
        what = (
            f"container {', '.join(running)} goes on after {', '.join(ended)} has ended"
            if ended
            else f"it had not ended after {first.seconds:.0f} s"
        )
        effect = "" if first.off else ", and nothing had gone off"
        bounded = first.off and deadline is not None
        return self.finding(
            world,
            one.owner,
            command_path(one),
            f"{what}{effect}{last}: the Job is never Complete",
            severity="warning" if bounded else "error",
        )


def _name(image: str) -> str:
    """The last part of an image's repository; empty for what is no image."""
    try:
        return parse(image).path.rpartition("/")[2]
    except InvalidReference:
        return ""


def _is_long(first: Firing, deadline_s: float | None) -> bool:
    """Whether what was given up had gone on for too long by then: beyond its deadline, or without changing anything."""
    if deadline_s is not None and first.seconds > deadline_s:
        return True
    return not first.writes and first.seconds >= _LONG_S


#: Seconds of the cluster's time for which nobody waits before the kill, and means it.
_LONG_S = 300.0
