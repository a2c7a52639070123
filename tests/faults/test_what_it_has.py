"""What an executor has not got cannot be broken, and of two switches with one image each is told of the other."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from faults_world import World
from killcheck.fixtures import spec

from killcheck import faults
from killcheck.clock import VirtualLoop
from killcheck.faults.kubernetes.command_missing import CommandMissing
from killcheck.faults.kubernetes.image_gone import ImageGone
from killcheck.faults.kubernetes.pull_secret_expired import PullSecretExpired
from killcheck.faults.kubernetes.token import TokenAudience, TokenDead, TokenNotMounted
from killcheck.run.matrix import executors_of
from killcheck.run.session import Session
from killcheck.spec import specfile
from killcheck.spec.killpath import KillPath, Layer, LayerType, Ref


def cron_job(image):
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "kind": "CronJob",
        "metadata": {"name": "off", "namespace": "ml"},
        "spec": {"jobTemplate": {"spec": {"template": template}}},
    }


@pytest.mark.parametrize("kind", [ImageGone, CommandMissing])
@pytest.mark.parametrize(("image", "told"), [("curl:8", True), ("curl:9", False)])
def test_the_other_switch_with_the_same_image_is_told(kind, image, told):
    """Here it keeps its image; in the world both would lose it."""
    layers = tuple(
        Layer(name, LayerType.DEAD_MAN, covers=("llm",), cron_job=Ref("batch/v1", "CronJob", "ml", name))
        for name in ("off", "second")
    )
    others = {"off": cron_job("curl:8"), "second": cron_job(image)}
    kube = SimpleNamespace(find=lambda resource, name, namespace: others[name])
    cluster = SimpleNamespace(kube=kube, loop=VirtualLoop(datetime(2026, 1, 15, tzinfo=UTC)))
    stage = SimpleNamespace(kill_path=KillPath("p", (), layers), cluster=cluster)
    said = kind().spares(stage, SimpleNamespace(layer=layers[0], cron_job=others["off"]))
    assert [f"{kind.name}+{kind.name}@second takes it from both" in one for one in said] == [True] * told


@pytest.mark.parametrize("kind", [TokenDead, TokenAudience, TokenNotMounted])
@pytest.mark.parametrize("where", ["CronJob", "ServiceAccount"])
def test_a_token_that_no_pod_gets_is_not_made_to_die(kind, where):
    def without(objects):
        for obj in objects:
            if obj["kind"] == where:
                spec = obj if where == "ServiceAccount" else obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]
                spec["automountServiceAccountToken"] = False

    world = World(without)
    try:
        result = world.drill(kind)
    finally:
        world.close()
    assert str(result.verdict) == "inconclusive"
    assert "gets no ServiceAccount token (automountServiceAccountToken: false)" in result.why
    assert result.healed == ()


def test_a_pull_secret_that_is_not_there_does_not_expire():
    """Neither in a drill nor in a matrix, which reads the ServiceAccount too, as admission does."""
    world = World()
    try:
        result = world.drill(PullSecretExpired)
    finally:
        world.close()
    assert "pulls without a secret" in result.why
    session = Session(spec=spec("dead-man"))
    objects = [*session.objects]
    account = next(o for o in objects if o["kind"] == "ServiceAccount")
    jobs = executors_of(session.kill_path, objects)
    assert PullSecretExpired().unsuited_executor("nightly-off", jobs["nightly-off"])
    objects[objects.index(account)] = account | {"imagePullSecrets": [{"name": "mirror"}]}
    jobs = executors_of(session.kill_path, objects)
    assert PullSecretExpired().unsuited_executor("nightly-off", jobs["nightly-off"]) is None


@pytest.mark.parametrize("name", ["pool-floor", "volume-stuck", "spot-notice-queue", "spot-rebalance"])
@pytest.mark.parametrize(("path", "left_out"), [("gke-night", True), ("aks-night", True), ("dead-man", False)])
def test_what_is_karpenters_or_aws_means_nothing_to_a_providers_own_pool(name, path, left_out):
    kill_path = specfile.load(spec(path))
    why = faults.named(name).unsuited_targets(kill_path, kill_path.layers[0])
    assert ("are the provider's own" in (why or "")) is left_out
