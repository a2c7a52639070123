"""What a launcher's own file asks a cloud for, whoever the launcher is: machine types, sizes, cards, calls of an API.

Read by form, for a fence alone. A file that is no Kubernetes object and has a field for a machine's type, or for how
many machines of which size, is somebody's order for machines (Ray, SkyPilot, dstack, ParallelCluster, Databricks,
Jenkins, Juju, AWS Batch, Spot Fleet, Vertex AI...). A label of a node (``node.kubernetes.io/instance-type``) is none.

Sources: the configuration references of the projects named; the Slurm guide to power saving; RunsOn's job labels; 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.kube.custom_holders import is_gpu_machine
from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["costing", "launching", "posted"]

#: Characters of a line that are shown.
_SHOWN = 60
#: A field of a machine's type, and what it says; a nested value (a schema's) is none.
_TYPED = lazy_re.compile(
    r"(?<![/.])((?:[iI]nstance|[mM]achine|[sS]erver|[nN]ode|[wW]orker|[vV][mM])[-_]?(?:[tT]ype|[sS]ize|[fF]lavou?r|[sS]hape"
    r"|S[kK][uU]|sku)s?(?:[-_]?[iI]d)?(?:\.\$)?[\"']?[ \t]*[:=]\s*[\[\"'\-]*[ \t]*[\"']?([\w.$*-][^\s\"',\]}]*))"
)
#: Fields of a type of whichever thing, by the name of a machine alone: ``m5.24xlarge``, ``Standard_D2s_v3``.
_NAMED = lazy_re.compile(
    r"(?<![\w./-])((?:type|size|sku|shape|flavou?r|plan)s?[\"']?[ \t]*[:=][ \t]*[\[\"']*"
    r"((?:ml\.)?[a-zA-Z]{1,3}\d[\w-]{0,9}?\.?(?:\d{0,3}x?large|metal)\b|Standard_[A-Z]+\d\w*|(?:VM|BM)\.\w+\.[\w.]+))"
)
_MACHINE = lazy_re.compile(r"(?i)(?!\d+\.\d+\.)(?=.*\d)(?=.*[a-z]).*")
_UNKNOWN = lazy_re.compile(r"[$<]|\{\{|\*|optimal$|(?:var|local|params?)\.")
#: ``P3dn24xlarge`` as an enumeration of a library has it, and Oracle's and Linode's that say so.
_ENUMERATED = lazy_re.compile(r"(?i)(p\d|g\d|gr\d|trn\d|inf\d|dl\d)[a-z]{0,3}\d*x?large|.*gpu.*")
#: Sizes of fleets that nothing else has, and machines described rather than named.
_FLEETS = lazy_re.compile(
    r"\b((?:[tT]otal)?TargetCapacity|max_?[vV]cpus|instanceCap(?:Str)?|ResumeProgram|[iI]nstanceRequirements"
    r"|instanceSelector)[\"']?[ \t]*[:=][ \t]*[\"']?(?!0\b)[^\s,]"
)
#: How many machines, and beside it of which size: both are said by an order alone.
_COUNTED = lazy_re.compile(
    r"(?m)(?:^|[{,])[ \t-]*[\"']?((?:(?:num|max|min)[-_]?(?:[nN]odes|[wW]orkers|[mM]achines|[uU]nits|[iI]nstances)"
    r"|[nN]ode_?[cC]ount|(?<=\n)nodes)[\"']?[ \t]*:[ \t]*[\"']?[1-9]\d*)\b"
)
_SIZED = lazy_re.compile(r"(?m)(?:^|[{,])[ \t-]*[\"']?(?:resources|constraints|cpus|vcpus|accelerators)[\"']?[ \t]*:")
#: A card by its memory (``80GB:8``).
_CARD = lazy_re.compile(r"(?m)(?:^|[{,])[ \t]*[\"']?(gpus?[\"']?[ \t]*:[ \t]*[{\[\"']*\d+ ?GB\S*)")
#: Steps of AWS Systems Manager that begin something.
_STEPS = lazy_re.compile(
    r"\b(aws:(?:runInstances|createStack|changeInstanceState)"
    r"|Api[\"']?[ \t]*:[ \t]*[\"']?(?:Run|Start|Create|Request|Modify|Update|Set|Purchase)\w*"
    r"(?:Instance|Fleet|Group|Capacity|Stack|Nodegroup|ComputeEnvironment|TrainingJob)\w*)"
)
#: Job labels with which a runner is launched for the job.
_RUNNERS = lazy_re.compile(r"(?m)\b(runs-on=[^\s,\"'\]]+|runs-on:[^\n]*\bfamily=[^\s/]+)")
#: A cloud's API, asked to make something by hand.
_POSTED = lazy_re.compile(
    r"https?://[^\s\"'/]+/[^\s\"']*?(?:droplets|instances|servers|node[-_]?pools|node[-_]?groups|machines|virtualMachines\w*"
    r"|instance-operations/launch|agentPools)\b[^\s\"']*"
)
_POSTS = lazy_re.compile(
    r"(?:-X ?|--request[= ]|\bmethod\W{1,4})[\"']?(?:POST|PUT|PATCH)"
    r"|(?:^|\s)(?:-d|--data\S*|--json)[ =]|\.(?:post|put|patch)\("
)

#: PowerShell's of Azure, AWS and Google.
_CMDLETS = lazy_re.compile(
    r"(?i)\b(?:New|Start|Update|Set|Request|Restart|Add|Edit)-"
    r"(?:Az(?:VM|Vmss|Aks(?:Cluster|NodePool))|EC2(?:Instance|Fleet|Spot\w+|CapacityReservation)|EKS(?:Nodegroup\w*|Cluster)|AS(?:AutoScalingGroup|DesiredCapacity)"
    r"|Gce(?:Instance|ManagedInstanceGroup)"
    r"|GkeNodePool|BATComputeEnvironment|SMTrainingJob)\b"
)


def launching(text: str) -> Iterator[str]:
    """What in a file that is no object may launch machines with accelerators, or of a type that is not known."""
    for said, machine in _typed(text):
        if _UNKNOWN.match(machine) or is_gpu_machine(machine) or _ENUMERATED.fullmatch(machine):
            yield said
    for pattern in (_FLEETS, _STEPS, _RUNNERS, _CARD):
        yield from map(_shown, pattern.findall(text))
    if _SIZED.search(text):
        yield from map(_shown, _COUNTED.findall(text))


def costing(text: str) -> Iterator[str]:
    """What in it launches machines without accelerators."""
    for said, machine in _typed(text):
        if not (_UNKNOWN.match(machine) or is_gpu_machine(machine) or _ENUMERATED.fullmatch(machine)):
            yield said


def posted(line: str) -> str:
    """What of a cloud's API a line of a script asks to make machines, by address or by cmdlet; else empty."""
    if cmdlet := _CMDLETS.search(line):
        return cmdlet[0]
    found = _POSTED.search(line) if "://" in line and _POSTS.search(line) else None
    return _shown(found[0]) if found else ""


def _typed(text: str) -> Iterator[tuple[str, str]]:
    """(what is said, the machine) of each field that names one, outside comments."""
    for pattern in (_TYPED, _NAMED):
        for one in pattern.finditer(text):
            known = pattern is _NAMED or _UNKNOWN.match(one[2]) or _MACHINE.fullmatch(one[2])
            if known and "#" not in text[text.rfind("\n", 0, one.start()) + 1 : one.start()]:
                yield _shown(one[1]), one[2]


def _shown(said: str) -> str:
    return redact(" ".join(said.split()))[:_SHOWN]
