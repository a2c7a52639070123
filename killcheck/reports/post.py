"""Handing a report to a server: a Pushgateway, a webhook. The URL may be a secret and is in no message."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from killcheck.text.accelerators import named_in

__all__ = ["PostError", "post", "push"]

#: Seconds for one attempt, and how many: a report is late rather than the reason a night hangs.
TIMEOUT_S, TRIES = 10.0, 3


class PostError(Exception):
    """It was not accepted; the message names the host and what it answered, not the URL."""


def post(url: str, body: Mapping[str, Any]) -> None:
    """POST JSON to a webhook. Raises PostError."""
    _send(url, json.dumps(named_in(body)).encode(), "application/json")


def push(url: str, group: Mapping[str, str], text: str) -> None:
    """POST metrics to a Pushgateway at ``url`` under a grouping key whose first label is ``job``. Raises PostError."""
    path = "/".join(_label(key, value) for key, value in group.items() if value)
    _send(f"{url.rstrip('/')}/metrics/{path}", text.encode(), "text/plain; version=0.0.4; charset=utf-8")


def _label(key: str, value: str) -> str:
    """A path segment pair; a value with a slash (an EKS cluster's ARN) goes as base64url, as Pushgateway wants it."""
    if "/" in value:
        return f"{key}@base64/{urlsafe_b64encode(value.encode()).decode()}"
    return f"{key}/{quote(value, safe='')}"


def _send(url: str, body: bytes, kind: str) -> None:
    import urllib3

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PostError("the URL of a webhook or Pushgateway starts with https:// or http:// and has a host")
    retries = urllib3.Retry(
        TRIES,
        backoff_factor=0.5,
        status_forcelist=(429, 500, 502, 503, 504),
        allowed_methods=None,
        redirect=False,
        raise_on_status=False,
    )
    try:
        with urllib3.PoolManager(timeout=TIMEOUT_S) as pool:
            answer = pool.request("POST", url, body=body, headers={"Content-Type": kind}, retries=retries)
    except urllib3.exceptions.HTTPError as error:
        raise PostError(f"{parts.hostname}: no answer ({_why(error)}): mend its URL, or the way there") from None
    if not 200 <= answer.status < 300:
        said = " ".join(answer.data[:200].decode("utf-8", "replace").split())
        raise PostError(f"{parts.hostname}: HTTP {answer.status} {said}".rstrip())


def _why(error: BaseException) -> str:
    """What the system said, without a URL."""
    said: BaseException | None = error
    while said is not None:
        if isinstance(said, OSError) and said.strerror:
            return said.strerror.lower()
        said = getattr(said, "reason", None) or said.__cause__ or said.__context__
        said = said if isinstance(said, BaseException) else None
    return type(error).__name__
