"""YAML and JSON as Kubernetes reads them (YAML 1.1 by go-yaml's rules), every value with the line it stands on.

The spec and manifests both come through here. PyYAML composes the nodes (its C scanner, where it was built with it:
a folder of manifests in milliseconds); what a plain scalar *means* is decided here, since go-yaml and PyYAML
disagree: ``y`` is a boolean to Kubernetes, ``03:00`` is text, ``0o17`` a number (go-yaml v2 ``resolve.go``, as vendored
by sigs.k8s.io/yaml; recorded on v1.36: a name ``y`` is answered with 400, an annotation ``03:00`` is accepted).
"""

from __future__ import annotations

import hashlib
import marshal
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct

from killcheck.text import lazy_re

if TYPE_CHECKING:
    import yaml

__all__ = ["Document", "Gaps", "Path", "YamlError", "documents", "each_document", "format_path", "reads_as_text"]

#: Where a value stands: keys and indexes from the document's root.
Path = tuple[str | int, ...]
#: What was left out of a text before it came here: after so many lines of it, so many more of its file.
Gaps = Sequence[tuple[int, int]]

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_FLOAT = lazy_re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INT = lazy_re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_SPECIAL = {
    ".nan": float("nan"),
    ".NaN": float("nan"),
    ".NAN": float("nan"),
    ".inf": float("inf"),
    ".Inf": float("inf"),
    ".INF": float("inf"),
    "+.inf": float("inf"),
    "-.inf": float("-inf"),
    "-.Inf": float("-inf"),
    "-.INF": float("-inf"),
}
#: Scalars that mean something else than they say.
_WORDS = {**dict.fromkeys(_NULL), **dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False), **_SPECIAL}
#: More values than any honest text has, each of which ends with a comma or a line; and more that are there by an alias
#: or a merge (``<<``), which multiply ('billion laughs'), and so many characters of text.
_MAX_VALUES = 4_000_000
_MAX_REPEATED = 50_000
_MAX_REPEATED_TEXT = 32 * 2**20
#: What may be an anchor: ``&name`` where a value begins. (Patterns begin with a plain character where they can: a text
#: of megabytes is then passed over at the speed of a search for that.)
_ANCHOR = lazy_re.compile(r"&(?<![^\s\[{,:-]&)[^\s&]")
#: API servers take no deeper objects either; Python's own stack ends at a thousand.
_MAX_DEPTH = 100
#: So many open brackets, or so far an indentation, may mean that something is nested deeper than a stack is.
_SUSPECT = 500
_BRACKETS = lazy_re.compile(r"[\[\]{}]")
#: Where one document ends and the next begins: the line before.
_PARTS = lazy_re.compile(r"\n(?=---(?:\s|\Z))")
_FAR_IN = lazy_re.compile(rf"\n[ ?:-]{{{_SUSPECT}}}")
#: The digits of a whole number that is read as one: an int64 has 19, written in base two 64.
_MAX_DIGITS = 70
_UNTAGGED = "!untagged"
_TYPED = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))


class YamlError(Exception):
    """The text is not YAML. ``line`` (1-based) is where it stops making sense, ``problem`` what is wrong there."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        self.file = file
        self.line = line
        self.problem = problem
        super().__init__(f"{file}:{line}: {problem}")


def format_path(path: Path) -> str:
    """``spec.containers[0].name``, as people write it; a key that has dots in it goes in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w-]+", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Document:
    """One YAML document. ``value`` is JSON-like data.

    ``duplicates`` are keys given twice (the last one won) and their lines; ``boolean_keys`` are unquoted keys such as
    ``on`` that YAML 1.1 takes for a boolean: the path (with the key as JSON has it), the key as written, its line.
    """

    value: Any
    file: str
    line: int
    duplicates: tuple[tuple[Path, int], ...]
    boolean_keys: tuple[tuple[Path, str, int], ...]
    _node: yaml.Node | None = field(repr=False)
    #: Lines of the file before the text that ``_node`` was read from.
    _before: int = 0
    #: The document of the same text that was read first.
    _first: Document | None = field(default=None, repr=False, compare=False)
    #: Its value as it was read: whoever has ``value`` may have changed it since.
    _as_read: bytes | None = field(default=None, repr=False, compare=False)
    #: The lines of the file that are not in the text.
    _gaps: Gaps = field(default=(), repr=False, compare=False)

    def line_of(self, path: Path = ()) -> int:
        """The line (1-based) of what stands at ``path``: of its key in a mapping, else of the value itself.

        A path that leads further than the document does is answered with the line of the last step that exists.
        """
        line = self.line
        for key, node in self._walk(path):
            line = _beyond((key or node).start_mark.line + 1 + self._before, self._gaps)
        return line

    def line_within(self, path: Path, number: int) -> int:
        """The line of the file on which line ``number`` (1-based) of a text begins; where the text's own lines are no
        lines of the file, that of the text."""
        nodes = list(self._walk(path))
        if len(nodes) != len(path) or not path or getattr(nodes[-1][1], "style", None) != "|":
            return self.line_of(path)
        return _beyond(nodes[-1][1].start_mark.line + 1 + number + self._before, self._gaps)

    def raw(self, path: Path) -> str | None:
        """The scalar at ``path`` as it is written (``off``, ``0o17``), None where there is none or it is quoted."""
        nodes = list(self._walk(path))
        if len(nodes) != len(path) or not path:
            return None
        node = nodes[-1][1]
        return str(node.value) if _plain(node) else None

    def _walk(self, path: Path) -> Iterator[tuple[yaml.Node | None, yaml.Node]]:
        node = self._node
        for step in path:
            found = _step(node, step)
            if found is None:
                return
            yield found
            node = found[1]


def documents(text: str, file: str) -> list[Document]:
    """Every document of ``text`` (YAML, possibly several, or JSON); empty documents are left out.

    Raises YamlError, with the first problem, where it is not YAML.
    """
    apart = not _has_directive(text) and not _may_repeat(text) and not _has_too_many(text)
    if apart:
        try:
            return list(_each_once(text, file))
        except YamlError:
            pass  # read as a whole, it says what is wrong
    return _documents(text, file, _Repeated())


#: Documents that somebody still has, by a digest of their text: of a folder's every second one may be there before,
#: in bundles of manifests for people to install.
_READ: WeakValueDictionary[bytes, Document] = WeakValueDictionary()


def _each_once(text: str, file: str) -> Iterator[Document]:
    """The documents of a text that have nothing to do with each other; what was read before is not read again."""
    before = 0
    for part in _parts(text):
        key = hashlib.blake2b(part.encode("utf-8", "surrogatepass")).digest()
        first = _READ.get(key)
        if first is not None and first._as_read is not None:
            odd = first.duplicates, first.boolean_keys
            value = marshal.loads(first._as_read)  # noqa: S302 - bytes of this process, a copy of what it read
            yield _moved(Document(value, file, first.line, *odd, first._node), before, first)
        else:
            for doc in _documents(part, file, _Repeated(), again=True):  # one, or none (a comment)
                _READ[key] = doc
                yield _moved(doc, before, doc)
        before += part.count("\n")


def _parts(text: str) -> Iterator[str]:
    """The text from each line that begins a document to the next one; together they are all of it."""
    begin = 0
    for end in _PARTS.finditer(text):
        yield text[begin : end.start() + 1]
        begin = end.start() + 1
    yield text[begin:]


def _has_directive(text: str) -> bool:
    """Whether something is said of YAML itself, which holds beyond the line ``---`` that ends it."""
    return text.startswith("%") or "\n%" in text


def _may_repeat(text: str) -> bool:
    """Whether aliases or merges may be in a text: they have one budget."""
    return "&" in text and "*" in text and _ANCHOR.search(text) is not None


def _has_too_many(text: str) -> bool:
    return text.count(",") + text.count("\n") > _MAX_VALUES


def _documents(text: str, file: str, repeated: _Repeated, *, again: bool = False) -> list[Document]:
    """``again``: the same text may come again."""
    import yaml

    deep = _too_deep(text)
    if deep:
        raise YamlError(file, deep, f"nested more than {_MAX_DEPTH} deep")
    if _has_too_many(text):
        raise YamlError(file, 1, f"more than {_MAX_VALUES} values")
    try:
        nodes = _composed(text)
    except yaml.MarkedYAMLError as error:
        raise YamlError(file, *_explain(error, text)) from error
    except RecursionError:
        raise YamlError(file, 1, f"nested more than {_MAX_DEPTH} deep") from None
    except (yaml.YAMLError, ValueError) as error:  # ReaderError: a character that no YAML may contain
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise YamlError(file, line, " ".join(str(getattr(error, "reason", error)).split())) from error
    watched = repeated if _may_repeat(text) else None
    return [_document(node, file, watched, again) for node in nodes if node is not None and not _blank(node)]


def each_document(text: str, file: str, gaps: Gaps = ()) -> list[Document | YamlError]:
    """Every document of ``text``, each by itself: what is wrong with one takes no other one with it.

    A line that begins with ``---`` ends a document wherever it stands, in a block of text too (YAML 1.2, 9.1.2).
    ``gaps`` are the lines of the file that are not in ``text``, in order: all lines that are told are the file's.
    """
    found = _each_document(text, file)
    return [_widened(one, gaps) for one in found] if gaps else found


def _widened(one: Document | YamlError, gaps: Gaps) -> Document | YamlError:
    """With the lines of its file, where some of them were left out of the text."""
    if isinstance(one, YamlError):
        return YamlError(one.file, _beyond(one.line, gaps), one.problem)
    duplicates = tuple((path, _beyond(line, gaps)) for path, line in one.duplicates)
    keys = tuple((path, raw, _beyond(line, gaps)) for path, raw, line in one.boolean_keys)
    line = _beyond(one.line, gaps)
    return Document(one.value, one.file, line, duplicates, keys, one._node, one._before, one._first or one, None, gaps)


def _beyond(line: int, gaps: Gaps) -> int:
    """The line of the file that a line (1-based) of a text with gaps is."""
    return line + sum(left_out for before, left_out in gaps if before < line)


def _each_document(text: str, file: str) -> list[Document | YamlError]:
    try:
        return list(documents(text, file))
    except YamlError as error:
        whole = error
    found: list[Document | YamlError] = []
    before, repeated = 0, _Repeated()
    for part in _parts(text):
        try:
            found += [_moved(doc, before) for doc in _documents(part, file, repeated)]
        except YamlError as error:
            found.append(YamlError(file, error.line + before, error.problem))
        before += part.count("\n")
    return found or [whole]


def _moved(doc: Document, lines: int, first: Document | None = None) -> Document:
    """A document of a part that begins after so many lines of its file. ``first``: that of the same text."""

    def further(places: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple((*place[:-1], place[-1] + lines) for place in places)

    if not lines and doc is (first or doc):
        return doc
    passed = further(doc.duplicates), further(doc.boolean_keys)
    return Document(doc.value, doc.file, doc.line + lines, *passed, doc._node, lines, first)


#: libyaml from 0.2.6 on (PyYAML 6.0.4) says so itself at 1000 open brackets, before it tells of the first of them.
_C_PARSER_GAVE_UP = "maximum nesting depth"


def _too_deep(text: str) -> int:
    """The line at which a text is nested too deep, before a parser in C is led there: it would end the process.

    Only a text that looks like it is read twice.
    """
    import yaml

    if not _brackets_go_deep(text) and not _FAR_IN.search(text) and not _FAR_IN.match(f"\n{text[:_SUSPECT]}"):
        return 0
    depth = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > _MAX_DEPTH:
                return (event.start_mark.line if event.start_mark else 0) + 1
    except yaml.MarkedYAMLError as error:
        if error.problem_mark and _C_PARSER_GAVE_UP in str(error.problem):
            return int(error.problem_mark.line) + 1
    except yaml.YAMLError:
        pass  # reading it says what is wrong
    return 0


def _brackets_go_deep(text: str) -> bool:
    """Whether so many brackets are open at once that something may be nested too deep."""
    if text.count("[") + text.count("{") <= _SUSPECT:
        return False
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest > _SUSPECT


def _composed(text: str) -> list[yaml.Node]:
    """The nodes of each document. Raises yaml.YAMLError."""
    import yaml

    try:
        return list(yaml.compose_all(text, Loader=_loader()))
    except yaml.composer.ComposerError as error:
        if not (error.context or "").startswith("found duplicate anchor"):
            raise
    return list(yaml.compose_all(text, Loader=_loader_of_anchors_again()))


@cache
def _loader_of_anchors_again() -> type[yaml.SafeLoader]:
    """As YAML (1.2, 7.1) and go-yaml (v2 ``parser.anchor``) have it: an alias means the last anchor of its name.

    PyYAML refuses a second one. Its composer in Python lets us forget the first.
    """
    import yaml

    base: Any = _loader()

    class Again(yaml.composer.Composer, base):  # type: ignore[misc]
        def __init__(self, stream: str) -> None:
            base.__init__(self, stream)
            yaml.composer.Composer.__init__(self)

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            event = self.peek_event()
            if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
                self.anchors.pop(event.anchor, None)
            return super().compose_node(parent, index)

    return Again


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # No implicit types: a scalar without a tag of its own is recognised by this one, and resolved here. Resolvers by
    # path are not used: called twice a node, so they are functions of C, whose answers nobody reads.
    return type("_Loader", (base,), {"resolve": _tag, "descend_resolver": operator.is_, "ascend_resolver": tuple})


def _tag(_loader: object, kind: Any, _value: str | None, implicit: tuple[bool, bool] | bool | None) -> str:
    """The tag of a node that has none: PyYAML asks once a node, so this is all that may happen.

    By the kind's ``id``: the parser in C keeps the classes that it was loaded with, also where PyYAML is loaded anew.
    """
    if kind.id == "scalar":
        return _UNTAGGED if isinstance(implicit, tuple) and implicit[0] else "tag:yaml.org,2002:str"
    return "tag:yaml.org,2002:seq" if kind.id == "sequence" else "tag:yaml.org,2002:map"


def _plain(node: Any) -> bool:
    """Whether it is a scalar that is neither quoted nor tagged."""
    return node.id == "scalar" and not node.style and node.tag == _UNTAGGED


def _blank(node: yaml.Node) -> bool:
    return _plain(node) and node.value in _NULL


def _document(node: yaml.Node, file: str, repeated: _Repeated | None, again: bool) -> Document:
    builder = _Builder(file, repeated)
    value = builder.build(node, ())
    odd = tuple(builder.duplicates), tuple(builder.boolean_keys)
    as_read = marshal.dumps(value) if again else None
    return Document(value, file, node.start_mark.line + 1, *odd, node, _as_read=as_read)


def _explain(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """The line and one sentence, with a hint for the two mistakes that people make most."""
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines() or [""]
    line = min(mark.line + 1 if mark else 1, len(lines))
    problem = error.problem or "not YAML"
    here = lines[line - 1]
    if "\t" in here[: len(here) - len(here.lstrip())]:
        problem = "a tab character indents this line; YAML wants spaces"
    elif "{{" in here or "{%" in here:
        problem += " (a template? render it first)"
    elif error.context:
        problem = f"{error.context}, {problem}"
    return line, problem


def _step(node: Any, step: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    """One step down: (the key's node or None, the value's node)."""
    if isinstance(step, int):
        is_list = isinstance(getattr(node, "value", None), list) and node.id == "sequence"
        return (None, node.value[step]) if is_list and 0 <= step < len(node.value) else None
    if getattr(node, "id", "") != "mapping":
        return None
    merged = None
    for key, value in reversed(node.value):
        if key.id != "scalar":
            continue
        if _key(key) == step:
            return key, value
        if _merges(key):
            sources = value.value if value.id == "sequence" else [value]
            merged = merged or next(filter(None, (_step(source, step) for source in sources)), None)
    return merged


def _merges(key: Any) -> bool:
    return key.value == "<<" and _plain(key)


def _key(node: Any) -> str:
    """A mapping's key as JSON has it: always text. go-yaml reads ``on:`` as the boolean, and writes it as "true"."""
    value = _resolve(node.value) if _plain(node) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else str(node.value)


def _scalar(node: Any) -> Any:
    """The value of a scalar that stands as one."""
    typed = (node.tag == _UNTAGGED and not node.style) or node.tag in _TYPED
    return _resolve(node.value) if typed else node.value


def _resolve(text: str) -> Any:
    """What go-yaml makes of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "")
    if _INT.fullmatch(plain):
        return _integer(plain) if len(plain) <= _MAX_DIGITS else _number(float(plain)) if plain.isdigit() else text
    return _number(float(plain)) if _FLOAT.fullmatch(plain) else text


def reads_as_text(scalar: str) -> bool:
    """Whether an unquoted scalar is text to YAML 1.1 and 1.2 readers alike (``off``, ``1e3``, ``03:00`` are not)."""
    numeric = bool(re.fullmatch(r"[-+]?[0-9][0-9_:]*(\.[0-9_]*)?|0o[0-7]+", scalar))
    return isinstance(_resolve(scalar), str) and not numeric


def _number(value: float) -> int | float:
    """As Go writes it in JSON: ``1e3`` is 1000, and so an integer to whoever reads that."""
    return int(value) if abs(value) < 1e21 and value.is_integer() else value


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        return sign * int(digits, 8)
    return sign * int(digits, 0)


class _Repeated(Struct):
    """What the aliases and merges of one text have come to."""

    values: int = 0
    characters: int = 0

    def add(self, node: Any) -> bool:
        """Reckon with a node that was built before; whether no honest text repeats so much."""
        self.values += 1
        self.characters += len(node.value) if node.id == "scalar" else 0
        return self.values > _MAX_REPEATED or self.characters > _MAX_REPEATED_TEXT


class _Builder:
    """Turns composed nodes into JSON-like data, once an alias as often as it is used."""

    def __init__(self, file: str, repeated: _Repeated | None) -> None:
        self.file = file
        self.duplicates: list[tuple[Path, int]] = []
        self.boolean_keys: list[tuple[Path, str, int]] = []
        self._repeated = repeated  #: None: there are no aliases
        self._open: set[int] = set()
        self._built: set[int] = set()

    def build(self, node: Any, path: Path) -> Any:
        """The value at a node. Raises YamlError for what no JSON can hold."""
        self._reckon(node)
        if len(path) > _MAX_DEPTH:
            raise YamlError(self.file, node.start_mark.line + 1, f"nested more than {_MAX_DEPTH} deep")
        if node.id == "scalar":
            return _scalar(node)
        if id(node) in self._open:
            raise YamlError(self.file, node.start_mark.line + 1, "an alias that contains itself")
        self._open.add(id(node))
        try:
            if node.id == "sequence":
                return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self._open.discard(id(node))

    def _reckon(self, node: Any) -> None:
        """Raises YamlError for what aliases make too much of."""
        if self._repeated is None:
            return
        if id(node) not in self._built:
            self._built.add(id(node))
        elif self._repeated.add(node):
            line = node.start_mark.line + 1
            raise YamlError(self.file, line, f"more than {_MAX_REPEATED} values by aliases: do they multiply?")

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        watched = self._repeated is not None
        built: dict[str, Any] = {}
        seen: set[str] = set()
        for key, value in node.value:
            if key.id != "scalar":
                hint = " (a template, '{{'? render it first)" if key.id == "mapping" and key.flow_style else ""
                line = key.start_mark.line + 1
                raise YamlError(self.file, line, f"a key must be text, not a list or a mapping{hint}")
            name = key.value
            if not name.isalpha() or name in _WORDS:  # most keys are what they look like
                if _merges(key):
                    self._merge(built, seen, value, path)
                    continue
                name = _key(key)
                if name != key.value and name in ("true", "false"):
                    self.boolean_keys.append(((*path, name), key.value, key.start_mark.line + 1))
            if name in seen:
                self.duplicates.append(((*path, name), key.start_mark.line + 1))
            seen.add(name)
            if value.id == "scalar":
                if watched:
                    self._reckon(value)
                built[name] = _scalar(value)
            else:
                built[name] = self.build(value, (*path, name))
        return built

    def _merge(self, built: dict[str, Any], seen: set[str], node: Any, path: Path) -> None:
        for source in node.value if node.id == "sequence" else [node]:
            if source.id != "mapping":
                line = source.start_mark.line + 1
                raise YamlError(self.file, line, "map merge requires map or sequence of maps as the value")
            for name, value in self.build(source, path).items():
                if name not in seen:
                    built.setdefault(name, value)
