"""Fleets that are rented machine by machine over a market's HTTP API: what ends them, when, and what is beside it.

The truth is the market's: a machine that no DELETE of its own names is on and bills, one page of a list is not the list.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml
from composed import Obj
from parts import OFF, ON, UNKNOWN, Scene

_ASK = 'curl -fsS -H "Authorization: Bearer $MARKET_KEY"'
_ALL = f"{_ASK} $MARKET_URL/api/v0/instances/"
_EACH = "| jq -r '.instances[].id'"
_END = f"{_ASK} -X DELETE $MARKET_URL/api/v0/instances/$id/"
#: What a night's script does, and what that comes to.
STOPS = {
    "each": (OFF, f"for id in $({_ALL} {_EACH}); do {_END}; done"),
    "each, by a pipe": (OFF, f"{_ALL} {_EACH} | while read -r id; do {_END}; done"),
    "the first": (ON, f"for id in $({_ALL} {_EACH} | head -1); do {_END}; done"),
    "by their index": (ON, f"for id in $({_ALL} | jq -r '.instances[0].id'); do {_END}; done"),
    "another label's": (
        ON,
        f"for id in $({_ALL} | jq -r '.instances[] | select(.label == \"train\") | .id'); do {_END}; done",
    ),
    "none: a path that is not there": (ON, f"for id in $({_ALL} | jq -r '.machines[]?.id'); do {_END}; done"),
    "none: they are looked at": (ON, f"for id in $({_ALL} {_EACH}); do {_ASK} $MARKET_URL/api/v0/instances/$id/; done"),
    "without the key": (
        ON,
        f"for id in $({_ALL} {_EACH}); do curl -sS -X DELETE $MARKET_URL/api/v0/instances/$id/; done",
    ),
}
FIRES = {
    "nightly": (OFF, "17 23 * * *"),
    "on a day that never comes": (ON, "17 23 30 2 *"),
}
ALONGSIDE: dict[str, tuple[str, dict[str, str]]] = {
    "nothing": (OFF, {}),
    "logs": (OFF, {"etc/cron.d/logs": "30 4 * * * root /usr/sbin/logrotate /etc/logrotate.conf\n"}),
    "a script that nobody can read": (UNKNOWN, {"etc/cron.d/fill": "0 23 * * * root /opt/fleet/keep embed-fleet 2\n"}),
}
_MARKET = {
    "apiVersion": "killcheck/v1",
    "kind": "Market",
    "shape": "vast",
    "boots": "60s",
    "offers": [
        {"id": number, "gpu_name": "RTX 3090", "num_gpus": 1, "gpu_ram": 24576, "dph_total": 0.22, "reliability": 0.97}
        for number in (101, 102)
    ],
}


def _spec(schedule: str) -> Obj:
    env = {"env": {"MARKET_KEY": "account"}, "passEnv": ["MARKET_URL"]}
    machines = {
        "items": "instances",
        "type": "gpu_name",
        "usdPerHour": "dph_total",
        "most": 4,
        "maxUsdPerHour": 0.4,
        "standIn": "market.yaml",
    }
    count: Obj = {"http": {"url": "$MARKET_URL/api/v0/instances/", "bearer": "MARKET_KEY"}, "env": env["env"]}
    target = {"name": "embed-fleet", "count": count, "start": {"argv": ["./rent.sh"]} | env, "machines": machines}
    layer = {"name": "sweep", "type": "command", "covers": ["embed-fleet"], "command": {"argv": ["./off.sh"]} | env}
    return {
        "apiVersion": "killcheck/v1",
        "kind": "KillPath",
        "name": "rented",
        "targets": [target],
        "layers": [layer | {"schedule": schedule, "timeZone": "Etc/UTC"}],
        "deadlines": {"executorFinished": "2m", "instanceGone": "8m", "held": "15m"},
        "proof": ["P3", "P4"],
    }


@dataclass(frozen=True)
class FleetDraw:
    """One fleet's folder, by the names of its parts."""

    stop: str
    fires: str
    alongside: str

    def __str__(self) -> str:
        return " / ".join(["rented", self.stop, self.fires, self.alongside])

    def scene(self) -> Scene:
        """Put together."""
        scene = Scene()
        scene.truths["way"], line = STOPS[self.stop]
        scene.truths["switch"], schedule = FIRES[self.fires]
        scene.truths["beside"], files = ALONGSIDE[self.alongside]
        rent = "\n".join(f"{_ASK} -X PUT -d '{{}}' $MARKET_URL/api/v0/asks/{number}/" for number in (101, 102))
        scene.files |= files | {
            "off.sh": f"#!/bin/bash\nset -eu\n{line}\n",
            "rent.sh": f"#!/bin/bash\nset -eu\n{rent}\n",
            "market.yaml": yaml.safe_dump(_MARKET),
        }
        scene.spec = _spec(schedule)
        return scene


def every() -> list[FleetDraw]:
    """All of them."""
    return [FleetDraw(stop, fires, alongside) for stop in STOPS for fires in FIRES for alongside in ALONGSIDE]
