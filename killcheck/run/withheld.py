"""Values that a digest would give away: a password in a manifest is short, and whoever has its digest can try them all.

They are taken out before anything is digested, one word at a time, so that whatever else changes shows. Long keys that
nobody can guess stay in, unless a name calls them a secret.
"""

from __future__ import annotations

from typing import Any

from killcheck.text import lazy_re
from killcheck.text.redaction import called_secret

__all__ = ["WITHHELD", "withheld", "withheld_text"]

#: What stands in the place of a value.
WITHHELD = "<withheld>"
_CALLED = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key|psk)"
)
#: One word of a shell at most: what begins another command, a variable or a path is no password's to hide.
_WORD = r"(?![-/$<])[^\s\"'`$<>|&;(),{}]+"
#: Each begins at a word's beginning or reaches a bounded way ahead: a text's length never counts twice.
_TEXTS = (
    lazy_re.compile(rf"(?i)((?<![\w-])--?(?:[a-z0-9]+-)*{_CALLED}(?:=|[ \t]+)[\"']?){_WORD}"),
    lazy_re.compile(rf"(?i)((?<![\w.-])(?:[a-z0-9]+[_.-])*{_CALLED}[\"']?[ \t]*[:=][ \t]*[\"']?){_WORD}"),
    lazy_re.compile(rf"(?i)((?:^|\s)(?:-u|--user|--proxy-user)[= ][\"']?[^\s:\"']+:){_WORD}"),
    lazy_re.compile(rf"(?i)(\b(?:bearer|basic)[ \t]+){_WORD}"),
    lazy_re.compile(
        rf"((?<![\w-])(?:sshpass|mysql|mariadb)[\w-]{{0,20}}[^\w\n|;&-][^\n|;&]{{0,99}}?(?<=[ \t])-p[ =]?[\"']?){_WORD}"
    ),
    lazy_re.compile(r"(\w://[^\s/:@]*:)[^\s/@$]+(?=@)"),
)
#: What none of them is without: nearly every text of a manifest has none of these, and is looked at once.
_MARKS = lazy_re.compile(r"(?i)pass|pwd|secret|token|credential|key|psk|-u|user|bearer|basic|mysql|mariadb|://")


def withheld(value: Any) -> Any:
    """The same without them: in texts, in ``{name, value}`` pairs of a name that calls its value a secret, and in a
    ConfigMap's data by its keys."""
    if isinstance(value, str):
        return withheld_text(value)
    if isinstance(value, list | tuple):
        return [withheld(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: withheld(one) for key, one in value.items()}
    if isinstance(value.get("value"), str) and called_secret(str(value.get("name", ""))):
        found["value"] = WITHHELD
    if value.get("kind") == "ConfigMap" and isinstance(value.get("data"), dict):
        found["data"] = {key: _of_key(str(key), one) for key, one in found["data"].items()}
    return found


def withheld_text(text: str) -> str:
    """A text without them."""
    if _MARKS.search(text) is None:
        return text
    for pattern in _TEXTS:
        text = pattern.sub(rf"\1{WITHHELD}", text)
    return text


def _of_key(key: str, value: Any) -> Any:
    """A line that a key calls a secret; a script is none."""
    return WITHHELD if isinstance(value, str) and "\n" not in value.strip() and called_secret(key) else value
