"""What the commands of a shell script rest on, whatever starts them: builtins, tests, filters, other programs.

What may *not* live here: what is asked of an API (:mod:`killcheck.executor.shell_acts`).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from posixpath import basename

from killcheck.executor import shell_acts
from killcheck.executor.resting import (
    KNOWN,
    Kind,
    Source,
    Unreadable,
    Value,
    clocked,
    compared_with,
    counted_off,
    joined,
    known,
    lasts_long,
    sided,
    unknown,
)
from killcheck.executor.shell_filters import FILTERS, filtered
from killcheck.executor.shell_resting import Result, Words
from killcheck.executor.shell_script import UNKNOWN
from killcheck.executor.shell_tree import Node, parse_tree
from killcheck.executor.shell_words import lex
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["Programs"]

#: Commands that always do the same, and print nothing that decides.
_PLAIN = frozenset(
    """
    : true sleep cd mkdir rm touch chmod chown cp mv ln install sync umask ulimit unset shift wait kill shopt hash type
    command which logger set export local readonly declare typeset alias pushd popd mktemp trap exec clear stty tput
    getopts let times unalias disown jobs fg bg rmdir truncate chgrp
    """.split()
)
_WRAPPERS = frozenset(
    {"timeout", "env", "nice", "nohup", "time", "exec", "command", "sudo", "tini", "builtin", "setsid", "flock"}
)
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})
_PYTHONS = lazy_re.compile(r"python(\d(\.\d+)?)?|pypy3?")
_COMPARES = frozenset({"=", "==", "!=", "-eq", "-ne", "-gt", "-ge", "-lt", "-le", "<", ">", "\\<", "\\>"})
_MOST_DEPTH = 12


class Programs(Words):
    """The commands of one shell."""

    @abstractmethod
    def run(self, node: Node, stdin: Value) -> Result:
        """(exit code, output) of a command."""

    @abstractmethod
    def started(self, text: str, arguments: Sequence[Value], *, errexit: bool = False, pipefail: bool = False) -> Value:
        """What the exit code of a script rests on that a shell of its own runs."""

    # -- what is run -----------------------------------------------------------------------------------------
    def command(self, words: Sequence[Value], stdin: Value, shown: str) -> Result:
        """One command with its words, whatever starts it."""
        self.ground.step()
        name = basename(words[0].text or UNKNOWN)
        self.last = words[-1]
        if UNKNOWN in name:
            if not words[0].unknown:
                raise Unreadable("a command whose name is only known when it runs")
            self.ground.act(shown, joined(words))
            return joined(words).rests, joined(words).rests
        if name in _WRAPPERS and len(words) > 1:
            return self._wrapped(name, words, stdin, shown)
        if words[0].text in self.functions:
            return self._call(words, stdin)
        found = self._control(name, words, stdin)
        if found is not None:
            return found
        if name in ("[", "test"):
            return self._test(words[1:]), Value()
        if name in FILTERS:
            return self._filter(name, words[1:], stdin)
        if name == "date":
            value = self._date(words[1:])
            return value if value.unknown else KNOWN, value
        if name in ("hostname", "uname"):
            fixed = name == "uname" and all(word.text in ("-m", "-s") for word in words[1:])
            return KNOWN, KNOWN if fixed else unknown(Kind.POD, "the name of its pod", name)
        if name == "printenv" and len(words) > 1:
            return KNOWN, joined(self._variable(word.text or "") for word in words[1:])
        if name in ("env", "printenv"):
            return KNOWN, unknown(Kind.POD, "all its variables", name)
        if name in ("id", "whoami", "pwd", "arch", "envsubst", "yes"):
            return KNOWN, joined(words) | stdin
        if name in _PLAIN:
            return self._plain(name, words, stdin)
        if name in _SHELLS or name == "busybox" or self._path(words[0].text or "") in self.world.files:
            return self._script(name, words, stdin)
        if _PYTHONS.fullmatch(name):
            return self._python(words, stdin)
        return shell_acts.acts(self.ground, name, words, stdin, shown)

    def _control(self, name: str, words: Sequence[Value], stdin: Value) -> Result | None:
        ground = self.ground
        if name == "exit":
            ground.end(ground.here())
        elif name == "return":
            ground.returned |= ground.here().rests
        elif name in ("break", "continue"):
            if self._broken and name == "break":
                self._broken[-1].append(ground.here(self._inside_of[-1]).rests)
            ground.skipped |= ground.here().rests
        elif name == "false":
            return KNOWN, Value()
        elif name in ("read", "mapfile", "readarray"):
            texts = [word.text or "" for word in words[1:]]
            stdin = stdin | self.variables.get("<", KNOWN) if "-u" in texts else stdin
            named = [text for text in texts if re.fullmatch(r"[A-Za-z_]\w*", text)]
            for word in words[1:] if named else [known("REPLY"), known("MAPFILE")]:
                if re.fullmatch(r"[A-Za-z_]\w*", word.text or ""):
                    self.ground.note(word.text or "", stdin)
                    self.variables[word.text or ""] = replace(stdin, text=None)
                    self.arrays[word.text or ""] = [replace(stdin, text=None)] if name != "read" else []
            return replace(stdin.exists, own=False), Value()
        elif name == "eval":
            text = " ".join(word.text or UNKNOWN for word in words[1:])
            if UNKNOWN in text:
                if not joined(words[1:]).unknown:
                    raise Unreadable("an eval of what is only known when it runs")
                self.ground.end(self.ground.here() | joined(words[1:]))
                return joined(words[1:]).rests, Value()
            return self.run(parse_tree(lex(text)), stdin)
        elif name in (".", "source"):
            sourced = self.world.files.get(self._path(words[1].text or "")) if len(words) > 1 else None
            if sourced is None:
                path = (words[1].text or UNKNOWN) if len(words) > 1 else ""
                what = f"what {path.replace(UNKNOWN, '...')} does, which is not in the manifests"
                self.ground.end(self.ground.here() | unknown(Kind.PROGRAM, what, path))
                return KNOWN, Value()
            return self.run(parse_tree(lex(sourced)), stdin)
        elif name == "xargs":
            return self._xargs(words, stdin)
        else:
            return None
        return (joined(words[1:]) if words[1:] else KNOWN), Value()

    def _plain(self, name: str, words: Sequence[Value], stdin: Value) -> Result:
        rests = joined(words[1:])
        texts = [word.text or "" for word in words[1:]]
        if name == "set":
            self._options(texts, words[1:])
        elif name == "sleep":
            waits = {one for one in rests.unknown if one.kind not in (Kind.CHANCE, Kind.POD)}
            if waits or rests.raw or rests.listed:
                self.ground.end(self.ground.here() | replace(rests, unknown=frozenset(waits)))
            if lasts_long(texts):
                self.ground.stalled |= self.ground.here().rests
        elif name == "trap" and len(words) > 2 and {"ERR", "SIGERR"} & set(texts[1:]):
            self.errexit = self.errexit or "exit" in texts[0]
        elif name == "trap" and len(words) > 2 and {"EXIT", "0"} & set(texts[1:]):
            self.at_exit.append(texts[0])
        elif name in ("touch", "mkdir", "cp", "mv", "ln", "install"):
            read = self._files(words[1:]) if name not in ("touch", "mkdir") else Value()
            status = self._files(words[1:])
            for text in texts[-1:] if name not in ("touch", "mkdir") else texts:
                path = self._path(text)
                if text.startswith("/") and (path not in self.variables or read != Value()):
                    self.ground.note(path, read)
                    self.variables[path] = read | self.ground.here()
            return status if status.unknown else KNOWN, Value()
        elif name == "kill":
            self.ground.end(self.ground.here() | rests)
        elif name == "wait":
            return (self.behind if texts else KNOWN), Value()
        elif name == "rm":
            for text in texts:
                self.ground.note(self._path(text), KNOWN)
                self.variables.pop(self._path(text), None)
        elif name == "let":
            return joined(self._arithmetic(text) for text in texts), Value()
        elif name in ("which", "type", "hash", "command"):
            return KNOWN, KNOWN
        elif name == "shift":
            self.arguments = self.arguments[1:] or [joined(self.arguments).rests]
        elif name == "mktemp":
            return KNOWN, known("/tmp/tmp.made")  # noqa: S108 - a path in a script
        elif name == "unset":
            for text in texts:
                self.variables[text] = KNOWN
        return (rests if name in ("cd", "install", "exec") and rests.unknown else KNOWN), Value()

    def _options(self, texts: Sequence[str], values: Sequence[Value]) -> None:
        for at, text in enumerate(texts):
            if text == "--":
                self.arguments = list(values[at + 1 :])
                return
            on = text.startswith("-")
            named = texts[at + 1] if text[:1] in ("-", "+") and "o" in text and at + 1 < len(texts) else ""
            if text[:1] in ("-", "+") and ("e" in text[1:] or named == "errexit"):
                self.errexit = on
            if named == "pipefail":
                self.pipefail = on

    def _wrapped(self, name: str, words: Sequence[Value], stdin: Value, shown: str) -> Result:
        rest = list(words[1:])
        given = KNOWN
        if name == "command" and rest and rest[0].text in ("-v", "-V"):
            return KNOWN, KNOWN
        while rest and re.match(r"-|[A-Za-z_]\w*=|\d+(\.\d+)?[smhd]?$", rest[0].text or "-"):
            given |= rest.pop(0)
        if name == "flock" and rest:  # the file that it locks
            given |= self.file(rest.pop(0))
            rest = rest[1:] if rest and rest[0].text == "-c" else rest
        if not rest:
            return KNOWN, joined(words[1:])
        if given.unknown:
            self.ground.control.append(given.rests)
        try:
            if name != "timeout":
                status, out = self.command(rest, stdin, shown)
                if name == "exec":  # nothing comes after it
                    self.ground.end(self.ground.here())
                return status, out
            kept = self.ground.ended
            status, out = self.command(rest, stdin, shown)
            self.ground.ended = kept
            return status, out
        finally:
            if given.unknown:
                self.ground.control.pop()

    def _call(self, words: Sequence[Value], stdin: Value) -> Result:
        if self.ground.depth > _MOST_DEPTH:
            raise Unreadable("functions that call each other without an end")
        self.ground.depth += 1
        outer, self.arguments = self.arguments, list(words[1:])
        before = self.ground.returned
        name = words[0].text or ""
        made = self.made_under.get(name, Value())
        self.ground.control.append(made)
        status, out = self.run(self.functions[name], stdin)
        self.ground.control.pop()
        status = status if made == Value() else status | made
        returned, self.ground.returned = self.ground.returned, before
        self.arguments = outer
        self.ground.depth -= 1
        return status | returned, out

    def _xargs(self, words: Sequence[Value], stdin: Value) -> Result:
        rest = list(words[1:])
        while rest and (rest[0].text or "").startswith("-"):
            option = rest.pop(0).text or ""
            if option in ("-n", "-I", "-P", "-L", "-d", "-s", "-a", "-E") and rest:
                rest.pop(0)
        data = replace(stdin, listed=stdin.listed, text=None)
        self.ground.control.append(replace(stdin, own=False, text=None))
        try:
            shown = " ".join(word.text or "..." for word in rest)
            return self.command([*rest, data] if rest else [known("echo"), data], KNOWN, shown)
        finally:
            self.ground.control.pop()

    def _script(self, name: str, words: Sequence[Value], stdin: Value) -> Result:
        """``sh -c TEXT``, a script of a ConfigMap, or one that it is fed."""
        if name == "busybox":
            return self.command(words[1:], stdin, "busybox") if len(words) > 1 else (KNOWN, KNOWN)
        own = self._path(words[0].text or "")
        if own in self.world.files:
            return self._of_text(self.world.files[own], words, stdin)
        rest, options = list(words[1:]), []
        while rest and (rest[0].text or "")[:1] in ("-", "+"):
            options.append(rest.pop(0).text or "")
            if options[-1][-1:] == "o" and rest:
                options.append(rest.pop(0).text or "")
        flags = {"errexit": any("e" in o for o in options if o[:1] == "-" and o[:2] != "--") or "errexit" in options}
        flags["pipefail"] = "pipefail" in options
        if any("c" in option for option in options if option[:2] != "--" and option[:1] == "-"):
            text = rest[0].text if rest else ""
            if text is None or UNKNOWN in text:
                raise Unreadable("a script that is only known when it runs")
            status = self.started(text, rest[1:], **flags)
            return status, status
        if rest:
            text = self.world.files.get(self._path(rest[0].text or ""))
            made = self.variables.get(self._path(rest[0].text or ""))
            text = made.text if text is None and made is not None else text
            if text is None:
                raise Unreadable("a script that is in the image, not in the manifests")
            status = self.started(text, rest, **flags)
            return status, status
        if stdin.text is None or UNKNOWN in stdin.text:
            raise Unreadable("a script that is only known when it runs")
        status = self.started(stdin.text, [known(name)], **flags)
        return status, status

    def _of_text(self, text: str, words: Sequence[Value], stdin: Value) -> Result:
        first = text.partition("\n")[0]
        if "python" in first:
            return self._python([known("python3"), *words], stdin)
        if first.startswith("#!") and not re.search(r"\b(?:ba|da|a|k|z)?sh\b", first):
            raise Unreadable(f"a program for {first[2:].strip()}")
        status = self.started(text, words, errexit=bool(re.match(r"#!.*\s-\w*e", first)))
        return status, status

    def _python(self, words: Sequence[Value], stdin: Value) -> Result:
        texts = [word.text or UNKNOWN for word in words[1:]]
        texts = [text for text in texts if text not in ("-u", "-B", "-E", "-I", "-s", "-S", "-")]
        program: str | None
        if not texts:
            program = stdin.text
        elif texts[0] == "-c":
            program = texts[1] if len(texts) > 1 else ""
        elif texts[0] == "-m":
            return unknown(Kind.PROGRAM, f"python -m {texts[1]}", texts[1]), Value()
        else:
            program = self.world.files.get(self._path(texts[0]))
            made = self.variables.get(self._path(texts[0]))
            program = made.text if program is None and made is not None else program
        if program is None or UNKNOWN in program:
            raise Unreadable("a Python program that is in the image, not in the manifests")
        environment = {name: value for name, value in self.variables.items() if not name.startswith("/")}
        return self.ground.languages.python(self.ground, program, words[1:], environment, stdin)

    # -- asking ----------------------------------------------------------------------------------------------
    def _test(self, words: Sequence[Value]) -> Value:
        words = [word for word in words if word.text not in ("]", "!", "-a", "-o", "(", ")")]
        texts = [word.text or "" for word in words]
        if len(words) == 2 and texts[0] in ("-n", "-z"):
            return words[1].exists
        if len(words) == 1:
            return words[0].exists
        value = joined(words)
        if {"-nt", "-ot", "-ef"} & set(texts):
            value = value.doubted(Source(Kind.STATE, "how old files are", "-nt"))
        for flag, path in zip(texts, words[1:], strict=False):
            if re.fullmatch(r"-[a-mo-y]", flag) and flag not in ("-a", "-o", "-eq"):
                value |= self.file(path)
        for how in texts:
            value = self.ground.at_a_minute(value, how)
        sides = [
            sided(texts[at - 1] if at else "", text)
            for at, text in enumerate(texts)
            if text not in _COMPARES and not words[at].own and (set(texts[max(0, at - 1) : at + 2]) & _COMPARES)
        ]
        if any(word.text is None and not word.own for word in words) and value.own:
            sides.append("what is only known when it runs") if set(texts) & _COMPARES else None
        return compared_with(value, sides, " ".join(filter(None, texts))[:40])

    def _filter(self, name: str, words: Sequence[Value], stdin: Value) -> Result:
        if name in ("echo", "printf"):
            moments = [clocked(form) for word in words for form in re.findall(r"%\(([^)]*)\)T", word.text or "")]
            if moments:
                return KNOWN, joined([*words, *moments]).rests
            if name == "printf" and len(words) > 2 and words[0].text == "-v":
                self.variables[words[1].text or ""] = joined(words[2:]).rests
            plain = [word.text for word in words if word.text not in ("-n", "-e")]
            text = (
                " ".join(one or UNKNOWN for one in plain) if name == "echo" else plain[0] if len(plain) == 1 else None
            )
            return KNOWN, replace(joined(words), text=text if None not in plain else None)
        given = self._files(words) | stdin if name not in ("seq", "expr", "basename", "dirname", "tr") else stdin
        alone = stdin.text if name == "cat" and not words else None
        if name == "cat" and len(words) == 1 and (words[0].text or "").startswith("/"):
            alone = self.file(words[0]).text
        out = filtered(name, words, replace(given, table=stdin.table))
        decides = name in ("grep", "egrep", "fgrep", "jq", "cmp", "diff", "expr", "awk", "head", "tail", "cat")
        if name == "expr":
            out = self._arithmetic(" ".join(word.text or "" for word in words)) | joined(words)
            if "%" in [word.text for word in words]:
                out = counted_off(out, words[-1].text or "", "expr")
        return (out.rests if decides else KNOWN), replace(out, text=alone)

    def _files(self, words: Sequence[Value]) -> Value:
        """What lies in the files that a command is given."""
        found = Value()
        for word in words:
            text = word.text or ""
            if text.startswith("/") or self._path(text) in self.variables or self._path(text) in self.world.files:
                found |= self.file(word)
        return found

    def _date(self, words: Sequence[Value]) -> Value:
        texts = [word.text or UNKNOWN for word in words]
        rests = replace(joined(words), text=None)
        form = next((text for text in texts if text.startswith("+")), "")
        if any(text in ("-r", "--reference") for text in texts):
            return rests | self.file(words[-1])
        return rests | (clocked(form.replace(UNKNOWN, "")) if form else Value(clock=frozenset("cad")))
