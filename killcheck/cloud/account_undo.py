"""Taking back what was changed in an AWS account, from the journal alone: by any machine, with credentials of its own.

An undo names one of :data:`ACTIONS` and where it is to be done (region, endpoint, account); whose the changed things
are is told by their tag, so that nothing but this very run's is touched and doing it twice is no error. What a journal
says beyond that is not done: it may have been written by whoever may write a ConfigMap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from killcheck.cloud.session import NO_BOTO3, AskError, Aws, call, pages

__all__ = ["ACTIONS", "RUN_TAG", "left", "manual", "take_back", "told_by_hand", "where"]

#: On everything of ours in an account; the value is the run's id.
RUN_TAG = "killcheck.dev/run"

#: An experiment in one of these goes on by itself (FIS API reference, ExperimentState).
_UNDER_WAY = ("pending", "initiating", "running")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _templates(aws: Aws, run: str) -> list[str]:
    return [
        str(one["id"])
        for page in pages(aws, "fis", "list_experiment_templates")
        for one in page["experimentTemplates"]
        if one.get("tags", {}).get(RUN_TAG) == run
    ]


def _delete(aws: Aws, template: str) -> None:
    try:
        call(aws, "fis", "delete_experiment_template", id=template)
    except AskError as error:
        if error.kind != "not-found":
            raise


def _experiments(aws: Aws, run: str) -> list[str]:
    return [
        str(one["id"])
        for page in pages(aws, "fis", "list_experiments")
        for one in page["experiments"]
        if one.get("tags", {}).get(RUN_TAG) == run and one.get("state", {}).get("status") in _UNDER_WAY
    ]


def _stop(aws: Aws, experiment: str) -> None:
    """What it has interrupted stays interrupted; one that has ended meanwhile is no error."""
    try:
        call(aws, "fis", "stop_experiment", id=experiment)
    except AskError as error:
        if error.kind == "not-found":
            return
        state = call(aws, "fis", "get_experiment", id=experiment)["experiment"]["state"]
        if state["status"] in _UNDER_WAY:
            raise


class _Action(Struct, frozen=True):
    """How a run's things are found, and what takes one of them back. ``by_hand``: what a person runs instead."""

    found: Callable[[Aws, str], list[str]]
    act: Callable[[Aws, str], None]
    by_hand: str


#: All that an undo may ever do in an account, by its name in the journal.
ACTIONS: Mapping[str, _Action] = {
    "fis:StopExperiment": _Action(
        _experiments,
        _stop,
        ("aws fis list-experiments{where}, and stop-experiment --id ... those tagged {tag}={run} that still run"),
    ),
    "fis:DeleteExperimentTemplate": _Action(
        _templates,
        _delete,
        ("aws fis list-experiment-templates{where}, and delete-experiment-template --id ... those tagged {tag}={run}"),
    ),
}


def where(aws: Aws, account: str) -> dict[str, str]:
    """Where a change is about to be made, for its undo. Raises botocore's exceptions where no region is known."""
    return {
        "region": aws.region or str(aws.client("fis").meta.region_name),
        "endpoint": aws.endpoint_url,
        "account": account,
        "profile": aws.profile,
    }


def manual(action: str, place: Mapping[str, str], run: str) -> str:
    """What a person can run instead."""
    told = f" --region {place['region']}" + (f" --endpoint-url {place['endpoint']}" if place["endpoint"] else "")
    return ACTIONS[action].by_hand.format(where=told, tag=RUN_TAG, run=run)


def told_by_hand(action: str, place: Mapping[str, str], run: str) -> str:
    """The same from what a journal says that anybody may have written; empty where it names anything but a region, a
    run and an endpoint that would be asked: a person's shell and credentials are to meet nothing else.
    """
    if action not in ACTIONS or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", run):
        return ""
    try:
        region, endpoint = _region(place), _endpoint(place)
    except (AskError, ValueError):
        return ""
    if not re.fullmatch(r"(https?://[A-Za-z0-9.:\[\]-]+/?)?", endpoint):
        return ""
    return manual(action, {"region": region, "endpoint": endpoint}, run)


def take_back(action: str, place: Mapping[str, str], run: str, aws: Aws | None = None) -> int:
    """Take back what ``run`` changed; how many things that was. ``aws``: who made the change, where it is at hand.

    Raises AskError where it may not be done, could not be asked, or is nothing that may be done here at all.
    """
    how, asked = _how(action, place, run, aws)
    found = how.found(asked, run)
    for one in found:
        how.act(asked, one)
    return len(found)


def left(action: str, place: Mapping[str, str], run: str, aws: Aws | None = None) -> list[str]:
    """What of it is there still. Raises AskError."""
    how, asked = _how(action, place, run, aws)
    return how.found(asked, run)


def _how(action: str, place: Mapping[str, str], run: str, aws: Aws | None) -> tuple[_Action, Aws]:
    how = ACTIONS.get(action)
    if how is None or not run:
        raise AskError(f"{action} is nothing that an undo may do in an account ({', '.join(ACTIONS)})")
    if aws is None:
        aws = Aws(_region(place), _known_profile(place.get("profile", "")), _endpoint(place))
    mine = str(call(aws, "sts", "get_caller_identity")["Account"])
    if mine != place.get("account"):
        raise AskError(
            f"{action}: the change was made in account {place.get('account') or 'unknown'}, these credentials are of "
            f"{mine}: nothing is done in any other"
        )
    return how, aws


def _region(place: Mapping[str, str]) -> str:
    region = place.get("region", "")
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d+", region):
        raise AskError(f"the journal names no region ({region!r})", kind="no-region")
    return region


def _endpoint(place: Mapping[str, str]) -> str:
    """Only AWS' own endpoints, and this machine's: signed requests go nowhere else on a journal's word."""
    url = place.get("endpoint", "")
    if not url:
        return ""
    parts = urlsplit(url)
    host = parts.hostname or ""
    own = parts.scheme == "https" and host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))
    if not own and host not in _LOOPBACK:
        raise AskError(f"the journal's endpoint {url} is neither AWS' nor this machine's: it is not asked")
    return url


def _known_profile(name: str) -> str:
    """The profile by which the change was made, where this machine has one of that name; else what there is."""
    if not name:
        return ""
    try:
        from botocore.session import Session
    except ImportError as error:
        raise AskError(NO_BOTO3, kind="not-installed") from error
    return name if name in Session().available_profiles else ""
