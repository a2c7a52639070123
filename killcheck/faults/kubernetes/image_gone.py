"""The executor's tag is gone from its registry and not cached: the founding story's failure."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.capabilities.offered import Capability
from killcheck.faults.base import Evidence, Plan
from killcheck.faults.kubernetes.executor import COPY, ExecutorFault, containers, images, spared
from killcheck.faults.kubernetes.registries import pull_failure
from killcheck.images.reference import NEVER_THERE
from killcheck.kube.objects import Obj
from killcheck.layers.base import LayerRun, Stage

__all__ = ["ImageGone", "without_tag"]


def without_tag(image: str) -> str:
    """The repository of an image reference, without tag and digest (a port's colon is not a tag's)."""
    repository = image.partition("@")[0]
    head, slash, last = repository.rpartition("/")
    return head + slash + last.partition(":")[0]


class ImageGone(ExecutorFault):
    """Reproduces rows 1 and 5: the drill's own copy of the Job asks for a tag that the registry does not have."""

    name = "image-gone"
    simulates = "the registry has dropped the tag of the executor's image, and no node has it cached"
    family = "image"
    failures = (1, 5)
    on_docker = True
    shows = Evidence.OTHERS
    bars = True

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """Nothing that exists is changed."""
        return Plan(
            (f"the drill's own copy of the Job asks for a tag that no registry has ({self._tag(stage)})",),
            edits=(f"{COPY}.image", f"{COPY}.imagePullPolicy"),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Rewrite the image of every container of the drill's Job."""
        tag = self._tag(stage)
        if stage.cluster.capabilities.registry is not None:  # the modelled registry has every tag that nobody took away
            for image in images(layer):
                gone = f"{without_tag(image)}:{tag}"
                stage.journal.call(
                    Capability.REGISTRY, f"{gone} is not there", ("delete_tag", gone), ("restore_tag", gone)
                )

        def rewrite(template: Obj) -> None:
            for container in containers(template):
                container["image"] = f"{without_tag(container['image'])}:{tag}"
                container["imagePullPolicy"] = "IfNotPresent"

        stage.rewrites.append(rewrite)
        return [f"the drill's copy of the Job asks for tag {tag}"]

    def spares(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Who runs the same image."""
        return spared(stage, layer, self.name)

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """A waiting reason of the kubelet that names our image."""
        return pull_failure(stage, self._tag(stage))

    @staticmethod
    def _tag(stage: Stage) -> str:
        return f"{NEVER_THERE}{stage.run[-6:]}"
