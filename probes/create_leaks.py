"""Programs that rent instances and may lose their handle on them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.executor.python_values import dotted
from killcheck.kube.objects import Obj
from killcheck.kube.workloads import templates
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["CreateLeaks"]


class CreateLeaks(Probe):
    """An exception between 'create' and the end, and nobody knows the instance's name any more: it bills on."""

    id = "create-leaks"
    claim = "Whatever a program rents, it gives back also when it fails."
    remedy = "Terminate it in a finally (Python) or a trap on EXIT (shell), and tag it, so that it can be found."
    failures = (53,)
    sources = ("uda-lab/yomotsusaka#124",)

    def ask(self, world: World) -> Iterable[Finding]:
        """Scripts, in manifests and ConfigMaps, that launch instances."""
        for obj in world.of("ConfigMap"):
            for key, text in (obj.get("data") or {}).items():
                yield from self._judge(world, obj, ("data", key), str(text))
        for obj in world.of("CronJob", "Job", "Deployment", "StatefulSet", "Pod"):
            for template in templates(obj):
                for path, words in _commands(template.path, template.spec):
                    yield from self._judge(world, obj, path, words)

    def _judge(self, world: World, obj: Obj, path: Path, text: str) -> Iterable[Finding]:
        for call in _leaks(text):
            message = f"{call}, and nothing gives the instance back when the program fails after it"
            yield self.finding(world, obj, path, message)


def _commands(path: Path, spec: Obj) -> Iterator[tuple[Path, str]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            for part in ("command", "args"):
                if container.get(part):
                    yield (*path, kind, index, part), "\n".join(str(word) for word in container[part])


def _leaks(text: str) -> Iterator[str]:
    """The calls that create what no finally, context manager or trap ends."""
    if not _CREATES.search(text):
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = _SHELL.search(text)
        if found and not re.search(r"\btrap\b[^\n]*\b(EXIT|0)\b", text):
            yield " ".join(found[0].split())
        return
    guarded = {
        id(call)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and _ends(node.finalbody)
        for part in node.body
        for call in ast.walk(part)
    }
    for node in ast.walk(tree):
        last = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if last in _PYTHON and id(node) not in guarded and not _followed(tree, node):
            yield f"line {getattr(node, 'lineno', 0)}: {last}()"


def _ends(statements: list[ast.stmt]) -> bool:
    calls = [n for statement in statements for n in ast.walk(statement) if isinstance(n, ast.Call)]
    return any(re.search(r"terminate|delete|destroy|stop|release|close", dotted(call.func)) for call in calls)


def _followed(tree: ast.AST, call: ast.AST) -> bool:
    """Whether a try with a finally that ends it comes after the statement that creates it, with no call between."""
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            found = [b for b in body if call in ast.walk(b) or _calls(b)] if isinstance(body, list) else []
            for first, second in pairwise(found):
                if isinstance(second, ast.Try) and _ends(second.finalbody) and call in ast.walk(first):
                    return True
    return False


def _calls(statement: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(statement))


_PYTHON = frozenset({"run_instances", "create_instances", "request_spot_instances", "create_fleet", "create_pod"})
_SHELL = lazy_re.compile(
    r"aws\s+ec2\s+(run-instances|request-spot-instances|create-fleet)|gcloud\s+compute\s+instances\s+create"
    r"|az\s+vm\s+create|vastai\s+create\s+instance|runpodctl\s+create\s+pod"
)
_CREATES = lazy_re.compile("|".join((*_PYTHON, _SHELL.pattern)))
