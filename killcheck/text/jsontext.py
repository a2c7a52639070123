"""JSON of a stranger's: a program's answer, a file of a pull request, the body of a request."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["from_text"]


def from_text(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError, which says where, for anything that cannot be read or is nested too deep.

    Half a surrogate pair, which no file and no terminal takes, becomes U+FFFD.
    """
    try:
        found = json.loads(text)
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
