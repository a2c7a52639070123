"""Text of a stranger's on a person's terminal: it is read there, and moves, hides and turns round nothing.

A program's log, a file's name or a server's message can hold what terminals obey: "clear the screen" before a verdict
of its own, a window's title, the right-to-left override. Colours go too: they also stand between a token and the
patterns that would find it. Runners of pipelines read the output as well, and obey ``::set-output ...::`` where a line
begins, ``##vso[...]`` and ``##[...]`` anywhere (actions/runner: ActionCommand.cs; azure-pipelines-agent: Command.cs).
Nor does it fill the screen: a name, a value or a line of no end is cut, and that is said.
"""

from __future__ import annotations

import re
from typing import Any

from killcheck.text import lazy_re
from killcheck.text.accelerators import named

__all__ = ["brief", "one_line", "plain", "plain_in", "shown"]

#: Characters of one sentence about somebody's file, and of one line on a terminal.
SENTENCE = 1000
LINE = 4000

#: Control sequences and operating system commands (ECMA-48, 5.4 and 5.6; xterm's ctlseqs), and carriage returns before
#: a line's end; what only changes how the rest is laid out (Unicode Standard Annex 9, 2; invisible spaces, marks).
_SEQUENCES = lazy_re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)|\r+(?=\n)"
    r"|[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
#: What is left of control characters, C0 and C1, but for the tab and the line's end; and Unicode's own line ends.
_CONTROLS = lazy_re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
#: What a runner takes for a command of the pipeline's.
_ORDERS = lazy_re.compile(
    r"(#)(#(?:vso)?\[)"
    r"|(:)(:(?:add-mask|add-matcher|add-path|debug|echo|endgroup|group|remove-matcher|save-state|set-env|set-output"
    r"|stop-commands)\b)",
    re.IGNORECASE,
)


def brief(text: str, most: int = SENTENCE) -> str:
    """A text of at most so many characters, and how many it has where that is more."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def plain(text: str) -> str:
    """A text, lines and tabs as they are, without what a terminal would obey; what is no sequence is shown as ``?``."""
    return _CONTROLS.sub("?", _SEQUENCES.sub("", text)) if not text.isprintable() else text


def plain_in(value: Any) -> Any:
    """A document of JSON whose texts are plain: what reports make of a stranger's record is read on some screen."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [plain_in(one) for one in value]
    return {plain(key): plain_in(one) for key, one in value.items()} if isinstance(value, dict) else value


def one_line(text: str) -> str:
    """A name, or what somebody said, that takes no line of its own beside what is told of it."""
    return text if text.isprintable() else " ".join(plain(text).split())


def shown(text: str) -> str:
    """A text for a terminal: without what that or a pipeline's runner would obey, and no line longer than a person
    reads; accelerators by their own name.
    """
    bare = named(plain(text))
    if "::" in bare or "##" in bare:
        bare = _ORDERS.sub(lambda found: f"{found[1] or found[3]} {found[2] or found[4]}", bare)
    return bare if len(bare) <= LINE else "\n".join(brief(line, LINE) for line in bare.split("\n"))
