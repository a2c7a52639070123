"""What a Python script asks of the Kubernetes API, read off its syntax tree: best effort, and it says what it missed.

Followed: ``urllib``, ``requests``, ``httpx`` and ``http.client`` calls whose URL can be put together from constants,
arguments and the environment, methods of the ``kubernetes`` client, programs that it starts, and its own functions
with what they are handed.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct, field

from killcheck.executor.api_calls import ApiCall, call_of_url, replicas_in
from killcheck.executor.false_green import FalseGreen
from killcheck.executor.python_failures import checks_status, swallowed
from killcheck.executor.python_values import Scope, Value, dotted
from killcheck.executor.shell_script import UNKNOWN
from killcheck.kube import resources
from killcheck.kube.resources import Resource
from killcheck.text import lazy_re
from killcheck.text.jsontext import from_text
from killcheck.text.values import replace

__all__ = ["Program", "PythonReading", "client_method", "read"]

_METHODS = frozenset({"get", "post", "put", "patch", "delete", "head"})
_HTTP = frozenset(method.upper() for method in _METHODS)
_CLIENT_METHOD = lazy_re.compile(
    r"(?P<verb>create|read|list|patch|replace|delete_collection|delete|get)_(?P<at>namespaced_|cluster_)?(?P<kind>\w+?)"
    r"(?:_(?P<sub>scale|status|eviction|log|token))?(?P<all>_for_all_namespaces)?(?:_with_http_info)?$",
)
_CLIENT_VERBS = {
    "create": "create",
    "read": "get",
    "get": "get",
    "list": "list",
    "patch": "patch",
    "replace": "update",
    "delete": "delete",
    "delete_collection": "deletecollection",
}
_STARTERS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput"})
_MAX_ITEMS = 50
_MAX_DEPTH = 6


class Program(Struct, frozen=True):
    """A program that is started. ``unchecked``: why nobody looks at its exit code; None: somebody does."""

    words: tuple[str, ...]
    line: int = 0
    unchecked: str | None = None


class PythonReading(Struct):
    """``programs``: what it starts. ``false_green``: how a refused request ends as success. ``modules`` imported."""

    calls: list[ApiCall] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    not_understood: list[str] = field(default_factory=list)
    false_green: list[FalseGreen] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)


def read(
    text: str,
    environment: Mapping[str, str],
    arguments: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> PythonReading:
    """Read a Python program with its ``sys.argv``. What is no Python ends up in ``not_understood``."""
    try:
        return _read(ast.parse(text), text, environment, arguments, files or {})
    except SyntaxError as error:
        return PythonReading(not_understood=[f"not Python: {error.msg} (line {error.lineno})"])
    except ValueError as error:  # a null byte
        return PythonReading(not_understood=[f"not Python: {error}"])
    except (RecursionError, MemoryError):  # what the parser says of its own stack
        return PythonReading(not_understood=["a Python program that is nested too deep to be read"])


def _read(
    tree: ast.Module, text: str, environment: Mapping[str, str], arguments: Sequence[str], files: Mapping[str, str]
) -> PythonReading:
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    reader = _Reader(Scope(environment, arguments, files, functions), "returncode" in text)
    reader.visit(tree)
    reader.the_rest()
    found = reader.found
    if not found.calls and not found.programs and re.search(r"/apis?/|kubernetes|k8s", text):
        found.not_understood.append("a Python script that speaks of Kubernetes, with no call that could be followed")
    if any(c.writes for c in found.calls) and reader.uses_requests and not checks_status(text):
        how = "requests without raise_for_status(): a 403 is no exception, and the script exits 0"
        found.false_green.append(FalseGreen(how))
    if found.programs or any(c.writes for c in found.calls):
        found.false_green += swallowed(tree)
    return found


@cache
def _by_snake() -> dict[str, Resource]:
    """Resources by the name that the Python client gives them: ``stateful_set``."""
    known = [value for value in vars(resources).values() if isinstance(value, Resource)]
    return {re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", r.kind).lower(): r for r in known}


class _Reader(ast.NodeVisitor):
    def __init__(self, scope: Scope, looks_at_codes: bool) -> None:
        self.scope = scope
        self.looks_at_codes = looks_at_codes
        self.found = PythonReading()
        self.uses_requests = False
        self._bare: ast.expr | None = None
        self._calling: list[str] = []
        self._called: set[str] = set()

    # -- names -----------------------------------------------------------------------------------------------
    def visit_Import(self, node: ast.Import) -> None:
        """Note the modules that it needs."""
        self.found.modules += [alias.name.partition(".")[0] for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note the module that it needs, unless it is relative."""
        if not node.level:
            self.found.modules.append((node.module or "").partition(".")[0])

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind the names to what is known of the value."""
        value = self.scope.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.bodies[target.id] = self.scope.written(node.value)
            self.scope.bind(target, value)
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        """Bind what a context manager gives."""
        for item in node.items:
            if item.optional_vars is not None:
                self.scope.bind(item.optional_vars, self.scope.value(item.context_expr))
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        """A loop over what is known is walked for each."""
        self.visit(node.iter)
        items: Sequence[Value] = self.scope.items(node.iter)[:_MAX_ITEMS] or [UNKNOWN]
        for item in items:
            self.scope.bind(node.target, item)
            for statement in (*node.body, *node.orelse):
                self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read where it is called, with what it is handed there."""

    def visit_Expr(self, node: ast.Expr) -> None:
        """Note a value that nobody looks at: a call whose answer is thrown away."""
        self._bare = node.value
        self.generic_visit(node)

    def the_rest(self) -> None:
        """Functions that nobody was seen to call (a thread's, a callback), with nothing known of their parameters."""
        for name, function in self.scope.functions.items():
            if name not in self._called:
                self._inside(function, None)

    def _inside(self, function: ast.FunctionDef, call: ast.Call | None) -> None:
        if function.name in self._calling or len(self._calling) >= _MAX_DEPTH:
            return
        self._called.add(function.name)
        self._calling.append(function.name)
        before = dict(self.scope.names), dict(self.scope.bodies)
        parameters = self.scope.parameters(function, call)
        handed = self._handed(function, call) if call is not None else {}
        self.scope.bodies = {k: v for k, v in self.scope.bodies.items() if k not in parameters} | handed
        self.scope.names |= parameters
        for statement in function.body:
            self.visit(statement)
        globals_ = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
        kept = {name: self.scope.names[name] for name in globals_ if name in self.scope.names}
        self.scope.names, self.scope.bodies = before[0] | kept, before[1]
        self._calling.pop()

    def _handed(self, function: ast.FunctionDef, call: ast.Call) -> dict[str, str]:
        """What a function's parameters are as source, in a call of it."""
        named = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        bound = isinstance(call.func, ast.Attribute) and named[:1] == ["self"]
        given = [*zip(named[bound:], call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
        return {name: self._source(node) for name, node in given}

    def _source(self, node: ast.expr) -> str:
        known = self.scope.bodies.get(node.id) if isinstance(node, ast.Name) else None
        return known or self.scope.written(node)

    # -- calls -----------------------------------------------------------------------------------------------
    def visit_Call(self, node: ast.Call) -> None:
        """Read a call: of a function of its own, of a client, of a program."""
        name = dotted(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        own = self.scope.functions.get(name.removeprefix("self."))
        if own is not None:
            if not self._handed_url(node):
                self._inside(own, node)
        elif last in ("Request", "urlopen") and node.args and not isinstance(node.args[0], ast.Call):
            if not isinstance(node.args[0], ast.Name) or "/api" in self.scope.text(node.args[0]):
                self._url(self._keyword(node, "method") or ("POST" if self._has_data(node) else "GET"), node)
        elif last == "request" and len(node.args) > 1:
            self._url(self.scope.text(node.args[0]), node, 1)
        elif last in _METHODS and node.args and isinstance(node.func, ast.Attribute):
            if self._url(last.upper(), node):
                self.uses_requests = True
        elif last in _STARTERS and node.args and re.match(r"(subprocess|os)\b|run$|check_", name):
            self._program(last, node)
        elif not self._handed_url(node):
            self._client(last, node)
        self.generic_visit(node)

    def _handed_url(self, node: ast.Call) -> bool:
        """A function that is handed a method and a URL: ``call("DELETE", f"{API}/apis/...")``."""
        texts = [self.scope.text(arg) for arg in node.args]
        method = next((text for text in texts if text.upper() in _HTTP and text.isupper()), "")
        index = next((i for i, text in enumerate(texts) if re.search(r"/apis?/", text)), None)
        if not method or index is None:
            return False
        if isinstance(node.func, ast.Name) and node.func.id in self.scope.functions:
            self._called.add(node.func.id)
        return self._url(method, node, index)

    def _keyword(self, node: ast.Call, name: str) -> str:
        return next((self.scope.text(k.value) for k in node.keywords if k.arg == name), "")

    def _has_data(self, node: ast.Call) -> bool:
        return any(k.arg == "data" for k in node.keywords) or len(node.args) > 1

    def _body(self, node: ast.Call) -> str:
        """Everything that is passed, as it is written, names replaced by what they were assigned."""
        parts = [*node.args, *(k.value for k in node.keywords)]
        names = [n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)]
        return " ".join([self.scope.written(part) for part in parts] + [self.scope.bodies.get(n, "") for n in names])

    def _literal(self, node: ast.Call) -> str:
        """What is passed as a request's body, as JSON; empty: it is not known in full, or it is none."""
        parts = [*node.args, *(k.value for k in node.keywords if k.arg != "headers")]
        texts = [self.scope.written(part) for part in parts]
        names = [n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)]
        for text in [*texts, *(self.scope.bodies[name] for name in names if name in self.scope.bodies)]:
            said = _said(text)
            if said:
                return said
        return ""

    def _url(self, method: str, node: ast.Call, index: int = 0) -> bool:
        url = self.scope.text(node.args[index])
        call = call_of_url(method, url, self._body(node))
        if call is not None and (UNKNOWN not in method):
            self.found.calls.append(replace(call, patch=self._literal(node)) if call.body else call)
        elif "http" in url:
            self.found.not_understood.append(f"line {node.lineno}: {method} {url.replace(UNKNOWN, '...')}")
        return call is not None

    def _program(self, how: str, node: ast.Call) -> None:
        argument = node.args[0]
        value = self.scope.value(argument)
        if isinstance(value, tuple):
            words = tuple(item if isinstance(item, str) else UNKNOWN for item in value)
        else:
            words = ("sh", "-c", self.scope.text(argument))
        self.found.programs.append(Program(words, node.lineno, self._unchecked(how, node)))

    def _unchecked(self, how: str, node: ast.Call) -> str | None:
        """Why a failure of the program goes unnoticed."""
        checks = any(k.arg == "check" and isinstance(k.value, ast.Constant) and k.value.value for k in node.keywords)
        if checks or how in ("check_call", "check_output") or self.looks_at_codes:
            return None
        if how == "run":
            return "subprocess.run without check=True"
        return f"nobody looks at what {how}() returns" if node is self._bare or how in ("popen", "getoutput") else None

    # -- the kubernetes package ------------------------------------------------------------------------------
    def _client(self, method: str, node: ast.Call) -> None:
        """A method of the ``kubernetes`` client: ``patch_namespaced_deployment_scale(name, namespace, body)``."""
        match = _CLIENT_METHOD.match(method)
        if not match:
            return
        if match["kind"].endswith("custom_object"):
            self._custom_object(match, node)
            return
        resource = _by_snake().get(match["kind"])
        if resource is None or match["verb"] == "get":
            return
        listing = match["verb"] in ("list", "create", "delete_collection")
        args = [self.scope.text(arg) for arg in node.args]
        name = self._keyword(node, "name") or ("" if listing or not args else args[0])
        at = 0 if listing else 1
        namespaced = resource.namespaced and not match["all"]
        namespace = self._keyword(node, "namespace") or (args[at] if len(args) > at and namespaced else "")
        self._add(match, node, (resource.group, resource.plural, name, namespace))

    def _custom_object(self, match: re.Match[str], node: ast.Call) -> None:
        """Arguments as CustomObjectsApi (kubernetes 36) has them: group, version, namespace, plural, name, body."""
        namespaced = match["at"] == "namespaced_"
        order = ["group", "version", *(["namespace"] if namespaced else []), "plural"]
        order += [] if match["verb"] in ("list", "create") else ["name"]
        args = dict(zip(order, [self.scope.text(arg) for arg in node.args], strict=False))
        args |= {k.arg: self.scope.text(k.value) for k in node.keywords if k.arg in (*order, "resource_plural")}
        plural = args.get("plural") or args.get("resource_plural", "")
        self._add(match, node, (args.get("group", ""), plural, args.get("name", ""), args.get("namespace", "")))

    def _add(self, match: re.Match[str], node: ast.Call, what: tuple[str, str, str, str]) -> None:
        group, plural, name, namespace = what
        if not _known(plural):
            self.found.not_understood.append(f"line {node.lineno}: {match[0]} of a resource that is not known here")
            return
        writes = match["verb"] in ("patch", "replace")
        body = self._body(node)
        self.found.calls.append(
            ApiCall(
                _CLIENT_VERBS[match["verb"]],
                _known(group),
                plural,
                match["sub"] or "",
                _known(name),
                _known(namespace),
                replicas_in(body) if writes else None,
                _known(self._keyword(node, "label_selector")),
                bool(name),
                body if writes else "",
                bool(match["all"]) or match["at"] == "cluster_",
                patch=self._literal(node) if writes else "",
            )
        )


def client_method(name: str) -> tuple[str, str] | None:
    """(verb, plural) of a method of the ``kubernetes`` client, ``custom_object`` of custom ones; None: it is none."""
    match = _CLIENT_METHOD.fullmatch(name)
    if match is None:
        return None
    kind = match["kind"]
    if kind in ("custom_object", "custom_object_scale"):
        return _CLIENT_VERBS[match["verb"]], "custom_object"
    known = _by_snake().get(kind)
    if known is None:
        return None
    if match["sub"] in ("eviction", "scale") or match["sub"] is None:
        return _CLIENT_VERBS[match["verb"]], known.plural
    return _CLIENT_VERBS[match["verb"]], f"{known.plural}/{match['sub']}" if match["sub"] != "status" else known.plural


def _said(text: str) -> str:
    """The first literal of an expression that can be a patch, as JSON; empty: there is none."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return ""
    for node in ast.walk(tree):
        try:
            said = ast.literal_eval(node) if isinstance(node, (ast.Dict, ast.List, ast.Constant)) else None
            said = from_text(said) if isinstance(said, str) and said[:1] in ("{", "[") else said
            if _is_patch(said):
                return json.dumps(said)
        except (ValueError, TypeError, RecursionError):
            continue
    return ""


def _is_patch(said: object) -> bool:
    """Whether it has the shape of operations of a JSON patch, or of a part of an object."""
    if isinstance(said, list):
        return bool(said) and all(isinstance(one, dict) and {"op", "path"} <= one.keys() for one in said)
    return isinstance(said, dict) and bool(said.keys() & {"spec", "metadata", "data", "status"})


def _known(text: str) -> str:
    return "" if UNKNOWN in text else text
