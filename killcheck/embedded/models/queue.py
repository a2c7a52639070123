"""A message queue of the modelled cloud, as SQS is one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from killcheck.clock import Loop

__all__ = ["Queue"]


class Queue:
    """A message queue (SQS): bodies go to whoever subscribed, or wait until someone does."""

    def __init__(self, loop: Loop, *, delivery_s: float = 1.0) -> None:
        self.loop = loop
        self.delivery_s = delivery_s
        self.waiting: list[str] = []
        self.sent: list[str] = []
        #: Further queues that the same rules forward to: each gets every message too.
        self.copies: list[Queue] = []
        self._subscribers: list[Callable[[str], None]] = []

    def send(self, body: str | Mapping[str, Any]) -> None:
        """Put a message in; an EventBridge event as a mapping is written as JSON."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.sent.append(text)
        self.waiting.append(text)
        if self._subscribers:
            self.loop.call_later(self.delivery_s, self._deliver)
        for copy in self.copies:
            copy.send(text)

    def subscribe(self, consumer: Callable[[str], None]) -> Callable[[], None]:
        """Hand every message to ``consumer`` (which thereby deletes it); returns how to stop."""
        self._subscribers.append(consumer)
        if self.waiting:
            self.loop.call_later(self.delivery_s, self._deliver)

        def stop() -> None:
            if consumer in self._subscribers:
                self._subscribers.remove(consumer)

        return stop

    def _deliver(self) -> None:
        if self._subscribers:
            waiting, self.waiting = self.waiting, []
            for body in waiting:
                self._subscribers[0](body)
