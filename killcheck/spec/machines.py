"""What a spec says of machines that are rented one by one: how a list names them, and how far the fleet may go.

What may *not* live here: anything that asks, files, YAML.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

__all__ = ["Machines"]


class Machines(Struct, frozen=True):
    """How the list that a target's count prints is read: of each entry the id, the type, and US dollars an hour.

    ``items`` is where the list is in the answer (empty: it is the answer); words of a path are apart by dots. With the
    values of ``ended`` in its fields an entry bills no GPU; whatever else it says, it is on. ``most`` machines may be
    on at once, none at more than ``max_usd_per_hour``. ``stand_in`` is a file beside the spec: what a market on
    loopback has to offer on the embedded cluster. ``orchestrator_usd_per_hour``: what their controller's machine costs.
    """

    items: str = ""
    id: str = "id"
    type: str = ""
    usd_per_hour: str = ""
    ended: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    most: int | None = None
    max_usd_per_hour: float | None = None
    stand_in: str = ""
    orchestrator_usd_per_hour: float | None = None
