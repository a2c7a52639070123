"""What a Python script asks of the Kubernetes API, read off its syntax tree: best effort, and it says what it missed.

Followed: ``urllib``, ``requests``, ``httpx`` and ``http.client`` calls whose URL can be put together from constants and
the environment, methods of the ``kubernetes`` client, and programs that it starts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from killcheck.executor.api_calls import ApiCall, call_of_url, replicas_in
from killcheck.executor.shell_script import UNKNOWN
from killcheck.kube import resources
from killcheck.kube.resources import Resource

__all__ = ["PythonReading", "read"]

_METHODS = frozenset({"get", "post", "put", "patch", "delete", "head"})
_HTTP = frozenset(method.upper() for method in _METHODS)
_CLIENT_METHOD = re.compile(
    r"(?P<verb>create|read|list|patch|replace|delete_collection|delete)_(?:namespaced_)?(?P<kind>\w+?)"
    r"(?:_(?P<sub>scale|status|eviction|log|token))?(?:_for_all_namespaces|_with_http_info)?$",
)
_CLIENT_VERBS = {
    "create": "create", "read": "get", "list": "list", "patch": "patch", "replace": "update", "delete": "delete",
    "delete_collection": "deletecollection",
}
_STARTERS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput"})


@dataclass(slots=True)
class PythonReading:
    """``programs``: commands it starts (argument lists). ``false_green``: how a refused request ends as success."""

    calls: list[ApiCall] = field(default_factory=list)
    programs: list[tuple[str, ...]] = field(default_factory=list)
    not_understood: list[str] = field(default_factory=list)
    false_green: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)


def read(text: str, environment: Mapping[str, str]) -> PythonReading:
    """Read a Python program. What is no Python ends up in ``not_understood``."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return PythonReading(not_understood=[f"not Python: {error.msg} (line {error.lineno})"])
    reader = _Reader(environment)
    reader.visit(tree)
    found = reader.found
    if not found.calls and not found.programs and re.search(r"/apis?/|kubernetes|k8s", text):
        found.not_understood.append("a Python script that speaks of Kubernetes, with no call that could be followed")
    if any(c.writes for c in found.calls) and reader.uses_requests and not _checks_status(text):
        found.false_green.append("requests without raise_for_status(): a 403 is no exception, and the script exits 0")
    if any(c.writes for c in found.calls):
        found.false_green += _swallowed(tree)
    return found


def _checks_status(text: str) -> bool:
    """Whether anything depends on it: to print a status is not to check it."""
    asks = r"\b(if|assert|while|elif|exit|not|and|or|else)\b[^\n]*(status_code|\.ok\b|\.is_success|\.is_error)"
    return "raise_for_status" in text or bool(re.search(asks, text))


def _swallowed(tree: ast.Module) -> list[str]:
    """Handlers that catch everything and go on."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and not _leaves(node):
            found.append(f"line {node.lineno}: every exception is caught and the script goes on to exit 0")
    return found


def _catches_all(handler: ast.ExceptHandler) -> bool:
    names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)} if handler.type else {"BaseException"}
    names |= {n.attr for n in ast.walk(handler.type) if isinstance(n, ast.Attribute)} if handler.type else set()
    return bool(names & {"Exception", "BaseException", "ApiException", "HTTPError", "URLError", "RequestException"})


def _leaves(handler: ast.ExceptHandler) -> bool:
    """Whether it raises again or exits with something that is not zero."""
    for node in ast.walk(handler):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and _name(node.func).rpartition(".")[2] in ("exit", "_exit", "abort"):
            return not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value in (0, None))
    return False


@cache
def _by_snake() -> dict[str, Resource]:
    """Resources by the name that the Python client gives them: ``stateful_set``."""
    known = [value for value in vars(resources).values() if isinstance(value, Resource)]
    return {re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", r.kind).lower(): r for r in known}


def _name(node: ast.AST) -> str:
    """``a.b.c`` of a dotted name; what cannot be named is left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return ""


class _Reader(ast.NodeVisitor):
    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.names: dict[str, str] = {}
        self.bodies: dict[str, str] = {}
        self.found = PythonReading()
        self.uses_requests = False

    # -- names -----------------------------------------------------------------------------------------------
    def visit_Import(self, node: ast.Import) -> None:
        self.found.modules += [alias.name.partition(".")[0] for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found.modules.append((node.module or "").partition(".")[0])

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = self.text(node.value)
                self.bodies[target.id] = ast.unparse(node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        """A loop over a list of constants is walked for each."""
        items = node.iter.elts if isinstance(node.iter, ast.List | ast.Tuple) else []
        if not isinstance(node.target, ast.Name) or not items:
            self.generic_visit(node)
            return
        for item in items[:50]:
            self.names[node.target.id] = self.text(item)
            for statement in node.body:
                self.visit(statement)

    def text(self, node: ast.expr | None) -> str:
        """The text of an expression; UNKNOWN for what only running would tell."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(part) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value)
        if isinstance(node, ast.Name):
            return self.names.get(node.id, UNKNOWN)
        if isinstance(node, ast.BinOp):
            return self._combined(node)
        if isinstance(node, ast.Subscript) and _name(node.value) in ("os.environ", "environ"):
            return self.environment.get(self.text(node.slice), UNKNOWN)
        if isinstance(node, ast.Call):
            return self._called(node)
        return UNKNOWN

    def _combined(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Add):
            return self.text(node.left) + self.text(node.right)
        if isinstance(node.op, ast.Mod):
            parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            values = iter([self.text(part) for part in parts])
            return re.sub(r"%[sd]", lambda _: next(values, UNKNOWN), self.text(node.left))
        return UNKNOWN

    def _called(self, node: ast.Call) -> str:
        name = _name(node.func)
        if name in ("os.getenv", "os.environ.get", "environ.get", "getenv") and node.args:
            default = self.text(node.args[1]) if len(node.args) > 1 else UNKNOWN
            return self.environment.get(self.text(node.args[0]), default)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            values = iter([self.text(arg) for arg in node.args])
            keyed = {k.arg: self.text(k.value) for k in node.keywords if k.arg}
            return re.sub(
                r"\{(\w*)\}", lambda m: keyed.get(m[1], next(values, UNKNOWN)), self.text(node.func.value))
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("strip", "rstrip", "encode", "decode"):
            return self.text(node.func.value)
        return UNKNOWN

    # -- calls -----------------------------------------------------------------------------------------------
    def visit_Call(self, node: ast.Call) -> None:
        name = _name(node.func)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        if last in ("Request", "urlopen") and node.args and not isinstance(node.args[0], ast.Name | ast.Call):
            self._url(self._keyword(node, "method") or ("POST" if self._has(node, "data") else "GET"), node)
        elif last in ("Request", "urlopen") and node.args and isinstance(node.args[0], ast.Name):
            if "/api" in self.names.get(node.args[0].id, ""):
                self._url(self._keyword(node, "method") or ("POST" if self._has(node, "data") else "GET"), node)
        elif last == "request" and len(node.args) > 1:
            self._url(self.text(node.args[0]), node, 1)
        elif last in _METHODS and node.args and isinstance(node.func, ast.Attribute):
            if self._url(last.upper(), node):
                self.uses_requests = True
        elif last in _STARTERS and node.args and re.match(r"(subprocess|os)\b|run$|check_", name):
            self._program(node.args[0])
        elif not self._own_function(node):
            self._client(last, node)
        self.generic_visit(node)

    def _own_function(self, node: ast.Call) -> bool:
        """A function of the script's own that is handed a method and a URL: ``call("DELETE", f"{API}/apis/...")``."""
        texts = [self.text(arg) for arg in node.args]
        method = next((text for text in texts if text.upper() in _HTTP and text.isupper()), "")
        index = next((i for i, text in enumerate(texts) if re.search(r"/apis?/", text)), None)
        if not method or index is None:
            return False
        return self._url(method, node, index)

    def _keyword(self, node: ast.Call, name: str) -> str:
        return next((self.text(k.value) for k in node.keywords if k.arg == name), "")

    def _has(self, node: ast.Call, name: str) -> bool:
        return any(k.arg == name for k in node.keywords) or (name == "data" and len(node.args) > 1)

    def _body(self, node: ast.Call) -> str:
        """Everything that is passed, as it is written, variables replaced by what they were assigned."""
        parts = [*node.args, *(k.value for k in node.keywords)]
        names = [n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)]
        return " ".join([ast.unparse(part) for part in parts] + [self.bodies.get(name, "") for name in names])

    def _url(self, method: str, node: ast.Call, index: int = 0) -> bool:
        url = self.text(node.args[index])
        call = call_of_url(method, url, self._body(node))
        if call is not None and (UNKNOWN not in method):
            self.found.calls.append(call)
        elif "http" in url:
            self.found.not_understood.append(f"line {node.lineno}: {method} {url.replace(UNKNOWN, '...')}")
        return call is not None

    def _program(self, node: ast.expr) -> None:
        if isinstance(node, ast.List | ast.Tuple):
            self.found.programs.append(tuple(self.text(item) for item in node.elts))
        else:
            self.found.programs.append(("sh", "-c", self.text(node)))

    def _client(self, method: str, node: ast.Call) -> None:
        """A method of the ``kubernetes`` client: ``patch_namespaced_deployment_scale(name, namespace, body)``."""
        match = _CLIENT_METHOD.match(method)
        if not match:
            return
        if "custom_object" in match["kind"]:
            self._custom_object(match["verb"], match["sub"] or "", node)
            return
        resource = _by_snake().get(match["kind"])
        if resource is None:
            return
        listing = match["verb"] in ("list", "create", "delete_collection")
        args = [self.text(arg) for arg in node.args]
        name = self._keyword(node, "name") or ("" if listing or not args else args[0])
        at = 0 if listing else 1
        namespace = self._keyword(node, "namespace") or (args[at] if len(args) > at and resource.namespaced else "")
        writes = match["verb"] in ("patch", "replace")
        self.found.calls.append(ApiCall(
            _CLIENT_VERBS[match["verb"]], resource.group, resource.plural, match["sub"] or "", _known(name),
            _known(namespace), replicas_in(self._body(node)) if writes else None))

    def _custom_object(self, verb: str, sub: str, node: ast.Call) -> None:
        order = ("group", "version", "namespace", "plural", "name")
        args = dict(zip(order, [self.text(arg) for arg in node.args], strict=False))
        args |= {k.arg: self.text(k.value) for k in node.keywords if k.arg in order}
        self.found.calls.append(ApiCall(
            _CLIENT_VERBS[verb], _known(args.get("group", "")), _known(args.get("plural", "")), sub,
            _known(args.get("name", "")), _known(args.get("namespace", "")), replicas_in(self._body(node))))


def _known(text: str) -> str:
    return "" if UNKNOWN in text else text
