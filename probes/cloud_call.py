"""What executors ask of a cloud's command line, fired once in a rehearsal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from killcheck.probes.base import Finding, Probe
from killcheck.probes.rehearsed import lost_in
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.executor import cloud_lines, cloud_machines
from killcheck.kube.objects import annotations_of, name_of

if TYPE_CHECKING:
    from killcheck.rehearsal.record import Rehearsed

__all__ = ["CloudCalls"]


class CloudCalls(Probe):
    """Fired once where no cloud is: what it asks aws, gcloud or az for, and whether anybody hears of a refusal."""

    id = "cloud-call"
    rehearsed = True
    claim = "What an executor asks of a cloud is a command line that its program takes, and a refusal ends it."
    remedy = "Correct the command line, and let its failure end the executor (set -e, no '|| true', check=True)."
    failures = (14, 39)
    sources = ("botocore's service models: the options of an operation", "AWS CLI: return codes")

    def ask(self, world: World) -> Iterable[Finding]:
        """For each layer that asks a cloud: words that it does not take; a refusal that nobody hears."""
        for one in world.layer_executors:
            seen = world.rehearsed.get(
                f"{one.owner.get('kind')}/{namespace_or_default(one.owner)}/{name_of(one.owner)}"
            )
            if seen is None or not seen.first.clouds:
                continue
            told = list(_told(seen))
            for message in told:
                yield self.finding(world, one.owner, command_path(one), message)
            if not told:
                yield self._open(world, one, seen)

    def _open(self, world: World, one: Executor, seen: Rehearsed) -> Finding:
        first = seen.first.clouds[0]
        more = f" and {len(seen.first.clouds) - 1} more" if len(seen.first.clouds) > 1 else ""
        asked = f"what the cloud does when it is asked for '{first}'{more}"
        return self.unproven(world, one.owner, asked + _not_given(world, one, seen))


def _not_given(world: World, one: Executor, seen: Rehearsed) -> str:
    """What a cloud's command line needs and no manifest gives its pod, in half a sentence; empty: nothing."""
    asked = [call.argv for call in seen.first.clouds]
    if all(argv[0] != "aws" for argv in asked):
        lacks = cloud_machines.lacks_place(asked, f"{one.text} {json.dumps(one.spec)}")
        return f"; {lacks}" if lacks else ""
    account = world.find("ServiceAccount", one.namespace, one.account)
    text = f"{one.text} {json.dumps(one.spec)} {json.dumps(annotations_of(account or {}))}"
    by_role = "eks.amazonaws.com/role-arn" in text  # the webhook of IRSA sets the region too
    region = not by_role and bool(cloud_machines.lacks_place([argv for argv in asked if argv[0] == "aws"], text))
    login = not by_role and not any(mark in text for mark in _LOGINS)
    missing = " or ".join(what for what, is_missing in (("a region", region), ("a login", login)) if is_missing)
    if not missing:
        return ""
    return f"; nothing here gives it {missing}: a Pod Identity association may, or the node's own metadata"


#: What gives the AWS CLI credentials, in a pod's spec, its text or its account's annotations.
_LOGINS = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", ".aws", "secretRef", "AWS_CONTAINER_")


def _told(seen: Rehearsed) -> Iterable[str]:
    for call in dict.fromkeys(seen.first.clouds):
        wrong = cloud_lines.wrong_in(call.argv)
        if wrong is not None:
            yield f"'{call}': {wrong}"
    again = cloud_machines.lit_again(call.argv for call in seen.first.clouds)
    if again is not None:
        yield again
    lost = lost_in(seen.refused)
    if lost is not None:
        yield f"ends with exit code 0 although '{lost}' was refused (rehearsed with a cloud that refuses everything)"
