"""The cloud's word on a cluster: who is asked, where a spec has a ``cloud:`` section.

On a real cluster the account that the spec names; on the embedded one its own model, or a stand-in of AWS where the
spec says so. The embedded cluster never asks anybody outside this machine.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from threading import Thread

from killcheck.capabilities.cluster import Cluster, ClusterError, NotInstalled
from killcheck.clock import Loop
from killcheck.cloud.instances import Ec2, Exported, Instances, OwnClouds, access_of, word_of
from killcheck.cloud.notices import Hands
from killcheck.cloud.session import AskError
from killcheck.cloud.spot_prices import SpotPrices
from killcheck.cluster.embedded import EmbeddedDrillCluster
from killcheck.embedded import credentials
from killcheck.entries import Assumption
from killcheck.kube import resources as r
from killcheck.kube.objects import name_of, namespace_of
from killcheck.spec.killpath import KillPath
from killcheck.standins.ecr import TokenService, docker_config, registry_of
from killcheck.text.values import replace

__all__ = ["equip_with_cloud", "post"]

#: Wall seconds for which a server thread waits for the loop.
PATIENCE_S = 1.0


class _Refused:
    """A command that nobody allowed."""

    def __init__(self, what: str) -> None:
        self.what = what

    def states(self, provider_ids: object) -> dict[str, str]:
        """Raises AskError."""
        raise AskError(f"{self.what} was not run: name it under consent.commands")


def equip_with_cloud(cluster: Cluster, kill_path: KillPath, *, any_command: bool = False) -> None:
    """Give a cluster what it has in the cloud: ``instances`` (P3), ``aws``, ``hands``; embedded, ``stand_in`` too.

    ``any_command``: a program need not be named under ``consent.commands`` to be asked.
    Raises ClusterError.
    """
    access = kill_path.cloud
    if access is None:
        return
    if isinstance(cluster, EmbeddedDrillCluster):
        if access.endpoint:
            _stand_in(cluster, kill_path)
        return
    if access.endpoint == "stand-in":
        raise ClusterError("cloud.endpoint: stand-in is for the embedded cluster; a real one has a real account")
    word = word_of(access, kill_path.folder)
    if (
        isinstance(word, Exported)
        and access.command is not None
        and not any_command
        and (not kill_path.consent.allows_command(access.command))
    ):
        word = _Refused(str(access.command))
    asked = Instances(word, cluster.loop.monotonic)
    cluster.capabilities = replace(cluster.capabilities, instances=asked)
    if isinstance(word, OwnClouds):
        aws = access_of(access)
        cluster.capabilities = replace(cluster.capabilities, aws=aws, hands=Hands(aws), spot_prices=SpotPrices(aws))


def post(loop: Loop, fn: Callable[..., object], *args: object) -> None:
    """Have something called on the loop, from a server thread; never waits for one who waits for our answer."""
    if loop.lock.acquire(timeout=PATIENCE_S):
        loop.post(fn, *args)
        loop.lock.release()
    else:
        Thread(target=loop.post, args=(fn, *args), daemon=True).start()


def _fresh_pull_tokens(cluster: EmbeddedDrillCluster, ecr: TokenService) -> None:
    """Pull secrets for ECR are as if their refresher had just run: a manifest cannot hold a token that is good."""
    kube = cluster.kube
    for secret in kube.list(r.SECRETS).items:
        for host in filter(registry_of, credentials([secret])):
            fresh = base64.b64encode(docker_config(host, ecr.issue()[0]).encode()).decode()
            where = f"{namespace_of(secret)}/{name_of(secret)}"
            kube.patch(r.SECRETS, name_of(secret), {"data": {".dockerconfigjson": fresh}}, namespace_of(secret))
            said = f"Secret {where} holds a fresh token for {host}: as if just refreshed"
            cluster.embedded.notes.append(Assumption(said, f"Secret/{where}"))
            break


def _stand_in(cluster: EmbeddedDrillCluster, kill_path: KillPath) -> None:
    from killcheck.standins.aws import Ec2Machines, StandIn, StandInError

    access = kill_path.cloud
    assert access is not None
    embedded = cluster.embedded
    if access.endpoint != "stand-in":
        raise ClusterError(
            "on the embedded cluster cloud.endpoint is stand-in (one is started), or left out (the model answers)"
        )
    try:
        stand_in = StandIn(embedded.loop.now, region=access.region or "us-east-1")
    except StandInError as error:
        raise NotInstalled(f"the spec's cloud: {{endpoint: stand-in}}: {error}") from error
    cluster.closing.append(stand_in.close)
    embedded.cloud.move(stand_in.region)

    def ended(instance_id: str) -> None:
        post(embedded.loop, embedded.cloud.lost, instance_id)

    def said(body: str) -> None:
        post(embedded.loop, embedded.cloud.queue.send, body)

    def interrupted(instance_id: str, in_s: float) -> None:
        post(embedded.loop, embedded.cloud.announce, instance_id, in_s)

    stand_in.queue(said)
    stand_in.fis.interrupt = interrupted
    aws = stand_in.aws()
    embedded.cloud.machines = Ec2Machines(stand_in, ended, cluster=access.cluster)
    clients = {name: value for name, value in stand_in.environment().items() if name != "AWS_EC2_METADATA_DISABLED"}
    embedded.external_endpoint(stand_in.port, clients)  # containers have their own instance's metadata
    embedded.registry.tokens = stand_in.tokens_of
    _fresh_pull_tokens(cluster, stand_in.ecr)
    for url in access.results:
        aws.client("s3").create_bucket(Bucket=url.removeprefix("s3://").partition("/")[0])
    cluster.capabilities = replace(
        cluster.capabilities,
        stand_in=stand_in,
        aws=aws,
        hands=Hands(aws),
        instances=Instances(OwnClouds(Ec2(aws)), cluster.loop.monotonic),
    )
