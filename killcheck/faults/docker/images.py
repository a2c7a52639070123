"""The executor's tag is really deleted: from its registry, and from the engine that has it cached."""

from __future__ import annotations

from collections.abc import Sequence

from killcheck.engine.projection import IMAGES, TAGS
from killcheck.engine.registry import tag_name
from killcheck.faults.base import Evidence, FaultError, Plan
from killcheck.faults.docker.parts import EngineFault, executor_image, registry_container
from killcheck.faults.kubernetes.registries import pull_failure
from killcheck.kube.errors import ApiError, KubeError
from killcheck.kube.objects import name_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage

__all__ = ["TagDeleted"]


class TagDeleted(EngineFault):
    """Reproduces rows 1 and 5 with a real registry: the manifest is deleted, its tags with it; undone by its push."""

    name = "tag-deleted"
    simulates = "the executor's tag is deleted from its registry, and the engine has no copy of it"
    family = "image"
    failures = (1, 5)
    shows = Evidence.OTHERS

    def plan(self, stage: Stage, layer: LayerRun) -> Plan:
        """The tag, and those that point to the same manifest."""
        image = executor_image(layer)
        registry = registry_container(stage, image)
        try:
            tags = stage.cluster.kube.get(TAGS, tag_name(image))["spec"]["tags"]
        except KubeError as error:
            raise FaultError(f"the tag of {image} cannot be read: {error}") from error
        permissions = tuple(Permission(verb, TAGS.group, TAGS.plural) for verb in ("create", "delete"))
        return Plan(
            (
                f"{image} is deleted from registry {name_of(registry)} (tags {', '.join(tags)}) and put "
                "back afterwards",
                f"the engine's own copy loses the tag {image} for the length of the drill",
            ),
            permissions=(*permissions, Permission("patch", IMAGES.group, IMAGES.plural)),
            edits=(f"Tag {image}", f"Image {image}"),
        )

    def inject(self, stage: Stage, layer: LayerRun) -> Sequence[str]:
        """Delete it there, then here."""
        image = executor_image(layer)
        kube, journal = stage.cluster.kube, stage.journal
        try:
            journal.delete(TAGS, tag_name(image), None, f"deleted {image} from its registry")
        except ApiError as error:
            raise FaultError(f"{image} could not be deleted: {error.message}") from error
        done = [f"deleted {image} from its registry"]
        cached = kube.find(IMAGES, tag_name(image))
        if cached is not None:
            kept = f"killcheck.invalid/kept:{stage.run[-8:]}"
            journal.merge(
                IMAGES,
                name_of(cached),
                None,
                {"spec": {"tags": {image: None, kept: True}}},
                f"took the tag {image} from the engine's copy",
            )
            done.append(f"took the tag {image} from the engine's copy")
        return done

    def bitten(self, stage: Stage, layer: LayerRun) -> str | None:
        """The engine's pull failed, and names the image."""
        return pull_failure(stage, executor_image(layer))
