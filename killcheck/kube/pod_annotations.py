"""Annotations by which a pod's manifest says how its containers behave where no machine runs them."""

from __future__ import annotations

__all__ = ["EXECUTE", "IGNORES_SIGTERM", "NEVER_READY", "READY_AFTER", "STOPS_AFTER"]

#: ``"true"`` really runs its containers' programs, ``"false"`` leaves them hollow.
EXECUTE = "killcheck.dev/execute"
#: ``"true"``: nothing but SIGKILL ends it.
IGNORES_SIGTERM = "killcheck.dev/ignores-sigterm"
#: Seconds from SIGTERM to its end.
STOPS_AFTER = "killcheck.dev/stops-after-s"
#: Seconds until it is ready; ``"true"``: it never is.
READY_AFTER = "killcheck.dev/ready-after-s"
NEVER_READY = "killcheck.dev/never-ready"
