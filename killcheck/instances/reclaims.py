"""How each cloud takes a spot machine back: whose a machine is, and what its notice leaves.

Sources: EC2 user guide "Spot Instance interruption notices" (two minutes); GCE "Spot VMs" (30 s, ACPI G2); Azure
"Scheduled Events for Linux VMs" (Preempt: 30 s, on a best effort basis), read 2026-11. Neither GCE's nor Azure's can be
configured to be longer: a kill path that counts on more proves nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["NAMES", "NOTICE_S", "Cloud", "cloud_of"]

Cloud = Literal["aws", "gcp", "azure"]

#: Seconds between a notice and the machine's end.
NOTICE_S: Mapping[str, float] = {"aws": 120.0, "gcp": 30.0, "azure": 30.0}
#: As people call them.
NAMES: Mapping[str, str] = {"aws": "AWS", "gcp": "GCP", "azure": "Azure"}

_SCHEMES: Mapping[str, Cloud] = {"aws": "aws", "gce": "gcp", "azure": "azure"}


def cloud_of(provider_id: str) -> Cloud | None:
    """Whose machine a Node's ``spec.providerID`` names; None: another's, or nobody's."""
    return _SCHEMES.get(provider_id.partition("://")[0])
