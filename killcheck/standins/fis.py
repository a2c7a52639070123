"""A stand-in of AWS FIS for the one action that drills use; what is not FIS' goes on to the application behind it.

Shapes: FIS API reference (CreateExperimentTemplate, StartExperiment, GetExperiment, StopExperiment,
ListExperimentTemplates, DeleteExperimentTemplate, ListExperiments). An experiment tells
``interrupt(instance id, seconds)``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from killcheck.text import lazy_re

__all__ = ["Fis"]

_MINUTES = lazy_re.compile(r"PT(\d+)M")
#: What AWS admits, in minutes.
_SHORTEST, _LONGEST = 2, 15


class Fis(Struct):
    """The WSGI application; ``now`` is the clock."""

    app: Callable[..., Iterable[bytes]]
    now: Callable[[], datetime]
    interrupt: Callable[[str, float], None] = lambda instance_id, in_s: None
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Whether an experiment goes on until somebody stops it.
    lingers: bool = False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer what is FIS', pass on the rest."""
        path, method = str(environ["PATH_INFO"]), str(environ["REQUEST_METHOD"])
        what, _, name = path.strip("/").partition("/")
        if what not in ("experimentTemplates", "experiments") or "/fis/" not in str(
            environ.get("HTTP_AUTHORIZATION", "")
        ):
            return self.app(environ, start_response)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        sent = json.loads(environ["wsgi.input"].read(size) or b"{}") if size else {}
        answer = (
            self._template(method, name, sent)
            if what == "experimentTemplates"
            else self._experiment(method, name, sent)
        )
        status, kind = 200, ""
        if isinstance(answer, str):
            missing = answer.startswith("There is no")
            status, kind = (404, "ResourceNotFoundException") if missing else (400, "ValidationException")
        text = json.dumps({"message": answer} if isinstance(answer, str) else answer).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
        start_response(f"{status} Answer", [*headers, ("x-amzn-ErrorType", kind)] if kind else headers)
        return [text]

    def _template(self, method: str, name: str, sent: dict[str, Any]) -> dict[str, Any] | str:
        if method == "POST":
            action = next(iter(sent["actions"].values()))
            found = _MINUTES.fullmatch(str(action.get("parameters", {}).get("durationBeforeInterruption")))
            if action["actionId"] != "aws:ec2:send-spot-instance-interruptions":
                return f"This stand-in has no action {action['actionId']}"
            if not found or not _SHORTEST <= int(found.group(1)) <= _LONGEST:
                return "durationBeforeInterruption must be between PT2M and PT15M"
            made = f"EXT{secrets.token_hex(8)}"
            self.templates[made] = {**sent, "id": made, "minutes": int(found.group(1))}
            return {"experimentTemplate": self._shown(made)}
        if method == "GET" and not name:
            return {"experimentTemplates": [self._shown(one) for one in self.templates]}
        if name not in self.templates:
            return f"There is no experiment template {name}"
        shown = self._shown(name)
        if method == "DELETE":
            del self.templates[name]
        return {"experimentTemplate": shown}

    def _shown(self, name: str) -> dict[str, Any]:
        kept = self.templates[name]
        return {key: kept[key] for key in ("id", "description", "tags", "roleArn", "stopConditions") if key in kept}

    def _experiment(self, method: str, name: str, sent: dict[str, Any]) -> dict[str, Any] | str:
        if method == "POST":
            template = self.templates.get(str(sent.get("experimentTemplateId")))
            if template is None:
                return f"There is no experiment template {sent.get('experimentTemplateId')}"
            made = f"EXP{secrets.token_hex(8)}"
            self.experiments[made] = {
                "id": made,
                "experimentTemplateId": template["id"],
                "tags": sent.get("tags", {}),
                "state": {"status": "running", "reason": "Experiment is running."},
            }
            for target in template["targets"].values():
                for arn in target["resourceArns"]:
                    self.interrupt(arn.rpartition("/")[2], template["minutes"] * 60.0)
            if not self.lingers:
                self.experiments[made]["state"] = {"status": "completed", "reason": "Experiment completed."}
            return {"experiment": self.experiments[made]}
        if method == "GET" and not name:
            return {"experiments": list(self.experiments.values())}
        if name not in self.experiments:
            return f"There is no experiment {name}"
        if method == "DELETE" and self.experiments[name]["state"]["status"] == "running":
            self.experiments[name]["state"] = {"status": "stopped", "reason": "Experiment halted by user action."}
        return {"experiment": self.experiments[name]}
