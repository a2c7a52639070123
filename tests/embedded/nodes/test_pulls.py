"""Pulling: recorded situations 02, 04, 05, 28b, 35."""

from itertools import pairwise

import pytest
from node_world import World, pod

GONE = "localhost:5000/rec/gone:1"
NOT_FOUND = (
    f'rpc error: code = NotFound desc = failed to pull and unpack image "{GONE}": failed to resolve reference '
    f'"{GONE}": {GONE}: not found'
)


@pytest.fixture
def world():
    world = World()
    world.registry.delete_tag(GONE)
    return world


def reasons(states):
    return [next(iter(state.values())).get("reason") for _, state in states]


def test_a_missing_tag_flips_between_the_two_reasons(world):
    seen = world.watch_states("puller")
    world.add(pod("puller", image=GONE))
    world.run(60)
    assert reasons(seen)[:5] == [
        "ContainerCreating",
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
    ]
    assert seen[1][1] == {"waiting": {"reason": "ErrImagePull", "message": NOT_FOUND}}
    assert seen[2][1]["waiting"]["message"] == f'Back-off pulling image "{GONE}": ErrImagePull: {NOT_FOUND}'
    assert 0.5 < seen[1][0] < 2
    assert world.pod("puller")["status"]["phase"] == "Pending"


def test_the_events_of_a_missing_tag(world):
    world.add(pod("puller", image=GONE))
    world.run(5)
    assert world.events("puller") == [
        ("Normal", "Pulling", f'Pulling image "{GONE}"', 1),
        ("Warning", "Failed", f'Failed to pull image "{GONE}": {NOT_FOUND}', 1),
        ("Warning", "Failed", "Error: ErrImagePull", 1),
        ("Normal", "BackOff", f'Back-off pulling image "{GONE}"', 1),
        ("Warning", "Failed", "Error: ImagePullBackOff", 1),
    ]


def test_attempts_grow_apart_as_recorded(world):
    """Gaps of 15, 22, 42, 90 and 169 s were recorded: 10 to 160 s, and up to 15 s until the next pass."""
    attempts = []
    pull = world.registry.pull

    def counted(reference, *rest):
        attempts.append(world.loop.monotonic())
        return pull(reference, *rest)

    world.registry.pull = counted
    world.add(pod("puller", image=GONE))
    world.run(1200)
    gaps = [later - earlier for earlier, later in pairwise(attempts)]
    for gap, delay in zip(gaps, (10, 20, 40, 80, 160, 300, 300), strict=False):
        assert delay <= gap <= delay + 15.5


def test_after_a_burst_of_25_of_a_kind_events_are_held_back(world):
    world.add(pod("puller", image=GONE))
    world.run(590)
    counts = {message.partition(":")[0]: count for _, _, message, count in world.events("puller")}
    assert counts['Pulling image "localhost'] == 5
    warnings = [count for kind, _, _, count in world.events("puller") if kind == "Warning"]
    assert sum(warnings) >= 25
    assert world.registry  # the sixth attempt, at about 340 s, made no event


def test_a_stuck_night_costs_next_to_nothing(world):
    world.add(pod("puller", image=GONE))
    world.run(1)
    (life,) = world.nodes.kubelet("cpu-1").pods.values()
    passes, one_pass = [], life.one_pass
    life.one_pass = lambda: (passes.append(world.loop.now()), one_pass())
    world.run(24 * 3600)
    assert world.state("puller")["waiting"]["reason"] in ("ErrImagePull", "ImagePullBackOff")
    assert 288 < len(passes) < 1600  # attempts at every 300 s, and a few looks between two; not one in 10 to 15 s


def test_an_image_that_comes_another_way_is_seen_at_the_next_pass(world):
    world.add(pod("puller", image=GONE))
    world.run(3600)
    world.registry.preload("cpu-1", GONE, world.loop.now())
    world.run(16)
    assert "running" in world.state("puller")


def test_a_tag_that_comes_back_is_pulled_at_the_next_attempt(world):
    world.add(pod("puller", image=GONE))
    world.run(30)
    world.registry.restore_tag(GONE)
    world.run(120)
    assert "running" in world.state("puller")
    assert any(
        reason == "Pulled" and message.startswith(f'Successfully pulled image "{GONE}" in ')
        for _, reason, message, _ in world.events("puller")
    )


def test_never_is_never(world):
    world.add(pod("never", image="localhost:5000/rec/not-on-node:1", imagePullPolicy="Never"))
    world.run(3)
    message = 'Container image "localhost:5000/rec/not-on-node:1" is not present with pull policy of Never'
    assert world.state("never") == {"waiting": {"reason": "ErrImageNeverPull", "message": message}}
    assert world.events("never") == [
        ("Warning", "ErrImageNeverPull", message, 2),
        ("Warning", "Failed", "Error: ErrImageNeverPull", 2),
    ]


def test_a_name_that_does_not_parse(world):
    world.add(pod("odd", image="localhost:5000/rec/Executor:1"))
    world.run(3)
    message = (
        'Failed to apply default image tag "localhost:5000/rec/Executor:1": couldn\'t parse image name '
        '"localhost:5000/rec/Executor:1": invalid reference format: repository name (rec/Executor) must be lowercase'
    )
    assert world.state("odd") == {"waiting": {"reason": "InvalidImageName", "message": message}}
    assert ("Warning", "InspectFailed", message, 2) in world.events("odd")


def test_a_deleted_tag_that_is_cached_works_unless_always_is_asked(world):
    world.registry.preload("cpu-1", GONE, world.loop.now())
    world.add(pod("if-not-present", image=GONE))
    world.add(pod("always", image=GONE, imagePullPolicy="Always"))
    world.run(3)
    assert "running" in world.state("if-not-present")
    assert world.events("if-not-present")[0][2] == (
        f'Container image "{GONE}" already present on machine and can be accessed by the pod'
    )
    assert world.state("always")["waiting"]["reason"] == "ErrImagePull"


def test_pulled_images_are_told_by_the_node(world):
    world.add(pod("server", image="localhost:5000/rec/executor:1"))
    world.run(10)
    from killcheck.kube import resources as r

    listed = world.kube.get(r.NODES, "cpu-1")["status"]["images"]
    assert listed[0]["names"][1] == "localhost:5000/rec/executor:1"
    assert listed[0]["sizeBytes"] == 115372532


def test_a_pull_secret_opens_a_private_repository(world):
    import base64
    import json

    image = "ghcr.io/team/private:1"
    world.registry.make_private(image, "team", "secret")
    world.add(pod("locked", image=image, imagePullSecrets=[{"name": "login"}]))
    world.run(3)
    assert "pull access denied" in world.state("locked")["waiting"]["message"]
    assert any(reason == "FailedToRetrieveImagePullSecret" for _, reason, _, _ in world.events("locked"))
    config = json.dumps({"auths": {"ghcr.io": {"username": "team", "password": "secret"}}}).encode()
    world.add(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "login", "namespace": "team"},
            "data": {".dockerconfigjson": base64.b64encode(config).decode()},
        }
    )
    world.run(60)
    assert "running" in world.state("locked")
