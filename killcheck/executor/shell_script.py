"""Reads a shell script without running it: the commands it would run, and who looks at their exit codes.

A reader for the scripts that executors are made of, not a shell: variables, quotes, here-documents, functions and
``for`` loops over known words are followed, every branch is taken, and what depends on output is *unknown*.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from killcheck.executor.shell_words import HereDocument, Lexer, Operator, ShellSyntaxError, Token, Word, lex
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["UNKNOWN", "Command", "Script", "ShellSyntaxError", "parse"]

#: Stands in a word for text that only running would tell.
UNKNOWN = "\ufffd"

_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", ">&", "<&", "&>", "&>>", "<<<"})
_OPENING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_NAME = lazy_re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = lazy_re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)
#: Programs between two others in a pipe that pass on what they read, or part of it.
_FILTERS = frozenset({"grep", "egrep", "head", "tail", "sort", "uniq", "tee", "cat"})
#: Arrays, and what is cut off a value's ends.
_KEYED = lazy_re.compile(r"\[(.+?)\]=(.*)", re.S)
_ALL = lazy_re.compile(r"(!?)([A-Za-z_]\w*)\[[@*]\]")
_COUNT = lazy_re.compile(r"#([A-Za-z_]\w*)\[[@*]\]")
_ELEMENT = lazy_re.compile(r"([A-Za-z_]\w*)\[([^@*\]]+)\]")
_CUT = lazy_re.compile(r"([A-Za-z_]\w*|\d)(##?|%%?)(.+)", re.S)
_MAX_DEPTH = 8
_MAX_COMMANDS = 2000
#: Characters of a variable's value: one that is made of ten of itself, ten times over, would fill this machine.
_MAX_VALUE = 200_000
_MAX_ENTRIES = 500


class Command(Struct, frozen=True):
    """One simple command, expanded. UNKNOWN stands for what cannot be known.

    ``then`` is the operator after it (``||``, ``&&``, ``|``, ``&``, ``;``; empty at the script's end), ``fallback``
    the words after a ``||``. ``tested``: in a condition of if, while or after ``!``. ``errexit``: under ``set -e``,
    ``pipefail`` likewise. ``last``: nothing runs after it, its exit code is the script's. ``stdin``: a here-document.
    ``origin``: its first word as it stands in the script.
    """

    words: tuple[str, ...]
    then: str = ""
    fallback: tuple[str, ...] = ()
    tested: bool = False
    errexit: bool = False
    pipefail: bool = False
    last: bool = False
    stdin: str | None = None
    origin: Word | None = None


class Script(Struct, frozen=True):
    """What a script runs, in order, and the variables as they are at its end."""

    commands: tuple[Command, ...]
    variables: Mapping[str, str]


def parse(
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    errexit: bool = False,
    pipefail: bool = False,
) -> Script:
    """Read a script; ``variables`` are its environment, ``errexit`` and ``pipefail`` how its shell was started.

    Raises ShellSyntaxError for an open quote, parenthesis or here-document.
    """
    reader = _Reader(dict(variables or {}), errexit)
    reader.pipefail = pipefail
    reader.run(lex(text))
    commands = reader.commands
    if commands:
        commands[-1] = replace(commands[-1], last=True)
    return Script(tuple(commands), reader.variables)


# -- running it in the mind ----------------------------------------------------------------------------------
class _Reader:
    def __init__(self, variables: dict[str, str], errexit: bool, depth: int = 0) -> None:
        self.variables = variables
        self.errexit = errexit
        self.pipefail = False
        self.depth = depth
        self.commands: list[Command] = []
        self.functions: dict[str, list[Token]] = {}
        self._calling: list[str] = []
        self.arrays: dict[str, list[tuple[str, str]]] = {}  #: (key, value) in their order
        self.positional: list[str] | None = None  #: a function's arguments, each a word

    def run(self, tokens: Sequence[Token]) -> None:
        """Read a list of commands, taking every branch."""
        at, tested = 0, False
        while at < len(tokens) and len(self.commands) < _MAX_COMMANDS:
            token = tokens[at]
            word = token.bare if isinstance(token, Word) else ""
            if isinstance(token, Operator) and token.text not in _REDIRECTIONS:
                at += 1
            elif word in ("for", "select"):
                at = self._for(tokens, at)
            elif word == "case":
                at = self._case(tokens, at)
            elif word == "function" or self._is_function(tokens, at):
                at = self._function(tokens, at + (word == "function"))
            elif word in _OPENING or word in _CLOSING:
                tested = word in ("if", "elif", "while", "until", "!") or (tested and word == "time")
                at += 1
            else:
                at = self._simple(tokens, at, tested)
                tested = tested and not _ends_list(tokens, at)

    def _simple(self, tokens: Sequence[Token], at: int, tested: bool) -> int:
        """One simple command, from ``at`` up to the operator after it."""
        raw: list[Word] = []
        stdin: str | None = None
        while at < len(tokens):
            token = tokens[at]
            if isinstance(token, HereDocument):
                stdin = token.text if token.literal else self._text_expanded(token.text)
            elif isinstance(token, Operator) and token.text in _REDIRECTIONS:
                at += 1
                if token.text == "<<<" and at < len(tokens) and isinstance(tokens[at], Word):
                    stdin = "".join(self._expanded(tokens[at]))  # type: ignore[arg-type]
            elif isinstance(token, Operator):
                break
            else:
                raw.append(token)
            at += 1
        then = _operator_at(tokens, at)
        fallback = self._first_words(tokens, at + 1) if then == "||" else ()
        self._command(raw, stdin, then, fallback, tested)
        return at

    def _command(
        self,
        raw: list[Word],
        stdin: str | None,
        then: str,
        fallback: tuple[str, ...],
        tested: bool,
    ) -> None:
        before = len(self.commands)
        while raw and (match := _assignment(raw[0])):
            self._assign(*match)
            raw = raw[1:]
        words = [word for piece in raw for word in self._expanded(piece)]
        origin = raw[0] if raw else None
        if not words:
            if len(self.commands) > before:  # NAME=$(command) ends as its command does
                self.commands[-1] = replace(self.commands[-1], then=then, fallback=fallback, tested=tested)
            return
        name = words[0]
        if name in ("export", "local", "readonly", "declare", "typeset"):
            self._assign_all(raw[1:])
        elif name == "set":
            self._set(words[1:])
        elif name in self.functions and name not in self._calling:
            self._call(words)
        else:
            if name == "read":
                self.variables |= {word: self._piped_in() for word in words[1:] if _NAME.fullmatch(word)}
            elif name == "xargs":
                words = _with_arguments(words, self._piped_in())
            self.commands.append(
                Command(tuple(words), then, fallback, tested, self.errexit, self.pipefail, False, stdin, origin)
            )

    def _assign_all(self, raw: Sequence[Word]) -> None:
        for word in raw:
            if match := _assignment(word):
                self._assign(*match)

    def _assign(self, name: str, more: bool, value: list[tuple[str, str, bool]]) -> None:
        """``NAME=value``, ``NAME+=value``, and both with an array."""
        listed = [text for kind, text, _ in value if kind == "array"]
        if not listed:
            text = self._joined(value)
            text = self.variables.get(name, "") + text if more else text
            self.variables[name] = text if len(text) <= _MAX_VALUE else UNKNOWN
            return
        entries = self.arrays.get(name, []) if more else []
        for token in lex(listed[0]):
            for word in self._expanded(token) if isinstance(token, Word) else ():
                keyed = _KEYED.fullmatch(word)
                entries = [*entries, (keyed[1].strip("\"'"), keyed[2]) if keyed else (str(len(entries)), word)]
        if len(entries) > _MAX_ENTRIES:
            entries = [("0", UNKNOWN)]
        self.arrays[name] = entries
        self.variables[name] = dict(entries).get("0", "")

    def _set(self, words: Sequence[str]) -> None:
        for i, word in enumerate(words):
            on = word.startswith("-")
            if word[:1] in "+-" and "o" in word[1:] and i + 1 < len(words):
                self._option(words[i + 1], on)
            if word[:1] in ("+", "-") and "e" in word[1:] and not word.startswith("--"):
                self.errexit = on

    def _option(self, name: str, on: bool) -> None:
        if name == "errexit":
            self.errexit = on
        elif name == "pipefail":
            self.pipefail = on

    def _call(self, words: list[str]) -> None:
        before = {name: self.variables.get(name) for name in "123456789@*#"}
        self.variables |= {str(i): word for i, word in enumerate(words[1:10], 1)}
        self.variables |= {"@": " ".join(words[1:]), "*": " ".join(words[1:]), "#": str(len(words) - 1)}
        outer, self.positional = self.positional, words[1:]
        self._calling.append(words[0])
        self.run(self.functions[words[0]])
        self._calling.pop()
        self.positional = outer
        for name, value in before.items():
            self.variables.pop(name, None)
            if value is not None:
                self.variables[name] = value

    def _piped_in(self) -> str:
        """What comes through the pipe that the latest commands write into."""
        for command in reversed(self.commands):
            if command.then != "|":
                break
            if command.words[0] not in _FILTERS:
                return _printed(command.words)
        return UNKNOWN

    # -- compound commands -----------------------------------------------------------------------------------
    def _for(self, tokens: Sequence[Token], at: int) -> int:
        """``for NAME in WORDS; do BODY; done``: the body once for every word that is known."""
        name = tokens[at + 1].bare if at + 1 < len(tokens) and isinstance(tokens[at + 1], Word) else ""  # type: ignore[union-attr]
        start = _index_of(tokens, at, "do")
        end = _matching(tokens, start, "do", "done")
        listed = tokens[at + 3 : start]
        words = [w for token in listed if isinstance(token, Word) for w in self._expanded(token)]
        for word in words[:50] or [UNKNOWN]:
            self.variables[name] = word
            self.run(tokens[start + 1 : end])
        return end + 1

    def _case(self, tokens: Sequence[Token], at: int) -> int:
        """Every branch of a case: its patterns are left out."""
        end = _matching(tokens, at, "case", "esac")
        body = list(tokens[_index_of(tokens, at, "in") + 1 : end])
        branch: list[Token] = []
        in_pattern = True
        for token in body:
            if in_pattern:
                in_pattern = not (isinstance(token, Operator) and token.text == ")")
            elif isinstance(token, Operator) and token.text == ";;":
                self.run([*branch, Operator(";")])
                branch, in_pattern = [], True
            else:
                branch.append(token)
        self.run(branch)
        return end + 1

    def _is_function(self, tokens: Sequence[Token], at: int) -> bool:
        after = tokens[at + 1 : at + 3]
        named = isinstance(tokens[at], Word) and bool(_NAME.fullmatch(tokens[at].bare or ""))  # type: ignore[union-attr]
        return named and [t.text for t in after if isinstance(t, Operator)] == ["(", ")"]

    def _function(self, tokens: Sequence[Token], at: int) -> int:
        name = tokens[at].bare if isinstance(tokens[at], Word) else ""  # type: ignore[union-attr]
        start = _index_of(tokens, at, "{")
        end = _matching(tokens, start, "{", "}")
        self.functions[name] = list(tokens[start + 1 : end])
        return end + 1

    # -- expansion -------------------------------------------------------------------------------------------
    def _expanded(self, word: Word) -> list[str]:
        """The words that a word becomes: an unquoted variable is split, an empty one vanishes."""
        words, current, quoted_any = [], "", False
        every = ("var", "@", True)  # "$@"
        nothing = [p for p in word.pieces if self._is_nothing(p)]
        if nothing and not [p for p in word.pieces if p not in nothing and p[1]]:
            return []
        for kind, text, quoted in word.pieces:
            if (kind, text, quoted) == every and self.positional is not None:
                first, *rest = self.positional or [""]
                words += [current + first, *rest][: -1 if rest else 0]
                current = rest[-1] if rest else current + first
                continue
            entries = self._entries(text) if kind == "var" else None
            if entries is not None:
                if entries:
                    first, *rest = entries
                    words += [current + first, *rest][: -1 if rest else 0]
                    current = rest[-1] if rest else current + first
                continue
            quoted_any = quoted_any or quoted
            value = self._value(kind, text)
            if kind == "text" or quoted:
                current += value
                continue
            first, *rest = value.split() or [""]
            current += first
            for part in rest:
                words.append(current)
                current = part
        if current or quoted_any:
            words.append(current)
        return words

    def _is_nothing(self, piece: tuple[str, str, bool]) -> bool:
        """Whether it is a list without entries, which is no word even between quotes."""
        kind, text, _ = piece
        return kind == "var" and (self.positional == [] if text == "@" else self._entries(text) == [])

    def _entries(self, text: str) -> list[str] | None:
        """What ``${NAME[@]}`` becomes, or with ``!`` its keys; None for what is no array that is known."""
        match = _ALL.fullmatch(text)
        if match is None or match[2] not in self.arrays:
            return None
        return [key if match[1] else value for key, value in self.arrays[match[2]]]

    def _element(self, text: str) -> str | None:
        """``${NAME[KEY]}`` and ``${#NAME[@]}`` of an array that is known."""
        if match := _COUNT.fullmatch(text):
            return str(len(self.arrays[match[1]])) if match[1] in self.arrays else None
        match = _ELEMENT.fullmatch(text)
        if match is None or match[1] not in self.arrays:
            return None
        key = self._text_expanded(match[2])
        return dict(self.arrays[match[1]]).get(key, UNKNOWN if UNKNOWN in key else "")

    def _cut(self, text: str) -> str | None:
        """``${NAME#PATTERN}``, ``##``, ``%`` and ``%%`` of a value that is known."""
        match = _CUT.fullmatch(text)
        value = self.variables.get(match[1]) if match else None
        if match is None or value is None or UNKNOWN in value:
            return None
        pattern = re.compile(fnmatch.translate(self._text_expanded(match[3])))
        cuts = range(len(value) + 1) if match[2] in ("#", "%%") else range(len(value), -1, -1)
        for at in cuts:
            if pattern.fullmatch(value[:at] if match[2][0] == "#" else value[at:]):
                return value[at:] if match[2][0] == "#" else value[:at]
        return value

    def _joined(self, pieces: Sequence[tuple[str, str, bool]]) -> str:
        text = "".join(self._value(kind, text) for kind, text, _ in pieces)
        return text if len(text) <= _MAX_VALUE else UNKNOWN

    def _value(self, kind: str, text: str) -> str:
        if kind == "text":
            return text
        if kind == "sub":
            return self._substituted(text)
        if (known := self._element(text)) is not None or (known := self._cut(text)) is not None:
            return known
        name, default = _default(text)
        found = self.variables.get(name)
        if found is None or (not found and default is not None):
            return self._text_expanded(default) if default is not None else UNKNOWN
        return found

    def _substituted(self, text: str) -> str:
        """``$(...)``: its commands run too; only what echo and printf print is known."""
        if self.depth >= _MAX_DEPTH:
            return UNKNOWN
        inner = _Reader(dict(self.variables), self.errexit, self.depth + 1)
        inner.functions, inner.arrays = self.functions, dict(self.arrays)
        inner.positional = self.positional
        inner.run(lex(text))
        first, *rest = inner.commands or [Command((UNKNOWN,))]
        self.commands += inner.commands
        if first.words[0] == "echo" and not rest:
            self.commands.pop()
            return " ".join(first.words[1:])
        filtered = all(before.then == "|" for before in inner.commands[:-1]) and all(
            command.words[0] in _FILTERS for command in rest
        )
        return _printed(first.words) if filtered else UNKNOWN

    def _text_expanded(self, text: str) -> str:
        """The variables of a text as between double quotes (here-documents, defaults)."""
        word = Word()
        lexer = Lexer(text.replace('"', '\\"') + '"')
        lexer._double_quoted(word)
        return self._joined(word.pieces)

    def _first_words(self, tokens: Sequence[Token], at: int) -> tuple[str, ...]:
        found: list[str] = []
        for token in tokens[at:]:
            if not isinstance(token, Word):
                if isinstance(token, Operator) and token.text == "\n" and not found:
                    continue
                break
            found += self._expanded(token)
        return tuple(found)


def _printed(words: Sequence[str]) -> str:
    """``kubectl get KINDS -o name`` prints KIND/NAME: what kind is known, and that there is a name."""
    rest = list(words[1:])
    if words[0].rpartition("/")[2] not in ("kubectl", "oc") or "get" not in rest:
        return UNKNOWN
    if not re.search(r"(^| )(-o|--output)[ =]?name( |$)", " ".join(rest)):
        return UNKNOWN
    kinds = rest[rest.index("get") + 1 : rest.index("get") + 2]
    if not kinds or kinds[0].startswith("-"):
        return UNKNOWN
    return " ".join(f"{kind.partition('/')[0]}/{UNKNOWN}" for kind in kinds[0].split(","))


def _with_arguments(words: Sequence[str], piped: str) -> list[str]:
    """``xargs COMMAND`` with what it reads put where it goes: at the end, or for the replacement of ``-I``."""
    rest, replacing = list(words[1:]), ""
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-n", "-I", "-P", "-L", "-d", "-s", "-a") and rest:
            value = rest.pop(0)
            replacing = value if option == "-I" else replacing
        elif option.startswith("-I"):
            replacing = option[2:]
    if not rest:
        return list(words)
    if replacing:
        return ["xargs", *(word.replace(replacing, piped) for word in rest)]
    return ["xargs", *rest, *piped.split()]


def _assignment(word: Word) -> tuple[str, bool, list[tuple[str, str, bool]]] | None:
    """(name, whether it appends, the value's pieces) of ``NAME=value``."""
    bare = ""
    for i, (kind, text, quoted) in enumerate(word.pieces):
        if kind != "text" or quoted:
            return None
        bare += text
        if "=" in text:
            match = _ASSIGNMENT.fullmatch(bare)
            return (match[1], bool(match[2]), [("text", match[3], False), *word.pieces[i + 1 :]]) if match else None
    return None


def _default(text: str) -> tuple[str, str | None]:
    """(name, default) of what stands between ``${`` and ``}``; a pattern's result is unknown: the name matches none."""
    match = re.fullmatch(r"([A-Za-z_]\w*|[0-9@*#?])(?:(:?[-=?+])(.*))?", text, re.S)
    if not match:
        return "\0", None
    if match[2] and match[2][-1] in "-=":
        return match[1], match[3]
    return (match[1], None) if not match[2] or match[2][-1] == "?" else ("\0", None)


def _operator_at(tokens: Sequence[Token], at: int) -> str:
    token = tokens[at] if at < len(tokens) else None
    return token.text if isinstance(token, Operator) else ""


def _ends_list(tokens: Sequence[Token], at: int) -> bool:
    return _operator_at(tokens, at) in ("", ";", "\n", "&", ")")


def _index_of(tokens: Sequence[Token], at: int, word: str) -> int:
    for i in range(at, len(tokens)):
        token = tokens[i]
        if isinstance(token, Word) and token.bare == word:
            return i
    raise ShellSyntaxError(f"{word!r} is missing")


def _matching(tokens: Sequence[Token], at: int, opening: str, closing: str) -> int:
    depth = 0
    for i in range(at, len(tokens)):
        token = tokens[i]
        word = token.bare if isinstance(token, Word) else ""
        depth += (word == opening) - (word == closing)
        if word == closing and depth == 0:
            return i
    raise ShellSyntaxError(f"{closing!r} is missing")
