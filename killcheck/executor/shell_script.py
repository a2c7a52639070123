"""Reads a shell script without running it: the commands it would run, and who looks at their exit codes.

A reader for the scripts that executors are made of, not a shell: variables, quotes, here-documents, functions and
``for`` loops over known words are followed, every branch is taken, and what depends on output is *unknown*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

__all__ = ["UNKNOWN", "Command", "Script", "ShellSyntaxError", "parse"]

#: Stands in a word for text that only running would tell.
UNKNOWN = "\ufffd"

_OPERATORS = (
    "<<<", "<<-", "&>>", ";;", "&&", "||", "<<", ">>", ">&", "<&", ">|", "&>", ";", "&", "|", "(", ")", "<", ">",
)
_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", ">&", "<&", "&>", "&>>", "<<<"})
_OPENING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)
#: Programs between two others in a pipe that pass on what they read, or part of it.
_FILTERS = frozenset({"grep", "egrep", "head", "tail", "sort", "uniq", "tee", "cat"})
_MAX_DEPTH = 8
_MAX_COMMANDS = 2000


class ShellSyntaxError(Exception):
    """The script cannot be read; the message says what is open."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command, expanded. UNKNOWN stands for what cannot be known.

    ``then`` is the operator after it (``||``, ``&&``, ``|``, ``&``, ``;``; empty at the script's end), ``fallback``
    the words after a ``||``. ``tested``: in a condition of if, while or after ``!``. ``errexit``: under ``set -e``,
    ``pipefail`` likewise. ``last``: nothing runs after it, its exit code is the script's. ``stdin``: a here-document.
    """

    words: tuple[str, ...]
    then: str = ""
    fallback: tuple[str, ...] = ()
    tested: bool = False
    errexit: bool = False
    pipefail: bool = False
    last: bool = False
    stdin: str | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """What a script runs, in order, and the variables as they are at its end."""

    commands: tuple[Command, ...]
    variables: Mapping[str, str]


def parse(
    text: str, variables: Mapping[str, str] | None = None, *, errexit: bool = False, pipefail: bool = False,
) -> Script:
    """Read a script; ``variables`` are its environment, ``errexit`` and ``pipefail`` how its shell was started.

    Raises ShellSyntaxError for an open quote, parenthesis or here-document.
    """
    reader = _Reader(dict(variables or {}), errexit)
    reader.pipefail = pipefail
    reader.run(_lex(text))
    commands = reader.commands
    if commands:
        commands[-1] = replace(commands[-1], last=True)
    return Script(tuple(commands), reader.variables)


# -- words -------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Word:
    """Raw pieces: (kind, text, quoted); kind is text, var (``NAME`` or ``NAME:-default``) or sub (a command)."""

    pieces: list[tuple[str, str, bool]] = field(default_factory=list)

    @property
    def bare(self) -> str:
        """The text, if it is nothing but unquoted text (a reserved word, an assignment's name); else empty."""
        kinds = {(kind, quoted) for kind, _, quoted in self.pieces}
        return "".join(text for _, text, _ in self.pieces) if kinds == {("text", False)} else ""


@dataclass(slots=True)
class _Op:
    text: str


@dataclass(slots=True)
class _Here:
    """A here-document, filled in when its lines are reached."""

    word: _Word
    strip: bool
    text: str = ""
    literal: bool = False


_Token = _Word | _Op | _Here


@lru_cache(maxsize=256)
def _lex(text: str) -> tuple[_Token, ...]:
    """Its tokens, which nobody changes any more: a drill reads the same script at every start of a container."""
    return tuple(_Lexer(text).tokens())


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[_Token] = []
        self.waiting: list[_Here] = []

    def tokens(self) -> list[_Token]:
        """Words and operators in order, quotes and expansions followed."""
        text, word = self.text, None
        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r":
                word, self.at = None, self.at + 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "\n":
                word, self.at = None, self.at + 1
                self.found.append(_Op("\n"))
                self._here_documents()
            elif char == "#" and word is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif operator := self._operator():
                self._take_operator(operator, word)
                word = None
            else:
                if word is None:
                    word = _Word()
                    self.found.append(word)
                self._piece(word)
        if self.waiting:
            raise ShellSyntaxError("a here-document that does not end")
        return self.found

    def _operator(self) -> str:
        return next((op for op in _OPERATORS if self.text.startswith(op, self.at)), "")

    def _take_operator(self, operator: str, word: _Word | None) -> None:
        self.at += len(operator)
        if word is not None and operator[0] in "<>" and word.bare.isdigit():
            self.found.pop()  # the number of a file descriptor: 2>
        if operator in ("<<", "<<-"):
            self._skip_blanks()
            delimiter = _Word()
            while self.at < len(self.text) and self.text[self.at] not in " \t\n;|&<>()":
                self._piece(delimiter)
            here = _Here(delimiter, operator == "<<-", literal=not delimiter.bare)
            self.found.append(here)
            self.waiting.append(here)
        else:
            self.found.append(_Op(operator))

    def _skip_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1

    def _here_documents(self) -> None:
        for here in self.waiting:
            delimiter = "".join(text for _, text, _ in here.word.pieces)
            lines: list[str] = []
            while True:
                if self.at >= len(self.text):
                    raise ShellSyntaxError(f"a here-document that does not end ({delimiter})")
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = end + 1
                line = line.lstrip("\t") if here.strip else line
                if line.strip() == delimiter:
                    break
                lines.append(line)
            here.text = "\n".join(lines) + "\n"
        self.waiting.clear()

    def _piece(self, word: _Word) -> None:
        """One piece of a word: up to the next quote, expansion or blank."""
        char = self.text[self.at]
        if char == "'":
            end = self._find("'", self.at + 1)
            word.pieces.append(("text", self.text[self.at + 1 : end], True))
            self.at = end + 1
        elif char == '"':
            self.at += 1
            self._double_quoted(word)
        elif char == "\\":
            word.pieces.append(("text", self.text[self.at + 1 : self.at + 2], True))
            self.at += 2
        elif char in "$`":
            self._expansion(word, False)
        else:
            word.pieces.append(("text", char, False))
            self.at += 1

    def _double_quoted(self, word: _Word) -> None:
        literal = ""
        word.pieces.append(("text", "", True))
        while True:
            if self.at >= len(self.text):
                raise ShellSyntaxError('a " that is never closed')
            char = self.text[self.at]
            if char == '"':
                break
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                literal += self.text[self.at + 1].replace("\n", "")
                self.at += 2
            elif char in "$`":
                word.pieces.append(("text", literal, True))
                literal = ""
                self._expansion(word, True)
            else:
                literal += char
                self.at += 1
        word.pieces.append(("text", literal, True))
        self.at += 1

    def _expansion(self, word: _Word, quoted: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            end = self._find("`", at + 1)
            word.pieces.append(("sub", text[at + 1 : end], quoted))
        elif text.startswith("$((", at):
            end = self._close(at + 1)
            word.pieces.append(("var", "((", quoted))
        elif text.startswith("$(", at):
            end = self._close(at + 1)
            word.pieces.append(("sub", text[at + 2 : end], quoted))
        elif text.startswith("${", at):
            end = self._find("}", at + 2)
            word.pieces.append(("var", text[at + 2 : end], quoted))
        elif match := re.compile(r"\$(\w+|[@*#?$!-])").match(text, at):
            end = match.end() - 1
            name = match[1] if not match[1][0].isdigit() else match[1][0]
            end = at + len(name)
            word.pieces.append(("var", name, quoted))
        else:
            end = at
            word.pieces.append(("text", "$", quoted))
        self.at = end + 1

    def _find(self, char: str, start: int) -> int:
        end = self.text.find(char, start)
        if end < 0:
            raise ShellSyntaxError(f"a {char} that is never closed")
        return end

    def _close(self, start: int) -> int:
        """The index of the parenthesis that closes the one at ``start``; quotes inside are skipped."""
        depth, at, quote = 0, start, ""
        while at < len(self.text):
            char = self.text[at]
            if char == "\\":
                at += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char in "()":
                depth += 1 if char == "(" else -1
                if depth == 0:
                    return at
            at += 1
        raise ShellSyntaxError("a ( that is never closed")


# -- running it in the mind ----------------------------------------------------------------------------------
class _Reader:
    def __init__(self, variables: dict[str, str], errexit: bool, depth: int = 0) -> None:
        self.variables = variables
        self.errexit = errexit
        self.pipefail = False
        self.depth = depth
        self.commands: list[Command] = []
        self.functions: dict[str, list[_Token]] = {}
        self._calling: list[str] = []
        self.positional: list[str] | None = None  #: a function's arguments, each a word

    def run(self, tokens: Sequence[_Token]) -> None:
        """Read a list of commands, taking every branch."""
        at, tested = 0, False
        while at < len(tokens) and len(self.commands) < _MAX_COMMANDS:
            token = tokens[at]
            word = token.bare if isinstance(token, _Word) else ""
            if isinstance(token, _Op) and token.text not in _REDIRECTIONS:
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

    def _simple(self, tokens: Sequence[_Token], at: int, tested: bool) -> int:
        """One simple command, from ``at`` up to the operator after it."""
        raw: list[_Word] = []
        stdin: str | None = None
        while at < len(tokens):
            token = tokens[at]
            if isinstance(token, _Here):
                stdin = token.text if token.literal else self._text_expanded(token.text)
            elif isinstance(token, _Op) and token.text in _REDIRECTIONS:
                at += 1
                if token.text == "<<<" and at < len(tokens) and isinstance(tokens[at], _Word):
                    stdin = "".join(self._expanded(tokens[at]))  # type: ignore[arg-type]
            elif isinstance(token, _Op):
                break
            else:
                raw.append(token)
            at += 1
        then = _operator_at(tokens, at)
        fallback = self._first_words(tokens, at + 1) if then == "||" else ()
        self._command(raw, stdin, then, fallback, tested)
        return at

    def _command(
        self, raw: list[_Word], stdin: str | None, then: str, fallback: tuple[str, ...], tested: bool,
    ) -> None:
        before = len(self.commands)
        while raw and (match := _assignment(raw[0])):
            name, more, value = match
            text = self._joined(value)
            self.variables[name] = self.variables.get(name, "") + text if more else text
            raw = raw[1:]
        words = [word for piece in raw for word in self._expanded(piece)]
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
            self.commands.append(Command(
                tuple(words), then, fallback, tested, self.errexit, self.pipefail, False, stdin))

    def _assign_all(self, raw: Sequence[_Word]) -> None:
        for word in raw:
            if match := _assignment(word):
                self.variables[match[0]] = self._joined(match[2])

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
    def _for(self, tokens: Sequence[_Token], at: int) -> int:
        """``for NAME in WORDS; do BODY; done``: the body once for every word that is known."""
        name = tokens[at + 1].bare if at + 1 < len(tokens) and isinstance(tokens[at + 1], _Word) else ""  # type: ignore[union-attr]
        start = _index_of(tokens, at, "do")
        end = _matching(tokens, start, "do", "done")
        listed = tokens[at + 3 : start]
        words = [w for token in listed if isinstance(token, _Word) for w in self._expanded(token)]
        for word in words[:50] or [UNKNOWN]:
            self.variables[name] = word
            self.run(tokens[start + 1 : end])
        return end + 1

    def _case(self, tokens: Sequence[_Token], at: int) -> int:
        """Every branch of a case: its patterns are left out."""
        end = _matching(tokens, at, "case", "esac")
        body = list(tokens[_index_of(tokens, at, "in") + 1 : end])
        branch: list[_Token] = []
        in_pattern = True
        for token in body:
            if in_pattern:
                in_pattern = not (isinstance(token, _Op) and token.text == ")")
            elif isinstance(token, _Op) and token.text == ";;":
                self.run([*branch, _Op(";")])
                branch, in_pattern = [], True
            else:
                branch.append(token)
        self.run(branch)
        return end + 1

    def _is_function(self, tokens: Sequence[_Token], at: int) -> bool:
        after = tokens[at + 1 : at + 3]
        named = isinstance(tokens[at], _Word) and bool(_NAME.fullmatch(tokens[at].bare or ""))  # type: ignore[union-attr]
        return named and [t.text for t in after if isinstance(t, _Op)] == ["(", ")"]

    def _function(self, tokens: Sequence[_Token], at: int) -> int:
        name = tokens[at].bare if isinstance(tokens[at], _Word) else ""  # type: ignore[union-attr]
        start = _index_of(tokens, at, "{")
        end = _matching(tokens, start, "{", "}")
        self.functions[name] = list(tokens[start + 1 : end])
        return end + 1

    # -- expansion -------------------------------------------------------------------------------------------
    def _expanded(self, word: _Word) -> list[str]:
        """The words that a word becomes: an unquoted variable is split, an empty one vanishes."""
        words, current, quoted_any = [], "", False
        every = ("var", "@", True)  # "$@"
        if self.positional == [] and every in word.pieces and not [p for p in word.pieces if p != every and p[1]]:
            return []
        for kind, text, quoted in word.pieces:
            if (kind, text, quoted) == every and self.positional is not None:
                first, *rest = self.positional or [""]
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

    def _joined(self, pieces: Sequence[tuple[str, str, bool]]) -> str:
        return "".join(self._value(kind, text) for kind, text, _ in pieces)

    def _value(self, kind: str, text: str) -> str:
        if kind == "text":
            return text
        if kind == "sub":
            return self._substituted(text)
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
        inner.functions = self.functions
        inner.positional = self.positional
        inner.run(_lex(text))
        printed = [c.words for c in inner.commands]
        self.commands += inner.commands
        if len(printed) == 1 and printed[0][0] == "echo":
            self.commands.pop()
            return " ".join(printed[0][1:])
        return _printed(printed[0]) if len(printed) == 1 else UNKNOWN

    def _text_expanded(self, text: str) -> str:
        """The variables of a text as between double quotes (here-documents, defaults)."""
        word = _Word()
        lexer = _Lexer(text.replace('"', '\\"') + '"')
        lexer._double_quoted(word)
        return self._joined(word.pieces)

    def _first_words(self, tokens: Sequence[_Token], at: int) -> tuple[str, ...]:
        found: list[str] = []
        for token in tokens[at:]:
            if not isinstance(token, _Word):
                if isinstance(token, _Op) and token.text == "\n" and not found:
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


def _assignment(word: _Word) -> tuple[str, bool, list[tuple[str, str, bool]]] | None:
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


def _operator_at(tokens: Sequence[_Token], at: int) -> str:
    token = tokens[at] if at < len(tokens) else None
    return token.text if isinstance(token, _Op) else ""


def _ends_list(tokens: Sequence[_Token], at: int) -> bool:
    return _operator_at(tokens, at) in ("", ";", "\n", "&", ")")


def _index_of(tokens: Sequence[_Token], at: int, word: str) -> int:
    for i in range(at, len(tokens)):
        token = tokens[i]
        if isinstance(token, _Word) and token.bare == word:
            return i
    raise ShellSyntaxError(f"{word!r} is missing")


def _matching(tokens: Sequence[_Token], at: int, opening: str, closing: str) -> int:
    depth = 0
    for i in range(at, len(tokens)):
        token = tokens[i]
        word = token.bare if isinstance(token, _Word) else ""
        depth += (word == opening) - (word == closing)
        if word == closing and depth == 0:
            return i
    raise ShellSyntaxError(f"{closing!r} is missing")
