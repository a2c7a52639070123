"""The kubelet's back-offs.

Source: k8s.io/client-go/util/flowcontrol/backoff.go, without jitter; recordings 28b (image pulls), 28c (crash loops).
"""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["Backoff"]


class _Entry(Struct):
    delay_s: float
    updated: float


class Backoff(Struct):
    """Delays by key that double at each failure: 10, 20 ... 300 s. Moments are the loop's monotonic seconds."""

    initial_s: float = 10.0
    max_s: float = 300.0
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def delay(self, key: str) -> float:
        """The delay that holds now; 0 where nothing failed."""
        entry = self._entries.get(key)
        return entry.delay_s if entry else 0.0

    def next(self, key: str, failed_at: float, now: float) -> float:
        """Count a failure; returns the new delay in seconds. One that is twice the maximum old is forgotten first."""
        entry = self._entries.get(key)
        if entry is None or failed_at - entry.updated > 2 * self.max_s:
            self._entries[key] = _Entry(self.initial_s, now)
            return self.initial_s
        entry.delay_s = min(entry.delay_s * 2, self.max_s)
        entry.updated = now
        return entry.delay_s

    def until(self, key: str, since: float | None = None) -> float:
        """When the back-off ends: ``since`` (default: the last failure counted) plus the delay; 0: there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return 0.0
        if since is None:
            return entry.updated + entry.delay_s
        return 0.0 if since - entry.updated > 2 * self.max_s else since + entry.delay_s

    def forget(self, prefix: str) -> None:
        """Drop every key that begins with ``prefix``."""
        for key in [key for key in self._entries if key.startswith(prefix)]:
            del self._entries[key]
