"""What a program leaves to chance, read off its text: a toss, the name of its pod, a number that it counts off.

A toss that only makes it wait is followed through the variables that it goes by, to the longest that the wait may take.
Where that cannot be reckoned, it is taken to be too long. What may *not* live here: what comes of it.

Sources: bash(1), RANDOM (0 to 32767) and SRANDOM (32 bits); sleep(1), its suffixes; Python's ``random``, whose upper
bound is an argument.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from killcheck.executor.calendar import CHANCE, Asked, asks_for, shown, tells_time
from killcheck.text import lazy_re

__all__ = ["decides", "tossed"]

#: What else is another one for each pod: its name, a process' number, a clock's least digits.
_NAMES = (
    r"\bHOSTNAME\b|\b(?:get)?hostname\b|\buname -n|\buuid(?:gen|[14])?\b|\$\$|\bBASHPID\b|\bgetpid\(|\bplatform\.node\("
    r"|(?<!%s)%\d?N\b|\btime_ns\(|\bhash\(|\bsecrets\.|\bjot -r|\bopenssl rand\b"
)
#: ...as part of a name or a path that is made new each time.
_IN_A_NAME = lazy_re.compile(
    r"/[\w./-]{0,100}(?:\$\$|\$\{?(?:RANDOM|HOSTNAME)\b\}?)|(?<=[\w)}])[-_.](?:\$\$|\$\{?RANDOM\b\}?)"
)
#: What compares what only tells one pod from the next, which is more often told than compared: TOKEN is where that is.
_COMPARED = (
    r"\bcase\b[^\n]{0,60}TOKEN|\s[!=]=?\s+[\"']?\$?[({]{0,3}TOKEN"
    r"|TOKEN[}\w#:/*+-]{0,20}[\"'`)}\]]{0,4}\s{0,9}(?:[!=]=|=~?\s|-(?:eq|ne|gt|ge|lt|le)\b|%\s*\d|[<>]|\|\s*grep|<<<)"
    r"|\bgrep\b[^\n|]{0,100}<<<\s*[\"']?\$?[({]?TOKEN"
)
#: What is left of a division: days that are counted off. Of weekdays and weeks by a small number each is tried.
_MODULO = lazy_re.compile(r"(?<=[\s)\w])%\s*(\d{1,9})(?=[\s)\]:=!<>]|$)", re.M)
_FEW = 7
#: What a line does with what was tossed: it compares it, counts it off, or takes the one of several that it says.
_IF = r"\bif\b|\bwhile\b|\buntil\b|\bcase\b|\btest\s|\[\s|\s[<>]=?\s+[\d.]|[!=]=|\s-(?:eq|ne|gt|ge|lt|le)\s"
_COMPARES = lazy_re.compile(_IF + r"|(?<=[\s)\w])%\s*\d{1,9}(?=[\s)\]:=!<>]|$)")
_IF_ALONE = lazy_re.compile(_IF)
#: ...or takes one of several.
_CHOOSES = lazy_re.compile(r"\bchoices?\(|\bsample\(|\bshuf\b(?!.*\s-i)|\bsort -R\b|Get-Random -InputObject")
#: What stands before a toss that decides: arithmetic as a command, the number of an element, how many replicas; and
#: what stands behind one in which something is looked for.
_DECIDES = lazy_re.compile(r"(?<![$(])\(\(|\blet\b|\bexpr\b|[\w}]\[[^\]\n]{0,80}$|replicas\W{1,9}$")
_SEARCHED = lazy_re.compile(r"\|\s{0,9}[ef]?grep\b")
_TOLD = lazy_re.compile(r"\s{0,80}(?:(?:then|do|else)\s+)?(?:echo|printf|logger|log\w{0,9}|print)\b")
_SLEEPS = lazy_re.compile(r"\bsleep\b")
_ASSIGNED = lazy_re.compile(r"(?:^|[;&|\s(])(\w{1,60})\s{0,9}=(?!=)\s{0,9}(.*)")
_CONSTANT = lazy_re.compile(r"(?:^|[;&|\s])(\w{1,60})\s{0,9}=\s{0,9}[\"']?(\d{1,9})[\"']?(?=\s|$)", re.M)
#: What a loop counts up to: ``for i in range(5)``, ``for i in 1 2 3``, ``{1..5}``, ``$(seq 1 5)``.
_COUNTED = lazy_re.compile(
    r"\bfor\s+(\w{1,60})\s+in\s+(?:range\([^()\n]{0,40}?(\d{1,6})\)|[\d\s{.$(seq]{0,80}?(\d{1,6})\s?[)}]?(?=[\s;:]|$))"
)
_CHANCE = lazy_re.compile(CHANCE)
#: Where a command ends, and how many lines that toss are looked at.
_ENDED, _MOST_TOSSES, _MOST_STEPS = lazy_re.compile(r"[\n;]"), 200, 5


def tossed(
    texts: Iterable[str], most_s: float, told: Mapping[str, str] | None = None, *, waits: bool = False
) -> str | None:
    """The line by which a program goes by chance; None: it goes by none, or only waits for less than ``most_s``.

    ``told``: the variables of its environment, by name; one that is another in each pod has ``$$`` in it. ``waits``:
    what it decides is known otherwise, and how long it waits is asked alone.
    """
    for text in texts:
        lines = [line for line in _ENDED.split(_IN_A_NAME.sub("", text)) if line.strip()]
        counted = [line for line in lines if _counts_off(line)] if tells_time(text) and not waits else []
        found = counted[0] if counted else _Followed(text, lines, told or {}).harm(most_s, waits=waits)
        if found is not None:
            return shown(found)
    return None


def decides(line: str) -> bool:
    """Whether a line of a program compares something."""
    return _COMPARES.search(line) is not None


def _counts_off(line: str) -> bool:
    """Whether a line takes what is left of a division, other than to wait and of the few days or weeks of a round."""
    rest = _MODULO.search(line)
    tried = any(asks_for(one, line) for one in (Asked.WEEK, Asked.WEEKDAY))
    return rest is not None and not _SLEEPS.search(line) and not (tried and int(rest[1]) <= _FEW)


class _Followed:
    """The tosses of one text, and the variables that hold what came of them."""

    def __init__(self, text: str, lines: list[str], told: Mapping[str, str]) -> None:
        own = [re.escape(name) for name, value in told.items() if "$$" in value]
        self._toss = re.compile("|".join([CHANCE, _NAMES, *(rf"\b{name}\b" for name in own)]))
        self._lines = lines
        self._told = told
        #: Variable -> the numbers that it is somewhere set to.
        self._set: dict[str, list[float]] = {}
        numbers = {name: value for name, value in told.items() if re.fullmatch(r"\d{1,9}", value)}
        constants = [found.groups() for found in _CONSTANT.finditer(text)]
        counted = [(found[1], found[2] or found[3]) for found in _COUNTED.finditer(text)]
        for name, number in (*numbers.items(), *constants, *counted):
            self._set.setdefault(name, []).append(float(number))
        #: Variable -> (the line that tossed it, what it is made of).
        self._drawn: dict[str, tuple[str, str]] = {}
        for _ in range(_MOST_STEPS):
            if not any(map(self._draw, self._tossing())):
                break

    def _tossing(self) -> Iterator[str]:
        return islice((line for line in self._lines if self._found(line) is not None), _MOST_TOSSES)

    def _found(self, line: str) -> tuple[str, re.Match[str]] | None:
        """Where in a line something is used that was tossed, and the line that tossed it."""
        toss = self._toss.search(line)
        if toss is not None:
            return line, toss
        for name, (source, _) in self._drawn.items():
            held = re.search(rf"(?<![\w-]){re.escape(name)}\b", line)
            if held is not None:
                return source, held
        return None

    def _draw(self, line: str) -> bool:
        """Whether the line gave another variable what was tossed."""
        given = _ASSIGNED.search(line) if not _SLEEPS.search(line) else None
        found = self._found(given[2]) if given is not None else None
        if given is None or found is None or given[1] in self._drawn:
            return False
        self._drawn[given[1]] = line if found[1].re is self._toss else found[0], given[2]
        return True

    def harm(self, most_s: float, *, waits: bool) -> str | None:
        """The line whose toss decides more than a wait of ``most_s`` seconds."""
        for line in self._tossing():
            found = self._found(line) if not waits or _SLEEPS.search(line) else None
            if found is not None and self._harms(line, found[1], most_s, waits=waits):
                return found[0]
        return None

    def _harms(self, line: str, toss: re.Match[str], most_s: float, *, waits: bool) -> bool:
        if _SLEEPS.search(line):
            waited = self._waited_s(line)
            if waits:
                return waited is None or waited > most_s
            return waited is None or waited > most_s or _IF_ALONE.search(line[: line.find("sleep")]) is not None
        before, after = line[: toss.start()], line[toss.end() :]
        if _CHOOSES.search(line) or _SEARCHED.search(after):
            return True
        if _DECIDES.search(before) and not _TOLD.match(line):
            return True
        if not _CHANCE.search(self._origin(line)):
            return re.search(_COMPARED.replace("TOKEN", rf"(?:{toss.re.pattern})"), line) is not None
        given = _ASSIGNED.search(line)
        return (_IF_ALONE if given is not None else _COMPARES).search(line) is not None

    def _origin(self, line: str) -> str:
        found = self._found(line)
        return line if found is None else found[0]

    def _waited_s(self, line: str) -> float | None:
        """The most seconds by which what a line sleeps varies; None: who knows."""
        found = _SLEPT.search(line)
        if found is None:
            return None
        tree = _parsed(found[1] or found[3])
        try:
            seconds = None if tree is None else self._varies(tree, 0)
        except (OverflowError, RecursionError):  # numbers and nesting are a stranger's
            return None
        return None if seconds is None else seconds * _UNITS[(found[2] or "s") if found[1] else "s"]

    def _varies(self, tree: ast.expr, depth: int) -> float | None:
        """By how much an expression may be another each time; None: that is not understood."""
        if not any(self._is_tossed(node) for node in ast.walk(tree)):
            return 0.0
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
            parts = self._varies(tree.left, depth), self._varies(tree.right, depth)
            return None if None in parts else sum(filter(None, parts))
        if isinstance(tree, ast.Name) and tree.id in self._drawn and depth < _MOST_STEPS:
            made = _parsed(self._drawn[tree.id][1])
            return None if made is None else self._varies(made, depth + 1)
        return self._most_of(tree, depth)

    def _is_tossed(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return _called(node) in _RANDOM
        return isinstance(node, ast.Name) and (node.id in _AT_MOST or node.id in self._drawn)

    def _most_of(self, tree: ast.expr, depth: int) -> float | None:
        """The most that an expression is; None: that is not understood."""
        if isinstance(tree, ast.Constant):
            return float(tree.value) if isinstance(tree.value, int | float) else self._highest(str(tree.value))
        if isinstance(tree, ast.Name):
            if tree.id in self._drawn and depth < _MOST_STEPS:
                made = _parsed(self._drawn[tree.id][1])
                return None if made is None else self._most_of(made, depth + 1)
            return _AT_MOST.get(tree.id, self._highest(tree.id))
        if isinstance(tree, ast.Subscript):  # os.environ["MAX"]
            return self._most_of(tree.slice, depth)
        if isinstance(tree, ast.Call):
            return self._of_call(tree, depth)
        if not isinstance(tree, ast.BinOp):
            return None
        left = self._most_of(tree.left, depth)
        if isinstance(tree.op, ast.Div | ast.FloorDiv):
            least = self._least_of(tree.right)
            return left / least if left is not None and least else None
        right = self._most_of(tree.right, depth)
        if isinstance(tree.op, ast.Mod) and right is not None:
            return right if left is None else min(left, right)
        does = _OPERATORS.get(type(tree.op))
        return None if left is None or right is None or does is None else does(left, right)

    def _highest(self, name: str) -> float | None:
        """The highest that a variable is set to; None: nobody says a number."""
        return max(self._set.get(name, ()), default=None)

    def _least_of(self, divisor: ast.expr) -> float | None:
        """The least that a plain divisor is; None: it is tossed or made, and may be next to nothing."""
        if isinstance(divisor, ast.Constant) and isinstance(divisor.value, int | float):
            return float(divisor.value)
        return min(self._set.get(divisor.id, ()), default=None) if isinstance(divisor, ast.Name) else None

    def _of_call(self, call: ast.Call, depth: int) -> float | None:
        name = _called(call)
        if name == "random" and not call.args:
            return 1.0
        if name not in (_RANDOM | _PLAIN):
            return None
        parts = [self._most_of(one, depth) for one in call.args]
        known = [one for one in parts if one is not None]
        default = name in _LOOKUPS and not (isinstance(call.args[0], ast.Constant) and call.args[0].value in self._told)
        return max(known) if known and (len(known) == len(parts) or default) else None


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _parsed(words: str) -> ast.expr | None:
    """An expression of a shell's or of Python's; what a command of its own says may be anything."""
    plain = words.strip()
    for pattern, instead in _SHELL:
        plain = pattern.sub(instead, plain)
    try:
        return ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: lambda left, _: left,  # what is taken off may be nothing
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}
#: What a shell's words are as an expression of Python's.
_SHELL = (
    (lazy_re.compile(r"\$\(\s*shuf\s+-i\s*\d+-(\d+)\s+-n\s*1\s*\)"), r"uniform(0, \1)"),
    (lazy_re.compile(r"\$\((?!\()[^()]*\)|\$\$"), "SRANDOM"),
    (lazy_re.compile(r"\$\{RANDOM:\s?\d{1,2}:(\d)\d?\}"), r"uniform(0, 10 ** \1)"),
    (lazy_re.compile(r"\$\{\w{1,60}:-(\d{1,9})\}"), r"\1"),
    (lazy_re.compile(r"\$\(\("), "(("),
    (lazy_re.compile(r"^\s*[\"']|[\"']\s*$|[${}`]"), ""),
)
#: The highest of each, and the functions whose highest is that of what they are given.
_AT_MOST = {"RANDOM": 32767.0, "SRANDOM": 4294967295.0}
_RANDOM = frozenset({"random", "uniform", "randint", "randrange", "triangular"})
_PLAIN = frozenset({"int", "float", "round", "max", "get", "getenv"})
#: ...of which these fall back to a number where a variable is not set.
_LOOKUPS = frozenset({"get", "getenv"})
#: What a command sleeps for (1), in which unit (2); or what is given to a function (3).
_SLEPT = lazy_re.compile(
    r"\bsleep\s+[\"']?(\$\(\(.*\)\)|\$\([^()]*\)|\$\{\w+:[\d:-]+\}|\$\{?\w+\}?|\$\$)([smhd])?[\"']?(?=[\s;&|)]|$)|\bsleep\((.*)\)"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
