"""What an executor does, read and not run: shell, kubectl, curl and Python as API calls, and how they hide failure."""

from __future__ import annotations

from killcheck.executor.reading import ApiCall, ConfigMaps, Reading, read

__all__ = ["ApiCall", "ConfigMaps", "Reading", "read"]
