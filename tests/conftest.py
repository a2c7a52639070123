"""For every test: hypothesis draws as long as it takes; a machine that is busy is no reason to fail."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("killcheck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("killcheck")
