"""Run records of nights that somebody thought out: quickly written, as the recorder writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from killcheck.run.chain import Chain

BEGIN = datetime(2025, 11, 23, 3, 0, tzinfo=UTC)
LIMIT_S = 300.0


def line(kind, at, **fields):
    """One event."""
    return json.dumps({"event": kind, "at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", **{"drill": "", **fields}}) + "\n"


def record(
    day,
    verdict="survived",
    *,
    zero=4.0,
    usd=None,
    objects=None,
    faults=(),
    layer="nightly-off",
    cluster="staging",
    finished=True,
    begun=True,
    cause="",
    accepted=None,
    problems=(),
    rests_until=None,
):
    """(run, text) of one night, ``day`` days after the first one."""
    at, run = BEGIN + timedelta(days=day), f"run-{day:05}-{cluster}-{layer}-{'-'.join(faults)}"
    due = [{"layer": layer, "faults": list(faults), "title": ""}]
    told = line("RunStarted", at, run=run, version="0.1.0", cluster=cluster, real=True, kill_path="llm", drills=due)
    if not begun:
        return run, told
    if objects is not None:
        told += line("Snapshot", at, objects=objects)
    name = "+".join([layer, *faults])
    what = {"layer": layer, "layer_type": "dead-man", "faults": list(faults), "proof": ["P1"]}
    told += line("DrillStarted", at, drill=name, deadlines={"pods_gone": LIMIT_S}, title="", **what)
    told += line("Said", at, drill=name, object="Pod/a/b", type="Warning", reason="Failed", message="DrillFinished")
    if not finished:
        return run, told + '{"event":"DrillFin'
    proven = verdict in ("survived", "covered")
    result = {
        "layer": layer,
        "faults": list(faults),
        "verdict": verdict,
        "why": "",
        "cause": cause,
        "seconds_to_zero": zero if proven else None,
        "seconds_to_drained": zero * 20 if proven else None,
        "usd": 1.0,
        "usd_until_next_chance": usd,
        "accepted": accepted,
        "problems": list(problems),
        "ledger": [{"object": "a", "status": "assumed", "because": "b", "until": rests_until}] if rests_until else [],
    }
    told += line("DrillFinished", at + timedelta(minutes=5), drill=name, result=result)
    return run, told + line("RunFinished", at + timedelta(minutes=5), verdict=verdict, exit_code=0)


def write(folder, *made):
    """Put records where a run leaves them. Returns the folder."""
    for run, text in made:
        place = folder / "runs" / run
        place.mkdir(parents=True, exist_ok=True)
        chain, lines = Chain(), text.splitlines()
        whole = [chain.add(one, last='"RunFinished"' in one) for one in lines if one.endswith("}")]
        (place / "run.jsonl").write_text("\n".join([*whole, *lines[len(whole) :], ""]))
    return folder
