"""Whether a shell script ends in failure when one of its commands fails: every path is walked, nothing is run.

One request is refused, whichever it is, and refused again. Whatever else the script runs may fail or not, but for what
cannot (``echo``). A decision on what the refused command printed, or on a number made of it, is taken to be the right
one; variables that are set on the way are known. What may *not* live here: what a command does.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from killcheck.executor.shell_tree import Case, Fed, For, If, List, Loop, Node, Pipe, Simple, Sub, parse_tree
from killcheck.executor.shell_words import ShellSyntaxError, Word, lex
from killcheck.text import lazy_re
from killcheck.text.numbers import whole
from killcheck.text.values import replace

__all__ = ["Refused", "ends_as_success", "ends_in_failure", "least_wait"]

#: Text that came of the refused command, and text that only running would tell.
_TOLD, _UNKNOWN = "\0told", "\0unknown"
_NEVER_FAIL = frozenset({"echo", "printf", "sleep", "true", ":", "date", "trap", "shopt"})
#: Commands whose exit code says what was in the text that they were handed.
_DECIDE = frozenset({"[", "[[", "test", "grep", "egrep", "fgrep", "jq", "cmp", "diff", "awk", "expr", "wait"})
#: Commands after which nobody knows what any variable is.
_SET_OTHERS = frozenset({".", "source", "eval", "getopts", "mapfile", "readarray", "let", "unset", "shift"})
_SETTERS = frozenset({"export", "local", "readonly", "declare", "typeset"})
_SUM = lazy_re.compile(r"\s*\$?\{?(\w+)\}?\s*(?:([-+])=?\s*(\d+)|(\+\+|--))?\s*")
_STEP = lazy_re.compile(r"\s*(\w+)\s*(?:(\+\+|--)|([-+])=\s*(\d+))\s*")
_COMPARED = lazy_re.compile(r"(\S+)\s*(==?|!=|-eq|-ne|-gt|-ge|-lt|-le|<=?|>=?)\s*(\S+)")
_SLEPT = lazy_re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_STEPS = 6000
_MAX_ROUNDS = 40
_MAX_VALUE = 2000

_Then = Callable[["_State", int], bool]


class _State(Struct, frozen=True):
    values: Mapping[str, str]
    errexit: bool = False
    pipefail: bool = False
    failed: bool = False  #: the command in question was run, and refused
    slept_s: float = 0.0
    behind: bool = False  #: it was refused in the background
    which: tuple[str, ...] | None = None  #: the values of the variables in the command that was refused

    def having(self, name: str, value: str) -> _State:
        return replace(self, values={**self.values, name: value})


class _Where(Struct, frozen=True):
    """Where control goes from here, other than on. ``tested``: somebody looks at the exit code."""

    leave: _Then
    back: _Then
    out: _Then
    again: _Then
    tested: bool = False


class Refused(Struct, frozen=True):
    """``one`` tells the command by its first word; ``other``: one that changes something else.

    ``fails``: a refusal is a failure of the command; False: it only prints what it was answered (``curl`` without -f).
    """

    one: Callable[[Word], bool]
    other: Callable[[Word], bool]
    fails: bool = True


def ends_in_failure(text: str, refused: Refused, *, errexit: bool, pipefail: bool) -> bool:
    """Whether no path on which it runs ends with exit code 0.

    False, too, where the paths are too many, or the script cannot be read.
    """
    return _ends(_Walk(refused, sure=False), text, errexit, pipefail) is False


def ends_as_success(text: str, refused: Refused, *, errexit: bool, pipefail: bool) -> bool:
    """Whether the script surely goes on to exit code 0, though nothing else failed, and nothing else was tried."""
    return _ends(_Walk(refused, sure=True), text, errexit, pipefail) is True


def least_wait(text: str, acts: Callable[[Word], bool], *, errexit: bool, pipefail: bool) -> float:
    """Seconds that a script sleeps at least before it comes to a command that acts. 0: none, or that is not known."""
    walk = _Waiting(Refused(acts, acts), sure=False)
    known = _ends(walk, text, errexit, pipefail) is not None
    return walk.least_s if known and walk.least_s < math.inf else 0.0


def _ends(walk: _Walk, text: str, errexit: bool, pipefail: bool) -> bool | None:
    try:
        return walk.run(
            parse_tree(lex(text)), _State({}, errexit, pipefail), _Where(_at_end, _at_end, _at_end, _at_end), _at_end
        )
    except (ShellSyntaxError, _TooMany, RecursionError, IndexError):
        return None


def _at_end(state: _State, status: int) -> bool:
    return state.failed and status == 0


class _TooMany(Exception):
    pass


class _Walk:
    """Every method answers whether the script may end with exit code 0, though its command was refused.

    ``sure``: whether it does, whatever of all that is not known.
    """

    def __init__(self, refused: Refused, *, sure: bool) -> None:
        self.refused = refused
        self.sure = sure
        self.functions: dict[str, Node] = {}
        self.steps = 0

    def run(self, node: Node, state: _State, here: _Where, then: _Then) -> bool:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise _TooMany
        if isinstance(node, List):
            return self._list(node, 0, state, here, then)
        if isinstance(node, Pipe):
            return self._pipe(node, state, here, then)
        if isinstance(node, If):
            return self._if(node, state, here, then)
        if isinstance(node, Loop):
            return self._loop(node, state, here, then, 0)
        if isinstance(node, For):
            return self._for(node, state, here, then)
        if isinstance(node, Case):
            return self._case(node, state, here, then)
        if isinstance(node, Fed):
            return self.run(node.body, state, here, then)
        if isinstance(node, Sub):
            inside = replace(here, leave=then, back=then)
            return self.run(node.body, state, inside, then)
        return self._simple(node, state, here, then)

    def either(self, ways: Iterable[bool]) -> bool:
        """Nobody knows which way it goes."""
        return all(ways) if self.sure else any(ways)

    # -- lists -----------------------------------------------------------------------------------------------
    def _list(self, node: List, at: int, state: _State, here: _Where, then: _Then) -> bool:
        if at == len(node.items):
            return then(state, int(state.values.get("?", "0")))
        item, joined = node.items[at]
        if joined == "&":
            return self._behind(item, state, lambda s: self._list(node, at + 1, s, here, then))
        tested = here.tested or joined in ("&&", "||")

        def after(found: _State, status: int) -> bool:
            step, found = at + 1, found.having("?", str(status))
            while step < len(node.items) and node.items[step - 1][1] == ("&&" if status else "||"):
                step += 1  # left out
            return self._list(node, step, found, here, then)

        return self.run(item, state, replace(here, tested=tested), after)

    def _behind(self, item: Node, state: _State, then: Callable[[_State], bool]) -> bool:
        def ended(found: _State, status: int) -> bool:
            return then(replace(found, behind=found.behind or (found.failed and bool(status))))

        return self.run(item, state, _Where(ended, ended, ended, ended, tested=True), ended)

    def _pipe(self, node: Pipe, state: _State, here: _Where, then: _Then) -> bool:
        tested = replace(here, tested=here.tested or node.turned or len(node.parts) > 1)

        def part(at: int, now: _State, failed: bool, told: bool) -> bool:
            one = node.parts[at]

            def after(found: _State, status: int) -> bool:
                more = told or (found.failed and not now.failed) or self._tells(one, now)
                if at + 1 < len(node.parts):
                    return part(at + 1, found, failed or bool(status), more)
                return self._ended(int(bool(status) or (failed and found.pipefail)), node, found, here, then)

            inside = replace(tested, leave=after, back=after) if len(node.parts) > 1 else tested
            if told and isinstance(one, Simple) and _name(one) in _DECIDE:
                return after(now, 0) and after(now, 1)
            if told and isinstance(one, Simple) and _name(one) == "read":
                values = {word.bare: _TOLD for word in one.words[1:] if word.bare}
                return after(replace(now, values={**now.values, **values}), 0)
            return self.run(one, now, inside, after)

        return part(0, state, False, False)

    def _tells(self, node: Node, state: _State) -> bool:
        """Whether a command is handed what came of the refusal (``echo "$answer" | grep ...``)."""
        return isinstance(node, Simple) and any(self._text(word, state) == _TOLD for word in node.words)

    def _ended(self, status: int, node: Pipe, state: _State, here: _Where, then: _Then) -> bool:
        status = int(not status) if node.turned else status
        if len(node.parts) > 1 and status and state.errexit and not here.tested and not node.turned:
            return here.leave(state, status)
        return then(state, status)

    # -- compound commands -----------------------------------------------------------------------------------
    def _if(self, node: If, state: _State, here: _Where, then: _Then) -> bool:
        def decided(found: _State, status: int) -> bool:
            if status == 0:
                return self.run(node.body, found, here, then)
            return self.run(node.otherwise, found, here, then) if node.otherwise else then(found, 0)

        return self.run(node.test, state, replace(here, tested=True), decided)

    def _loop(self, node: Loop, state: _State, here: _Where, then: _Then, rounds: int) -> bool:
        if rounds > _MAX_ROUNDS:
            return False  # it has no end: whoever waits for it sees no exit code 0

        def again(found: _State, _status: int) -> bool:
            return self._loop(node, found, here, then, rounds + 1)

        def decided(found: _State, status: int) -> bool:
            if bool(status) is not node.until:
                return then(found, 0)
            inside = replace(here, out=lambda s, _: then(s, 0), again=again)
            return self.run(node.body, found, inside, again)

        return self.run(node.test, state, replace(here, tested=True), decided)

    def _for(self, node: For, state: _State, here: _Where, then: _Then) -> bool:
        values = [self._text(word, state) for word in node.words]
        if not values or any(value.startswith(_UNKNOWN) for value in values):
            values = [f"{_UNKNOWN} first", f"{_UNKNOWN} second"][: 1 if self.sure else 2]

        def turn(at: int, now: _State, status: int) -> bool:
            if at == len(values) or at > _MAX_ROUNDS:
                return then(now, status)
            inside = replace(here, out=lambda s, _: then(s, 0), again=lambda s, status: turn(at + 1, s, status))
            return self.run(node.body, now.having(node.name, values[at]), inside, lambda s, c: turn(at + 1, s, c))

        return turn(0, state, 0)

    def _case(self, node: Case, state: _State, here: _Where, then: _Then) -> bool:
        told = self._text(node.word, state) == _TOLD
        branches = (self.run(branch, state, here, then) for branch in node.branches)
        return all(branches) if told else self.either(itertools.chain(branches, [then(state, 0)]))

    # -- simple commands -------------------------------------------------------------------------------------
    def _simple(self, node: Simple, state: _State, here: _Where, then: _Then) -> bool:
        def done(found: _State, status: int) -> bool:
            if status and found.errexit and not here.tested:
                return here.leave(found, status)
            return then(found, status)

        if node.makes is not None:
            self.functions[_name(node)] = node.makes
            return then(state, 0)
        sets = [word for word in node.words if _set_name(word)]
        if node.words and (len(sets) == len(node.words) or _name(node) in _SETTERS):
            masked = _name(node) in _SETTERS  # export A=$(false) is exit code 0
            return self._set_all(sets, state, lambda s, status: done(s, 0 if masked else status))
        return self._inner(node.words, state, lambda s: self._command(node, s, here, done))

    def _set_all(self, sets: Sequence[Word], state: _State, then: _Then, status: int = 0) -> bool:
        if not sets:
            return then(state, status)
        word, rest = sets[0], sets[1:]
        name = _set_name(word)
        subs = [text for kind, text, _ in word.pieces if kind == "sub"]
        if not subs:
            value = self._text(word, state, name)
            if value.startswith(f"{name}+="):
                value = state.values.get(name, "") + value.removeprefix(f"{name}+=")
            return self._set_all(rest, state.having(name, value), then, status)

        def ended(found: _State, code: int) -> bool:
            value = _TOLD if found.failed and not state.failed else self._text(word, found, name)
            known = replace(found, values=state.values).having(name, value)
            return self._set_all(rest, known, then, code)

        return self.run(Sub(parse_tree(lex(subs[-1]))), state, _Where(ended, ended, ended, ended, tested=True), ended)

    def _inner(self, words: Sequence[Word], state: _State, then: Callable[[_State], bool]) -> bool:
        """What is substituted into a command's words is run before it."""
        for word in words:
            for kind, text, _ in word.pieces:
                if kind == "sub" and any(self.refused.one(w) for w in lex(text) if isinstance(w, Word)):
                    inside = parse_tree(lex(text))
                    end = lambda s, _: then(replace(s, values=state.values))  # noqa: E731 - one of four ways on
                    return self.run(Sub(inside), state, _Where(end, end, end, end, tested=True), end)
        return then(state)

    def _command(self, node: Simple, state: _State, here: _Where, done: _Then) -> bool:
        words = [word for word in node.words if not _set_name(word)]
        name = words[0].bare if words else ":"
        if words and self.refused.one(words[0]):
            which = _values(words, state)
            if which == state.which or state.which is None:
                refused = done(self._refused(node, state, which), int(self.refused.fails))
                return refused or (state.which is None and done(state, 0))
            return done(state, 0)
        if name in ("exit", "return", "break", "continue"):
            return self._goes(name, words, state, here)
        if name in self.functions:
            back = replace(here, back=done)
            return self.run(self.functions[name], state, back, done)
        if name == "set":
            return done(_options(state, [word.bare for word in words[1:]]), 0)
        if name == "trap" and any(word.bare in ("ERR", "SIGERR") for word in words[2:]):
            return done(replace(state, errexit=True), 0)
        if name == "read":
            self.steps += 1
            found = {word.bare: f"{_UNKNOWN} {self.steps}" for word in words[1:] if word.bare}
            state = replace(state, values={**state.values, **found})
            return self.either(done(state, status) for status in (0, 1))
        if name == "sleep":
            state = replace(state, slept_s=state.slept_s + self._seconds(words[1:], state))
        if name in _SET_OTHERS:
            state = replace(state, values={})
        if name == "false":
            return done(state, 1)
        if name == "wait" and len(words) > 1 and state.behind:
            return done(state, 1)
        if name == "printf" and any(word.bare == "-v" for word in words):
            state = replace(state, values={})
        if name in _NEVER_FAIL and not (words and words[0].inside):
            return done(state, 0)
        return self._decides(words, state, done)

    def _refused(self, node: Simple, state: _State, which: tuple[str, ...]) -> _State:
        """It was refused; the files that it writes tell of it."""
        told = {f"file {self._text(word, state)}": _TOLD for word in node.written}
        return replace(state, failed=True, which=which, values={**state.values, **told})

    def _decides(self, words: Sequence[Word], state: _State, done: _Then) -> bool:
        if words and (stepped := self._stepped(words[0].inside, state)):
            return done(*stepped)
        texts = [self._text(word, state) for word in words]
        shown = words[0].inside if words else ""
        said = shown or (" ".join(texts[1:]).removesuffix(" ]") if texts[:1] in (["["], ["test"]) else "")
        if (known := _compared(said, _names(texts[:1]), state)) is not None:
            return done(state, int(not known))
        names = re.findall(r"\$\{?(\w+)", shown)
        told = _TOLD in [*texts, *(state.values.get(name) for name in names)]
        told = told or any(f"file {text}" in state.values for text in texts)
        if told and texts[0] in _DECIDE | {":"}:
            return done(state, 0) and done(state, 1)
        if self.sure and texts[:1] and texts[0] not in _DECIDE:
            return (not state.failed or not self.refused.other(words[0])) and done(state, 0)
        return self.either(done(state, status) for status in (0, 1))

    def _stepped(self, inside: str, state: _State) -> tuple[_State, int] | None:
        """``((count++))`` of a count that is known."""
        match = _STEP.fullmatch(inside)
        before = whole(state.values.get(match[1], "")) if match else None
        step = whole(match[4] or 1) if match else None
        if match is None or before is None or step is None:
            return None
        after = before + step * (-1 if "-" in (match[2] or match[3]) else 1)
        return state.having(match[1], str(after)), int(not (before if match[2] else after))

    def _goes(self, name: str, words: Sequence[Word], state: _State, here: _Where) -> bool:
        if name in ("break", "continue"):
            return (here.out if name == "break" else here.again)(state, 0)
        to = here.leave if name == "exit" else here.back
        value = self._text(words[1], state) if len(words) > 1 else state.values.get("?", _UNKNOWN)
        if value.startswith(_UNKNOWN):
            return self.either(to(state, status) for status in (0, 1))
        return to(state, 0 if value.strip() in ("0", "") else 1)

    def _seconds(self, words: Sequence[Word], state: _State) -> float:
        """What a sleep takes at least (``5m``); 0 where that is not known."""
        found = [_SLEPT.fullmatch(self._text(word, state)) for word in words]
        return sum(float(one[1]) * _UNITS[one[2]] for one in found if one)

    # -- text ------------------------------------------------------------------------------------------------
    def _text(self, word: Word, state: _State, name: str = "") -> str:
        """What a word becomes; of an assignment to ``name``, its value."""
        found = ""
        for kind, text, _ in word.pieces:
            value = text if kind == "text" else _UNKNOWN
            if kind == "var":
                value = _sum(text, state) if text.startswith("((") else _variable(text, state)
            if value == _TOLD:
                return _TOLD
            found = value if value.startswith(_UNKNOWN) else found if found.startswith(_UNKNOWN) else found + value
            if len(found) > _MAX_VALUE:
                return _UNKNOWN
        return found.removeprefix(f"{name}=") if name else found


class _Waiting(_Walk):
    """Goes every way up to the first command that acts, and keeps the shortest."""

    least_s = math.inf

    def _command(self, node: Simple, state: _State, here: _Where, done: _Then) -> bool:
        words = [word for word in node.words if not _set_name(word)]
        if words and self.refused.one(words[0]):
            self.least_s = min(self.least_s, state.slept_s)
            return False
        return super()._command(node, state, here, done)

    def _loop(self, node: Loop, state: _State, here: _Where, then: _Then, rounds: int) -> bool:
        if rounds > _MAX_ROUNDS:
            raise _TooMany
        return super()._loop(node, state, here, then, rounds)


def _name(node: Simple) -> str:
    return node.words[0].bare if node.words else ""


def _set_name(word: Word) -> str:
    kind, text, quoted = word.pieces[0] if word.pieces else ("", "", True)
    match = re.match(r"([A-Za-z_]\w*)\+?=", "".join(t for k, t, q in word.pieces[:2] if k == "text" and not q))
    return match[1] if match and kind == "text" and not quoted and text else ""


def _values(words: Sequence[Word], state: _State) -> tuple[str, ...]:
    """The values of the variables in a command: in a loop it is another request with each."""
    return tuple(_variable(text, state) for word in words for kind, text, _ in word.pieces if kind == "var")


def _variable(text: str, state: _State) -> str:
    """Its value; of one that is cut or replaced, no more than whether it tells of the refusal."""
    match = re.match(r"#?(\w+|\?)", text)
    value = state.values.get(match[1], _UNKNOWN) if match else _UNKNOWN
    return value if match and (match[0] == text or value == _TOLD) and not text.startswith("#") else _UNKNOWN


def _sum(text: str, state: _State) -> str:
    match = _SUM.fullmatch(text[2:].rstrip(")"))
    before = state.values.get(match[1], match[1]) if match else ""
    if before == _TOLD:
        return _TOLD
    number = whole(before)
    by = whole(match[3] or (1 if match[4] else 0)) if match else None
    if match is None or number is None or by is None:
        return _UNKNOWN
    return str(number + (-by if "-" in (match[2] or "") else by))


def _options(state: _State, words: Sequence[str]) -> _State:
    for i, word in enumerate(words):
        on, letters = word.startswith("-"), word[1:]
        named = words[i + 1] if "o" in letters and i + 1 < len(words) else ""
        if word[:1] in "+-" and ("e" in letters or named == "errexit"):
            state = replace(state, errexit=on)
        if word[:1] in "+-" and named == "pipefail":
            state = replace(state, pipefail=on)
    return state


def _names(command: Sequence[str]) -> str:
    """How variables are written in what a command compares: ``((n < 3))``, ``[[ $n = 3 ]]``; of others the shell has
    put their values there."""
    return {":": r"\$?\{?([A-Za-z_]\w*|\?)\}?", "[[": r"\$\{?([A-Za-z_]\w*|\?)\}?"}.get("".join(command), r"(?!)(.)")


def _compared(text: str, names: str, state: _State) -> bool | None:
    """A comparison of texts that are known; None: of others."""
    match = _COMPARED.fullmatch(text.strip())
    if match is None:
        return None
    sides = []
    for side in (match[1], match[3]):
        bare = side.strip("\"'")
        name = re.fullmatch(names, bare)
        sides.append(state.values.get(name[1], _UNKNOWN) if name else _UNKNOWN if "$" in bare else bare)
    left, right = sides
    if _UNKNOWN in left + right or _TOLD in left + right or set("*?$[(|") & set(left + right):
        return None
    if match[2] in ("=", "==", "!="):
        return (left == right) is (match[2] != "!=")
    one, other = whole(left), whole(right)
    if one is None or other is None:
        return None
    return {
        "-eq": one == other,
        "-ne": one != other,
        "-gt": one > other,
        ">": one > other,
        "-ge": one >= other,
        ">=": one >= other,
        "-lt": one < other,
        "<": one < other,
        "-le": one <= other,
        "<=": one <= other,
    }[match[2]]
