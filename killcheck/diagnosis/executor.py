"""Why the executor did not do its work: refused, unschedulable, unpullable, unable to start, failed - or falsely green.

The words are those of a v1.36 cluster (kubelet, Job controller, scheduler), as recorded.
"""

from __future__ import annotations

import re

from killcheck.diagnosis.case import Case, Diagnosis, said
from killcheck.diagnosis.false_green import false_green
from killcheck.diagnosis.meanings import MEANINGS, meaning
from killcheck.executor import refusals
from killcheck.executor.refusals import RefusalKind
from killcheck.kube.objects import Obj, dig, labels_of, name_of
from killcheck.layers.base import Hindrance
from killcheck.text import lazy_re

__all__ = ["FAILURES", "RULES"]

#: curl's exit codes that an executor meets (curl's manual, EXIT CODES).
CURL_EXITS = {
    6: "curl could not resolve the host",
    7: "curl could not connect",
    22: "the API answered with an error (curl -f)",
    28: "curl timed out",
    35: "the TLS handshake failed",
    56: "the connection broke",
    60: "the certificate could not be verified",
}

#: How a shell says that it knows no such command (POSIX, Shell Command Language 2.8.2: 127; recorded of bash, dash and
#: busybox). An API server that knows no such object says it in quotes, without the colon.
_NO_COMMAND = lazy_re.compile(r"([^\s:\"']+): (?:command )?not found$", re.MULTILINE)

_REFUSALS = (
    ("serviceaccount", "create the ServiceAccount that the template names"),
    ("exceeded quota", "give the executor's namespace quota for one more pod, or move the executor out of it"),
    ("failed quota", "declare resources in the executor's template, as the quota demands"),
    ("podsecurity", "give the executor a securityContext that the namespace's PodSecurity level admits"),
    (
        "failed calling webhook",
        "exclude the executor's namespace from the webhook, or let it fail open (failurePolicy: "
        "Ignore): a kill switch must not wait for a policy server",
    ),
    ("usage per", "set the executor's resources within the namespace's LimitRange"),
)


def suspended(case: Case) -> Diagnosis | None:
    """The layer's CronJob was suspended: the schedule would never have fired by itself."""
    cron_job = case.layer.cron_job
    if case.stuck_at != "triggered" or not dig(cron_job, "spec", "suspend"):
        return None
    return Diagnosis(
        cause=f"CronJob {name_of(cron_job)} is suspended: nothing fires, and Kubernetes says nothing about it",
        evidence=("spec.suspend: true",),
        remedy="set spec.suspend to false",
        failures=(7,),
    )


def held_up(case: Case) -> Diagnosis | None:
    """Under Forbid a Job that never ends holds up every later firing."""
    why = case.layer.not_fired()
    if case.stuck_at != "triggered" or why is None or why.reason is not Hindrance.STILL_ACTIVE:
        return None
    return Diagnosis(
        cause=f"nothing fires: {why}",
        evidence=(why.why, "event Normal JobAlreadyActive is all that Kubernetes says about it"),
        remedy="give the Job an activeDeadlineSeconds well below its period; delete the Job that hangs",
        failures=(8,),
    )


def pod_refused(case: Case) -> Diagnosis | None:
    """The API server refused the executor's pod."""
    events = case.events("FailedCreate")
    if case.pods or not events:
        return None
    message = str(events[0].get("message", "")).removeprefix("(combined from similar events): ")
    remedy = next(
        (text for mark, text in _REFUSALS if mark in message.lower()),
        "make the template's pod admissible: try it with kubectl create --dry-run=server",
    )
    return Diagnosis(
        cause=f"the executor's pod was refused: {message}",
        evidence=tuple(said(e) for e in events[:3]),
        remedy=remedy,
        failures=(11,),
    )


def no_pod_wanted(case: Case) -> Diagnosis | None:
    """The Job is there, and asks for no pod."""
    if case.stuck_at != "pod_created" or not case.job or case.pods:
        return None
    spec = case.job.get("spec") or {}
    held = spec.get("suspend") is True and _QUEUE not in labels_of(case.job)  # else Kueue has it
    said = "suspend: true" if held else "parallelism: 0" if spec.get("parallelism") == 0 else ""
    if not said:
        return None
    return Diagnosis(
        cause=f"Job {name_of(case.job)} asks for no pod ({said}): the executor never runs",
        evidence=(said,),
        remedy=f"take {said.partition(':')[0]} out of the CronJob's jobTemplate",
        failures=(11,),
    )


#: The label of a Job that Kueue suspends until it is admitted.
_QUEUE = "kueue.x-k8s.io/queue-name"


def nobody_looked(case: Case) -> Diagnosis | None:
    """The Job is there, and no controller has ever touched it."""
    if case.stuck_at != "pod_created" or not case.job or case.job.get("status") or case.events():
        return None
    return Diagnosis(
        cause=f"Job {name_of(case.job)} has no status, no pod and no event: the job controller does not work",
        evidence=("status: {}",),
        remedy="see to kube-controller-manager; let something outside the cluster turn the GPUs off too",
        failures=(15,),
    )


def unschedulable(case: Case) -> Diagnosis | None:
    """No node takes the executor's pod."""
    for pod in reversed(case.pods):
        for cond in dig(pod, "status", "conditions", default=[]):
            if cond.get("type") == "PodScheduled" and cond.get("status") == "False":
                message = cond.get("message") or cond.get("reason", "")
                return Diagnosis(
                    cause=f"the executor's pod {name_of(pod)} stayed Pending: {message}",
                    evidence=(
                        f"condition PodScheduled False {cond.get('reason', '')}: {message}",
                        *(said(e) for e in case.events("FailedScheduling")[:2]),
                    ),
                    remedy="give the executor a node it can always have: small requests, tolerations, a high "
                    "priorityClass, a pool that does not scale to zero",
                    failures=(12,),
                )
    return None


_QUOTA = "the registry's pull quota is used up: pull with credentials, or mirror the image"
_SECRET = "the pull secret is missing or has expired: renew it, or use an image that needs none"  # noqa: S105 - a remedy
_PULL_HINTS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("toomanyrequests", _QUOTA, (4,)),
    ("429", _QUOTA, (4,)),
    ("unauthorized", _SECRET, (6,)),
    ("authentication required", _SECRET, (6,)),
    ("403", _SECRET, (6,)),
    (
        "not found",
        "use an image that cannot go away: one the cluster already runs, mirrored in your own registry and "
        "pinned by digest",
        (1,),
    ),
    ("no such host", "the registry's name does not resolve: an executor must not depend on an outside registry", (3,)),
    ("connection refused", "the registry is down: an executor must not depend on an outside registry", (3,)),
    ("x509", "the node does not trust the registry's certificate", (3,)),
)


#: The kubelet goes to and fro between these while it tries (images/image_manager.go): which of them is to be seen
#: depends on the second, and an exposure is accepted by its cause. So they have one name.
_TRYING = {"ImagePullBackOff": "ErrImagePull"}
#: What stands before the registry's own words in a status or an event.
_TOLD_BY_KUBELET = lazy_re.compile(
    r'^(?:Back-off pulling image "[^"]*"(?:: ErrImagePull: |$)|Failed to pull image "[^"]*": )'
)


def image(case: Case) -> Diagnosis | None:
    """The image could not be had."""
    for pod, status in case.containers():
        waiting = dig(status, "state", "waiting", default={})
        reason = waiting.get("reason", "")
        if reason not in (
            "ErrImagePull",
            "ImagePullBackOff",
            "ErrImageNeverPull",
            "InvalidImageName",
            "ImageInspectError",
            "RegistryUnavailable",
        ):
            continue
        message = _pull_message(case, waiting)
        lowered = message.lower()
        remedy, rows = next(
            ((text, rows) for mark, text, rows in _PULL_HINTS if mark in lowered),
            ("name an image that exists and that every eligible node can have", (1,)),
        )
        if reason == "ErrImageNeverPull":
            remedy, rows = "imagePullPolicy is Never and the image is not there: load it on every eligible node", (5,)
        if reason == "InvalidImageName":
            remedy, rows = "the image reference does not parse: repositories are lower case", (2,)
        return Diagnosis(
            cause=f"{_TRYING.get(reason, reason)}: {_short_of(message)}",
            evidence=(
                message,
                f"pod {name_of(pod)}, container {status['name']}: waiting, {reason}",
                "the Job stays active: backoffLimit never counts a pod that cannot pull",
                *(said(e) for e in case.events("Failed", "BackOff", "ErrImageNeverPull", "InspectFailed")[:2]),
            ),
            remedy=remedy,
            failures=rows,
        )
    return _never_pulled(case)


def _never_pulled(case: Case) -> Diagnosis | None:
    """The pod is gone or was ended while it could not pull: only the events still say so."""
    message = _pull_message(case, {})
    if not message or "container_started" in case.timeline.reached:
        return None
    remedy, rows = next(
        ((text, rows) for mark, text, rows in _PULL_HINTS if mark in message.lower()),
        ("name an image that exists and that every eligible node can have", (1,)),
    )
    evidence = [message, *(said(e) for e in case.events("Failed", "BackOff")[:2])]
    failed = case.job_condition("Failed")
    if failed:
        evidence.append(f"Job {name_of(case.job)}: Failed, {failed.get('reason')}: {failed.get('message')}")
    return Diagnosis(
        cause=f"ErrImagePull: {_short_of(message)}", evidence=tuple(evidence), remedy=remedy, failures=rows
    )


def _short_of(message: str) -> str:
    """The registry's own words: without the kubelet's, and without what containerd says three times over."""
    found = re.search(r'failed to resolve reference "[^"]+": (.+)$', message)
    return found.group(1) if found else _TOLD_BY_KUBELET.sub("", message) or message


def _pull_message(case: Case, waiting: Obj) -> str:
    """The registry's own words: the back-off's message may hide them."""
    for event in case.events("Failed"):
        message = str(event.get("message", ""))
        if message.startswith("Failed to pull image"):
            return message
    return str(waiting.get("message", ""))


def waiting(case: Case) -> Diagnosis | None:
    """The container waits for something that does not exist."""
    for pod, status in case.containers():
        state = dig(status, "state", "waiting", default={})
        reason = state.get("reason", "")
        mounts = case.events("FailedMount", "FailedAttachVolume")
        if reason == "CreateContainerConfigError":
            return Diagnosis(
                cause=f"CreateContainerConfigError: {state.get('message', '')}",
                evidence=(f"pod {name_of(pod)}, container {status['name']}: waiting",),
                remedy="create what the template refers to, or take the reference out",
                failures=(11,),
            )
        if reason == "ContainerCreating" and mounts:
            return Diagnosis(
                cause=f"FailedMount: {mounts[0].get('message', '')}",
                evidence=tuple(said(e) for e in mounts[:2]),
                remedy="create the volume's source, or take the volume out: an executor needs none",
                failures=(11,),
            )
    return None


def ended_badly(case: Case) -> Diagnosis | None:
    """The executor started, or tried to, and failed."""
    for pod, status in case.containers():
        ended = dig(status, "state", "terminated") or dig(status, "lastState", "terminated")
        if not ended or ended.get("exitCode") == 0:
            continue
        if case.job_condition("Failed") and case.job_condition("Failed")["reason"] == "DeadlineExceeded":  # type: ignore[index]
            return None
        cause, remedy, rows = _exit(case, ended)
        verdict = case.job_condition("Failed")
        evidence = [
            f"pod {name_of(pod)}, container {status['name']}: exit code {ended.get('exitCode')}"
            + (f", {ended['reason']}" if ended.get("reason") else "")
        ]
        if verdict:
            evidence.append(f"Job {name_of(case.job)}: Failed, {verdict.get('reason')}: {verdict.get('message')}")
        return Diagnosis(cause=cause, evidence=(*evidence, *case.log_lines()), remedy=remedy, failures=rows)
    return None


#: A cause, what to do about it, and the rows of failures that it is one of.
_Why = tuple[str, str, tuple[int, ...]]


def _exit(case: Case, ended: Obj) -> _Why:
    """Why a container ended as it did: by its exit code, else by the last that it wrote."""
    code, log = int(ended.get("exitCode", 0)), case.log()
    last = refusals.last(log)[:300]
    found = _image_lacks(ended, code, log, last) or _out_of_memory(ended, code) or _refused(code, log, last, case.pods)
    return found or (
        f"the executor failed with exit code {code}: {last}",
        "read the log, mend the executor, drill again",
        (),
    )


def _image_lacks(ended: Obj, code: int, log: str, last: str) -> _Why | None:
    """The image has not what the executor runs, or is for another machine."""
    if ended.get("reason") == "StartError" or code == 128:
        return (
            f"the container could not start: {ended.get('message', '').strip()}",
            "the image lacks the program that the template runs: use an image that has it, and drill it",
            (2,),
        )
    missing = _NO_COMMAND.search(log if code == 127 else last)
    if code == 127 or (missing and code in (1, 126)):
        lacks = f"has no {missing.group(1)}" if missing else "lacks a command that the executor runs"
        return (
            f"exit code {code}: {last or 'a command was not found'}",
            f"the image {lacks}: use an image that has it, or do the same with what the image has "
            "(python:3.12-slim has python3 and no curl)",
            (2,),
        )
    if "exec format error" in log:
        return (
            f"exec format error: {last}",
            "the image is of another architecture than the node: build it for both",
            (2,),
        )
    return None


def _out_of_memory(ended: Obj, code: int) -> _Why | None:
    if code != 137 or ended.get("reason") != "OOMKilled":
        return None
    return "OOMKilled: the executor ran out of memory", "raise the executor's memory limit", (11,)


def _refused(code: int, log: str, last: str, pods: list[Obj]) -> _Why | None:
    """Nobody answered, or somebody refused: by the words of clients."""
    told = refusals.refusal(log)
    if code in CURL_EXITS and "curl" in log and (told is None or told.kind not in _ANSWERED):
        return f"curl exit code {code}, {CURL_EXITS[code]}: {last}", MEANINGS[RefusalKind.UNREACHED][1], (23, 25)
    if told is not None:
        what, remedy, rows = meaning(told, pods)
        return f"{what}: {told.line[:300]}", remedy, rows
    invalid = refusals.invalid(log)
    if invalid:
        return (
            f"422 Invalid: {invalid[:300]}",
            "the API server, or a policy of the cluster, does not take what the executor writes: let it write what is "
            "taken, or except it from the policy",
            (11,) if "denied request" in invalid else (),
        )
    absent = re.search(r'[\w.-]+ "[^"]+" not found', log)
    if absent is None:
        return None
    return (
        f"404 Not Found: {absent[0]}",
        "the executor names what is not there: name it as it is deployed, in the namespace that it is deployed to",
        (),
    )


#: What was not the network's fault: somebody answered, or nobody was asked.
_ANSWERED = (RefusalKind.NO_TOKEN, RefusalKind.FORBIDDEN, RefusalKind.UNAUTHORIZED, RefusalKind.UNTRUSTED)


def deadline(case: Case) -> Diagnosis | None:
    """The Job ran into its own activeDeadlineSeconds."""
    failed = case.job_condition("Failed") or case.job_condition("FailureTarget")
    if not failed or failed.get("reason") != "DeadlineExceeded":
        return None
    told = refusals.refusal(case.log())
    if told is not None and told.kind not in _ANSWERED:  # what it waited for is known
        what, remedy, rows = meaning(told, case.pods)
        return Diagnosis(
            cause=f"the executor tried until its deadline: {what}: {told.line[:300]}",
            evidence=(
                f"spec.activeDeadlineSeconds: {dig(case.job, 'spec', 'activeDeadlineSeconds')}",
                *case.log_lines(),
            ),
            remedy=remedy,
            failures=rows,
        )
    never = _never_began(case)
    if never is not None:
        return never
    return Diagnosis(
        cause=f"DeadlineExceeded: {failed.get('message', 'Job was active longer than specified deadline')}",
        evidence=(f"spec.activeDeadlineSeconds: {dig(case.job, 'spec', 'activeDeadlineSeconds')}", *case.last_words()),
        remedy="find what the executor waited for; a deadline ends the Job, it does not turn the GPUs off",
        failures=(8,),
    )


def _never_began(case: Case) -> Diagnosis | None:
    """Until the Job's deadline its program was never started: a volume, or a container that comes first."""
    if "container_started" in case.timeline.reached and case.log():
        return None
    mounts = case.events("FailedMount", "FailedAttachVolume")
    if mounts and case.stuck_at in ("image_pulled", "container_started"):
        return Diagnosis(
            cause=f"FailedMount: {mounts[0].get('message', '')}",
            evidence=tuple(said(e) for e in mounts[:2]),
            remedy="create the volume's source, or take the volume out: an executor needs none",
            failures=(11,),
        )
    return _comes_first(case)


def held_up_by_first(case: Case) -> Diagnosis | None:
    """A container that comes first runs, and has not let the executor begin by its deadline: the pod is still there."""
    return _comes_first(case) if case.stuck_at in ("image_pulled", "container_started") else None


def _comes_first(case: Case) -> Diagnosis | None:
    """The newest pod that was held up by an init container; None: none was."""
    for pod in reversed(case.pods):
        first = _still_first(pod)
        if first is not None:
            return Diagnosis(
                cause=f"container {first} of {name_of(pod)} comes first and did not end: the executor never started",
                evidence=tuple(case.last_words(3)),
                remedy="keep the executor's pods out of injection, and give nothing the chance to hold them up",
                failures=(11,),
            )
    return None


def _began(status: Obj) -> bool:
    """Whether a container was ever started: one that was not waits, or could not be found when its pod was ended."""
    waits = dig(status, "state", "waiting", "reason") == "PodInitializing"
    return not waits and dig(status, "state", "terminated", "reason") != "ContainerStatusUnknown"


def _still_first(pod: Obj) -> str | None:
    """The init container that held a pod up until it was ended; None: none did."""
    rest = dig(pod, "status", "containerStatuses", default=[])
    if not rest or any(_began(one) for one in rest):
        return None
    beside = {
        c.get("name") for c in dig(pod, "spec", "initContainers", default=[]) if c.get("restartPolicy") == "Always"
    }
    for one in dig(pod, "status", "initContainerStatuses", default=[]):
        if one.get("name") in beside and one.get("started"):
            continue  # a sidecar that is up holds nobody up
        if dig(one, "state", "running") or dig(one, "state", "terminated", "exitCode", default=0):
            return str(one.get("name"))
    return None


def hangs(case: Case) -> Diagnosis | None:
    """The executor runs on and on."""
    for pod, status in case.containers():
        started = dig(status, "state", "running", "startedAt")
        if started and case.stuck_at in ("executor_finished", "scale_written", "pods_gone", "pods_terminating"):
            return Diagnosis(
                cause=f"the executor hangs: {name_of(pod)} has been running since {started} and has not done its work",
                evidence=tuple(case.last_words()),
                remedy="give its calls time limits, and the Job an activeDeadlineSeconds below its period (under "
                "Forbid a hung Job stops every later night)",
                failures=(8,),
            )
    return None


#: What an executor does not get over by itself in time, as far as anybody can see: no longer watch is asked for.
FAILURES = (suspended, held_up, pod_refused, unschedulable, image, waiting, deadline, ended_badly, false_green)
RULES = (
    suspended,
    held_up,
    pod_refused,
    no_pod_wanted,
    nobody_looked,
    unschedulable,
    image,
    waiting,
    deadline,
    ended_badly,
    false_green,
    held_up_by_first,
    hangs,
)
