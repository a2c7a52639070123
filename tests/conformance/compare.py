"""What a recording saw beside what the embedded cluster showed: every difference, a sentence each.

Field by field of every object the same values in the same order; of every event the same text, the same number of
times; both at the same moments, within a tolerance. What may differ, and why, a situation says itself.
"""

import json
import re
from math import ceil, floor

from recorded import Told

#: Fields whose course is an accident of when somebody looked: batches in flight, counters of writes.
PASSING = frozenset({"status.uncountedTerminatedPods", "status.observedGeneration", "reason"})
#: Looked at once a second by the Job controller: what came and went in between, nobody saw. The last value counts.
SAMPLED = frozenset({"status.ready"})
#: The recorded kubelet posts status every 2-5 s, the Job controller collects for 1 s, the API's watches add 0.4 s.
TOLERANCE_S = 3.0
#: Nothing is tried again between two passes of a pod's worker. After one that failed the next comes 10 to 15 s later
#: (pkg/kubelet/pod_workers.go: workerBackOffPeriod and its jitter): so late may a retry be.
PASS_S = (10.0, 15.0)
#: After one that did not fail it comes 60 to 90 s later, if nothing happens before (resyncInterval and its jitter).
REST_S = (60.0, 90.0)
#: Seconds after the trigger: what ended before is the recorder's own preparations.
BEFORE_S = -5.0
#: How far a count may be off where a kubelet counts up for as long as it looks: ticks near the end of the recording.
COUNT_SLACK = 1


def differences(recording, seen, situation):
    """Sentences; empty where the embedded cluster did what the real one did."""
    masks = situation.masks

    def text(value):
        for pattern, put in masks:
            value = re.sub(pattern, put, value) if value is not None else None
        return value

    found = list(_courses(recording, seen, situation, text))
    found += _events(recording, seen, situation, text)
    found += [f"answer to {request}: {got}, not {want}" for request, got, want in seen.answers if got != want]
    for request, got, want in seen.bodies:
        found += [f"answer to {request}: {line}" for line in unlike(got, want, "")]
    return [f for f in found if not any(re.search(pattern, f) for pattern, _why in situation.allowed)]


def _courses(recording, seen, situation, text):
    complete = {t.object for t in recording.transitions if t.field == "object" and t.value == "ADDED"}
    want = _by_field(recording.transitions, complete, text)
    got = _by_field(seen.transitions, complete, text)
    known = {key[0] for key in want} | {t.object for t in recording.transitions}
    kinds = {name.partition("/")[0] for name in known}
    for key in sorted(set(want) | set(got)):
        name, attribute = key
        if attribute in PASSING or name.partition("/")[0] not in kinds:
            continue
        wanted, had = want.get(key, []), got.get(key, [])
        if attribute in SAMPLED:
            wanted, had = wanted[-1:], had[-1:]
        while len(had) > len(wanted) and had[-1][0] > recording.end - max(0.1, situation.late_s):
            had = had[:-1]  # after the recorder had stopped
        if [v for _, v in wanted] != [v for _, v in had]:
            yield f"{name} {attribute}: {_short(had)}, not {_short(wanted)}"
            continue
        if attribute not in SAMPLED:
            yield from _moments(f"{name} {attribute}", had, wanted, situation)


def _moments(label, had, wanted, situation):
    """Where retries have their moment from chance, each is counted from what came before it in its course."""
    since = (0.0, 0.0)
    for (at, value), (real, _) in zip(had, wanted, strict=True):
        if situation.late_s:
            off, least = abs((at - since[0]) - (real - since[1])), situation.tolerance_s + situation.late_s
            since = (at, real)
        else:
            off, least = abs(at - real), situation.tolerance_s
        if off > least:
            yield f"{label} {value}: at {at:.1f} s, not {real:.1f} s"


def _by_field(transitions, complete, text):
    found = {}
    for t in transitions:
        if t.object not in complete and t.at < -0.05:
            continue
        course = found.setdefault((t.object, t.field), [])
        value = _plain(text(t.value))
        if not course or course[-1][1] != value:
            course.append((t.at, value))
    return found


def _plain(value):
    """JSON with its keys in order, so that only content is compared."""
    if value and value[0] in "{[":
        return json.dumps(json.loads(value), sort_keys=True)
    return value


def _events(recording, seen, situation, text):
    def grouped(events):
        found = {}
        for told in events:
            key = (told.object, told.type, told.reason, text(told.message))
            before = found.get(key)
            found[key] = told if before is None else Told(min(before.at, told.at), *key, before.count + told.count)
        return found

    want, got = grouped(recording.events), grouped(seen.events)
    for key in [*want, *(key for key in got if key not in want)]:
        label = f"event {' '.join(key)}"
        if max(told.at for told in (want.get(key), got.get(key)) if told) < BEFORE_S:
            continue
        if key not in got:
            yield f"{label}: not seen (x{want[key].count} at {want[key].at:.1f} s)"
        elif key not in want and got[key].at > recording.end - 0.1:
            continue
        elif key not in want:
            yield f"{label}: seen here only (x{got[key].count} at {got[key].at:.1f} s)"
        else:
            if not _as_often(got[key].count, want[key], situation):
                yield f"{label}: {got[key].count} times, not {want[key].count}"
            if abs(got[key].at - want[key].at) > situation.tolerance_s + 1:
                yield f"{label}: at {got[key].at:.1f} s, not {want[key].at:.1f} s"


def _as_often(count, wanted, situation):
    if situation.late_s and "BackOff" in f"{wanted.reason} {wanted.message}":  # said at every pass
        least, most = (ratio * wanted.count for ratio in (PASS_S[0] / PASS_S[1], PASS_S[1] / PASS_S[0]))
        return floor(least) - COUNT_SLACK <= count <= ceil(most) + COUNT_SLACK
    slack = COUNT_SLACK * (wanted.count > 2 or situation.late_s > 0)  # one retry may fall after the recorder's end
    return abs(count - wanted.count) <= max(slack, wanted.count // 5)


def _short(course):
    return "[" + ", ".join(f"{at:.1f}: {value}" for at, value in course) + "]"


def unlike(got, want, path):
    """Where two JSON values differ, a sentence each."""
    if isinstance(got, dict) and isinstance(want, dict):
        for key in sorted({*got, *want}):
            if key not in got:
                yield f"{path}.{key}: absent, not {want[key]!r}"
            elif key not in want:
                yield f"{path}.{key}: {got[key]!r}, not absent"
            else:
                yield from unlike(got[key], want[key], f"{path}.{key}")
    elif isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        for number, (mine, theirs) in enumerate(zip(got, want, strict=True)):
            yield from unlike(mine, theirs, f"{path}[{number}]")
    elif got != want:
        yield f"{path}: {got!r}, not {want!r}"
