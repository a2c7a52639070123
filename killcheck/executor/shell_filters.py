"""What comes out of the programs that only pass on what they read: grep, jq, awk, cut and their like.

Each is known with the words that it may be given; another word makes what it prints unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from killcheck.executor.resting import Kind, Source, Value, compared_with, fields_read, sided, unknown
from killcheck.executor.shell_script import UNKNOWN
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["FILTERS", "filtered", "paths_of"]

#: A way through an object in jsonpath, jq, a Go template or custom columns, and the names on it.
_PATH = lazy_re.compile(r"(?:\.[A-Za-z_](?:[\w/-]|\\\.)*|\.?\[[^\]\s|(){}]*\]|\.\"[^\"]*\"|\?)+")
_NAME = lazy_re.compile(r"\.([A-Za-z_](?:[\w/-]|\\\.)*)|[\[.]\\?[\"']([^\"'\\]+)")
_STRING = lazy_re.compile(r"[\[.]?\s?\"(?:\\.|[^\"\\])*\"")
_INTERPOLATED = lazy_re.compile(r"\\\(((?:[^()]|\([^()]*\))*)\)")
_WORD = lazy_re.compile(r"(?<![\w.$\"/@'-])([A-Za-z_]\w*)(?!\w|\s?:)")
_COUNTED = lazy_re.compile(
    r"(?:\breplicas|\bactive|\blength)[^\w<>=!]{0,20}(?:\d+[^\w<>=!]{0,9})?([<>=!]=?)\s?(\"[^\"]*\"|-?[\w.$]+)"
)
#: Words of jq's language and functions whose result is made of what they are given alone.
_JQ = frozenset(
    """
    and or not if then elif else end as def reduce foreach try catch import include label null true false empty error
    add any all flatten range floor sqrt length utf8bytelength keys keys_unsorted values has in map map_values path del
    to_entries from_entries with_entries select recurse env tostring tonumber type infinite nan sort sort_by group_by
    min max min_by max_by unique unique_by reverse contains inside startswith endswith ltrimstr rtrimstr trim explode
    implode split join ascii ascii_downcase ascii_upcase first last nth until while repeat input inputs limit test match
    capture scan splits sub gsub ascii tojson fromjson index rindex indices paths getpath setpath delpaths leaf_paths
    arrays objects iterables booleans numbers strings nulls scalars walk transpose isempty abs round ceil pow todate
    gpus halt
    """.split()
)
#: Functions of awk whose result is made of what they are given alone.
_AWK = frozenset(
    "length substr index split sub gsub match tolower toupper sprintf int print printf if while for exit".split()
)
_AWK_CALL = lazy_re.compile(r"\b([a-z_]\w*)\s?\(")
_AWK_ELSE = lazy_re.compile(r"\bgetline\b|\bPROCINFO\b|\bENVIRON\b|\||\bsystem\b")
_QUOTED = lazy_re.compile(r"\"(?:\\.|[^\"\\])*\"|/(?:\\.|[^/\\\n])+/")
_COLUMN = lazy_re.compile(r"\$(\w+|\()")
#: A pattern that can only be of names, in a table of numbers and ages.
_OF_NAMES = lazy_re.compile(r"\^?[A-Za-z][A-Za-z_.*|\\-]*[A-Za-z*]\$?|\.|\^?[a-z]")
_STATES = lazy_re.compile(r"(?i)run|ready|pend|fail|crash|complet|succ|error|true|false|term|init|unknown|back|evict")


def paths_of(text: str) -> Iterator[list[str]]:
    """The ways through an object that an expression takes, each a list of fields."""
    for way in _PATH.findall(text):
        names = [(one or other).replace("\\.", ".") for one, other in _NAME.findall(way)]
        if names:
            yield names


def chosen(value: Value, text: str, word: str) -> Value:
    """What is left of objects of which an expression says the fields."""
    if UNKNOWN in text:
        text = text.replace(UNKNOWN, "x")
    ways = list(paths_of(text))
    if not ways:
        return value
    numbers = [sided(how, found.strip('"')) for how, found in _COUNTED.findall(text)]
    found = Value()
    for way in ways:
        found |= fields_read(value, way, word)
    return compared_with(found, numbers, word) if found.own else found


def _jq(words: Sequence[str], value: Value) -> Value:
    program = _program(words, {"--arg": 2, "--argjson": 2, "--slurpfile": 2, "--rawfile": 2, "--indent": 1}, files="-f")
    if program is None:
        return unknown(Kind.PROGRAM, "a jq program in a file", "jq")

    def said(found: re.Match[str]) -> str:
        return found[0] if found[0][0] in "[." else f" {' '.join(_INTERPOLATED.findall(found[0]))} "

    plain = _STRING.sub(said, program)
    strange = [name for name in _WORD.findall(_STRING.sub(" ", plain)) if name not in _JQ]
    own = set(re.findall(r"\bdef\s+(\w+)", plain))
    found = chosen(value, plain, "jq")
    numbers = [sided(how, one.strip('"')) for how, one in _COUNTED.findall(program)]
    found = compared_with(found, numbers, "jq")
    strange = [name for name in strange if name not in own and not _shorthand(name, plain)]
    return found.doubted(Source(Kind.PROGRAM, f"jq's {strange[0]}", strange[0])) if strange else found


def _shorthand(name: str, program: str) -> bool:
    """Whether it is a key of an object that is made: ``{name}``."""
    return re.search(rf"[{{,]\s*{re.escape(name)}\s*[,}}]", program) is not None


def _program(words: Sequence[str], takes: Mapping[str, int], files: str) -> str | None:
    """The first word that is no option; None: it lies in a file."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in (files, "--from-file"):
            return None
        if word in takes:
            del rest[: takes[word]]
        elif not word.startswith("-") or word == "-":
            return word
    return ""


def _awk(words: Sequence[str], value: Value) -> Value:
    program = _program(words, {"-v": 1, "-F": 1}, files="-f")
    if program is None:
        return unknown(Kind.PROGRAM, "an awk program in a file", "awk")
    plain = _QUOTED.sub(" ", program)
    strange = [name for name in _AWK_CALL.findall(plain) if name not in _AWK]
    else_ = _AWK_ELSE.search(plain.replace("||", " "))
    if strange or else_:
        return value.doubted(Source(Kind.PROGRAM, f"awk's {strange[0] if strange else else_[0]}", "awk"))  # type: ignore[index]
    columns = set(_COLUMN.findall(program))
    if columns and columns <= set(value.table):
        return value.exists
    if value.own:
        value = compared_with(
            value, [sided(how, one) for how, one in re.findall(r"([<>=!]=?)\s*\"?([\w.]+)", program)], "awk"
        )
    value = replace(value, table=()) if columns else value
    return value if "s" not in value.clock or "%" not in plain else _odd(value, "awk")


def _odd(value: Value, word: str) -> Value:
    return value.doubted(Source(Kind.CHANCE, "the digits of a moment", word))


def _grep(words: Sequence[str], value: Value) -> Value:
    pattern = next((word for word in words if not word.startswith("-")), "")
    if "s" in value.clock:
        return _odd(value, pattern or "grep")
    named = _OF_NAMES.fullmatch(pattern) and not _STATES.search(pattern)
    quiet = any(word.startswith("-") and "q" in word for word in words) or "-c" in words
    if value.raw and value.table and named:
        return value.exists if quiet else value
    return compared_with(value, [pattern.strip("^$")], pattern) if value.own and quiet and pattern != "." else value


def _cut(words: Sequence[str], value: Value) -> Value:
    if "s" in value.clock:
        return _odd(value, "cut")
    first = any(word in ("-f1", "-f") for word in words) and ("-f1" in words or "1" in words)
    return value.exists if value.table and first else replace(value, table=())


def _wc(words: Sequence[str], value: Value) -> Value:
    counted = replace(value, own=value.own or bool(value.listed))
    return counted.exists if any("l" in word for word in words) else counted


def _sort(words: Sequence[str], value: Value) -> Value:
    strange = [word for word in words if word.startswith("-") and not re.fullmatch(r"-[nruktVhbfscmgdi\d.,: |]*", word)]
    return value.doubted(Source(Kind.CHANCE, f"sort {strange[0]}", strange[0])) if strange else value


def _same(_words: Sequence[str], value: Value) -> Value:
    return value


def _pieces(_words: Sequence[str], value: Value) -> Value:
    return _odd(value, "sed") if "s" in value.clock else value


#: Programs that make what they print of what they are given.
FILTERS: dict[str, Callable[[Sequence[str], Value], Value]] = {
    "jq": _jq,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "cut": _cut,
    "wc": _wc,
    "sed": _pieces,
    "sort": _sort,
    **dict.fromkeys(
        """
        cat tac head tail uniq tee tr paste column rev fold nl comm join basename dirname base64 seq expr bc echo
        printf realpath readlink md5sum sha256sum sha1sum cksum xxd od numfmt fmt expand tsort split csplit cmp diff
        """.split(),
        _same,
    ),
}


def filtered(name: str, words: Sequence[Value], value: Value) -> Value:
    """What a filter prints of ``value``, given ``words``."""
    texts = [UNKNOWN if word.text is None else word.text for word in words]
    given = value
    for word in words:
        given |= replace(word, raw=word.raw if name in ("echo", "printf") else frozenset(), text=None)
    return FILTERS[name](texts, replace(given, table=value.table))
