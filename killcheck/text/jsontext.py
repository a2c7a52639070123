"""JSON of a stranger's: a program's answer, a file of a pull request, the body of a request; and much of our own.

:mod:`msgspec` reads and writes it several times faster than :mod:`json`. What it refuses is left to :mod:`json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["from_text", "loads", "packed", "sifted"]


def loads(text: str | bytes) -> Any:
    """As :func:`json.loads`. Raises what that raises."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):  # half a surrogate pair, NaN, a mark of byte order - or no JSON
        return json.loads(text)


def sifted(text: str | bytes, worth: Callable[[bytes], bool]) -> Any:
    """The same, of an object with ``items``: without those that are not ``worth`` it, asked with their JSON."""
    try:
        found: Any = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(found["items"], type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, KeyError):  # or no list at all: it is read whole
        return loads(text)
    listed = [loads(bytes(item)) for item in items if worth(bytes(item))]
    return {name: listed if name == "items" else loads(bytes(value)) for name, value in found.items()}


def packed(value: Any, *, indent: int = 0) -> bytes:
    """UTF-8 without a space, or in lines. Raises UnicodeEncodeError for half a surrogate pair."""
    try:
        found = msgspec.json.encode(value)
    except TypeError:  # a key that is no text
        found = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return msgspec.json.format(found, indent=indent) if indent else found


def from_text(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError, which says where, for anything that cannot be read or is nested too deep.

    Half a surrogate pair, which no file and no terminal takes, becomes U+FFFD.
    """
    try:
        found = loads(text)
        if isinstance(text, bytes):
            escaped = b"\\ud" in text or b"\\uD" in text
        else:
            escaped = "\\ud" in text or "\\uD" in text
        return _whole(found) if escaped else found
    except RecursionError:
        raise ValueError("nested too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON from line {error.lineno}, column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"no text from byte {error.start}") from error


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return {_whole(key): _whole(one) for key, one in value.items()} if isinstance(value, dict) else value
