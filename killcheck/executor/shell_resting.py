"""What the words of a shell script rest on: variables, substitutions, arithmetic, files.

What may *not* live here: what commands do.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from posixpath import join, normpath

from killcheck.executor.resting import (
    KNOWN,
    Ground,
    Kind,
    Source,
    Unreadable,
    Value,
    compared_with,
    counted_off,
    joined,
    known,
    sided,
    unknown,
)
from killcheck.executor.shell_script import UNKNOWN
from killcheck.executor.shell_tree import Node, Read, Sub, parse_tree
from killcheck.executor.shell_words import HereDocument, Lexer, ShellSyntaxError, Word, lex
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["Result", "Words"]

#: What an exit code rests on, and what an output does.
Result = tuple[Value, Value]
#: Variables that bash itself makes anew (bash(1), Shell Variables); all others are set by somebody, or not at all.
_OWN: Mapping[str, Value] = {
    **{
        name: unknown(Kind.CHANCE, f"${name}", name)
        for name in ("RANDOM", "SRANDOM", "BASHPID", "PPID", "EPOCHREALTIME", "HISTCMD")
    },
    "HOSTNAME": unknown(Kind.POD, "the name of its pod", "HOSTNAME"),
    "EPOCHSECONDS": Value(clock=frozenset("s")),
    "SECONDS": Value(clock=frozenset("s")),
}
_PARAMETER = lazy_re.compile(r"([#!]?)([A-Za-z_]\w*|[0-9@*#?$!-])(?:\[([^\]]*)\]?)?(.*)", re.S)
_IDENTIFIER = lazy_re.compile(r"(?<![\w$])[A-Za-z_]\w*")
_REST_OF = lazy_re.compile(r"(?<=[\w)}\s])%\s*(\$?\{?\w+\}?)")
_SIDES = lazy_re.compile(r"([=!]=|=~|[<>]=?|(?<![=!<>])=|-(?:eq|ne|gt|ge|lt|le)\b)\s*([^\s&|)]+)")
#: What an image has, and what is made with each pod.
_OF_THE_IMAGE = (
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib",
    "/opt/",
    "/etc/ssl",
    "/etc/os-release",
    "/etc/profile",
    "/etc/passwd",
)
_FRESH = ("/tmp", "/var/tmp", "/run/", "/var/run/", "/dev/null", "/dev/std", "/dev/fd", "/root", "/home", "/workdir")  # noqa: S108 - paths in a script


class Words:
    """The variables of one shell, and what words are made of."""

    def __init__(
        self, ground: Ground, arguments: Sequence[Value] = (), *, errexit: bool = False, pipefail: bool = False
    ) -> None:
        self.ground = ground
        self.world = ground.world
        self.variables: dict[str, Value] = {}
        self.arrays: dict[str, list[Value]] = {}
        self.functions: dict[str, Node] = {}
        self.made_under: dict[str, Value] = {}
        self.arguments = list(arguments)
        self.errexit, self.pipefail = errexit, pipefail
        self.status = KNOWN
        self.last = KNOWN
        self.behind = KNOWN
        self.branches = 0
        self.tested = 0
        self.at_exit: list[str] = []
        self._broken: list[list[Value]] = []
        self._inside_of: list[int] = []
        self._counted: list[set[str]] = []

    @abstractmethod
    def _sub(self, node: Sub, stdin: Value) -> Result:
        """(exit code, output) of commands in a shell of their own."""

    # -- what is set -----------------------------------------------------------------------------------------
    def _write(self, word: Word, out: Value, *, more: bool) -> None:
        path = self._text(word).text or UNKNOWN
        name = self._path(path)
        before = self.variables.get(name, KNOWN)
        self.ground.note(name, before | out if more else out)
        self.variables[name] = (before | out) if more or self.branches else out
        self.variables[name] |= self.ground.here() if self.branches else Value()

    def _assign(self, name: str, more: bool, pieces: list[tuple[str, str, bool]]) -> Value:
        """``NAME=value``; what the exit code of commands in it rests on."""
        before = self.status
        self.status = KNOWN
        listed = [text for kind, text, _ in pieces if kind == "array"]
        if listed:
            made = [value for token in lex(listed[0]) if isinstance(token, Word) for value in self._expanded(token)]
            self.arrays[name] = [*(self.arrays.get(name, []) if more else []), *made]
            value = joined(self.arrays[name])
        else:
            value = self._joined(pieces)
            if name in self.arrays:
                self.arrays[name] = [*self.arrays[name], value]
        status, self.status = self.status, before
        if more:
            value = self.variables.get(name, KNOWN) | value
        self.ground.note(name, value)
        if self.branches:
            control = self.ground.here()
            value = value if not (control.unknown or control.listed or control.raw) else (value | control)
            before_ = self.variables.get(name)
            value = value if before_ is None or before_ == value else self._either(before_, value)
        self.variables[name] = value
        return status

    @staticmethod
    def _either(one: Value, other: Value) -> Value:
        return replace(one | other, text=other.text)

    def _inside(self, word: Word) -> Value:
        """``[[ ... ]]`` and ``(( ... ))``."""
        text = word.inside
        if word.bare != "[[":
            return self._arithmetic(text)
        value = self._inner(text)
        if re.fullmatch(r"!?\s*-[nz]\s+\S+", text):
            return value.exists
        if re.match(r"!?\s*-[a-mo-y]\s", text):
            return self.file(self._inner(text.split()[-1].strip("\"'"))) | value
        sides = [sided(how, self._inner(side.strip("\"'")).text or "") for how, side in _SIDES.findall(text)]
        if re.search(r"\s-(?:nt|ot|ef)\s", text):
            value = value.doubted(Source(Kind.STATE, "how old files are", text[:30]))
        if "=~" in text:
            self.variables["BASH_REMATCH"] = value
            if "s" in value.clock:
                value = value.doubted(Source(Kind.CHANCE, "the digits of a moment", text))
        for how, _ in _SIDES.findall(text):
            value = self.ground.at_a_minute(value, how)
        return compared_with(value, sides, text[:30])

    def _arithmetic(self, text: str) -> Value:
        """What is reckoned: ``(( ... ))``, ``$(( ... ))``; what it assigns is assigned."""
        value = self._inner(text) if "$" in text or "`" in text else KNOWN
        for name in _IDENTIFIER.findall(text):
            value |= self._variable(name)
        padded = {letter[1] for letter in value.clock if len(letter) > 1}
        if "10#" not in text and padded & set("dmjVUWHMI" if self.world.loops else "dmjVUW"):
            octal = Source(Kind.CHANCE, "a number with a zero before it, which is taken for an octal one", text[:40])
            self.ground.end(self.ground.here() | value.doubted(octal))
            value = value.doubted(octal)
        for by in _REST_OF.findall(text):
            divisor = by if by.isdigit() else self._variable(by.strip("${}")).text or ""
            value = counted_off(value, divisor, text[:40])
        if "s" in value.clock and re.search(r"(?<!&)&(?!&)|\^", text):
            value = value.doubted(Source(Kind.CHANCE, "the digits of a moment", text))
        for name in re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/%]?=(?!=)|\+\+|--)", text):
            self.ground.note(name, value)
            self.variables[name] = replace(value, text=None) | self.variables.get(name, KNOWN)
        plain = re.fullmatch(r"\s*\d+\s*", text)
        value = compared_with(value, [sided(how, side) for how, side in _SIDES.findall(text)], text[:30])
        return replace(value, text=text.strip() if plain else None)

    # -- words -----------------------------------------------------------------------------------------------
    def _read(self, read: Read) -> Value:
        if isinstance(read, HereDocument):
            return known(read.text) if read.literal or "$" not in read.text else self._inner(read.text)
        if isinstance(read, Sub):
            return self._sub(read, KNOWN)[1]
        how, word = read
        value = self._text(word)
        if how == "<&":  # what was opened before
            return self.variables.get("<", KNOWN)
        return value if how == "<<<" else self.file(value)

    def file(self, value: Value) -> Value:
        """What a file says, by its path."""
        text = value.text or UNKNOWN
        path = self._path(text.partition(UNKNOWN)[0]) if UNKNOWN in text else self._path(text)
        said = replace(value, text=None)
        if any(path == one or path.startswith(one.rstrip("/") + "/") for one in self.world.lasting):
            return said.doubted(Source(Kind.STATE, f"what lies at {text.replace(UNKNOWN, '...')}", path))
        if path in self.variables:
            return said | self.variables[path] if said != Value() else self.variables[path]
        if path in self.world.files:
            return replace(said, text=self.world.files[path])
        mine = (*self.world.mounted, *map(_folder, self.world.files), *_OF_THE_IMAGE, *_FRESH)
        if path.startswith(tuple(mine)) or not path.startswith("/") or not text.startswith(("/", "~")):
            return said
        return said.doubted(Source(Kind.LOOKS, f"what lies at {text.replace(UNKNOWN, '...')}", path))

    def _path(self, text: str) -> str:
        return normpath(join(self.world.working_dir or "/", text)) if text else ""

    def _text(self, word: Word) -> Value:
        return self._joined(word.pieces)

    def _joined(self, pieces: Sequence[tuple[str, str, bool]]) -> Value:
        if len(pieces) == 1:
            return self._piece(pieces[0][0], pieces[0][1])
        values = [self._piece(kind, text) for kind, text, _ in pieces if text or kind != "text"]
        if len(values) == 1:
            return values[0]
        text = "".join(UNKNOWN if value.text is None else value.text for value in values)
        return replace(joined(values), text=text, table=values[0].table if values else ())

    def _piece(self, kind: str, text: str) -> Value:
        if kind == "text":
            return known(text)
        if kind == "sub":
            value, out = self._sub(Sub(parse_tree(lex(text))), KNOWN)
            self.status = value if not self.status.unknown else self.status | value
            return replace(out, text=out.text.rstrip("\n") if out.text is not None else None)
        return self._parameter(text)

    def _parameter(self, text: str) -> Value:
        if text.startswith("(("):
            return self._arithmetic(text[2:].removesuffix(")"))
        match = _PARAMETER.fullmatch(text)
        if match is None:
            raise Unreadable(f"the variable ${{{text}}}")
        sign, name, index, rest = match.groups()
        value = self._variable(name)
        if sign == "!" and index is None:
            value |= self._variable(value.text) if value.text else unknown(Kind.PROGRAM, f"${{{text}}}", name)
        if index is not None and index not in ("@", "*"):
            value |= self._arithmetic(index) if not index.strip("\"'$ {}").isalpha() else self._inner(index)
        if not rest and not sign and index is None:
            return value
        if rest and rest[0] in ":#%/^," and rest[1:2] not in ("-", "=", "?", "+") and "s" in value.clock:
            value = value.doubted(Source(Kind.CHANCE, "the digits of a moment", name))
        if re.match(r":?\?", rest):  # it ends the script where it is not set
            self.ground.end(self.ground.here() | value.exists)
        default = re.fullmatch(r":?[-=](.*)", rest, re.S)
        if default and not sign:
            other = self._inner(default[1])
            return replace(value | other, text=value.text or other.text if value.text is not None else None)
        value = value | self._inner(rest) if "$" in rest else value
        return replace(value, text=None)

    def _variable(self, name: str) -> Value:
        if name.isdigit():
            at = int(name)
            return self.arguments[at - 1] if 0 < at <= len(self.arguments) else KNOWN
        if name in ("@", "*"):
            text = [UNKNOWN if one.text is None else one.text for one in self.arguments]
            return replace(joined(self.arguments), text=" ".join(text))
        if name == "?":
            return self.status.rests
        if name == "#":
            given = joined(self.arguments)
            return replace(given, own=given.own or bool(given.listed), text=None).exists
        if name == "_":
            return self.last
        if name == "!":
            return known("1")
        if name == "$":
            return unknown(Kind.CHANCE, "the number of its process ($$)", "$$")
        if name in self.variables:
            return self.variables[name]
        if name in self.world.passing:
            return unknown(Kind.POD, f"${name}, which is another one in each pod", name)
        if name in self.world.environment:
            return known(self.world.environment[name])
        return _OWN.get(name, KNOWN)

    def _inner(self, text: str) -> Value:
        """A text as between double quotes."""
        word = Word()
        try:
            Lexer(text.replace('"', '\\"') + '"')._double_quoted(word)
        except ShellSyntaxError:
            names = re.findall(r"\$\{?(\w+)", text)
            if "(" in text or "`" in text:
                raise
            return replace(joined(map(self._variable, names)), text=None)
        return self._joined(word.pieces)

    def _expanded(self, word: Word) -> list[Value]:
        """The words that a word becomes."""
        whole = [piece for piece in word.pieces if piece[1] or piece[0] != "text"]
        if len(whole) == 1 and whole[0][0] == "var":
            listed = re.fullmatch(r"([A-Za-z_]\w*)\[[@*]\]", whole[0][1])
            if listed and listed[1] in self.arrays:
                return self.arrays[listed[1]]
            if whole[0][1] == "@":
                return list(self.arguments)
        value = self._text(word)
        if value.text and value.text[0] == "/" and re.search(r"[*?[]", value.text):  # what lies there
            value |= replace(self.file(value), text=None)
            value = replace(value, text="".join(text for _, text, _ in word.pieces))
        quoted = any(piece[2] for piece in word.pieces) or all(piece[0] == "text" for piece in word.pieces)
        if quoted or value.text is None:
            return [value]
        return [replace(value, text=text) for text in value.text.split()]


def _folder(path: str) -> str:
    return path.rpartition("/")[0] + "/"
