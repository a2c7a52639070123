"""What two versions of Python make otherwise of one program: an image's, and the one that stands for it here.

A program that an image's Python cannot read, or that uses what only a later one has, fails there and runs here; the
other way round it runs there and fails here. Where either may be, what comes of it here says nothing.
Sources: docs.python.org, What's New in Python 3.8 to 3.14, and ``ast.parse(feature_version=...)`` for the grammar. What
may *not* live here: which version an image has, verdicts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from killcheck.text import lazy_re

__all__ = ["Version", "unlike"]

Version = tuple[int, int]

#: The minor version of Python 3 with which each came: ``module``, ``module.attribute``, ``.attribute`` of anything,
#: ``.Name`` of a built-in, ``function.keyword=``.
_SINCE = {
    name: minor
    for minor, names in {
        7: "dataclasses contextvars importlib.resources asyncio.run time.time_ns run.capture_output=",
        8: "math.prod math.dist math.isqrt math.comb shlex.join functools.cached_property unlink.missing_ok= "
        "importlib.metadata statistics.fmean",
        9: "zoneinfo graphlib .removeprefix .removesuffix asyncio.to_thread functools.cache .is_relative_to .with_stem "
        "random.randbytes math.lcm",
        10: "itertools.pairwise zip.strict= .anext .aiter .bit_count dataclass.slots= dataclass.kw_only= .hardlink_to",
        11: "tomllib datetime.UTC asyncio.TaskGroup asyncio.timeout asyncio.Runner enum.StrEnum hashlib.file_digest "
        "contextlib.chdir .ExceptionGroup .BaseExceptionGroup .add_note run.process_group= .getLevelNamesMapping",
        12: "itertools.batched Path.walk typing.override",
        13: "copy.replace os.process_cpu_count .full_match warnings.deprecated",
        14: "compression string.templatelib annotationlib concurrent.interpreters",
    }.items()
    for name in names.split()
}
#: ...and with which each went.
_UNTIL = {
    name: minor
    for minor, names in {
        8: "time.clock",
        9: "base64.encodestring base64.decodestring fractions.gcd .getchildren .isAlive",
        10: "collections.Mapping collections.MutableMapping collections.Iterable collections.Callable "
        "collections.Sequence collections.Hashable formatter parser",
        11: "inspect.getargspec asyncio.coroutine binhex",
        12: "distutils imp asynchat asyncore smtpd ssl.wrap_socket ssl.match_hostname .readfp "
        "configparser.SafeConfigParser locale.format",
        13: "aifc audioop cgi cgitb chunk crypt imghdr mailcap msilib nis nntplib ossaudiodev pipes sndhdr spwd sunau "
        "telnetlib uu xdrlib lib2to3",
        14: "ast.Str ast.Num",
    }.items()
    for name in names.split()
}
#: What annotations may be made of when they are read, and since when.
_GENERIC, _UNION = 9, 10
_BUILT_IN = frozenset({"list", "dict", "set", "tuple", "frozenset", "type"})
#: Moments in Kubernetes' own words end in a Z, which ``fromisoformat`` reads since 3.11; that is mended like this.
_ISO, _ISO_SINCE = ".fromisoformat", 11
_MENDED = lazy_re.compile(r"\+00:00|strip\(\s*['\"]Z|\[:-1\]|replace\(\s*['\"]Z")
#: Programs within a shell's: a here-document, and one in quotes.
_WITHIN = lazy_re.compile(
    r"\bpython3?(?:\.\d+)?\b[^\n<]{0,200}<<-?\s{0,9}(?:['\"]?)(?P<end>\w{1,60})['\"]?[^\n]*\n(?P<doc>.*?)\n\s*(?P=end)\b"
    r"|\bpython3?(?:\.\d+)?\s+-c\s+(?P<mark>['\"])(?P<text>.*?)(?P=mark)",
    re.DOTALL,
)
_IMPORTS = lazy_re.compile(r"^\s{0,40}(?:import|from)\s+\w", re.MULTILINE)


def unlike(texts: Iterable[str], image: Version, here: Version) -> str | None:
    """What of the Python among texts one version knows and the other does not, in a phrase; None: nothing is seen."""
    if image == here:
        return None
    for text in (program for given in texts for program in _programs(given)):
        found = _of_program(text, image, here)
        if found is not None:
            return found
    return None


def _programs(text: str) -> Iterator[str]:
    if _IMPORTS.search(text) and not text.startswith(("#!/bin/sh", "#!/bin/bash")):
        yield text
    for found in _WITHIN.finditer(text):
        yield found["doc"] or found["text"] or ""


def _of_program(text: str, image: Version, here: Version) -> str | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A shell's text is none of Python either; what a later grammar reads is not known here.
        return f"it cannot be read as Python {_said(here)}" if image > here and _IMPORTS.match(text) else None
    if image[0] != here[0]:
        return f"Python {image[0]} and {here[0]} differ in most of it"
    if image < here:
        try:
            ast.parse(text, feature_version=image)
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
    low, high = sorted((image[1], here[1]))
    return next((f"line {line}: {what}" for line, what, since in _uses(tree, text) if low < since <= high), None)


def _said(version: Version) -> str:
    return ".".join(map(str, version))


def _uses(tree: ast.Module, text: str) -> Iterator[tuple[int, str, int]]:
    """(line, what, the version that made it otherwise) of all in a program that is not the same in each."""
    lazily = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    mended = _MENDED.search(text) is not None
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for name in _names(node):
            yield from ((line, name.strip(".="), table[name]) for table in (_SINCE, _UNTIL) if name in table)
            if name == _ISO and not mended:
                yield line, f"{_ISO[1:]} of what ends in Z", _ISO_SINCE
        if not lazily:
            for annotation in _annotations(node):
                yield from ((line, ast.unparse(annotation), since) for since in _needs(annotation))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield from ((line, ast.unparse(node), since) for one in node.args[1:] for since in _needs(one))


def _names(node: ast.AST) -> Iterator[str]:
    """What a node names of libraries, as the tables have it."""
    if isinstance(node, ast.Import):
        yield from (part for one in node.names for part in {one.name, one.name.partition(".")[0]})
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from {node.module, node.module.partition(".")[0]}
        yield from (f"{node.module}.{one.name}" for one in node.names)
    elif isinstance(node, ast.Attribute):
        yield from (f"{_last(node.value)}.{node.attr}", f".{node.attr}")
    elif isinstance(node, ast.Name):
        yield f".{node.id}"
    elif isinstance(node, ast.Call):
        yield from (f"{_last(node.func)}.{one.arg}=" for one in node.keywords)


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Annotations that are read as the program runs: those of a function's variables are not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        yield from (one.annotation for one in arguments if one is not None and one.annotation is not None)
        if node.returns is not None:
            yield node.returns
    elif isinstance(node, ast.Module | ast.ClassDef):
        yield from (one.annotation for one in node.body if isinstance(one, ast.AnnAssign))


def _needs(annotation: ast.expr) -> Iterator[int]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield _UNION
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _BUILT_IN:
            yield _GENERIC
