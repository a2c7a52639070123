"""Workloads as possible starters: by what their account may write, and by what their program is read to write.

A program that runs in the drill has been seen; one that does not and whose account may scale a target is a possible
starter, whatever it is called.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from posixpath import basename

from msgspec import Struct

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.executor import ApiCall, Reading
from killcheck.kube import downtimes
from killcheck.kube import program_images as images
from killcheck.kube.objects import Obj, dig, labels_of, name_of, ref_of
from killcheck.kube.workloads import PodTemplate, templates
from killcheck.ledger import conditions, identities, kinds, orders, own_programs
from killcheck.ledger.calls import making, raising, stopping
from killcheck.ledger.rights import may_create, may_write
from killcheck.ledger.stakes import Held, Stakes, home_of, plural_of
from killcheck.rehearsal import loops
from killcheck.spec.killpath import KillPath, Ref
from killcheck.text.values import replace

__all__ = ["KINDS", "Seen", "entry_of", "harmless_by_reading", "power_of", "power_of_pods", "waker_of"]

#: Kinds whose pods run programs.
KINDS = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "Pod"}
)
#: Of them, those that go on for as long as nobody ends them.
LONG_RUNNING = KINDS - {"Job", "CronJob", "Pod"}
#: Of a longer round of a loop a night shows nothing.
_LONGEST_ROUND_S = 6 * 3600.0
_SETTLES = (
    "drill it on a cluster where it runs (--on CONTEXT), take the right from its account, or say under assume: "
    "why it turns nothing on"
)

_RIGHTS = (
    "add the Role and its binding to the manifests, drill it on a cluster where it runs (--on CONTEXT), or say under "
    "assume: why it turns nothing on"
)
_STUCK = (
    "add what its pods wait for to the manifests, take the right from its account, or say under assume: why it turns "
    "nothing on"
)
_MEANT = (
    "name it under starts: in the spec where it is meant, drill it on a cluster where it fires (--on CONTEXT), or say "
    "under assume: why it turns nothing on"
)
_CLOCK = (
    "take the right from its account, name it under starts: in the spec where it is meant, or say under assume: why it "
    "turns nothing on"
)
_HOLD = (
    "name it under layers: (idle-monitor, with busy:) and drill it under work-comes, let the switch end it before its "
    "targets and wait until it is gone, or say under assume: why nothing comes in at night"
)
_UP = "bring it up and drill again, take the right from its account, or say under assume: why it turns nothing on"


class Seen(Struct, frozen=True):
    """What a drill saw of a workload's program. ``stuck``: what was to run it is there, and none of it ever began.

    ``unanswered``: what it asked and nothing here could answer, half a sentence. ``waits``: a program that comes to an
    end was running still when the drill was over. ``meant``: it is a start that the spec declares, or plainly the
    morning's.
    """

    ran: bool = False
    stuck: bool = False
    unanswered: str = ""
    waits: bool = False
    meant: bool = False


def entry_of(obj: Obj, stakes: Stakes, seen: Seen, models: Collection[str], *, live: bool) -> Entry:
    """The entry of one workload. ``models``: the controllers that run here; ``live``: its pods are real ones."""
    ref = ref_of(obj)
    if stakes.is_target(obj):
        said = None if live or seen.ran else _own_words(obj, stakes)
        if said:
            because = f"a target, and its own pods say '{said}': they may while they are ended, and were not run here"
            return Entry(ref, Status.NOT_MODELLED, because, _SETTLES)
        return Entry(ref, Status.MODELLED, "a target: its pods are counted")
    power = power_of(obj, stakes)
    own = None if power else _own_program(obj, stakes)
    if own:
        return Entry(ref, Status.HARMLESS, own, told=True)
    if not power:
        return Entry(ref, Status.HARMLESS, f"its account may not turn a target on ({_account(obj)})")
    controller = downtimes.DOWNSCALER if downtimes.is_downscaler(obj) else _controller(obj, models)
    if controller:
        return Entry(ref, Status.MODELLED, f"what it does is modelled here ({controller})")
    if live:
        return _live(obj, stakes, power, meant=seen.meant)
    if _idle(obj) and not (seen.ran or seen.stuck):
        return _asleep(obj, stakes)
    if seen.ran:
        return _executed(obj, stakes, seen)
    if seen.stuck and not (_is_known(obj, stakes) or harmless_by_reading(obj, stakes)):
        because = f"{power}, and nothing of it ever began in this drill"
        return Entry(ref, Status.NOT_MODELLED, because, _STUCK)
    return _by_reading(obj, stakes, power, meant=seen.meant)


@leaves(
    "worker fleets", "work that comes while a fleet's own scaler, which is no layer, runs beside a switch", Becomes.OPEN
)
def _executed(obj: Obj, stakes: Stakes, seen: Seen) -> Entry:
    """Its program ran. What goes on all night and puts targets up saw a night on which nothing came in: on another it
    may, as a schedule may that waits for something, unless a switch ends it too.

    Of one that is a layer itself that is said: what work does is tried there (the fault ``work-comes``).
    """
    ref = ref_of(obj)
    own = any(
        (one.kind, one.namespace, one.name) == (obj.get("kind"), home_of(obj), name_of(obj)) for one in stakes.switches
    )
    goes_on = obj.get("kind") in LONG_RUNNING and not own
    if seen.unanswered and not (own or goes_on or harmless_by_reading(obj, stakes)):
        because = f"its program ran, and may turn targets on by an answer that it did not get here: {seen.unanswered}"
        return Entry(ref, Status.NOT_MODELLED, because, _SETTLES)
    condition = None if own or seen.meant else conditions.unmet(obj, stakes)
    if condition is not None:
        because = f"its program ran, and {condition}; on another night it may turn targets on"
        return Entry(ref, Status.NOT_MODELLED, because, _SETTLES)
    raised = _own_words(obj, stakes) if goes_on or seen.waits else None
    if raised is None:
        return Entry(ref, Status.EXECUTED, "its own program ran in this drill")
    round_s = loops.round_s(obj) or 0.0
    if seen.waits or round_s > _LONGEST_ROUND_S:
        why = (
            "had not ended when the drill was over" if seen.waits else f"waits for {round_s / 3600:.0f} h in each round"
        )
        return Entry(ref, Status.NOT_MODELLED, f"its program says '{raised}', and {why}", _SETTLES)
    if not _has_rights(obj, stakes):
        because = f"its program says '{raised}', and no manifest gives its account any right: here it was refused"
        return Entry(ref, Status.NOT_MODELLED, because, _RIGHTS)
    because = (
        f"its own program ran in this drill, and may put targets up when work comes, or as a pod of it begins or ends "
        f"('{raised}'): what it looks at stood still"
    )
    if _is_ended(obj, stakes):
        return Entry(ref, Status.EXECUTED, f"{because}, and the switch ends it too", told=True)
    if _is_layer(obj, stakes.kill_path):
        return Entry(ref, Status.ASSUMED, f"{because}, and is taken to be no work")
    return Entry(ref, Status.NOT_MODELLED, because, _HOLD)


def _is_ended(obj: Obj, stakes: Stakes) -> bool:
    """Whether a switch puts a workload to no replicas before its targets, and waits until it is gone.

    As far as is plain: it names it, its labels, or all. What still runs while they go off may light them once more: a
    pod has its grace period, and a shell that is a container's first process passes SIGTERM by. A loop that switches
    off comes round again.
    """
    for switch in stakes.switching():
        for template in templates(switch):
            reading = stakes.reading(switch, template)
            ends = [call for call in reading.writes if _puts_to_none(call, obj)]
            if ends and (loops.goes_round(switch) or _waits_first(reading, obj, stakes)):
                return True
    return False


def _puts_to_none(call: ApiCall, obj: Obj) -> bool:
    return (
        call.replicas == 0
        and call.resource == plural_of(str(obj.get("apiVersion")), str(obj.get("kind")))
        and bool(call.namespace)
        and (bool(call.name) or not call.named)
        and call.about(home_of(obj), name_of(obj), labels_of(obj))
    )


def _waits_first(reading: Reading, obj: Obj, stakes: Stakes) -> bool:
    """Whether a wait stands between the command that names what is ended and the last one that names each target."""
    run = [words for words in reading.commands if "get" not in words]
    waits = [at for at, words in enumerate(run) if _is_wait(words)]

    def at(name: str) -> list[int]:
        return [number for number, words in enumerate(run) if number not in waits and _names(words, name)]

    ended = min(at(name_of(obj)), default=len(run))
    last = min((max(at(held.name), default=-1) for held in stakes.targets), default=-1)
    return any(ended < wait < last for wait in waits)


def _names(words: Sequence[str], name: str) -> bool:
    """Whether a command names an object, or takes all, or those with a label."""
    return any(word.rpartition("/")[2] == name or word in _MANY for word in words)


def _is_wait(words: Sequence[str]) -> bool:
    return bool(words) and (basename(words[0]) == "sleep" or bool({"wait", "rollout"} & set(words[1:3])))


#: Words of a command that is about more than what it names.
_MANY = frozenset({"--all", "-l", "--selector"})


def _has_rights(obj: Obj, stakes: Stakes) -> bool:
    """Whether a binding among the manifests names an account of its pods: then what it may do is known from them."""
    accounts = {one for template in templates(obj) for one in identities.of_pod(template.spec, home_of(obj), stakes)}
    return any(may_write(stakes, account, home) for home, account in accounts) or any(
        (str(subject.get("namespace") or home_of(binding)), str(subject.get("name"))) in accounts
        for binding in stakes.objects
        if str(binding.get("kind")).endswith("RoleBinding")
        for subject in binding.get("subjects") or ()
    )


def _live(obj: Obj, stakes: Stakes, power: str, *, meant: bool) -> Entry:
    """On a real cluster everything runs; only what comes by the clock may not have come yet.

    Where its program plainly says what it will do then, that counts, as it does where nothing runs.
    """
    ref = ref_of(obj)
    if obj.get("kind") == "CronJob" and not _idle(obj) and not _is_layer(obj, stakes.kill_path):
        said = _by_reading(obj, stakes, power, meant=meant)
        if all(_understood(stakes.reading(obj, template)) for template in templates(obj)):
            return replace(said, settles=_CLOCK) if said.status is Status.NOT_MODELLED else said
        when = dig(obj, "spec", "schedule", default="")
        return Entry(
            ref, Status.EXECUTED, f"{power}; a firing of its schedule {when} after the drill was not seen", told=True
        )
    if _is_down(obj) and not harmless_by_reading(obj, stakes):
        return Entry(ref, Status.NOT_MODELLED, f"{power}, and none of its pods was ready in this drill", _UP)
    return Entry(ref, Status.EXECUTED, f"{power}; it runs on this cluster and was watched")


def _asleep(obj: Obj, stakes: Stakes) -> Entry:
    """It has no pods, and does nothing for as long as nobody wakes it."""
    said = "it has no pods: its replicas are 0, or it is suspended"
    waker = waker_of(obj, stakes)
    if waker is None or harmless_by_reading(obj, stakes):
        return Entry(ref_of(obj), Status.HARMLESS, said)
    because = f"{said}; {ref_of(waker)} may wake it, and {power_of(obj, stakes)}"
    return Entry(ref_of(obj), Status.NOT_MODELLED, because, _SETTLES)


def waker_of(obj: Obj, stakes: Stakes) -> Obj | None:
    """What may wake a workload that rests, apart from targets and what turns them off; None: nothing does."""
    held = Held(str(obj.get("apiVersion")), str(obj.get("kind")), home_of(obj), name_of(obj), obj)
    woken = stakes.about(held)
    switches = {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    for one in (*woken.scalers, *stakes.objects):
        if one in woken.scalers:
            return one
        own = one is obj or stakes.is_target(one) or (one.get("kind"), home_of(one), name_of(one)) in switches
        if one.get("kind") in KINDS and not own and power_of(one, woken) and not harmless_by_reading(one, woken):
            return one
    return None


def _is_down(obj: Obj) -> bool:
    """Whether a workload wants pods, and has none that is ready."""
    if obj.get("kind") not in LONG_RUNNING or _idle(obj):
        return False
    wanted = dig(obj, "status", "desiredNumberScheduled", default=1)  # of a DaemonSet alone
    ready = dig(obj, "status", "readyReplicas") or dig(obj, "status", "numberReady")
    return bool(wanted) and not ready


def power_of(obj: Obj, stakes: Stakes) -> str | None:
    """How its pods could turn a target on, or stop what turns it off, in a phrase; None where they could not."""
    for template in templates(obj):
        if own_programs.of_template(obj, template, stakes):
            continue
        for home, account in identities.of_pod(template.spec, home_of(obj), stakes):
            written = may_write(stakes, account, home)
            if not written and not images.is_furniture(template):
                written = may_create(stakes, account, home)
            if written:
                return f"{identities.told(home, account)} may {written}"
        reading = stakes.reading(obj, template)
        raised = raising(reading, stakes) or _in_hooks([template], obj, stakes)
        if raised:
            return f"its program says '{raised}'"
        whom = None if images.is_furniture(template) else identities.unknown(template.spec, home_of(obj), stakes)
        if whom:
            return f"it acts as {whom}: what that may do is not known"
        elsewhere = orders.elsewhere(reading, stakes) or _aimed(obj, template, stakes)
        if elsewhere:
            return elsewhere
    return None if kinds.is_builtin(obj) else power_of_pods(obj, stakes)


def _own_program(obj: Obj, stakes: Stakes) -> str | None:
    """Why killcheck's own programs turn nothing on, where they are all that its pods run; None: another program."""
    found = templates(obj)
    said = [own_programs.of_template(obj, template, stakes) for template in found]
    if not found or not all(said):
        return None
    return f"it is killcheck {said[0]}, which turns on only what a drill of killcheck has turned off"


def power_of_pods(obj: Obj, stakes: Stakes) -> str | None:
    """How the pods that are made of a custom resource could turn a target on, by whom they act as; None: not."""
    for home, account in identities.named_in(obj, stakes):
        written = may_write(stakes, account, home) or may_create(stakes, account, home)
        if written:
            return f"its pods may be {identities.told(home, account)}'s, which may {written}"
    return None


#: Flags and variables that say what is to be scaled, as far as their names tell; bounded, for a word may be long.
_AIM = r"(?<![\w-])(?i:[\w-]{0,40}?(target|deploy|workload|scal|replica|wake|start)[\w-]{0,40})[= ]"


def _aimed(obj: Obj, template: PodTemplate, stakes: Stakes) -> str | None:
    """That a program is told a target, and no manifest says anything of what its account may do, in a phrase.

    A binding from elsewhere may let it. An account that a binding names is known by that.
    """
    own = str(template.spec.get("serviceAccountName") or "default")
    if (home_of(obj), own) not in identities.of_pod(template.spec, home_of(obj), stakes):
        return None
    found = (word for word in _told(template) for held in stakes.targets if _aims_at(word, held))
    word = next(found, None)
    if word is None or _has_rights(obj, stakes):
        return None
    return f"its program is told '{word}', and no manifest says what its account may do"


def _told(template: PodTemplate) -> Iterator[str]:
    """The words that containers are started with, and their variables."""
    for container in dig(template.spec, "containers", default=[]):
        yield from (str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))
        yield from (f"{one.get('name')}={one.get('value')}" for one in container.get("env") or ())


def _aims_at(word: str, held: Held) -> bool:
    """Whether a word names a target as something to act on: ``deployment/NAME``, ``--target=NAMESPACE/NAME``."""
    kind, home, name = (re.escape(part) for part in (held.kind.lower(), held.namespace, held.name))
    kinds_of = rf"(?<![\w./:@-])({kind}s?|deploy|sts)(\.[\w.]+)?/({home}/)?{name}(?![\w./-])"
    return re.search(rf"{kinds_of}|{_AIM}{home}/{name}(?![\w./-])", word) is not None


def _by_reading(obj: Obj, stakes: Stakes, power: str, *, meant: bool) -> Entry:
    """Not executed here: is it enough to have read its program?"""
    ref = ref_of(obj)
    readings = [stakes.reading(obj, template) for template in templates(obj)]
    lights = any(call.replicas for one in readings for call in one.writes) and not _is_start_job(obj, stakes.kill_path)
    if _is_known(obj, stakes) and not lights:
        return Entry(ref, Status.MODELLED, "the spec names it as a part of the kill path")
    if not (readings and all(map(_understood, readings))):
        return Entry(ref, Status.NOT_MODELLED, f"{power}, and its program was not run in this drill", _SETTLES)
    raised = _own_words(obj, stakes)
    made = next(filter(None, map(making, readings)), None)
    if not raised and not made:
        return Entry(ref, Status.HARMLESS, "its program was read whole, and turns nothing on")
    said = f"its program says '{raised or made}'"
    starts = obj.get("kind") == "CronJob" and raised and not any(stopping(one, stakes) for one in readings)
    when = dig(obj, "spec", "schedule", default="")
    if starts and meant:
        because = f"its program was read whole: '{raised}', on its schedule {when}; no firing of it came while this "
        return Entry(ref, Status.MODELLED, f"{because}drill watched", told=True)
    if starts:
        because = (
            f"{said}, and its schedule {when} is not plainly the morning's: no firing came while this drill watched"
        )
        return Entry(ref, Status.NOT_MODELLED, because, _MEANT)
    return Entry(ref, Status.NOT_MODELLED, f"{said} and was not run in this drill", _SETTLES)


def _own_words(obj: Obj, stakes: Stakes) -> str | None:
    """The first call of its containers, or of the hooks of their lives, that may turn a target on."""
    found = templates(obj)
    said = (raising(stakes.reading(obj, template), stakes) for template in found)
    return next((call for call in said if call), None) or _in_hooks(found, obj, stakes)


def _in_hooks(found: Sequence[PodTemplate], obj: Obj, stakes: Stakes) -> str | None:
    readings = (stakes.reading(obj, hook) for template in found for hook in _hooks(template))
    return next((call for call in (raising(reading, stakes) for reading in readings) if call), None)


#: What a kubelet runs in a container beside its program, by where its spec has it.
_BESIDE = (
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
)


def _hooks(template: PodTemplate) -> Iterator[PodTemplate]:
    """A template for each hook and probe that runs a command: its container, a sidecar too, with that command."""
    for container in (*dig(template.spec, "initContainers", default=[]), *dig(template.spec, "containers", default=[])):
        for where in _BESIDE:
            command = dig(container, *where, "exec", "command")
            if command:
                alone = {**container, "command": command, "args": []}
                yield replace(template, spec={**template.spec, "initContainers": [], "containers": [alone]})


def _understood(reading: Reading) -> bool:
    return bool(reading.calls) and not reading.not_understood and not reading.outside


def _is_layer(obj: Obj, kill_path: KillPath) -> bool:
    refs = (ref for layer in kill_path.layers for ref in (layer.cron_job, layer.workload))
    return any(map(partial(_is_of, obj), refs)) or _is_start_job(obj, kill_path)


def _is_known(obj: Obj, stakes: Stakes) -> bool:
    """Whether a drill judges it by itself. Another layer that has not fired in it may turn on what is off."""
    return any(map(partial(_is_of, obj), stakes.switches)) or _is_start_job(obj, stakes.kill_path)


def _is_start_job(obj: Obj, kill_path: KillPath) -> bool:
    """Whether it is a start that a sentinel holds up: that is drilled by itself."""
    held = (ref for layer in kill_path.layers if layer.sentinel for ref in layer.sentinel.start_jobs)
    return any(map(partial(_is_of, obj), held))


def _is_of(obj: Obj, ref: Ref | None) -> bool:
    return ref is not None and (ref.kind, ref.namespace, ref.name) == (obj.get("kind"), home_of(obj), name_of(obj))


def _controller(obj: Obj, models: Collection[str]) -> str | None:
    """The model that stands for a workload's program here; None where there is none. A controller's program goes on.

    It stands for all of its pods: a container that nobody knows may act with the same account.
    """
    if obj.get("kind") not in LONG_RUNNING:
        return None
    found = {images.modelled_by(one) for template in templates(obj) for one in images.acting(template)}
    return min(filter(None, found), default=None) if found <= set(models) else None


def _idle(obj: Obj) -> bool:
    spec = obj.get("spec") or {}
    return spec.get("replicas") == 0 or spec.get("suspend") is True


def _account(obj: Obj) -> str:
    found = templates(obj)
    account = str(found[0].spec.get("serviceAccountName") or "default") if found else "default"
    return f"ServiceAccount {home_of(obj)}/{account}"


def harmless_by_reading(obj: Obj, stakes: Stakes) -> bool:
    """Whether its whole program could be read and turns nothing on."""
    readings = [stakes.reading(obj, template) for template in templates(obj)]
    return bool(readings) and all(map(_understood, readings)) and not _own_words(obj, stakes)
