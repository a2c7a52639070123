"""What a stand-in is to who serves it: a WSGI application. Apart from :mod:`.serving`, so that no server is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["UNANSWERED", "App"]

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
#: In the environment of a request that :func:`.serving.answer` serves: called by an application that answers nothing.
UNANSWERED = "killcheck.unanswered"
