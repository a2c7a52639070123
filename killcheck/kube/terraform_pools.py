"""Groups of machines with GPUs in Terraform's text, and how many of them it always keeps: read by form, not planned.

What makes nodes there is told too, for a fence: with GPUs, or of types that a variable gives.

Sources (2026): aws_eks_node_group, aws_autoscaling_group, google_container_node_pool,
azurerm_kubernetes_cluster_node_pool and the modules for EKS, GKE and AKS, whose groups are maps. A number that a
variable gives is not known, and not guessed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from killcheck.kube import terraform_resources
from killcheck.kube.custom_holders import is_gpu_machine
from killcheck.text import lazy_re
from killcheck.text.jsontext import from_text
from killcheck.text.numbers import whole

__all__ = ["JSON", "SUFFIXES", "costing", "floors", "launching", "launching_json", "objects"]

#: Text of Terraform's and OpenTofu's own, and the same as JSON.
SUFFIXES = frozenset({".tf", ".tofu"})
JSON = (".tf.json", ".tofu.json")

_COMMENT = lazy_re.compile(r"(?:^|(?<=\s))(?:#|//)[^\n]*|/\*.*?(?:\*/|\Z)", re.M | re.S)
_EDGE = lazy_re.compile(r"[{}]")
_TEXT = lazy_re.compile(r'"([\w.-]+)"')
#: GKE's limits of what it makes nodes for by itself: ``resource_type = "nvidia-tesla-t4"``.
_LIMITED = lazy_re.compile(r'"nvidia-[\w-]+"')
_GUEST = lazy_re.compile(r"\bguest_accelerator\b|\baccelerator_type\b")
#: The fields that say how many there are at the least; without any of them, how many there are.
_LEAST = lazy_re.compile(r"\b(?:total_)?min(?:imum)?_?(?:node)?_?(?:size|count|nodes|capacity)\s*=\s*(\w+)")
_FIXED = lazy_re.compile(r"\b(?:node_count|desired_(?:size|capacity)|initial_node_count)\s*=\s*(\d+)")
_NAME = lazy_re.compile(r'(?:resource|module)\s+"([\w-]+)"(?:\s+"([\w-]+)")?\s*$|"?([\w.-]+)"?\s*[=:]?\s*$')
#: Its labels may stand without quotes.
_BLOCK = lazy_re.compile(r'^[ \t]*(?:resource[ \t]+"?([\w-]+)"?|module)[ \t]+"?([\w-]+)"?[ \t]*\{', re.M)
#: A block that takes over what was made elsewhere.
_IMPORTED = lazy_re.compile(
    r"(?m)^[ \t]*import[ \t]*\{[^{}]{0,600}?\bto[ \t]*=[ \t]*(?:module\.[\w.-]+\.)?(\w+)\.([\w-]+)"
)
_HEREDOC = lazy_re.compile(r"<<[-~]?[ \t]*(\w+)[ \t]*$")
_QUOTED = lazy_re.compile(r'"(?:[^"\\\n]|\\.)*"')
_BRACES = str.maketrans("{}", "  ")
#: Resources, and modules by their text, that nodes of a cluster come from, whichever machines those are.
_MAKES = lazy_re.compile(
    r"node_?group|node_?pool|worker_pool|autoscaling_group|launch_template|launch_configuration|scale_set"
    r"|instance_template|instance_group_manager|container_cluster|kubernetes_cluster"
)
_IN_MODULE = lazy_re.compile(r"\b(?:node_?(?:group|pool)s?|worker_groups?)(?:_\w+)?\s*=|\bnode_pools_\w+\s*=")
#: The fields by which machines are chosen, and what they say: words, or what only a plan knows.
_TYPES = lazy_re.compile(
    r"\b(?:instance_types?|machine_type|vm_size|node_type|sku(?:_name)?)\s*=\s*(\[[^\]]{0,4000}\]|[^\n,}]+)"
)
_KNOWN = lazy_re.compile(r'[\s\[\],]*(?:"[^"$%]*"[\s\[\],]*)+')
_SOURCE = lazy_re.compile(r'(?m)^[ \t]*source\s*=\s*"([^"\n]*)"')
#: Modules of the registry that are well known, by their names, and which of these bring no nodes.
_REGISTRY = lazy_re.compile(
    r"(?:terraform-(?:aws|google|ibm|alicloud|oci)-modules|Azure|aws-ia|cloudposse)/([\w-]+)/\w+"
)
_WITHOUT = lazy_re.compile(
    r"(vpc|subnets?|network|security-group|iam|s3-bucket|kms|ecr|sqs|sns|rds|rds-aurora|dynamodb-table|lambda|acm|alb|elb"
    r"|route53|cloudwatch|cloudfront|cloudtrail|eventbridge|secrets-manager|ssm-parameter|efs|elasticache|msk-\w+|label"
    r"|key-pair|vpn-gateway|transit-gateway|project-factory|cloud-storage|cloud-nat|cloud-router|cloud-dns|sql-db|pubsub"
    r"|bigquery|log-export|service-accounts|address|lb|lb-http|naming|utils|ip-addresses|group)(-[\w-]+)?"
)
#: Resources that are machines themselves, or capacity that is paid for whether machines use it or not.
_MACHINES = lazy_re.compile(
    r"(?:^|_)(?:instance(?:_request)?|reservation|virtual_machine|host|vm|endpoint_configuration)$"
)
_NUMBER = lazy_re.compile(r"\b(?:instance_)?(?:count|capacity)\s*=\s*([^\s,}]+)")
#: What is added to a machine has a number of its own.
_ADDED = lazy_re.compile(r"\bguest_accelerators?\b[^{}\n]{0,40}\{[^{}]{0,400}\}")
#: Resources that are objects of Kubernetes, and how one asks for accelerators.
_OBJECTS = lazy_re.compile(r"kubernetes_|kubectl_|helm_release")
_ASKS = lazy_re.compile(
    r"(?:nvidia|amd|habana|aws\.amazon|google)\\{0,2}\.(?:com|ai)/(?:gpu|mig\S{0,20}|gaudi|tpu|neuron\w{0,9})\\?[\"']?\s*[:=]\s*\\?[\"']?(?:[1-9]|\$|var|local|each)"
    r"|limits\.[^\"\n]{0,40}(?:gpu|tpu|neuron)"
)
_MOST_DEPTH = 32


def floors(text: str) -> Iterator[tuple[str, int]]:
    """(which group, how many) that Terraform's text always keeps on machines with GPUs, each group once."""
    text = _COMMENT.sub(" ", text)
    told: set[tuple[int, int]] = set()
    words = sorted(_gpu_words(text))
    for found in _BLOCK.finditer(text):
        if found[1] is None or _MACHINES.search(found[1]) is None:
            continue
        begin, end = found.end(), _end_of(text, found.end())
        many = _alone(text[begin:end]) if _any_in(words, begin, end) else 0
        if many:
            told.add((found.end() - 1, end))
            yield f"{found[1]}.{found[2]}", many
    for at in words:
        for begin, end, name in _groups(text, at):
            least = _least(text[begin:end]) or 0
            if least > 0 and (begin, end) not in told:
                told.add((begin, end))
                yield name, least


def launching(text: str, is_read: Callable[[str], bool] = lambda source: True) -> Iterator[str]:
    """What in Terraform's text may make machines with GPUs: a resource that is not known to make none, and of modules
    one whose text names such a machine, or lies elsewhere, unless its name says what it is for. ``is_read``: whether a
    folder that a source names is among what is read.
    """
    text = _COMMENT.sub(" ", text)
    named = sorted([*_gpu_words(text), *(found.start() for found in _LIMITED.finditer(text))])
    unknown = [found.start() for found in _TYPES.finditer(text) if not _KNOWN.fullmatch(found[1])]
    bare = _without_braces(text)
    for found in _BLOCK.finditer(text):
        begin, end = found.end(), _end_of(bare, found.end())
        block = text[begin:end]
        if found[1] is not None:
            chosen = _any_in(named, begin, end) or terraform_resources.launches(found[1], block)
        else:
            by_variable = _any_in(unknown, begin, end) and _makes_nodes(found, block)
            chosen = _any_in(named, begin, end) or by_variable or _is_elsewhere(block, is_read)
        if chosen:
            yield f"{found[1] or 'module'}.{found[2]}"
    described = {f"{found[1]}.{found[2]}" for found in _BLOCK.finditer(text)}
    for kind, name in _IMPORTED.findall(text):
        if f"{kind}.{name}" not in described and not terraform_resources.launches_nothing(kind):
            yield f"{kind}.{name}, which is imported"


def objects(text: str) -> Iterator[str]:
    """What in Terraform's text makes Kubernetes objects, or installs charts, that ask for accelerators."""
    text = _COMMENT.sub(" ", text)
    for found in _BLOCK.finditer(text):
        block = text[found.end() : _end_of(text, found.end())] if _OBJECTS.match(found[1] or "") else ""
        if _ASKS.search(block):
            yield f"{found[1]}.{found[2]}"


def _alone(block: str) -> int:
    """How many machines a resource is that is no group: one, unless it says another number; none by a variable."""
    said = _NUMBER.findall(_ADDED.sub(" ", block))
    return max((whole(one) or 0 for one in said), default=0) if said else 1


def costing(text: str) -> Iterator[str]:
    """What in Terraform's text makes nodes, with GPUs or without: its dollars and its nodes count."""
    text = _COMMENT.sub(" ", text)
    bare = _without_braces(text)
    for found in _BLOCK.finditer(text):
        block = text[found.end() : _end_of(bare, found.end())]
        if _makes_nodes(found, block) or _is_automatic(found[1] or "", block):
            yield f"{found[1] or 'module'}.{found[2]}"


def _is_automatic(kind: str, block: str) -> bool:
    """Whether pods alone make it bill: Fargate, EKS' Auto Mode."""
    return kind == "aws_eks_fargate_profile" or (kind == "aws_eks_cluster" and "compute_config" in block)


def launching_json(text: str) -> Iterator[str]:
    """The same of Terraform's JSON, where nothing is told apart: resources that nodes come from, and modules, all."""
    try:
        found = from_text(text)
    except ValueError:
        yield "Terraform that is no JSON"
        return
    for part in found if isinstance(found, list) else [found]:
        said = part if isinstance(part, dict) else {}
        for kind, of_kind in _entries(said.get("resource")):
            yield from (
                f"{kind}.{name}" for name, _ in _entries(of_kind) if not terraform_resources.launches_nothing(kind)
            )
        yield from (f"module.{name}" for name, _ in _entries(said.get("module")))


def _entries(given: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a map, or of a list of maps: JSON may have either."""
    for one in given if isinstance(given, list) else [given]:
        yield from one.items() if isinstance(one, dict) else ()


def _is_elsewhere(block: str, is_read: Callable[[str], bool]) -> bool:
    """Whether a module's text is not among what is read, and may make nodes for all that its source says."""
    source = _SOURCE.search(block)
    if source is None:
        return False  # Terraform takes no module without one
    if source[1].startswith("."):
        return not is_read(source[1])
    registry = _REGISTRY.fullmatch(source[1].partition("//")[0])
    return registry is None or _WITHOUT.fullmatch(registry[1]) is None


def _any_in(places: Sequence[int], begin: int, end: int) -> bool:
    """Whether any of the places, in their order, is between."""
    at = bisect_left(places, begin)
    return at < len(places) and places[at] < end


def _makes_nodes(found: re.Match[str], block: str) -> bool:
    return (_IN_MODULE.search(block) if found[1] is None else _MAKES.search(found[1])) is not None


def _without_braces(text: str) -> str:
    """The same, as long as before, without the braces that stand in quotes or in a heredoc."""
    found, until = list[str](), ""
    for line in text.split("\n"):
        if until and line.strip() != until:
            found.append(line.translate(_BRACES))
            continue
        begun = None if until else _HEREDOC.search(line)
        until = begun[1] if begun else ""
        found.append(_QUOTED.sub(lambda quoted: quoted[0].translate(_BRACES), line))
    return "\n".join(found)


def _end_of(text: str, begin: int) -> int:
    """Where the block that begins there ends; where it does not, or goes too deep, as far as that was followed."""
    depth = 1
    for found in _EDGE.finditer(text, begin):
        depth += 1 if found[0] == "{" else -1
        if not depth or depth > _MOST_DEPTH:
            return found.start()
    return len(text)


def _groups(text: str, at: int) -> Iterator[tuple[int, int, str]]:
    """The innermost block around a place that says how many there are; where none does, those that refer to it."""
    name = ""
    for begin, end, name in _around(text, at):
        if _least(text[begin:end]) is not None:
            yield begin, end, name
            return
    for found in re.finditer(rf"(?<![\w.]){re.escape(name)}(?=[.\]])", text) if "." in name else ():
        counted = (one for one in _around(text, found.start()) if _least(text[one[0] : one[1]]) is not None)
        yield from (one for one in [next(counted, None)] if one is not None)


def _gpu_words(text: str) -> Iterator[int]:
    """Where it names a machine with GPUs, or a GPU that is added to one."""
    yield from (found.start() for found in _TEXT.finditer(text) if is_gpu_machine(found[1]))
    yield from (found.start() for found in _GUEST.finditer(text))


def _around(text: str, at: int) -> Iterator[tuple[int, int, str]]:
    """The blocks around a place, the innermost first: where each begins and ends, and what it is called."""
    for _ in range(_MOST_DEPTH):
        begin = _edge(text[:at][::-1], "}", "{")
        if begin is None:
            return
        begin = at - begin - 1
        ends = _edge(text[begin + 1 :], "{", "}")
        named = _NAME.search(text[max(0, begin - 200) : begin].rpartition("\n")[2])
        name = ".".join(part for part in (named.groups() if named else ()) if part)
        yield begin, len(text) if ends is None else begin + 1 + ends, name or "a group"
        at = begin


def _edge(text: str, opens: str, closes: str) -> int | None:
    """How far it is to the brace that closes what ``text`` begins in; None: there is none."""
    depth = 0
    for found in _EDGE.finditer(text):
        if found[0] == opens:
            depth += 1
        elif depth == 0:
            return found.start()
        else:
            depth -= found[0] == closes
    return None


def _least(block: str) -> int | None:
    """How many machines a block always keeps, by its own word; None: it says nothing of that, or by a variable."""
    least = _LEAST.findall(block)
    if least:
        return max((one for one in map(whole, least) if one is not None), default=None)
    return max((int(one) for one in _FIXED.findall(block)), default=None)
