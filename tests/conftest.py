"""For every test: hypothesis draws as long as it takes; a machine that is busy is no reason to fail."""

from __future__ import annotations

# Imported before pytester takes its picture of sys.modules, to which it goes back: types of an extension in Rust that
# are imported anew are other types.
import cryptography.hazmat.primitives.asymmetric.ec
import cryptography.x509  # noqa: F401
from hypothesis import HealthCheck, settings

settings.register_profile("killcheck", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("killcheck")
