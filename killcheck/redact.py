"""Taking secrets out of text before it reaches a log, a report, the run record or the journal."""

from __future__ import annotations

import re

__all__ = ["redact"]

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # JSON Web Tokens: three base64url parts, the first two being JSON objects ("eyJ" is '{"').
    (re.compile(r"eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), "<token>"),
    (re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)[^\s\"']+"), r"\1<redacted>"),
    (re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), r"\1<redacted>"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<aws-access-key-id>"),
    (re.compile(
        r"(?i)((?:aws_)?(?:secret(?:_?access)?_?key|session_?token|password|passwd|client_?secret|api_?key)"
        r"[\"']?\s*[:=]\s*[\"']?)[^\s\"',;]+"), r"\1<redacted>"),
    (re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), "<private key>"),
    (re.compile(r"(https?://[^\s/:@]+:)[^\s/@]+@"), r"\1<redacted>@"),
)


def redact(text: str) -> str:
    """``text`` without tokens, keys, passwords and Authorization values."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
