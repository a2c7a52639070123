"""AWS on loopback: moto's backends behind the gate that expires credentials and the portal that developers sign in to.

For tests, and for the embedded cluster where a spec says ``cloud: {endpoint: stand-in}``. moto is an optional
dependency (``pip install 'killcheck[aws-stand-in]'``). What moto is not: it emits no events, expires nothing, checks no
IAM condition; nothing here is ever evidence about an account.
"""

from __future__ import annotations

import base64
import difflib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cache
from typing import Any

from killcheck.clock import wall_now
from killcheck.cloud.session import Aws, explain
from killcheck.instances.errors import MachineRefused
from killcheck.standins.ecr import TokenService, registry_of
from killcheck.standins.fis import Fis
from killcheck.standins.gate import Gate, Seen
from killcheck.standins.serving import serve
from killcheck.standins.sso import Portal

__all__ = ["ACCOUNT", "Ec2Machines", "StandIn", "StandInError"]

#: moto's account, and an image that it knows.
ACCOUNT = "123456789012"
AMI = "ami-12c6146b"


class StandInError(Exception):
    """It cannot be started; one sentence with what to do."""


@cache
def _regions() -> tuple[str, ...]:
    import botocore.session

    return tuple(botocore.session.get_session().get_available_regions("ec2"))


class StandIn:
    """A running stand-in; ``now`` is the clock of the portal's sessions. Raises StandInError."""

    def __init__(self, now: Callable[[], datetime] = wall_now, *, region: str = "us-east-1") -> None:
        try:
            from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[attr-defined]
        except ImportError as error:
            raise StandInError("a stand-in of AWS needs moto: pip install 'killcheck[aws-stand-in]'") from error
        if region != "us-east-1" and region not in _regions():
            close = difflib.get_close_matches(region, _regions(), 1)
            raise StandInError(f"the stand-in has no region {region!r}{f'; did you mean {close[0]}?' if close else ''}")
        self.region = region
        self.fis = Fis(DomainDispatcherApplication(create_backend_app), now)
        self.gate = Gate(self.fis, now)
        #: moto's own tokens never end.
        self.ecr = TokenService(ACCOUNT, region, now, self._token_for_nodes)
        self.gate.answers["ecr", "GetAuthorizationToken"] = self.ecr.answer
        self.portal = Portal(self.gate, now, self._issue)
        #: Which access key ids the portal gave to whom: (account, role).
        self.issued: dict[str, tuple[str, str]] = {}
        #: URL of the interruption queue, once there is one.
        self.queue_url = ""
        self._stack = ExitStack()
        self.url = self._stack.enter_context(serve(self.portal))
        self._reset()

    def aws(self, keys: tuple[str, str, str] = ("AKIASTANDIN000000000", "stand-in", "")) -> Aws:
        """A client of it."""
        return Aws(self.region, endpoint_url=self.url, keys=keys)

    def environment(self) -> dict[str, str]:
        """What makes any AWS client of a process talk to it, and to nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_SSO": self.url,
            "AWS_ENDPOINT_URL_SSO_OIDC": self.url,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            # Virtual hosts of a bucket do not resolve here.
            "AWS_S3_ADDRESSING_STYLE": "path",
        }

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return int(self.url.rpartition(":")[2])

    def queue(self, deliver: Callable[[str], None]) -> str:
        """Make the interruption queue; every message that is sent to it goes to ``deliver`` (on a server thread)."""
        made = self.aws().client("sqs").create_queue(QueueName="interruptions")["QueueUrl"]
        self.queue_url = str(made)

        def overhear(seen: Seen) -> None:
            if seen.service == "sqs" and seen.action == "SendMessage" and seen.status == 200:
                deliver(str(json.loads(seen.body)["MessageBody"]))

        self.gate.listeners.append(overhear)
        return self.queue_url

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._stack.close()

    # -- what is done to it (by name, for the journal) --------------------------------------------------
    def lapse(self, who: str, how: Any) -> None:
        """See :meth:`Gate.lapse`."""
        self.gate.lapse(who, how)

    def restore(self, who: str) -> None:
        """See :meth:`Gate.restore`."""
        self.gate.restore(who)

    def limit_sessions(self, until: str) -> None:
        """No sign-in outlives that moment (RFC 3339); empty: each has its own end again."""
        self.portal.limit = datetime.fromisoformat(until) if until else None

    def end_pull_tokens(self, until: str) -> None:
        """No token of ECR outlives that moment (RFC 3339), and nobody gets another; empty: as it was before."""
        self.ecr.end_tokens(until)
        if until:
            self.gate.refuse("ecr", "GetAuthorizationToken", "expired")
        else:
            self.gate.admit("ecr", "GetAuthorizationToken")

    def tokens_of(self, host: str) -> TokenService | None:
        """Whose tokens a registry asks for: every private registry of ECR is the stand-in's."""
        return self.ecr if registry_of(host) else None

    # -- inside --------------------------------------------------------------------------------------------
    def _token_for_nodes(self) -> str | None:
        """What the nodes' credential provider is given, by the nodes' role; None where it is refused."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            got = self.aws().client("ecr").get_authorization_token()["authorizationData"][0]["authorizationToken"]
        except (BotoCoreError, ClientError):
            return None
        return base64.b64decode(got).decode().partition(":")[2]

    def _issue(self, account: str, role: str, until: datetime) -> tuple[str, str, str]:
        key = f"ASIA{secrets.token_hex(8).upper()}"
        self.issued[key] = (account, role)
        self.gate.ends[key] = until
        return key, "stand-in", f"stand-in-session-{key}"

    def _reset(self) -> None:
        from urllib3 import PoolManager

        with PoolManager() as pool:
            pool.request("POST", f"{self.url}/moto-api/reset")


@contextmanager
def _told(operation: str) -> Iterator[None]:
    """What EC2 refuses, in a sentence. Raises MachineRefused."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        refused = explain(error, "ec2", operation)
        raise MachineRefused(str(refused), code=refused.code) from error


class Ec2Machines:
    """Machines of the modelled cloud as instances of the stand-in's EC2: launched and ended through its API.

    What an executor ends through that API itself is told to ``ended`` (by instance id, on a server thread).
    """

    def __init__(self, stand_in: StandIn, ended: Callable[[str], None], *, cluster: str = "") -> None:
        self.aws = stand_in.aws()
        self.cluster = cluster
        self._ended = ended
        self._ours = False
        stand_in.gate.listeners.append(self._overhear)

    def launch(self, kind: str, zone: str, *, spot: bool, tags: Mapping[str, str]) -> str:
        """RunInstances; returns the instance id. Raises MachineRefused."""
        owned = {f"kubernetes.io/cluster/{self.cluster}": "owned"} if self.cluster else {}
        wanted = [{"Key": key, "Value": value} for key, value in {**owned, **tags}.items()]
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        with _told("run_instances"):
            made = self.aws.client("ec2").run_instances(
                ImageId=AMI,
                InstanceType=kind,
                MinCount=1,
                MaxCount=1,
                Placement={"AvailabilityZone": zone},
                **market,
                **({"TagSpecifications": [{"ResourceType": "instance", "Tags": wanted}]} if wanted else {}),
            )
        return str(made["Instances"][0]["InstanceId"])

    def terminate(self, instance_id: str) -> None:
        """TerminateInstances. Raises MachineRefused."""
        self._ours = True
        try:
            with _told("terminate_instances"):
                self.aws.client("ec2").terminate_instances(InstanceIds=[instance_id])
        finally:
            self._ours = False

    def _overhear(self, seen: Seen) -> None:
        if seen.action == "TerminateInstances" and seen.status == 200 and not self._ours:
            from urllib.parse import parse_qs

            for key, values in parse_qs(seen.body.decode("latin-1")).items():
                if key.startswith("InstanceId."):
                    self._ended(values[0])
