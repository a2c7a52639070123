"""What a cluster's admission policies read: a ConfigMap that says until when a kill path counts as proven.

A policy checks no signature. Who may write this ConfigMap decides what it is worth: the pipeline that verified, alone.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from killcheck.kube.objects import format_time
from killcheck.proof.certificate import Certificate

__all__ = ["NAME", "permit"]

NAME = "killcheck-proof"


def permit(found: Certificate, max_age_s: float) -> str:
    """The ConfigMap, as JSON for ``kubectl apply -n NAMESPACE -f -``. ``max_age_s``: for how long, from its drills."""
    data: dict[str, str] = {
        "verdict": found.word,
        "killPath": found.kill_path,
        "provenAt": format_time(found.started),
        "provenUntil": format_time(found.started + timedelta(seconds=max_age_s)),
        "record": found.record,
        "keyId": found.key_id,
    }
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "killcheck"}},
        "data": data,
    }
    return json.dumps(made, indent=2) + "\n"
