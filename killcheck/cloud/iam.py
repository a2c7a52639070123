"""Who may launch what, decided offline from policy documents: the part of IAM's evaluation that fences are built from.

An answer is one of four: *explicit deny*, *implicit deny*, *allowed*, or *undecided* - wherever a statement that could
change the answer uses an operator, a variable or a key that is not decided here. Undecided is never a denial. Where
a call may name any resource of a kind (any image, any subnet), an allowance of one of them is enough, and only a denial
of all of them is one.

Source: AWS IAM user guide, "Policy evaluation logic", and the service authorization reference for EC2 (2026):
RunInstances is authorised for each resource on its own, and ``ec2:InstanceType`` exists only for ``instance/*``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct, field

__all__ = ["Access", "Decision", "PolicyError", "Request", "decide", "launch", "run_instances"]

Effect = Literal["explicit deny", "implicit deny", "allowed", "undecided"]
#: Three-valued truth: None is 'cannot tell'.
Truth = bool | None

#: The resources that a RunInstances call is authorised for, besides the instance: each must be allowed on its own.
OTHER_RESOURCES = (
    "arn:aws:ec2:{region}::image/*",
    "arn:aws:ec2:{region}:{account}:subnet/*",
    "arn:aws:ec2:{region}:{account}:network-interface/*",
    "arn:aws:ec2:{region}:{account}:security-group/*",
    "arn:aws:ec2:{region}:{account}:volume/*",
)


def _like(value: str, pattern: str) -> bool:
    """IAM's wildcards: ``*`` and ``?``, nothing else."""
    return fnmatchcase(value, pattern.replace("[", "[[]"))


def _same(value: str, pattern: str) -> bool:
    return value == pattern


def _same_letters(value: str, pattern: str) -> bool:
    return value.lower() == pattern.lower()


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": _same,
    "StringEqualsIgnoreCase": _same_letters,
    "StringLike": _like,
    "ArnLike": _like,
    "ArnEquals": _like,
    "Bool": _same_letters,
}
_NEGATED = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotLike": "ArnLike",
    "ArnNotEquals": "ArnEquals",
}


class PolicyError(ValueError):
    """A policy document that is no policy document."""


class Request(Struct, frozen=True):
    """One action on one resource; a resource that ends in ``/*`` is any of its kind.

    Fields of the ARN that are not known are spelt ``{region}`` and ``{account}``. ``context`` holds the keys whose
    values are known; a key in ``absent`` (lower case) surely is not there; any other key may or may not be.
    """

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


class Decision(Struct, frozen=True):
    """The effect, and the words that decided it."""

    effect: Effect
    reason: str = ""

    @property
    def denied(self) -> bool:
        """Surely refused."""
        return self.effect in ("explicit deny", "implicit deny")


class Access(Struct, frozen=True):
    """A principal's policies: its own, its permission boundary (None: has none), and the SCPs above it.

    SCPs come level by level: of each level's policies one must allow. ``service_linked`` roles are not bound by them.
    """

    identity: Sequence[Any] = ()
    boundary: Any = None
    scps: Sequence[Sequence[Any]] = ()
    service_linked: bool = False


def decide(request: Request, access: Access) -> Decision:
    """Whether the request goes through. Raises PolicyError for documents that are none."""
    layers: list[tuple[str, list[Mapping[str, Any]]]] = [("identity policy", _all(access.identity))]
    if access.boundary is not None:
        layers.append(("permission boundary", _all([access.boundary])))
    if not access.service_linked:
        layers += [("service control policy", _all(level)) for level in access.scps]
    denials = [_any(statements, "Deny", request, layer) for layer, statements in layers]
    for truth, reason in denials:
        if truth:
            return Decision("explicit deny", reason)
    doubt = next((reason for truth, reason in denials if truth is None), "")
    for layer, statements in layers:
        truth, reason = _any(statements, "Allow", request, layer)
        if truth is False:
            return Decision("implicit deny", f"no {layer} allows {request.action} on {request.resource}")
        if truth is None:
            doubt = doubt or reason
    return Decision("undecided", doubt) if doubt else Decision("allowed")


def run_instances(
    instance_type: str,
    access: Access,
    *,
    region: str = "",
    account: str = "",
    capacity_type: str = "on-demand",
) -> Decision:
    """Whether a principal could launch one instance of a type: every resource of the call must be allowed.

    An empty region or account is not known.
    """
    place = {"region": region or "{region}", "account": account or "{account}"}
    context = {"aws:RequestedRegion": region, "ec2:Region": region} if region else {}
    instance = context | {
        "ec2:InstanceType": instance_type,
        "ec2:InstanceMarketType": "spot" if capacity_type == "spot" else "on-demand",
    }
    # On every other resource the instance's keys do not exist; a negated condition on them is then true.
    elsewhere = frozenset({"ec2:instancetype", "ec2:instancemarkettype"})
    action = "ec2:RunInstances"
    decisions = [decide(Request(action, "arn:aws:ec2:{region}:{account}:instance/*".format(**place), instance), access)]
    decisions += [
        decide(Request(action, resource.format(**place), context, elsewhere), access) for resource in OTHER_RESOURCES
    ]
    for effect in ("explicit deny", "implicit deny", "undecided"):
        for decision in decisions:
            if decision.effect == effect:
                return decision
    return Decision("allowed")


def launch(
    instance_type: str,
    access: Access,
    *,
    by: Literal["RunInstances", "CreateFleet"] = "RunInstances",
    region: str = "",
    account: str = "",
    capacity_type: str = "on-demand",
) -> Decision:
    """As :func:`run_instances`; a fleet needs CreateFleet besides, and launches with the caller's RunInstances."""
    decision = run_instances(instance_type, access, region=region, account=account, capacity_type=capacity_type)
    if by == "RunInstances" or decision.denied:
        return decision
    place = {"region": region or "{region}", "account": account or "{account}"}
    context = {"aws:RequestedRegion": region, "ec2:Region": region} if region else {}
    fleet = decide(
        Request(
            "ec2:CreateFleet",
            "arn:aws:ec2:{region}:{account}:fleet/*".format(**place),
            context,
            frozenset({"ec2:instancetype"}),
        ),
        access,
    )
    return fleet if fleet.effect != "allowed" else decision


# -- statements ------------------------------------------------------------------------------------------------
def _all(policies: Iterable[Any]) -> list[Mapping[str, Any]]:
    """The statements of some policies; a policy is a document, or the JSON text of one."""
    found: list[Mapping[str, Any]] = []
    for policy in policies:
        document = policy
        if isinstance(policy, str):
            try:
                document = json.loads(policy)
            except ValueError as error:
                raise PolicyError(f"a policy is not JSON: {error}") from error
        if not isinstance(document, Mapping) or "Statement" not in document:
            raise PolicyError("a policy has no Statement")
        statements = document["Statement"]
        for statement in [statements] if isinstance(statements, Mapping) else statements:
            if not isinstance(statement, Mapping) or statement.get("Effect") not in ("Allow", "Deny"):
                raise PolicyError("a statement's Effect is neither Allow nor Deny")
            found.append(statement)
    return found


def _any(statements: Sequence[Mapping[str, Any]], effect: str, request: Request, layer: str) -> tuple[Truth, str]:
    """Whether some statement of ``effect`` applies, and which."""
    doubt = ""
    for statement in statements:
        if statement["Effect"] != effect:
            continue
        truth, why = _applies(statement, request)
        name = f"{layer} {statement.get('Sid') or 'without Sid'}"
        if truth:
            return True, f"{name}: {effect}"
        if truth is None:
            doubt = doubt or f"{name}: {why}"
    return (None, doubt) if doubt else (False, "")


def _applies(statement: Mapping[str, Any], request: Request) -> tuple[Truth, str]:
    parts = [
        _action(statement, request.action),
        _resource(statement, request.resource),
        _conditions(statement.get("Condition") or {}, request),
    ]
    unknown = sorted(
        set(statement) - {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition", "Principal"}
    )
    if any(truth is False for truth, _ in parts):
        return False, ""
    if unknown:
        return None, f"element {unknown[0]} is not decided here"
    return next((part for part in parts if part[0] is None), (True, ""))


def _listed(statement: Mapping[str, Any], element: str) -> tuple[list[str], bool] | None:
    """(the patterns of an element, whether it is negated); None where the statement lacks it."""
    negated = f"Not{element}" in statement
    patterns = statement.get(f"Not{element}" if negated else element)
    if patterns is None:
        return None
    return ([patterns] if isinstance(patterns, str) else [str(pattern) for pattern in patterns]), negated


def _action(statement: Mapping[str, Any], action: str) -> tuple[Truth, str]:
    found = _listed(statement, "Action")
    if found is None:
        return None, "it has no Action"
    patterns, negated = found
    covered = any(_like(action.lower(), pattern.lower()) for pattern in patterns)
    return covered != negated, ""


def _resource(statement: Mapping[str, Any], resource: str) -> tuple[Truth, str]:
    """Whether the statement is about the resource; about some of a kind is enough to allow, and too little to deny."""
    found = _listed(statement, "Resource")
    if found is None:
        return True, ""
    patterns, negated = found
    doubt = ""
    some = False
    for pattern in patterns:
        if "${" in pattern:
            doubt = "a variable in Resource"
            continue
        covers, reaches, sure = _reach(pattern, resource)
        if covers and sure:
            return not negated, ""
        if covers or (reaches and not sure):
            doubt = "the region or account is not known"
        some |= reaches
    if doubt:
        return None, doubt
    if some:
        return statement["Effect"] == "Allow", ""
    return negated, ""


def _reach(pattern: str, resource: str) -> tuple[bool, bool, bool]:
    """(covers the resource, and all of a kind; reaches some of it; whether that is sure)."""
    sure = True
    fields = pattern.split(":", 5)
    if len(fields) == 6 and fields[1] in ("aws-cn", "aws-us-gov"):
        resource = resource.replace("arn:aws:", f"arn:{fields[1]}:", 1)
    for index, name in ((3, "{region}"), (4, "{account}")):
        if name in resource and len(fields) == 6:
            sure &= fields[index] == "*"
            resource = resource.replace(name, fields[index].replace("*", "0").replace("?", "0"))
    if _like(resource, pattern):
        return True, True, sure or pattern == "*"
    kind = resource[:-1] if resource.endswith("/*") else ""
    reaches = bool(kind) and (pattern.startswith(kind) or _like(kind, pattern[: max(0, pattern.rfind("/") + 1)] or "!"))
    return False, reaches, sure


# -- conditions ------------------------------------------------------------------------------------------------
def _conditions(blocks: Mapping[str, Any], request: Request) -> tuple[Truth, str]:
    doubt = ""
    for operator, keys in blocks.items():
        for key, values in keys.items():
            truth, why = _condition(operator, key, [values] if not isinstance(values, list) else values, request)
            if truth is False:
                return False, ""
            if truth is None:
                doubt = doubt or why
    return (None, doubt) if doubt else (True, "")


def _condition(operator: str, key: str, values: list[Any], request: Request) -> tuple[Truth, str]:
    """One key of a condition block; every key must hold."""
    known = {name.lower(): value for name, value in request.context.items()}
    present: Truth = True if key.lower() in known else False if key.lower() in request.absent else None
    texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    if operator == "Null":
        if present is None:
            return None, f"whether {key} is there is not known"
        return (present is False) == (texts[0].lower() == "true"), ""
    base = operator.removesuffix("IfExists")
    negated = base in _NEGATED
    test = _OPERATORS.get(_NEGATED.get(base, base))
    if test is None:
        return None, f"condition operator {operator} is not decided here"
    if present is False:
        # An absent key fails a positive operator, and passes a negated one and every IfExists.
        return negated or operator.endswith("IfExists"), ""
    if present is None:
        return None, f"the value of {key} is not known"
    if any("${" in text for text in texts):
        return None, f"a variable in the condition on {key}"
    found = any(test(known[key.lower()], text) for text in texts)
    return found != negated, ""
