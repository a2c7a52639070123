"""The shape of a shell script's tree: what it sets, counts and asks, wherever that stands. Nothing is walked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from killcheck.executor.shell_tree import Case, Fed, For, If, List, Loop, Node, Pipe, Simple, Sub
from killcheck.executor.shell_words import Word
from killcheck.text import lazy_re

__all__ = [
    "assigned",
    "assignment",
    "commands",
    "gives_up",
    "is_constant",
    "names_in",
    "reads_lines",
    "shown",
    "steps",
]

_SET = lazy_re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?(\+?)=(.*)", re.S)


def shown(word: Word) -> str:
    """A word near enough as it stands in the script."""
    return "".join(
        text if kind == "text" else f"${text}" if kind == "var" else "$(...)" for kind, text, _ in word.pieces
    )


def assignment(word: Word) -> tuple[str, bool, list[tuple[str, str, bool]]] | None:
    """(name, whether it is added to, pieces of the value) of ``NAME=value`` and ``NAME[KEY]=value``."""
    bare = ""
    for at, (kind, text, quoted) in enumerate(word.pieces):
        if kind != "text" or quoted:
            return None
        bare += text
        if "=" in text:
            match = _SET.fullmatch(bare)
            return (match[1], bool(match[2]), [("text", match[3], False), *word.pieces[at + 1 :]]) if match else None
    return None


def commands(node: Node | None) -> Iterator[Simple]:
    """All simple commands of a tree."""
    if isinstance(node, Simple):
        yield node
    elif isinstance(node, List):
        for item, _ in node.items:
            yield from commands(item)
    elif isinstance(node, Pipe):
        for part in node.parts:
            yield from commands(part)
    elif isinstance(node, If):
        for branch in (node.test, node.body, node.otherwise):
            yield from commands(branch)
    elif isinstance(node, Loop):
        yield from commands(node.test)
        yield from commands(node.body)
    elif isinstance(node, Case):
        for one in node.branches:
            yield from commands(one)
    elif isinstance(node, For | Fed | Sub):
        yield from commands(node.body)


def assigned(node: Node) -> Iterator[str]:
    """Variables and files that are set anywhere in a tree."""
    for one in commands(node):
        for word in one.words:
            found = assignment(word)
            if found:
                yield found[0]
            yield from re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/]?=(?!=)|\+\+|--)", word.inside)
        yield from (path.bare for path in one.written if path.bare.startswith("/"))


def names_in(node: Node) -> set[str]:
    """The variables that commands of a tree are given."""
    return {
        name
        for one in commands(node)
        for word in one.words
        for name in (
            *(re.split(r"\W", text.lstrip("#("))[0] for kind, text, _ in word.pieces if kind == "var"),
            *re.findall(r"[A-Za-z_]\w*", word.inside),
            *(n for kind, text, _ in word.pieces if kind == "var" for n in re.findall(r"[A-Za-z_]\w*", text)),
        )
    }


def _makes(one: Simple, name: str) -> Iterator[bool]:
    """Whether each assignment of a name in a command is made of itself."""
    for word in one.words:
        found = assignment(word)
        if found and found[0] == name:
            yield found[1] or any(_uses(kind, text, name) for kind, text, _ in found[2])
        if re.search(rf"\b{re.escape(name)}\s*(?:[-+*/]=|\+\+|--)", word.inside):
            yield True
    for path in one.written:
        if path.bare == name:
            told = " ".join(text for word in one.words for _, text, _ in word.pieces)
            yield any(path is more for more in one.added) or name in told


def _uses(kind: str, text: str, name: str) -> bool:
    """Whether a piece of a word is made of a variable, or of a file."""
    if kind == "text":
        return False
    if name.startswith("/"):
        return name in text
    bare = kind == "var" or "((" in text
    return re.search(rf"(?<![\w-]){'' if bare else '[$][{]?'}{re.escape(name)}\b", text) is not None


def steps(node: Loop, name: str) -> bool:
    """Whether a loop counts a variable on."""
    return any(made for one in commands(node.body) for made in _makes(one, name))


def gives_up(node: Node, counts: set[str]) -> bool:
    """Whether a loop is left once a variable that it counts on has come far enough, whatever else there is."""
    if isinstance(node, If):
        leaves = any(one.words and one.words[0].bare == "break" for one in commands(node.body))
        return leaves and _counted(node.test, counts)
    if not isinstance(node, List):
        return False
    for (item, after), (following, _) in zip(node.items, node.items[1:], strict=False):
        leaves = any(one.words and one.words[0].bare == "break" for one in commands(following))
        if after in ("&&", "||") and leaves and _counted(item, counts):
            return True
    return any(gives_up(item, counts) for item, _ in node.items)


def _counted(test: Node, counts: set[str]) -> bool:
    asks = [word for one in commands(test) for word in one.words]
    return bool(counts & names_in(test)) and not any(kind == "sub" for word in asks for kind, _, _ in word.pieces)


def is_constant(test: Node) -> bool:
    """Whether a loop's condition always holds: ``true``, ``:``, ``sleep 60``."""
    return all(
        (one.words and one.words[0].bare in ("true", ":", "sleep") and not one.words[0].inside)
        or (one.words and one.words[0].inside.strip() == "1")
        or [word.bare for word in one.words] in (["[", "1", "]"], ["[", "true", "]"])
        for one in commands(test)
    )


def reads_lines(test: Node) -> bool:
    """Whether a loop goes on as long as there are lines to read."""
    return any(any(word.bare == "read" for word in one.words) for one in commands(test))
