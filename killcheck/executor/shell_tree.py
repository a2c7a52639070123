"""A shell script's commands as a tree: lists, pipes, ``if``, loops, ``case``, functions. Nothing is expanded."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from killcheck.executor.shell_words import HereDocument, Operator, ShellSyntaxError, Token, Word
from killcheck.text import lazy_re

__all__ = ["Case", "Fed", "For", "If", "List", "Loop", "Node", "Pipe", "Simple", "Sub", "parse_tree"]

_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", ">&", "<&", "&>", "&>>", "<<<"})
_FUNCTION = lazy_re.compile(r"[A-Za-z_][\w-]*")
#: Words that end a list of commands.
_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})


class Simple(Struct):
    """``words``, assignments included; ``written``: files that it writes; ``makes``: the function of that name.

    ``reads``: what is redirected into it; ``added``: of the files those that it appends to.
    """

    words: tuple[Word, ...] = ()
    written: tuple[Word, ...] = ()
    makes: Node | None = None
    reads: tuple[Read, ...] = ()
    added: tuple[Word, ...] = ()


class List(Struct):
    """Commands, each with the operator after it."""

    items: tuple[tuple[Node, str], ...] = ()


class Pipe(Struct):
    """Commands of one pipe; ``turned``: after a ``!``."""

    parts: tuple[Node, ...]
    turned: bool = False


class If(Struct):
    """``otherwise``: what comes after else or elif."""

    test: Node
    body: Node
    otherwise: Node | None = None


class Loop(Struct):
    """``while``, or ``until``."""

    test: Node
    body: Node
    until: bool = False


class For(Struct):
    """``for NAME in WORDS``."""

    name: str
    words: tuple[Word, ...]
    body: Node


class Case(Struct):
    """``case WORD in ...``; of each branch its commands, and beside them its patterns."""

    word: Word
    branches: tuple[Node, ...]
    patterns: tuple[tuple[Word, ...], ...] = ()


class Sub(Struct):
    """Between parentheses: its exit ends nothing else."""

    body: Node


class Fed(Struct):
    """A compound command into which something is redirected: ``done < FILE``."""

    body: Node
    reads: tuple[Read, ...]


#: A file, ``<<<`` with a word, a here-document, or the output of commands (``< <(...)``).
Read = tuple[str, Word] | HereDocument | Sub
Node = Simple | List | Pipe | If | Loop | For | Case | Sub | Fed


def parse_tree(tokens: Sequence[Token]) -> Node:
    """The tree of a script's tokens. Raises ShellSyntaxError for what does not end."""
    return _Parser(list(tokens)).all()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def all(self) -> Node:
        found = self.commands()
        if self.at < len(self.tokens):
            raise ShellSyntaxError("a word that ends what was not begun")
        return found

    # -- what is next ----------------------------------------------------------------------------------------
    def operator(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        return token.text if isinstance(token, Operator) else ""

    def word(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        return token.bare if isinstance(token, Word) else ""

    def need(self, text: str) -> None:
        if text not in (self.word(), self.operator()):
            raise ShellSyntaxError(f"{text!r} is missing")
        self.at += 1

    def blank(self, operators: tuple[str, ...] = ("\n", ";")) -> None:
        while self.operator() in operators or self.heredoc():
            self.at += 1

    def heredoc(self) -> bool:
        return self.at < len(self.tokens) and isinstance(self.tokens[self.at], HereDocument)

    # -- lists and pipes -------------------------------------------------------------------------------------
    def commands(self) -> Node:
        items: list[tuple[Node, str]] = []
        self.blank()
        while self.at < len(self.tokens) and self.word() not in _ENDS and self.operator() not in (")", ";;"):
            node = self.pipe()
            after = self.operator()
            if after in ("&&", "||", "&", ";", "\n"):
                self.at += 1
                self.blank(("\n",) if after in ("&&", "||") else ("\n", ";"))
            elif after not in ("", ")", ";;"):
                raise ShellSyntaxError(f"{after!r} where a command ends")
            items.append((node, after if after in ("&&", "||", "&") else ";"))
        return List(tuple(items))

    def pipe(self) -> Node:
        turned = False
        while self.word() in ("!", "time"):
            turned ^= self.word() == "!"
            self.at += 1
        parts = [self.command()]
        while self.operator() == "|":
            self.at += 1
            self.blank(("\n",))
            if self.operator() == "&":
                self.at += 1
            parts.append(self.command())
        return Pipe(tuple(parts), turned) if turned or len(parts) > 1 else parts[0]

    # -- commands --------------------------------------------------------------------------------------------
    def command(self) -> Node:
        word = self.word()
        compound = {
            "if": self.conditional,
            "while": self.loop,
            "until": self.loop,
            "for": self.each,
            "select": self.each,
            "case": self.case,
            "{": self.group,
            "function": self.function,
        }.get(word)
        if compound is not None:
            self.at += 1
            found: Node = compound()
        elif self.operator() == "(":
            self.at += 1
            found = Sub(self.commands())
            self.need(")")
        elif self.makes_function():
            found = self.function()
        else:
            return self.simple()
        reads: list[Read] = []
        self.redirected(reads)
        return Fed(found, tuple(reads)) if reads else found

    def makes_function(self) -> bool:
        after = [token.text for token in self.tokens[self.at + 1 : self.at + 3] if isinstance(token, Operator)]
        return bool(_FUNCTION.fullmatch(self.word())) and after == ["(", ")"]

    def function(self) -> Node:
        name = self.tokens[self.at]
        self.at += 1
        while self.operator() in ("(", ")", "\n"):
            self.at += 1
        body = self.command()
        return Simple((name,) if isinstance(name, Word) else (), makes=body)

    def conditional(self) -> Node:
        test = self.commands()
        self.need("then")
        body = self.commands()
        otherwise: Node | None = None
        if self.word() == "elif":
            self.at += 1
            return If(test, body, self.conditional())
        if self.word() == "else":
            self.at += 1
            otherwise = self.commands()
        self.need("fi")
        return If(test, body, otherwise)

    def body(self) -> Node:
        self.blank()
        self.need("do")
        found = self.commands()
        self.need("done")
        return found

    def loop(self) -> Node:
        until = isinstance(before := self.tokens[self.at - 1], Word) and before.bare == "until"
        return Loop(self.commands(), self.body(), until)

    def each(self) -> Node:
        name = self.word()
        self.at += 1
        words: list[Word] = []
        self.blank(("\n",))
        if self.word() == "in":
            self.at += 1
            while self.at < len(self.tokens) and isinstance(word := self.tokens[self.at], Word):
                words.append(word)
                self.at += 1
        return For(name, tuple(words), self.body())

    def case(self) -> Node:
        word = self.tokens[self.at]
        if not isinstance(word, Word):
            raise ShellSyntaxError("case of no word")
        self.at += 1
        self.blank(("\n",))
        self.need("in")
        branches: list[Node] = []
        patterns: list[tuple[Word, ...]] = []
        self.blank()
        while self.word() != "esac":
            begun = self.at
            while self.operator() != ")" or (self.at and self.operator() == "("):
                self.at += 1
                if self.at >= len(self.tokens):
                    raise ShellSyntaxError("'esac' is missing")
            patterns.append(tuple(token for token in self.tokens[begun : self.at] if isinstance(token, Word)))
            self.at += 1
            branches.append(self.commands())
            self.blank((";;", "\n"))
        self.need("esac")
        return Case(word, tuple(branches), tuple(patterns))

    def group(self) -> Node:
        found = self.commands()
        self.need("}")
        return found

    def redirected(self, reads: list[Read], added: list[Word] | None = None) -> list[Word]:
        """Redirections from here on; the files that are written. What is read, or added to, is put into the lists."""
        written: list[Word] = []
        while self.operator() in _REDIRECTIONS or self.heredoc():
            how = self.operator()
            token = self.tokens[self.at]
            self.at += 1
            if isinstance(token, HereDocument):
                reads.append(token)
            elif how == "<" and (self.operator(), *self._next(1)) in (("<", "("), ("(",), ("(", "(")):
                self.at += self.operator() == "<"
                self.need("(")
                reads.append(Sub(self.commands()))
                self.need(")")
            elif self.at < len(self.tokens):
                word = self.tokens[self.at]
                if isinstance(word, Word):
                    written += [word] if how in (">", ">>", ">|", "&>", "&>>") else []
                    reads += [(how, word)] if how in ("<", "<<<", "<&") else []
                    if added is not None and how in (">>", "&>>"):
                        added.append(word)
                self.at += 1
        return written

    def _next(self, ahead: int) -> list[str]:
        """The operator that follows, if it is one."""
        tokens = self.tokens[self.at + ahead : self.at + ahead + 1]
        return [token.text for token in tokens if isinstance(token, Operator)]

    def simple(self) -> Node:
        words: list[Word] = []
        written: list[Word] = []
        reads: list[Read] = []
        added: list[Word] = []
        start = self.at
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if isinstance(token, HereDocument) or self.operator() in _REDIRECTIONS:
                written += self.redirected(reads, added)
            elif isinstance(token, Word):
                if words and words[-1].bare in ("-o", "--output") and token.bare != "/dev/null":
                    written.append(token)
                words.append(token)
                self.at += 1
            else:
                break
        if self.at == start:
            raise ShellSyntaxError(f"{self.operator()!r} where a command begins")
        return Simple(tuple(words), tuple(written), None, tuple(reads), tuple(added))
