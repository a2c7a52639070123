"""What is particular about each replayed recording: its nodes, its levers, and which differences are allowed and why."""

from dataclasses import dataclass

from compare import TOLERANCE_S
from recorded import NAMES


@dataclass(frozen=True)
class Situation:
    """``acts``: (seconds after the trigger, function of the Replay); ``masks``: (pattern, replacement) for texts of
    both sides; ``allowed``: (pattern of a difference, why it is none)."""

    name: str
    exec_mode: str = "host"
    namespace: str = ""
    nodes: tuple = ()
    prepare: object = None
    acts: tuple = ()
    setup_at: float | None = None
    last_at: float | None = None
    extra_s: float = 0.0
    tolerance_s: float = TOLERANCE_S
    masks: tuple = ()
    allowed: tuple = ()


#: Recordings of requests only: the request suite has them.
REQUESTS_ONLY = frozenset({"19-cronjob-invalid", "26-tokens", "26b-token-expires", "27-access-review", "31-yaml-off-is-boolean"})

_SPECIAL = {s.name: s for s in ()}

SITUATIONS = tuple(_SPECIAL.get(name) or Situation(name) for name in NAMES if name not in REQUESTS_ONLY)
