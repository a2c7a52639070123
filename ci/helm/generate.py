"""Writes the chart's templates from the plain manifests of ci/, so that both tell the same story: ``make docs``.

The names that the manifests are written for become values; a capability's Role and binding stand in an ``if``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CI = Path(__file__).resolve().parent.parent
TEMPLATES = CI / "helm/killcheck/templates"
HEAD = "{{- /* Made from ci/%s by ci/helm/generate.py (make docs): change it there. */ -}}\n"

#: What a manifest says -> what its template says.
NAMES = (
    (r"registry\.example\.com/killcheck:[\w.-]+", '{{ include "killcheck.image" . }}'),
    (r"namespace: killcheck\b", "namespace: {{ .Release.Namespace }}"),
    (r"namespace: inference\b", "namespace: {{ .Values.namespace }}"),
    (r"--namespace, inference\]", "--namespace, {{ .Values.namespace | quote }}]"),
    (r"resourceNames: \[inference\]", "resourceNames: [{{ .Values.namespace | quote }}]"),
    (r"resourceNames: \[vllm\]", "resourceNames: [{{ .Values.target | quote }}]"),
    (r"resourceNames: \[gpu-nightly-off\]", "resourceNames: [{{ .Values.cronJob | quote }}]"),
    (r"resourceNames: \[gpu\]", "resourceNames: [{{ .Values.nodePool | quote }}]"),
    (r'schedule: "0 12 \* \* 1-5"', "schedule: {{ .Values.schedule | quote }}"),
    (r'schedule: "\*/15 \* \* \* \*"', "schedule: {{ .Values.janitorSchedule | quote }}"),
)
HELPERS = """{{- define "killcheck.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}
"""
SPEC = """apiVersion: v1
kind: ConfigMap
metadata:
  name: killcheck-spec
  namespace: {{ .Release.Namespace }}
data:
  killcheck.yaml: |
    {{- toYaml .Values.spec | nindent 4 }}
"""


def templates() -> dict[Path, str]:
    """Every template with its text."""
    made = {
        TEMPLATES / name: HEAD % name + _template(name)
        for name in ("rbac.yaml", "drill.yaml", "janitor.yaml", "networkpolicy.yaml")
    }
    return made | {TEMPLATES / "_helpers.tpl": HELPERS, TEMPLATES / "spec.yaml": SPEC}


def _template(name: str) -> str:
    text = (CI / name).read_text(encoding="utf-8")
    # What the drill's own shell says in braces is not the chart's.
    text = text.replace("{{", '{{ "{{" }}')
    documents = [_document(part) for part in re.split(r"^---\n", text, flags=re.MULTILINE) if part.strip()]
    whole = "---\n".join(part for part in documents if part)
    if name == "networkpolicy.yaml":
        return "{{- if .Values.networkPolicy }}\n" + whole + "{{- end }}\n"
    return whole


def _document(text: str) -> str:
    if re.search(r"^kind: Namespace$", text, re.MULTILINE):
        return ""  # helm install --create-namespace
    for pattern, value in NAMES:
        text = re.sub(pattern, value, text)
    # A new spec is a new pod: the chart's ConfigMap has no hash in its name.
    fault = re.search(r"^  name: killcheck-fault-([a-z]+)$", text, re.MULTILINE)
    if fault:
        return f"{{{{- if .Values.faults.{fault[1]} }}}}\n{text}{{{{- end }}}}\n"
    return text


if __name__ == "__main__":
    for path, text in templates().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(CI.parent)}\n")
