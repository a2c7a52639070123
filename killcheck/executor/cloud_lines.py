"""Command lines of the AWS CLI that it does not take, as far as botocore's models of its operations tell.

Only operations that take machines away are looked at: those have no options of the CLI's own making beside the ones
named here. Where botocore is not installed, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from killcheck.text import lazy_re

__all__ = ["wrong_in"]

#: (service, command) -> the operation, in botocore's words.
_OPERATIONS = {
    ("ec2", "stop-instances"): "StopInstances",
    ("ec2", "terminate-instances"): "TerminateInstances",
    ("autoscaling", "update-auto-scaling-group"): "UpdateAutoScalingGroup",
    ("autoscaling", "set-desired-capacity"): "SetDesiredCapacity",
    ("autoscaling", "terminate-instance-in-auto-scaling-group"): "TerminateInstanceInAutoScalingGroup",
    ("eks", "update-nodegroup-config"): "UpdateNodegroupConfig",
    ("eks", "delete-nodegroup"): "DeleteNodegroup",
    ("ecs", "update-service"): "UpdateService",
    ("sagemaker", "stop-notebook-instance"): "StopNotebookInstance",
    ("sagemaker", "delete-endpoint"): "DeleteEndpoint",
}
#: How alike a command and one of these are of which it is a misspelling: no two of the AWS CLI's are so alike (0 to 1).
_MISSPELT = 0.95
#: A number, and none without end.
_NUMBER = lazy_re.compile(r"[0-9]{1,9}")
#: Options that every command takes (aws help; the generated ones of each operation).
_GLOBAL = (
    "debug", "endpoint-url", "no-verify-ssl", "no-paginate", "output", "query", "profile", "region", "version", "color",
    "no-sign-request", "ca-bundle", "cli-read-timeout", "cli-connect-timeout", "cli-binary-format", "no-cli-pager",
    "cli-auto-prompt", "no-cli-auto-prompt", "cli-input-json", "cli-input-yaml", "generate-cli-skeleton",
    "cli-error-format",
)  # fmt: skip
#: Of these the value stands apart; between ``aws`` and its words, options with a value are read as such.
_FLAGS = frozenset(
    {"debug", "no-verify-ssl", "no-paginate", "version", "no-sign-request", "no-cli-pager", "cli-auto-prompt"}
)


def wrong_in(argv: Sequence[str]) -> str | None:
    """What the AWS CLI would refuse about a command line before it asks anything; None: nothing that is known."""
    if not argv or argv[0] != "aws":
        return None
    words, options = _parted(argv[1:])
    operation = _OPERATIONS.get((words[0], words[1])) if len(words) > 1 else None
    known_ones = [] if operation else [" ".join(one) for one in _OPERATIONS]
    near = get_close_matches(" ".join(words[:2]), known_ones, 1, _MISSPELT)
    if near:
        return f"aws has no command '{' '.join(words[:2])}': it is '{near[0]}'"
    known = _options(words[0], operation) if operation else None
    if known is None or operation is None:
        return None
    for option, value in options:
        short = _below(words[0], operation, option, value)
        if short:
            return f"{' '.join(words[:2])} --{option} {value}: {short}, and AWS refuses the call"
        if not any(one.startswith(option) for one in known):  # an option may be cut short
            from killcheck.text.suggestions import did_you_mean

            return f"{' '.join(words[:2])} has no option --{option}{did_you_mean(option, sorted(known))}"
    return None


def _parted(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """(service and command, the options with the first word of their values)."""
    plain: list[str] = []
    options: list[tuple[str, str]] = []
    takes = False
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            options.append((name, value))
            takes = not equals and name not in _FLAGS
        elif takes:
            options[-1] = (options[-1][0], word)
            takes = False
        elif len(plain) < 2:
            plain.append(word)
    return plain, options


@cache
def _model(service: str) -> Mapping[str, Any] | None:
    """A service's model; None: botocore is not there, or does not know it."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.loaders import Loader
    except ImportError:
        return None
    try:
        found: Mapping[str, Any] = Loader().load_service_model(service, "service-2")
    except BotoCoreError:
        return None
    return found


def _below(service: str, operation: str, option: str, value: str) -> str | None:
    """Which number of an option's value is less than the service takes, in a phrase; None: none that is known."""
    from botocore import xform_name

    model = _model(service) or {}
    members = _members(model, model["operations"][operation]["input"]["shape"])
    shape = next((shape for name, shape in members.items() if xform_name(name, "-") == option), "")
    inner = _members(model, shape) if shape else {}
    given = [part.partition("=")[::2] for part in value.split(",")] if inner else [(option, value)]
    for name, number in given:
        least = model["shapes"].get(inner.get(name, "" if inner else shape), {}).get("min")
        if _NUMBER.fullmatch(number) and least is not None and int(number) < least:
            return f"{name} is at least {least}"
    return None


def _members(model: Mapping[str, Any], shape: str) -> dict[str, str]:
    """The members of a structure, and the shape of each."""
    members = model["shapes"][shape].get("members", {})
    return {name: member["shape"] for name, member in members.items()}


@cache
def _options(service: str, operation: str) -> frozenset[str] | None:
    """The options of an operation; None: botocore is not there, or does not know it."""
    model = _model(service)
    if model is None or operation not in model["operations"]:
        return None
    from botocore import xform_name

    shape = model["operations"][operation]["input"]["shape"]
    members = model["shapes"][shape]["members"]
    named = {xform_name(name, "-") for name in members}
    booleans = {
        f"no-{xform_name(n, '-')}" for n, m in members.items() if model["shapes"][m["shape"]]["type"] == "boolean"
    }
    return frozenset({*named, *booleans, *_GLOBAL})
