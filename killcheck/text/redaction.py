"""Taking secrets out of text before it reaches a log, a report, the run record or the journal.

Two ways: what looks like a secret (:data:`_PATTERNS`), and what is known to be one (:func:`hide`) - this process' own
credentials, what its environment calls a secret, what the Secrets of manifests hold - also where base64 wraps it.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

__all__ = ["clean", "hide", "hide_environment", "hide_secrets", "redact"]

_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # JSON Web Tokens: three base64url parts, the first two being JSON objects ("eyJ" is '{"'); and those in base64.
    (re.compile(r"eyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"), "<token>"),
    (re.compile(r"ZXlK[A-Za-z0-9+/_-]{40,}={0,2}"), "<token>"),
    # Not what containerd says of a pull that was refused: "... may require authorization: authorization failed: ...".
    (
        re.compile(
            r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token)\s+)?)"
            r"(?!authorization failed:|server message:)[^\s\"']+"
        ),
        r"\1<redacted>",
    ),
    (re.compile(r"(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), r"\1<redacted>"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<aws-access-key-id>"),
    # GitHub, GitLab, Slack, Google, Hugging Face, OpenAI-like keys by their own prefixes.
    (
        re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
            r"|ya29\.[\w-]{20,}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,})"
        ),
        "<token>",
    ),
    (re.compile(r"(hooks\.slack\.com/services/)[\w/]+"), r"\1<redacted>"),
    (
        re.compile(
            r"(?i)([?&](?:x-amz-(?:signature|security-token|credential)|sig|signature|token|access_token|key)=)"
            r"[^\s&\"']+"
        ),
        r"\1<redacted>",
    ),
    (
        re.compile(
            r"(?i)((?:aws_)?(?:secret(?:_?access)?_?key|session_?token|password|passwd|client_?secret|api_?key)"
            r"\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\s\"',;\\]+"
        ),
        r"\1<redacted>",
    ),
    (re.compile(r"(?i)(--(?:password|token|secret|api-key|client-secret)[= ])[^\s\"']+"), r"\1<redacted>"),
    (
        re.compile(r"(?i)((?:\b|_)token\\?[\"']?\s*[:=]\s*\\?[\"']?)(?=[^\s\"',;\\]*\d)[^\s\"',;\\]{16,}"),
        r"\1<redacted>",
    ),
    (re.compile(r"(\\?\"(?:auth|identitytoken)\\?\"\s*:\s*\\?\")[A-Za-z0-9+/=_.-]{8,}"), r"\1<redacted>"),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        "<private key>",
    ),
    (re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/_-]{20,}={0,2}"), "<pem>"),  # "-----BEGIN" in base64
    (re.compile(r"(\w://[^\s/:@]+:)[^\s/@]+@"), r"\1<redacted>@"),
    (re.compile(r"(\w://)[^\s/:@]{16,}@"), r"\1<redacted>@"),
)
#: A Secret as a client prints it, also inside a string: nothing that it holds.
_SECRET_KIND = re.compile(r"\\?\"kind\\?\"\s*:\s*\\?\"Secret\\?\"|^\s*kind:\s*Secret\s*$", re.M)
_SECRET_DATA = re.compile(r"(\\?\"(?:data|stringData)\\?\"\s*:\s*\{)[^{}]*(\})")
_SECRET_YAML = re.compile(r"^(\s*(?:data|stringData):[ \t]*\n)((?:[ \t]+\S.*\n?)+)", re.M)

_SECRET_NAME = re.compile(r"(?i)(secret|token|passw|api_?key|private_?key|access_?key|credential|webhook|license_?key)")
#: Variables that say where a secret is, and not what it is.
_PLACES = re.compile(r"(?i)(_file|_path|_dir|_url|_uri|_endpoint|_id|_name|_arn)$")
#: What is a secret even where it is a plain word.
_PLAIN_TOO = re.compile(r"(?i)passw|secret")
#: Shorter values are hidden nowhere: they would take ordinary words out of every report.
LEAST = 8

_T = TypeVar("_T")


class _Known:
    """The values that are known to be secret, and what finds them."""

    def __init__(self) -> None:
        self.values: set[str] = set()
        self.pattern: re.Pattern[str] | None = None

    def add(self, value: str) -> None:
        """Know one more value."""
        if len(value) >= LEAST and value not in self.values:
            self.values |= {value, *_wrapped(value)}
            self.pattern = re.compile("|".join(re.escape(v) for v in sorted(self.values, key=len, reverse=True)))


_known = _Known()


def _wrapped(value: str) -> set[str]:
    """What base64 makes of a value, wherever in a longer text it stands: the characters that depend on it alone."""
    raw, found = value.encode(), set()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        start, end = -(-before * 8 // 6), len(text) - (1 if (before + len(raw)) % 3 else 0)
        core = text[start:end]
        if len(core) >= LEAST:
            found |= {core, core.replace("+", "-").replace("/", "_")}
    return found


def hide(value: str) -> None:
    """From now on take ``value`` out of every text, in base64 too; what is too short to be a secret is left."""
    _known.add(value.strip())


def hide_environment(environ: Mapping[str, str] | None = None) -> None:
    """Hide what the environment's own names call secret (not the paths and names of secrets)."""
    for name, value in (os.environ if environ is None else environ).items():
        if _SECRET_NAME.search(name) and not _PLACES.search(name) and not value.startswith(("/", "./", "~")):
            _hide_value(value, plain=bool(_PLAIN_TOO.search(name)))


def hide_secrets(objects: Iterable[Mapping[str, Any]]) -> None:
    """Hide what Kubernetes objects hold: Secrets, and containers' variables that say so of themselves.

    Plain lower-case words stay where they are no password: they would be taken out of every sentence.
    """
    for obj in objects:
        _hide_variables(obj)
        if obj.get("kind") == "Secret":
            for value in (obj.get("data") or {}).values():
                with suppress(ValueError, UnicodeDecodeError):
                    _hide_value(base64.b64decode(str(value), validate=True).decode())
            for value in (obj.get("stringData") or {}).values():
                _hide_value(str(value))


def _hide_variables(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _hide_variables(item)
    elif isinstance(value, dict):
        if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
            hide_environment({value["name"]: value["value"]})
        for item in value.values():
            if isinstance(item, dict | list):
                _hide_variables(item)


def _hide_value(value: str, *, plain: bool = False) -> None:
    if plain or not re.fullmatch(r"[a-z][a-z./-]*", value.strip()):
        hide(value)


def redact(text: str) -> str:
    """``text`` without tokens, keys, passwords and Authorization values."""
    if _known.pattern is not None:
        text = _known.pattern.sub("<redacted>", text)
    if "Secret" in text and _SECRET_KIND.search(text):
        text = _SECRET_DATA.sub(r"\1<redacted>\2", text)
        text = _SECRET_YAML.sub(r"\1  <redacted>\n", text)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def clean(value: _T) -> _T:
    """The same value with every text in it redacted: mappings, sequences and dataclasses are gone through."""
    return _clean(value)  # type: ignore[no-any-return]


def _clean(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_clean(item) for item in value]
        return items if isinstance(value, list) else type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        new = {f.name: _clean(getattr(value, f.name)) for f in fields(value) if f.init}
        changed = {name: item for name, item in new.items() if item != getattr(value, name)}
        return replace(value, **changed) if changed else value
    return value
