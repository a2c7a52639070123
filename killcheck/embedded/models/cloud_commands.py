"""Command lines of clouds that size a node pool, answered as their APIs do, on the modelled cloud.

Only what ends in another size of a pool that the manifests describe: `gcloud container clusters resize|update`,
`gcloud container node-pools update`, `az aks nodepool scale|update`, `az aks scale`, `aws autoscaling
set-desired-capacity|update-auto-scaling-group`, `aws eks update-nodegroup-config`; and what they need before, a login
and a location. Of anything else nobody here can say how it ends. Whether IAM lets a pod do it is nowhere to be read: it
is done, and told as a doubt.

Sources: gcloud 528.0.0, asked against a stand-in on loopback (its prompt without ``--quiet``, its location, sizes for
each zone); azure-cli acs custom.py (aks_agentpool_scale, aks_scale), "az aks nodepool update"; EC2 Auto Scaling API
(SetDesiredCapacity, UpdateAutoScalingGroup); EKS API (NodegroupScalingConfig: ``maxSize`` is at least 1); "Resizing a
cluster" of GKE (nodes are drained, an hour at most); "Workload Identity" of AKS (``az login --federated-token``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from killcheck.embedded.models.cloud import Cloud
from killcheck.embedded.models.nodegroups import NodeGroup
from killcheck.embedded.nodes.execution import Launch
from killcheck.entries import Becomes, Doubt, leaves
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.objects import dig, labels_of, name_of, namespace_of, ref_of, uid_of
from killcheck.kube.selectors import from_match_labels
from killcheck.text import lazy_re

__all__ = ["CloudCommands"]

#: A pod that needs longer to stop keeps its node: how long that takes is not modelled here.
GRACE_S = 60

#: A number that can be one of nodes.
_NUMBER = lazy_re.compile(r"[0-9]{1,6}")

Answer = tuple[int, str]
_DONE: Answer = (0, "")  # and nothing changes
#: Flags that take no value, by program; with any other the next word is its value.
_BARE: Mapping[str, frozenset[str]] = {
    "gcloud": frozenset(
        {"quiet", "q", "async", "enable-autoscaling", "no-enable-autoscaling", "no-user-output-enabled"}
    ),
    "az": frozenset(
        {"no-wait", "only-show-errors", "verbose", "identity", "i", "service-principal", "allow-no-subscriptions"}
        | {"disable-cluster-autoscaler", "d", "enable-cluster-autoscaler", "e", "update-cluster-autoscaler", "u"}
    ),
    "aws": frozenset({"honor-cooldown", "no-honor-cooldown", "no-cli-pager", "no-paginate"}),
}
#: One name for each flag that has several.
_SAME = {
    **dict.fromkeys(("zone", "region", "z"), "location"),
    **{"q": "quiet", "size": "num-nodes", "c": "node-count", "g": "resource-group", "nodepool-name": "pool"},
    **{"i": "identity", "d": "disable-cluster-autoscaler", "e": "enable-cluster-autoscaler"},
    "u": "update-cluster-autoscaler",
}
#: Flags that change nothing of what becomes of a pool.
_IDLE = frozenset(
    {"project", "async", "no-user-output-enabled", "verbosity", "format", "account", "impersonate-service-account"}
    | {"no-wait", "only-show-errors", "verbose", "subscription", "output", "o", "resource-group", "query"}
    | {"honor-cooldown", "no-honor-cooldown", "no-cli-pager", "no-paginate", "region", "profile", "location", "quiet"}
    | {"cluster", "cluster-name", "name", "n"}
)
_GCLOUD = "ERROR: (gcloud.{}) "
_UNATTENDED = (
    "This prompt could not be answered because you are not in an interactive session. You can re-run the command with "
    "the --quiet flag to accept default answers for all prompts."
)
_INVALID = "Parameter validation failed: Invalid value for parameter"


class _Unanswered(Exception):
    """Nobody here can say how a call ends; the message is why."""


class _Call(Struct):
    """``words`` before and between the flags, ``flags`` by one name each; a flag without a value is ``""``."""

    program: str
    words: tuple[str, ...]
    flags: dict[str, str]

    def only(self, *known: str) -> None:
        """Raises _Unanswered for a flag that could mean something else."""
        other = sorted(self.flags.keys() - _IDLE - set(known))
        if other:
            raise _Unanswered(f"its flag --{other[0]} is not understood")

    def number(self, flag: str) -> int | None:
        """A flag's value as a number; None: it is not there. Raises _Unanswered."""
        said = self.flags.get(flag)
        if said is not None and not _NUMBER.fullmatch(said):
            raise _Unanswered(f"its --{flag} is no number")
        return None if said is None else int(said)


class CloudCommands(Struct):
    """Answers for them in a drill. ``unproven``: whom a cloud would have to let do what was done here."""

    cloud: Cloud
    kube: Kube
    unproven: list[Doubt] = field(default_factory=list)
    #: Containers that have logged in or set a location, by their pod and name.
    _logged_in: set[tuple[str, str]] = field(default_factory=set)
    _located: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, launch: Launch, argv: Sequence[str]) -> Answer | str:
        """One call: its exit code and what it says, or why nobody here can tell."""
        try:
            return self._answer(launch, argv)
        except _Unanswered as error:
            return str(error)

    def _answer(self, launch: Launch, argv: Sequence[str]) -> Answer:
        program = argv[0]
        if program not in _BARE or not self.cloud.groups:
            raise _Unanswered  # as without any model
        call = _read(program, argv[1:])
        refusal = self.cloud.identities_gone.get(program)
        if refusal is not None and call.words[:2] not in _OFFLINE:
            self.cloud.identities_refused.append(f"{_who(launch)} was refused: {' '.join((program, *call.words))}")
            return refusal[0], refusal[1].format(call=".".join(call.words[:3]))
        return _ANSWERS[program](self, launch, call)

    # -- gcloud --------------------------------------------------------------------------------------------
    def gcloud(self, launch: Launch, call: _Call) -> Answer:
        """`gcloud`, whose release tracks say the same here."""
        words = call.words[1:] if call.words[:1] in (("alpha",), ("beta",)) else call.words
        me = (uid_of(launch.pod), launch.container)
        if words[:2] == ("config", "set") and len(words) == 4:
            self._located |= {me} if words[2].endswith(("zone", "region")) else set()
            return _DONE
        if words[:2] == ("auth", "activate-service-account"):
            return _DONE  # whether its key is good is part of the doubt
        verb = words[:3]
        if verb not in _SIZING:
            raise _Unanswered("what it asks for is not understood")
        said = _GCLOUD.format(".".join(verb))
        located = "location" in call.flags or me in self._located or any(name in launch.env for name in _PLACES)
        if not located:
            return 1, f"{said}One of [--location, --zone, --region] must be supplied."
        name = words[3] if verb[1] == "node-pools" and len(words) > 3 else call.flags.get("node-pool", "default-pool")
        group = self._group(name)
        if verb[2] == "update":
            return self._gke_update(launch, call, group)
        call.only("node-pool", "num-nodes")
        quiet = "quiet" in call.flags or launch.env.get("CLOUDSDK_CORE_DISABLE_PROMPTS", "") in ("1", "true", "True")
        if not quiet:
            return 1, said + _UNATTENDED
        size = call.number("num-nodes")
        if size is None:
            raise _Unanswered("it is told no size")
        return self._sized(launch, group, size * max(1, len(group.zones)))

    def _gke_update(self, launch: Launch, call: _Call, group: NodeGroup) -> Answer:
        call.only("node-pool", "enable-autoscaling", "no-enable-autoscaling", "min-nodes", "max-nodes",
                  "total-min-nodes", "total-max-nodes")  # fmt: skip
        if "no-enable-autoscaling" in call.flags:
            return self._done(launch, group, *[group.desired] * 3, fixed=True)
        each = max(1, len(group.zones))
        least, most = call.number("min-nodes"), call.number("max-nodes")
        total = (call.number("total-min-nodes"), call.number("total-max-nodes"))
        least = total[0] if least is None else least * each
        most = total[1] if most is None else most * each
        if least is None and most is None:
            raise _Unanswered("what it changes is no size")
        return self._limited(launch, group, least, most)

    # -- az ------------------------------------------------------------------------------------------------
    def az(self, launch: Launch, call: _Call) -> Answer:
        """`az`: nothing without a login."""
        me = (uid_of(launch.pod), launch.container)
        if call.words == ("login",):
            if call.flags.get("federated-token") == "":
                raise _Unanswered("it logs in with an empty token")
            self._logged_in.add(me)
            return _DONE
        if me not in self._logged_in:
            if any(".azure" in mount.path for mount in launch.mounts) or "AZURE_CONFIG_DIR" in launch.env:
                raise _Unanswered("whether it is logged in by files of its own is not known")
            return 1, "ERROR: Please run 'az login' to setup account."
        if call.words == ("account", "set"):
            return _DONE
        name = call.flags.get("pool", call.flags.get("name", call.flags.get("n", "")))
        if call.words in (("aks", "nodepool", "scale"), ("aks", "scale")):
            call.only("node-count", "pool")
            group, size = self._group(name), call.number("node-count")
            if size is None:
                raise _Unanswered("it is told no size")
            if not group.fixed:
                return 1, "ERROR: Cannot scale cluster autoscaler enabled node pool."
            if size == group.desired and call.words[1] == "nodepool":
                return 1, "ERROR: The new node count is the same as the current node count."
            return self._sized(launch, group, size)
        if call.words == ("aks", "nodepool", "update"):
            switches = ("disable-cluster-autoscaler", "enable-cluster-autoscaler", "update-cluster-autoscaler")
            call.only("pool", "min-count", "max-count", *switches)
            group = self._group(name)
            if switches[0] in call.flags:
                return self._done(launch, group, *[group.desired] * 3, fixed=True)
            if call.flags.keys() & set(switches):
                return self._limited(launch, group, call.number("min-count"), call.number("max-count"))
        raise _Unanswered("what it asks for is not understood")

    # -- aws -----------------------------------------------------------------------------------------------
    def aws(self, launch: Launch, call: _Call) -> Answer:
        """`aws`: Auto Scaling groups, and EKS' node groups."""
        if call.words == ("eks", "update-nodegroup-config"):
            call.only("nodegroup-name", "scaling-config")
            sizes = dict(part.split("=", 1) for part in call.flags.get("scaling-config", "").split(",") if "=" in part)
            if not sizes or not all(map(_NUMBER.fullmatch, sizes.values())):
                raise _Unanswered("its --scaling-config is not understood")
            if int(sizes.get("maxSize", 1)) < 1:
                return 252, f"{_INVALID} scalingConfig.maxSize, value: 0, valid min value: 1"
            group = self._group(call.flags.get("nodegroup-name", ""))
            keys = ("minSize", "maxSize", "desiredSize")
            least, most, wanted = (int(sizes[key]) if key in sizes else None for key in keys)
        elif call.words in (("autoscaling", "set-desired-capacity"), ("autoscaling", "update-auto-scaling-group")):
            call.only("auto-scaling-group-name", "desired-capacity", "min-size", "max-size")
            group = self._group(call.flags.get("auto-scaling-group-name", ""))
            least, most, wanted = (call.number(key) for key in ("min-size", "max-size", "desired-capacity"))
        else:
            raise _Unanswered("what it asks for is not understood")
        low, high = (group.minimum if least is None else least), (group.maximum if most is None else most)
        if wanted is not None and not low <= wanted <= high:
            edge = f"below min value {low}" if wanted < low else f"above max value {high}"
            name = "".join(part.capitalize() for part in call.words[1].split("-"))
            return 254, (
                f"An error occurred (ValidationError) when calling the {name} operation: New SetDesiredCapacity value "
                f"{wanted} is {edge} for the AutoScalingGroup."
            )
        size = max(low, min(high, group.desired)) if wanted is None else wanted
        return self._done(launch, group, low, high, size, fixed=False)

    # -- inside --------------------------------------------------------------------------------------------
    def _group(self, name: str) -> NodeGroup:
        if name not in self.cloud.groups:
            raise _Unanswered(f"no pool {name} is among the manifests")
        group: NodeGroup = self.cloud.groups[name]
        return group

    def _limited(self, launch: Launch, group: NodeGroup, least: int | None, most: int | None) -> Answer:
        """Give a pool's autoscaler limits, turning it on. Raises _Unanswered."""
        low, high = (group.minimum if least is None else least), (group.maximum if most is None else most)
        if not low <= group.desired <= high:
            raise _Unanswered(f"when its autoscaler heeds new limits of pool {group.name} is not known")
        return self._done(launch, group, low, high, group.desired, fixed=False)

    def _sized(self, launch: Launch, group: NodeGroup, size: int) -> Answer:
        """Another size, now. Raises _Unanswered where nobody here knows how long that takes, or whether it stays."""
        kept = next(self._kept(group), None) if size < group.desired else None
        if kept is not None:
            raise _Unanswered(f"{kept}: how long its node is kept is not modelled")
        if group.fixed:
            return self._done(launch, group, size, size, size, fixed=True)
        if not group.minimum <= size <= group.maximum:
            said = f"{group.minimum} to {group.maximum}: whether it brings {size} back to that is not known"
            raise _Unanswered(f"the autoscaler of pool {group.name} has {said}")
        return self._done(launch, group, group.minimum, group.maximum, size, fixed=False)

    @leaves("clouds", "whether a cloud's IAM lets a command line in a pod size a pool", Becomes.OPEN)
    def _done(self, launch: Launch, group: NodeGroup, least: int, most: int, wanted: int, *, fixed: bool) -> Answer:
        """Do it, and doubt that everybody's IAM would."""
        self.cloud.size(group.name, least, most, wanted, fixed=fixed, by=_who(launch))
        account = f"ServiceAccount {namespace_of(launch.pod)}/{dig(launch.pod, 'spec', 'serviceAccountName')}"
        said = f"whether the cloud's IAM lets {account} size it is in no manifest: here it was let"
        doubt = Doubt(f"NodePool/{group.name}", said, may_be_off=False, settles=_SETTLES)
        if doubt not in self.unproven:
            self.unproven.append(doubt)
        return 0, ""

    def _kept(self, group: NodeGroup) -> Iterator[str]:
        """Pods of a pool that may keep their node for long: by a budget that lets none go, or by their own time."""
        nodes = {one.node_name for one in group.members(self.cloud)}
        pods = [pod for pod in self.kube.list(r.PODS).items if dig(pod, "spec", "nodeName") in nodes]
        full = [
            (namespace_of(one), name_of(one), from_match_labels(dig(one, "spec", "selector")))
            for one in self.kube.list(r.PDBS).items
            if not dig(one, "status", "disruptionsAllowed", default=0)
        ]
        for pod in pods:
            grace = int(dig(pod, "spec", "terminationGracePeriodSeconds", default=30))
            if grace > GRACE_S:
                yield f"{ref_of(pod)} has {grace} s to stop"
            for namespace, name, selector in full:
                if namespace == namespace_of(pod) and selector.matches(labels_of(pod)):
                    yield f"{ref_of(pod)} is kept by PodDisruptionBudget {name}"


def _who(launch: Launch) -> str:
    return f"Pod/{namespace_of(launch.pod)}/{name_of(launch.pod)}"


def _read(program: str, given: Sequence[str]) -> _Call:
    """A command line, its flags under one name each. Raises _Unanswered."""
    words, flags, rest = [], {}, list(given)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and (name not in _BARE[program] or (name == "u" and words == ["login"])):
            if not rest:
                raise _Unanswered(f"its flag {word} has no value")
            value = rest.pop(0)
        flags[_SAME.get(name, name)] = value
    return _Call(program, tuple(words), flags)


_SETTLES = "try it once on a cluster of yours (--on CONTEXT), or say under assume: who was seen to be let"
#: What gcloud sizes pools with.
_SIZING = frozenset(
    {("container", "clusters", "resize"), *(("container", w, "update") for w in ("clusters", "node-pools"))}
)
#: What asks no cloud.
_OFFLINE = frozenset({("config", "set"), ("account", "set")})
#: Variables of gcloud that say where.
_PLACES = ("CLOUDSDK_COMPUTE_ZONE", "CLOUDSDK_COMPUTE_REGION")
_ANSWERS: Mapping[str, Callable[[CloudCommands, Launch, _Call], Answer]] = {
    "gcloud": CloudCommands.gcloud,
    "az": CloudCommands.az,
    "aws": CloudCommands.aws,
}
