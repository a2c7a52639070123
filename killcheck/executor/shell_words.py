"""The words and operators of a shell script: quotes, expansions and here-documents followed, nothing expanded.

What may *not* live here: what a word means when the script runs.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct, field

from killcheck.text import lazy_re

__all__ = ["HereDocument", "Lexer", "Operator", "ShellSyntaxError", "Token", "Word", "lex"]

_OPERATORS = (
    "<<<",
    "<<-",
    "&>>",
    ";;",
    "&&",
    "||",
    "<<",
    ">>",
    ">&",
    "<&",
    ">|",
    "&>",
    ";",
    "&",
    "|",
    "(",
    ")",
    "<",
    ">",
)
_BEGINS_OPERATOR = frozenset(operator[0] for operator in _OPERATORS)
#: Letters that are nothing but text, whatever comes before and after them.
_LETTERS = lazy_re.compile(r"[A-Za-z0-9_./:,-]*")
_VARIABLE = lazy_re.compile(r"\$(\w+|[@*#?$!-])")


#: What an array is assigned to, and a conditional command on its line.
_ARRAY = lazy_re.compile(r"[A-Za-z_]\w*\+?=")
_TEST = lazy_re.compile(r"\[\[\s[^\n]*?\s\]\](?=[\s;&|)]|$)")


class ShellSyntaxError(Exception):
    """The script cannot be read; the message says what is open."""


class Word(Struct):
    """Raw pieces: (kind, text, quoted); kind is text, var (``NAME`` or ``NAME:-default``), sub (a command) or array
    (the words between its parentheses). ``inside``: of ``[[ ... ]]`` and ``(( ... ))``, which are one word here."""

    pieces: list[tuple[str, str, bool]] = field(default_factory=list)
    inside: str = ""

    @property
    def bare(self) -> str:
        """The text, if it is nothing but unquoted text (a reserved word, an assignment's name); else empty."""
        kinds = {(kind, quoted) for kind, _, quoted in self.pieces}
        return "".join(text for _, text, _ in self.pieces) if kinds == {("text", False)} else ""


class Operator(Struct):
    """A control or redirection operator, or a line's end."""

    text: str


class HereDocument(Struct):
    """A here-document, filled in when its lines are reached."""

    word: Word
    strip: bool
    text: str = ""
    literal: bool = False


Token = Word | Operator | HereDocument


@lru_cache(maxsize=256)
def lex(text: str) -> tuple[Token, ...]:
    """Its tokens, which nobody changes any more: a drill reads the same script at every start of a container."""
    return tuple(Lexer(text).tokens())


class Lexer:
    """Reads a script's text once, from its beginning. Raises ShellSyntaxError for what is never closed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Token] = []
        self.waiting: list[HereDocument] = []

    def tokens(self) -> list[Token]:
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
                self.found.append(Operator("\n"))
                self._here_documents()
            elif char == "#" and word is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif word is None and (unit := self._test()):
                self.found.append(Word([("text", unit[0], False)], unit[1]))
            elif char == "(" and word is not None and _ARRAY.fullmatch(word.bare):
                end = self._close(self.at)
                word.pieces.append(("array", text[self.at + 1 : end], False))
                self.at = end + 1
            elif operator := self._operator():
                self._take_operator(operator, word)
                word = None
            else:
                if word is None:
                    word = Word()
                    self.found.append(word)
                self._piece(word)
        if self.waiting:
            raise ShellSyntaxError("a here-document that does not end")
        return self.found

    def _test(self) -> tuple[str, str] | None:
        """``[[ ... ]]`` and ``(( ... ))`` as (a command's name, what is in them, which is no command); else None."""
        if self.text.startswith("((", self.at):
            start, end = self.at, self._close(self.at)
            if self.text[end - 1] == ")":
                self.at = end + 1
                return ":", self.text[start + 2 : end - 1]
        if match := _TEST.match(self.text, self.at):
            self.at = match.end()
            return "[[", match[0][2:-2].strip()
        return None

    def _operator(self) -> str:
        if self.text[self.at] not in _BEGINS_OPERATOR:
            return ""
        return next((op for op in _OPERATORS if self.text.startswith(op, self.at)), "")

    def _take_operator(self, operator: str, word: Word | None) -> None:
        self.at += len(operator)
        if word is not None and operator[0] in "<>" and word.bare.isdigit():
            self.found.pop()  # the number of a file descriptor: 2>
        if operator in ("<<", "<<-"):
            self._skip_blanks()
            delimiter = Word()
            while self.at < len(self.text) and self.text[self.at] not in " \t\n;|&<>()":
                self._piece(delimiter)
            here = HereDocument(delimiter, operator == "<<-", literal=not delimiter.bare)
            self.found.append(here)
            self.waiting.append(here)
        else:
            self.found.append(Operator(operator))

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

    def _piece(self, word: Word) -> None:
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
            letters = _LETTERS.match(self.text, self.at)
            run = (letters and letters[0]) or char
            word.pieces.append(("text", run, False))
            self.at += len(run)

    def _double_quoted(self, word: Word) -> None:
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

    def _expansion(self, word: Word, quoted: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            end = self._find("`", at + 1)
            word.pieces.append(("sub", text[at + 1 : end], quoted))
        elif text.startswith("$((", at):
            end = self._close(at + 1)
            word.pieces.append(("var", text[at + 1 : end], quoted))
        elif text.startswith("$(", at):
            end = self._close(at + 1)
            word.pieces.append(("sub", text[at + 2 : end], quoted))
        elif text.startswith("${", at):
            end = self._find("}", at + 2)
            word.pieces.append(("var", text[at + 2 : end], quoted))
        elif match := _VARIABLE.match(text, at):
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
