"""What the cloud says of the machines behind Nodes (proof P3): by provider id, asked of the cloud whose machine it is
(EC2 here, GCP and Azure in :mod:`.other_clouds`), an export, or a program.

A state is only ever *read*: where the cloud could not be asked the answer is ``unknown``, with the reason by name.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from msgspec import Struct, field

from killcheck.clock import wall_seconds
from killcheck.cloud.other_clouds import DELETED, OtherClouds, names_machine
from killcheck.cloud.session import AskError, Aws, pages
from killcheck.spec.cloud_access import CloudAccess
from killcheck.text import lazy_re
from killcheck.text.files import text_of
from killcheck.text.jsontext import from_text
from killcheck.text.redaction import hide_environment, redact
from killcheck.text.values import replace

__all__ = [
    "BILLING",
    "Command",
    "Ec2",
    "Exported",
    "Instances",
    "OwnClouds",
    "State",
    "Word",
    "access_of",
    "instance_id_of",
    "region_of",
    "word_of",
]

State = Literal["running", "stopping", "terminated", "unknown"]

#: States of clouds, lower case, as a bill knows them. A stopped Azure VM that is not deallocated is billed on; EC2's
#: stopped, and GCE's TERMINATED (which is a stopped machine) and SUSPENDED, cost no GPU any more.
#: Sources: EC2 user guide "instance lifecycle"; GCE "VM instance lifecycle"; Azure "states and billing of VMs".
BILLING: Mapping[str, State] = {
    "pending": "running",
    "running": "running",
    "provisioning": "running",
    "staging": "running",
    "repairing": "running",
    "starting": "running",
    "shutting-down": "stopping",
    "stopping": "stopping",
    "suspending": "stopping",
    "deallocating": "stopping",
    "pending_stop": "stopping",
    "deprovisioning": "stopping",
    "stopped": "terminated",
    "terminated": "terminated",
    DELETED: "terminated",
    "suspended": "terminated",
    "deallocated": "terminated",
    "vm running": "running",
    "vm starting": "running",
    "vm stopped": "running",
    "vm stopping": "running",
    "vm deallocating": "stopping",
    "vm deallocated": "terminated",
    "powerstate/running": "running",
    "powerstate/starting": "running",
    "powerstate/stopping": "running",
    "powerstate/stopped": "running",
    "powerstate/deallocating": "stopping",
    "powerstate/deallocated": "terminated",
}
#: How long an answer serves, in seconds of the cluster's clock: a drill looks at every change.
FRESH_S = 2.0
#: Bytes that a program may print for an answer: thousands of machines are in the first tenth of it.
PRINTED_MOST = 32 << 20
#: Ids in one filter of DescribeInstances (EC2 API reference: at most 200 values a filter).
BATCH = 200

_INSTANCE = lazy_re.compile(r"i-[0-9a-f]{8,17}")
_ZONE = lazy_re.compile(r"^([a-z]{2}(?:-[a-z]+)+-\d+)[a-z]?")


class Command(Protocol):
    """A program of the spec (``killcheck.spec.killpath.Command``)."""

    @property
    def argv(self) -> tuple[str, ...]:
        """As given to exec."""

    @property
    def timeout_s(self) -> float:
        """How long it may take."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of its own."""

    @property
    def pass_env(self) -> tuple[str, ...]:
        """Names of this process's variables that it gets too."""


class Word(Protocol):
    """A cloud that can be asked for many machines at once."""

    def states(self, provider_ids: Iterable[str]) -> Mapping[str, str]:
        """The cloud's own word for each machine it knows, by provider id. Raises AskError."""


def instance_id_of(provider_id: str) -> str | None:
    """``i-0123...`` of ``aws:///us-east-1a/i-0123...``; None for another cloud's id."""
    last = provider_id.rpartition("/")[2]
    return last if provider_id.startswith("aws://") and _INSTANCE.fullmatch(last) else None


def region_of(provider_id: str) -> str | None:
    """``us-east-1`` of ``aws:///us-east-1a/i-0123...``; None where it does not tell."""
    parts = provider_id.split("/")
    found = _ZONE.match(parts[-2]) if len(parts) > 1 else None
    return found.group(1) if found else None


class Ec2(Struct):
    """EC2 through DescribeInstances. ``described``: what it said last of each machine, by provider id."""

    aws: Aws
    described: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _elsewhere: dict[str, Aws] = field(default_factory=dict)
    #: A machine that is terminated stays listed for about an hour (EC2 user guide "Terminate EC2 instances"): one that
    #: was on a moment ago and is not listed any more is not gone, it was not shown.
    keeps: ClassVar[bool] = True

    def states(self, provider_ids: Iterable[str]) -> Mapping[str, str]:
        """By filter, not by id: an id that EC2 has forgotten must not hide the others. Raises AskError."""
        asked = tuple(provider_ids)
        wanted = {instance_id: one for one in asked if (instance_id := instance_id_of(one))}
        foreign = [one for one in asked if instance_id_of(one) is None]
        if foreign:
            raise AskError(
                f"{foreign[0]} is no provider id of EC2 (aws:///ZONE/i-...), GCE or Azure: say in cloud: who else can "
                "be asked (states or command)"
            )
        found: dict[str, str] = {}
        for region in sorted({self.region(one) for one in wanted.values()}):
            there = {name: one for name, one in wanted.items() if self.region(one) == region}
            ids = sorted(there)
            for start in range(0, len(ids), BATCH):
                batch = [{"Name": "instance-id", "Values": ids[start : start + BATCH]}]
                for page in pages(self.at(region), "ec2", "describe_instances", Filters=batch):
                    found |= {
                        there[one["InstanceId"]]: self._noted(there[one["InstanceId"]], one)
                        for one in _instances(page)
                        if one["InstanceId"] in there
                    }
        return found

    def region(self, provider_id: str) -> str:
        """Where a machine is asked after: in the region that is said, else in its own."""
        return self.aws.region or region_of(provider_id) or ""

    def at(self, region: str) -> Aws:
        """The same account, in a region."""
        if region == self.aws.region:
            return self.aws
        if region not in self._elsewhere:
            self._elsewhere[region] = replace(self.aws, region=region, _session=None, _clients={})
        return self._elsewhere[region]

    def _noted(self, provider_id: str, one: Mapping[str, Any]) -> str:
        told = {key: value for key, value in one.items() if value not in ("", [], None)}  # an empty tag set unsays none
        self.described[provider_id] = {**self.described.get(provider_id, {}), **told}
        return str(one["State"]["Name"])


class OwnClouds(Struct):
    """Each machine is asked after where it is: at EC2, GCE or Azure, by its provider id."""

    ec2: Ec2
    others: OtherClouds = field(default_factory=OtherClouds)
    #: The others say themselves that a machine was deleted.
    keeps: ClassVar[bool] = True

    def states(self, provider_ids: Iterable[str]) -> Mapping[str, str]:
        """The word of each machine's own cloud. Raises AskError for the first that cannot be asked."""
        asked = list(provider_ids)
        elsewhere = [one for one in asked if names_machine(one)]
        return {
            **self.others.states(elsewhere),
            **self.ec2.states(one for one in asked if not names_machine(one)),
        }


def _instances(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for reservation in page["Reservations"]:
        yield from reservation["Instances"]


class Exported(Struct):
    """A JSON object, provider id (or its last part) to state: from a file, or from what a program prints."""

    file: Path | None = None
    command: Command | None = None
    folder: str = ""

    def states(self, provider_ids: Iterable[str]) -> Mapping[str, str]:
        """Read anew every time: the file of a moment ago is no word on now. Raises AskError."""
        text, source = self._text()
        try:
            said = from_text(text)
        except ValueError as error:
            raise AskError(f"{source}: not JSON ({error}); expected an object, provider id to state") from error
        if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
            raise AskError(f"{source}: expected a JSON object, provider id to state")
        if not said:  # as a pipe prints it whose first command failed
            raise AskError(
                f"{source}: it lists no machine at all, which is no evidence that any is gone: let it list "
                "all machines of the cluster, or say terminated of those that are"
            )
        unknown = sorted({value for value in said.values() if value.lower() not in BILLING})
        if unknown:
            raise AskError(f"{source}: {unknown[0]!r} is no state that is known here ({', '.join(sorted(BILLING))})")
        return {
            one: said.get(one) or said[one.rpartition("/")[2]]
            for one in provider_ids
            if one in said or one.rpartition("/")[2] in said
        }

    def _text(self) -> tuple[str, str]:
        if self.file is not None:
            try:
                return text_of(self.file), str(self.file)
            except (OSError, UnicodeDecodeError) as error:
                raise AskError(f"{self.file}: {getattr(error, 'strerror', None) or error}") from error
        assert self.command is not None
        name = redact(" ".join(self.command.argv))
        try:
            code, printed, said = _run(self.command, self.folder)
        except subprocess.TimeoutExpired as error:
            raise AskError(f"{name}: no answer within {self.command.timeout_s:g} s") from error
        except OSError as error:
            raise AskError(f"{name}: {error.strerror or error}") from error
        except _TooMuchError as error:
            raise AskError(f"{name} printed more than {PRINTED_MOST >> 20} MiB and was stopped") from error
        if code:
            raise AskError(f"{name} ended with exit code {code}: {redact(said.strip())[-300:]}")
        return printed, name


class _TooMuchError(Exception):
    """It prints more than any answer is long."""


def _run(command: Command, folder: str) -> tuple[int, str, str]:
    """(exit code, output, errors) of a program in a group of its own, which ends with it where it is not waited for.

    Raises OSError, TimeoutExpired, _TooMuchError.
    """
    with subprocess.Popen(
        list(command.argv),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=folder or None,
        start_new_session=True,
        env=_environment(command),
    ) as process:
        try:
            printed, said = _read(process, command)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, printed, said


def _read(process: subprocess.Popen[bytes], command: Command) -> tuple[str, str]:
    """What a program prints on both its streams until it ends. Raises TimeoutExpired, _TooMuchError."""
    assert process.stdout is not None
    assert process.stderr is not None
    texts = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    until = wall_seconds() + command.timeout_s
    with selectors.DefaultSelector() as streams:
        for number in texts:
            streams.register(number, selectors.EVENT_READ)
        while streams.get_map():
            ready = streams.select(max(0.0, until - wall_seconds()))
            if not ready or wall_seconds() > until:
                raise subprocess.TimeoutExpired(command.argv, command.timeout_s)
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                texts[key.fd] += chunk
                if not chunk:
                    streams.unregister(key.fd)
            if sum(map(len, texts.values())) > PRINTED_MOST:
                raise _TooMuchError
    process.wait(max(0.0, until - wall_seconds()))
    printed, said = (bytes(text).decode(errors="replace") for text in texts.values())
    return printed, said


def _environment(command: Command) -> dict[str, str]:
    """As for every other command of a spec: PATH, HOME and what its ``passEnv`` names, then its own ``env``."""
    passed = {name: os.environ[name] for name in ("HOME", *command.pass_env) if name in os.environ}
    hide_environment(passed | dict(command.env))
    return {"PATH": os.environ.get("PATH", os.defpath), **passed, **command.env}


class Instances(Struct):
    """Asks a cloud, at most once in :data:`FRESH_S`, and remembers what it was told.

    ``monotonic`` is the clock. A machine that was seen once and that the cloud no longer lists is terminated (EC2
    forgets them after about an hour); one that was never seen is ``unknown``.
    """

    word: Word
    monotonic: Callable[[], float]
    #: Why the last question has no answer; empty: it had one.
    problem: str = ""
    kind: str = ""
    asked: int = 0
    _known: dict[str, State] = field(default_factory=dict)
    #: What the cloud last said of each, where it said something.
    _seen: dict[str, State] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _at: float | None = None

    def state(self, provider_id: str) -> State:
        """The state of one machine; ``unknown`` with :attr:`problem` set where the cloud could not be asked."""
        if not provider_id:
            self.problem = "a Node has no spec.providerID: nobody can say which instance it is"
            return "unknown"
        stale = self._at is None or self.monotonic() - self._at >= FRESH_S
        if provider_id not in self._known or stale:
            self._ask({*self._known, provider_id})
        return self._known[provider_id]

    def _ask(self, wanted: set[str]) -> None:
        self.asked += 1
        try:
            said = self.word.states(sorted(wanted))
        except AskError as error:
            self.problem, self.kind = f"P3 unproven: {error}", error.kind
            self._known = dict.fromkeys(wanted, "unknown")
        else:
            self.problem = self.kind = ""
            self._known = {one: self._judged(one, said) for one in wanted}
            self._seen |= {one: self._known[one] for one in said if one in self._known}
            self._gone |= {one for one, state in self._known.items() if state == "terminated"}
        self._at = self.monotonic()

    @property
    def gone(self) -> frozenset[str]:
        """Every machine that was off at some time, by provider id."""
        return frozenset(self._gone)

    def on_again(self) -> list[str]:
        """Those that were off and are not any more, asked anew; look at :attr:`problem` first."""
        self._at = None
        return [one for one in sorted(self._gone) if self.state(one) != "terminated"]

    def _judged(self, provider_id: str, said: Mapping[str, str]) -> State:
        if provider_id in said:
            state = BILLING.get(said[provider_id].lower(), "unknown")
            if state == "unknown":
                self.problem = (
                    f"P3 unproven: the cloud says {said[provider_id]!r} of {provider_id}: what that means is not known"
                )
            return state
        last = self._seen.get(provider_id)
        if last is not None and (last == "terminated" or not getattr(self.word, "keeps", False)):
            return "terminated"
        if last is not None:
            self.problem = (
                f"P3 unproven: EC2 listed {provider_id} as {last}, and lists it no more: what it terminates stays "
                "listed for an hour (another account or region, or half of an answer?)"
            )
            return "unknown"
        self.problem = f"P3 unproven: the cloud does not list {provider_id} (another account or region?)"
        return "unknown"


def access_of(access: CloudAccess) -> Aws:
    """Whom a spec's ``cloud:`` section asks."""
    return Aws(access.region, access.profile, access.endpoint if access.endpoint != "stand-in" else "")


def word_of(access: CloudAccess, folder: str = "") -> Word:
    """Who answers for a spec's ``cloud:`` section; ``folder`` is the spec's."""
    if access.states:
        return Exported(file=Path(folder or ".") / access.states)
    if access.command is not None:
        return Exported(command=access.command, folder=folder)
    aws = access_of(access)
    return OwnClouds(Ec2(aws), OtherClouds(aws.endpoint_url))
