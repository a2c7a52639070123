"""The registry, itself a container of the engine, is down, throttles, or refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from killcheck.capabilities.offered import present
from killcheck.engine.projection import CONTAINERS, NAMESPACE
from killcheck.engine.registry import Registry
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.docker.parts import EngineFault, changing, executor_image, registry_container
from killcheck.faults.kubernetes.registries import pull_failure
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, dig, name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage

__all__ = ["RegistryRefuses", "RegistryStopped", "RegistryThrottles"]


class RegistryStopped(EngineFault):
    """Reproduces rows 3 and 5: the registry's container is stopped; an image that is cached starts all the same."""

    name = "registry-stopped"
    simulates = "the registry of the executor's image is down"
    family = "image"
    failures = (3, 5)
    shows = Evidence.TRIED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The registry's container."""
        name = name_of(registry_container(stage, executor_image(layer)))
        return Plan(
            (f"container {name}, the registry, is stopped for the length of the drill",),
            permissions=changing(name),
            edits=(f"Container {name}.spec.replicas",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop it."""
        name = name_of(registry_container(stage, executor_image(layer)))
        stage.journal.merge(CONTAINERS, name, NAMESPACE, {"spec": {"replicas": 0}}, f"stopped container {name}")
        return [f"stopped container {name}"]

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A pull failed; or the registry, asked here and now, does not answer, whether anything is pulled or not."""
        image = executor_image(layer)
        return pull_failure(stage, image) or self._unanswered(stage, image)

    @staticmethod
    def _unanswered(stage: Stage, image: str) -> str | None:
        found = registry_container(stage, image)
        if dig(found, "spec", "replicas"):  # from here it may be out of reach for other reasons
            return None
        engine = present(stage.cluster.capabilities.engine)
        try:
            Registry.of(image, engine.host).status()
        except KubeError as error:
            return f"container {name_of(found)} is stopped, and the registry of {image} does not answer: {error}"
        return None


class _Gate(EngineFault):
    """A gate of ours in the registry's place, made of its own image: the same address, another answer."""

    family = "image"
    answer: ClassVar[str]
    status: ClassVar[int]
    shows = Evidence.TRIED

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The registry stops; a container of ours answers where it did."""
        name = name_of(registry_container(stage, executor_image(layer)))
        return Plan(
            (
                f"container {name}, the registry, is stopped for the length of the drill; one of ours, made of its "
                f"image, answers {self.status} at its address",
            ),
            permissions=(*changing(name), Permission("create", CONTAINERS.group, CONTAINERS.plural)),
            edits=(f"Container {name}.spec.replicas",),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Stop it, and take its place."""
        registry = registry_container(stage, executor_image(layer))
        name = name_of(registry)
        stage.journal.merge(CONTAINERS, name, NAMESPACE, {"spec": {"replicas": 0}}, f"stopped container {name}")
        gate = f"{name[:40]}-killcheck-gate-{stage.run[-8:]}"
        stage.journal.create(CONTAINERS, self._gate(stage, gate, name), f"created container {gate}")
        self._wait(stage, layer)
        return [f"stopped container {name}", f"container {gate} answers {self.status} in its place"]

    def _gate(self, stage: Stage, gate: str, name: str) -> Obj:
        api = stage.cluster.kube.transport
        ports = api.exposed(name)  # type: ignore[attr-defined]
        # An engine tries TLS first, and its greeting has no line that ends: it is not waited for.
        read = r'while read -r -t 1 line; do [ "$line" = "$(printf "\r")" ] && break; done'
        body = f'{{"errors":[{{"code":"{self.answer}","message":"killcheck answers in the place of the registry"}}]}}'
        head = (
            f"HTTP/1.1 {self.status} {self.answer}\\r\\nContent-Type: application/json\\r\\n"
            f"Docker-Distribution-Api-Version: registry/2.0\\r\\nContent-Length: {len(body)}\\r\\n"
            "Connection: close\\r\\n\\r\\n"
        )
        reply = f"{read}; printf '{head}%s' '{body}'"
        # busybox has two nc: the one stays for -lk, the other for -ll.
        both = '{{ nc -lk -p {0} -e /bin/sh -c "$REPLY" || nc -ll -p {0} -e /bin/sh -c "$REPLY"; }}'
        listen = " & ".join(both.format(port) for port in ports)
        script = f"export REPLY={_quoted(reply)}; trap 'kill 0' TERM; {listen} & wait"
        return {
            "apiVersion": CONTAINERS.api_version,
            "kind": CONTAINERS.kind,
            "metadata": {"name": gate, "namespace": NAMESPACE},
            "spec": {"copyOf": name, "instead": True, "replicas": 1, "command": ["/bin/sh", "-c", script]},
        }

    def _wait(self, stage: Stage, layer: LayerRun) -> None:
        """A process takes a moment to listen; one that never does has not bitten."""
        loop = stage.cluster.loop
        until = loop.monotonic() + 5.0
        while not self._answers(stage, layer) and loop.monotonic() < until:
            loop.sleep(0.1)

    def _answers(self, stage: Stage, layer: LayerRun) -> bool:
        engine = present(stage.cluster.capabilities.engine)
        try:
            return Registry.of(executor_image(layer), engine.host).status() == self.status
        except KubeError:
            return False

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The engine was answered so, or would be."""
        image = executor_image(layer)
        failed = pull_failure(stage, image)
        if failed:
            return failed
        return f"the registry of {image} answers {self.status} to whoever asks" if self._answers(stage, layer) else None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class RegistryThrottles(_Gate):
    """Reproduces row 4 for real: 429 toomanyrequests."""

    name = "registry-throttles"
    simulates = "the registry answers every pull with 429: the pull quota is used up"
    failures = (4,)
    answer = "TOOMANYREQUESTS"
    status = 429


class RegistryRefuses(_Gate):
    """Reproduces row 6 for real: 401, as to whoever shows credentials that have expired."""

    name = "registry-refuses"
    simulates = "the registry refuses the engine's credentials: 401"
    failures = (6,)
    answer = "UNAUTHORIZED"
    status = 401
