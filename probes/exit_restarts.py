"""Workers that end themselves and are started again."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import dig
from killcheck.text import lazy_re

__all__ = ["ExitRestarts"]


class ExitRestarts(Probe):
    """A Deployment's pods have restartPolicy Always: exit 0 after an idle hour is a restart, and all begins anew."""

    id = "exit-restarts"
    claim = "A worker that ends itself stays ended."
    remedy = "Run it as a Job (restartPolicy: Never or OnFailure), or let it scale its Deployment to zero."
    failures = (33,)
    sources = ("KK#53125",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Targets whose environment says after how long without work they exit."""
        for obj, template in world.target_templates:
            always = template.spec.get("restartPolicy", "Always") == "Always" and obj.get("kind") not in ("Job", "Pod")
            for index, container in enumerate(dig(template.spec, "containers", default=[])):
                for number, entry in enumerate(container.get("env") or ()):
                    if always and _IDLE.search(str(entry.get("name", ""))) and str(entry.get("value", "")).isdigit():
                        path = (*template.path, "containers", index, "env", number, "name")
                        message = f"ends itself when idle ({entry['name']}), and its {obj.get('kind')} starts it again"
                        yield self.finding(world, obj, path, message)


_IDLE = lazy_re.compile(r"(?i)(idle.*(exit|timeout|shutdown|seconds|minutes|_s$)|self_?terminat|exit.*idle)")
