"""What stands between the start of a shell script and the calls by which it turns something off.

The script is walked once, in order, every branch taken, and each variable carries what it rests on
(:mod:`killcheck.executor.resting`). What may *not* live here: which values are known, verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from killcheck.executor.resting import KNOWN, Kind, Source, Unreadable, Value, compared_with, joined, slept_s
from killcheck.executor.shell_programs import Programs
from killcheck.executor.shell_resting import Result
from killcheck.executor.shell_script import UNKNOWN
from killcheck.executor.shell_shape import (
    assigned,
    assignment,
    commands,
    gives_up,
    is_constant,
    names_in,
    reads_lines,
    shown,
    steps,
)
from killcheck.executor.shell_tree import Case, Fed, For, If, List, Loop, Node, Pipe, Simple, Sub, parse_tree
from killcheck.executor.shell_words import ShellSyntaxError, lex
from killcheck.text.values import replace

__all__ = ["Shell"]


def _is_sleep(one: Simple) -> bool:
    return bool(one.words) and one.words[0].bare == "sleep"


_SETTERS = frozenset({"export", "local", "readonly", "declare", "typeset"})
_MOST_DEPTH = 12
_TURNS = 12


class Shell(Programs):
    """One shell, and those that it starts."""

    def script(self, text: str) -> Value:
        """Walk a script; what its exit code rests on. Raises Unreadable."""
        ground = self.ground
        if ground.depth > _MOST_DEPTH:
            raise Unreadable("scripts that call each other without an end")
        ground.depth += 1
        outer, returned = ground.ended, ground.returned
        try:
            status = self.run(parse_tree(lex(text)), KNOWN)[0]
            ends = ground.ended | ground.returned
            for trap in self.at_exit:
                ground.ended, ground.returned = outer, returned
                self.run(parse_tree(lex(trap)), KNOWN)
        except (ShellSyntaxError, IndexError, RecursionError) as error:
            raise Unreadable(f"a shell script that cannot be read: {error}") from error
        ground.ended, ground.returned = outer, returned
        ground.depth -= 1
        return status | ends

    # -- the tree --------------------------------------------------------------------------------------------
    def run(self, node: Node, stdin: Value) -> Result:
        """(exit code, output) of a command."""
        self.ground.step()
        if isinstance(node, List):
            return self._list(node, stdin)
        if isinstance(node, Pipe):
            return self._pipe(node, stdin)
        if isinstance(node, If):
            return self._if(node, stdin)
        if isinstance(node, Loop):
            return self._loop(node, stdin)
        if isinstance(node, For):
            return self._for(node, stdin)
        if isinstance(node, Case):
            return self._case(node, stdin)
        if isinstance(node, Fed):
            return self.run(node.body, joined(map(self._read, node.reads)))
        if isinstance(node, Sub):
            return self._sub(node, stdin)
        return self._simple(node, stdin)

    def _under(self, why: Value, node: Node, stdin: Value, *, tested: bool = False, always: bool = False) -> Result:
        """A command that is run where ``why`` lets it; ``always``: it does."""
        self.ground.control.append(why)
        self.branches += not always
        self.tested += tested
        try:
            return self.run(node, stdin)
        finally:
            self.tested -= tested
            self.branches -= not always
            self.ground.control.pop()

    def _asked(self, node: Node, stdin: Value) -> Result:
        """A command whose exit code is looked at."""
        self.tested += 1
        try:
            return self.run(node, stdin)
        finally:
            self.tested -= 1

    def _list(self, node: List, stdin: Value) -> Result:
        out, chain = Value(), None
        for item, after in node.items:
            joins = after in ("&&", "||")
            if chain is None:
                status, said = self._asked(item, stdin) if joins or after == "&" else self.run(item, stdin)
            else:
                status, said = self._under(chain, item, stdin, tested=joins)
            out |= said
            if not joins:
                self._failed(status if after != "&" else KNOWN, item)
            whole = (status if chain is None else chain | status).rests if chain is not None or joins else status
            chain = whole if joins else None
            self.status = whole if after != "&" else KNOWN
            self.behind = self.behind | status if after == "&" else self.behind
        return self.status, out

    def _failed(self, status: Value, item: Node) -> None:
        """Under ``set -e`` a failure ends the script, but where somebody looks at it."""
        ends = isinstance(item, Simple | Pipe | Sub) and not (isinstance(item, Pipe) and item.turned)
        if self.errexit and not self.tested and ends and status.text != "":
            self.ground.end(self.ground.here() | status)

    def _pipe(self, node: Pipe, stdin: Value) -> Result:
        if len(node.parts) == 1:
            return self._asked(node.parts[0], stdin)
        statuses, said = [], stdin
        for part in node.parts:
            kept = self._kept()
            status, said = self._asked(part, said) if not self.pipefail else self.run(part, said)
            statuses.append(status)
            self._restore(kept)
        self.variables["PIPESTATUS"] = joined(statuses)
        return (joined(statuses) if self.pipefail else statuses[-1]), said

    def _kept(self) -> tuple[dict[str, Value], dict[str, list[Value]], Value]:
        return dict(self.variables), dict(self.arrays), self.ground.ended

    def _restore(self, kept: tuple[dict[str, Value], dict[str, list[Value]], Value]) -> None:
        """What a subshell set is set no more, but for files; its exit ends nothing else."""
        files = {name: value for name, value in self.variables.items() if name.startswith("/")}
        self.variables, self.arrays = kept[0] | files, kept[1]
        self.ground.ended = kept[2]

    def _sub(self, node: Sub, stdin: Value) -> Result:
        kept = self._kept()
        status, out = self.run(node.body, stdin)
        ends = self.ground.ended if self.ground.ended != kept[2] else Value()
        self._restore(kept)
        return status | ends, out

    def _if(self, node: If, stdin: Value) -> Result:
        why = self._asked(node.test, stdin)[0].rests
        status, out = self._under(why, node.body, stdin)
        if node.otherwise is not None:
            other, more = self._under(why, node.otherwise, stdin)
            return status | other, out | more
        return status, out

    def _case(self, node: Case, stdin: Value) -> Result:
        word = self._text(node.word)
        patterns = [self._text(one) for pattern in node.patterns for one in pattern]
        why = word | joined(patterns)
        why = compared_with(why, [one.text or "" for one in patterns if one.text not in ("*", "?", None)], "case")
        why = self.ground.at_a_minute(why, "=")
        if "s" in word.clock:
            why = why.doubted(Source(Kind.CHANCE, "the digits of a moment", "case"))
        status, out = Value(), Value()
        for branch in node.branches:
            code, said = self._under(why.rests, branch, stdin)
            status, out = status | code, out | said
        return status, out

    # -- loops -----------------------------------------------------------------------------------------------
    def _for(self, node: For, stdin: Value) -> Result:
        words = [value for word in node.words for value in self._expanded(word)] or [joined(self.arguments)]
        each = joined(words)
        self.variables[node.name] = words[0] if len(words) == 1 else each
        turns = (
            words[:_TURNS] if all(word.text is not None and UNKNOWN not in word.text for word in words) else [each] * 2
        )
        why = each.rests
        status, out, skipped = Value(), Value(), self.ground.skipped
        breaks: list[Value] = []
        for value in turns:
            self.variables[node.name] = value
            self.ground.skipped = skipped | joined(breaks)
            self._enter(breaks)
            code, said = self._under(why, node.body, stdin)
            self._leave()
            status, out = status | code, out | said
        self.ground.skipped = skipped
        return status, out

    def _enter(self, breaks: list[Value]) -> None:
        """A loop's body begins, of which ``breaks`` are the ways out."""
        self._broken.append(breaks)
        self._inside_of.append(len(self.ground.control) + 1)

    def _leave(self) -> None:
        self._broken.pop()
        self._inside_of.pop()

    def _loop(self, node: Loop, stdin: Value) -> Result:
        names = set(assigned(node.body)) | set(assigned(node.test))
        counts = {name for name in names if steps(node, name)}
        self._counted.append(counts)
        ended = self.ground.ended
        why = self._asked(node.test, stdin)[0].rests
        endless = is_constant(node.test)
        reads = reads_lines(node.test)
        rounds = 2 if reads else 1
        if endless and self.world.loops:
            slept = [slept_s([word.bare for word in one.words]) for one in commands(node) if _is_sleep(one)]
            self.ground.round_s = max(slept, default=0.0)
            self._carry(node, stdin, why)
            self.ground.ended, rounds = ended, 2
        breaks: list[Value] = []
        status, out, skipped = Value(), Value(), self.ground.skipped
        for _ in range(rounds):
            self.ground.skipped = skipped | joined(breaks)
            self._enter(breaks)
            code, said = self._under(why, node.body, stdin, always=endless)
            self._leave()
            status, out = status | code, out | said
        self.ground.skipped = skipped
        self._counted.pop()
        bounded = not endless and bool(counts & names_in(node.test) or self._has_an_end(node.test))
        bounded = bounded or gives_up(node.body, counts)
        if not reads and not bounded:
            self.ground.end(joined(breaks) if endless else why)
        return status, out

    def _has_an_end(self, test: Node) -> bool:
        """Whether one of the conditions of a loop is a moment that comes by itself."""
        parts = [item for item, _ in test.items] if isinstance(test, List) else [test]
        ends = [self._asked(part, KNOWN)[0] for part in parts]
        return any("s" in one.clock and not (one.unknown or one.listed or one.raw) for one in ends)

    def _carry(self, node: Loop, stdin: Value, why: Value) -> None:
        """What a round leaves to the next."""

        def play(carried: Mapping[str, Value] | None) -> None:
            for name, value in (carried or {}).items():
                if name.startswith("api "):
                    self.ground.kept[name] = self.ground.kept.get(name, KNOWN).rests | value
                else:
                    self.variables[name] = self.variables.get(name, KNOWN).rests | value
            self._enter([])
            self._under(why, node.body, stdin, always=True)
            self._leave()

        self.ground.rounds(play)
        for name, value in self.variables.items():
            self.variables[name] = replace(value, carried=frozenset())
        for name, source in self.ground.counted.items():
            kept = self.ground.kept if name.startswith("api ") else self.variables
            kept[name] = kept.get(name, KNOWN).rests.doubted(source)

    # -- simple commands -------------------------------------------------------------------------------------
    def _simple(self, node: Simple, stdin: Value) -> Result:
        if node.makes is not None:
            name = node.words[0].bare
            if self.branches and name in self.functions and self.functions[name] is not node.makes:
                raise Unreadable(f"a function that is one or another: {name}")
            self.functions[name] = node.makes
            self.made_under[name] = self.ground.here() if self.branches else Value()
            return KNOWN, Value()
        reads = [self._read(read) for read in node.reads]
        given = reads[-1] if reads else stdin
        words = list(node.words)
        status = KNOWN
        while words and (found := assignment(words[0])):
            made = self._assign(*found)
            status = made if status.text == "" else status | made
            words = words[1:]
        if words and words[0].bare == "exec" and len(words) == 1 and reads:
            self.variables["<"] = joined(reads)
            return KNOWN, Value()
        if not words:
            if not node.words and node.reads:
                return joined(reads), joined(reads)
            return status, Value()
        if words[0].inside or words[0].bare == "[[":
            return self._inside(words[0]), Value()
        name = words[0].bare
        if name in _SETTERS:
            for word in words[1:]:
                if found := assignment(word):
                    self._assign(*found)
                else:
                    self._declared(self._text(word))
            return KNOWN, Value()
        values = [value for word in words for value in self._expanded(word)]
        if not values:
            return status, Value()
        said = " ".join(shown(word) for word in words)
        code, out = self.command(values, given | joined(reads[:-1]) if reads else given, said)
        written = [path for path in node.written if not any(path is word for word in node.words)]  # no ``-o name``
        for path in written:
            self._write(path, out, more=any(path is one for one in node.added))
        return code, (Value() if written else out)

    def _declared(self, value: Value) -> None:
        """``export "NAME=$value"``, which is one word."""
        name, equals, text = (value.text or "").partition("=")
        if equals and name.isidentifier():
            self.variables[name] = replace(value, text=text if value.text is not None else None)
        elif value.unknown or value.listed or value.raw:
            raise Unreadable("variables whose names are only known when it runs")

    def started(self, text: str, arguments: Sequence[Value], *, errexit: bool = False, pipefail: bool = False) -> Value:
        """What the exit code of a script rests on that a shell of its own runs; files that it wrote stay."""
        inner = Shell(self.ground, arguments, errexit=errexit, pipefail=pipefail)
        inner.variables = dict(self.variables)
        status = inner.script(text)
        self.variables |= {name: value for name, value in inner.variables.items() if name.startswith("/")}
        return status
