"""The calls and fields of Python programs whose result is made of what they are given, and those that act.

Whatever is not listed here makes its result unknown. What may *not* live here: how a program is walked.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from killcheck.executor import python_calls, shell_acts
from killcheck.executor.api_calls import ApiCall, HttpCommand
from killcheck.executor.python_shape import MUTATORS
from killcheck.executor.resting import (
    KNOWN,
    WRITTEN_THERE,
    Ground,
    Kind,
    Source,
    Unreadable,
    Value,
    clocked,
    fields_read,
    joined,
    known,
    lasts_long,
    unknown,
)
from killcheck.executor.shell_script import UNKNOWN
from killcheck.kube import resources
from killcheck.text.values import replace

__all__ = [
    "DECORATORS",
    "KNOWN_ATTRIBUTES",
    "Call",
    "called",
    "concatenated",
    "formatted",
    "is_written",
    "of_module",
    "part",
    "sliced",
]

DECORATORS = frozenset(
    {"lru_cache", "cache", "staticmethod", "classmethod", "property", "dataclass", "contextmanager", "wraps"}
)
KNOWN_ATTRIBUTES = frozenset(
    {"sys.argv", "os.environ", "os.sep", "sys.stdout", "sys.stderr", "__name__", "sys.version"}
)
#: Builtins whose result is made of what they are given.
_PURE = frozenset(
    """
    abs all any ascii bin bool bytes bytearray callable chr complex dict divmod enumerate filter float format
    frozenset getattr hasattr int isinstance issubclass iter len list map max min next object ord pow print property
    range repr reversed round set slice sorted str sum super tuple type vars zip Exception RuntimeError ValueError
    KeyError SystemError OSError TimeoutError ConnectionError
    """.split()
)
#: Modules whose functions make their result of what they are given.
_PURE_MODULES = frozenset(
    """
    json re math string itertools functools operator collections dataclasses typing base64 textwrap shlex urllib.parse
    copy enum decimal fractions statistics ipaddress hashlib hmac struct logging warnings argparse ssl contextlib
    calendar zoneinfo yaml types traceback signal pprint fnmatch bisect heapq html abc atexit asyncio
    concurrent.futures threading queue kubernetes.config kubernetes.client kubernetes os.path.join os.path.basename
    os.path.dirname os.path.splitext os.path.expanduser os.path.normpath os.path.abspath pathlib requests.adapters
    urllib3 datetime.timedelta datetime.timezone datetime.datetime.fromisoformat datetime.datetime.strptime
    datetime.datetime.combine datetime.datetime datetime.date datetime.time datetime.date.fromisoformat dateutil pytz
    requests.exceptions requests.Session httpx.Client httpx.AsyncClient httpx.HTTPTransport urllib.error
    urllib.request.Request urllib.request.HTTPSHandler urllib.request.build_opener http.client.HTTPSConnection
    http.client.HTTPConnection kubernetes_asyncio sys.stdout sys.stderr structlog tenacity shutil.which os.makedirs
    os.remove os.unlink subprocess.CompletedProcess subprocess.CalledProcessError time.tzset
    urllib.request.install_opener boto3.client boto3.resource boto3.Session boto3.session botocore.config
    """.split()
)
#: Methods of texts, lists, mappings, answers and paths whose result is made of these and of what they are given.
_METHODS = frozenset(
    """
    strip lstrip rstrip split rsplit splitlines join lower upper title casefold format format_map startswith endswith
    replace removeprefix removesuffix find rfind index count isdigit isalpha isalnum isnumeric encode decode zfill
    ljust rjust center partition rpartition items keys values get copy pop setdefault update append extend add insert
    remove discard clear sort reverse union intersection difference issubset issuperset json text read readlines
    readline read_text read_bytes getvalue raise_for_status close flush write write_text to_dict info debug warning
    error exception critical log setLevel add_argument parse_args parse_known_args mount start result submit map
    shutdown communicate match search fullmatch group groups groupdict findall finditer sub most_common appendleft
    popleft isoformat timetuple astimezone utctimetuple total_seconds combine resolve exists is_file mkdir unlink
    open as_posix joinpath with_suffix hexdigest digest put task_done cancel set wait_for run_until_complete
    getheader getresponse connect load_verify_locations add_header set_default_verify_paths release acquire
    load_cert_chain basicConfig addHandler
    """.split()
)
#: Parts of a moment, as letters of date(1).
_MOMENTS = {
    "hour": "H",
    "minute": "M",
    "day": "d",
    "month": "m",
    "year": "Y",
    "weekday": "u",
    "isoweekday": "u",
    "isocalendar": "V",
    "week": "V",
    "tm_hour": "H",
    "tm_min": "M",
    "tm_mday": "d",
    "tm_mon": "m",
    "tm_year": "Y",
    "tm_wday": "u",
    "tm_yday": "j",
    "date": "F",
    "timestamp": "s",
    "toordinal": "s",
}
_NOW = frozenset(
    """
    datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today datetime.now
    time.localtime time.gmtime datetime.utcnow date.today datetime.today
    """.split()
)
_SECONDS = frozenset({"time.time", "time.monotonic", "time.perf_counter"})
#: What a whole moment is: its parts are chosen of it.
_WHOLE = "*"
#: Calls of clouds' clients that say as whom a program acts: they succeed each night as long as they may.
_SIGNS_IN = frozenset({"get_caller_identity", "assume_role", "assume_role_with_web_identity", "get_session_token"})
_CHANCES = ("random.", "secrets.", "uuid.", "os.urandom", "os.getpid", "numpy.random", "hash", "id", "time.time_ns")
_NAMES = ("socket.", "platform.", "os.uname")
_LEAVES = frozenset(
    """
    apiVersion api_version kind name namespace replicas active suspend parallelism completions paused image value key
    command args minReplicaCount maxReplicaCount minReplicas maxReplicas min_replicas max_replicas groupName size
    schedule timeZone serviceAccountName priorityClassName schedulerName runtimeClassName effect operator labels
    annotations limits requests data stringData matchLabels match_labels nodeSelector node_selector status_code
    returncode ok
    """.split()
)
#: Methods after which it is still an object, or the text that one was made of.
_KEEPS = MUTATORS | frozenset(
    """
    get items keys values copy json to_dict read decode strip rstrip splitlines split text sort readlines result
    communicate write raise_for_status getresponse getvalue reverse union to_list
    """.split()
)
#: Methods of a moment that leave its digits alone.
_OF_A_MOMENT = frozenset(
    """
    isoformat strftime timetuple astimezone replace date time startswith split partition ctime total_seconds combine
    append add info debug warning error format write
    """.split()
)
#: What an answer or a process says of its own success, and what is in it.
_ANSWERED = frozenset(
    """
    status_code returncode ok reason stdout stderr text content body headers json read output code msg args __name__
    __class__ data url message result value lower
    """.split()
)
#: Modules that ask an API: their calls are looked at, and their names are none.
_ASKING = frozenset({"requests", "httpx", "kubernetes", "kubernetes_asyncio", "urllib3", "aiohttp", "yaml"})
_HTTP = frozenset({"get", "post", "put", "patch", "delete", "head", "request"})
_STARTS = frozenset(
    """
    subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen os.system os.popen
    subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_exec asyncio.create_subprocess_shell
    os.execvp os.execv
    """.split()
)
#: Kinds that turn nothing off.
_ASIDE = frozenset({"events", "configmaps", "leases", "secrets"})
_ENDS = frozenset({"sys.exit", "exit", "quit", "os._exit", "SystemExit"})


def of_module(full: str) -> Value:
    """A name of a module: of others than Python's own it may be anything."""
    first = full.partition(".")[0]
    if first in sys.stdlib_module_names or any(
        full.startswith(one) or one.startswith(f"{full}.") for one in _PURE_MODULES
    ):
        return known(None)
    if first in _ASKING:
        return known(None)
    return unknown(Kind.PROGRAM, f"what {full} says", first)


def is_written(name: str) -> bool:
    """Whether a key is one that somebody writes into an object."""
    return name in _LEAVES or "/" in name


def concatenated(values: Sequence[Value]) -> Value:
    """Texts one after the other."""
    if len(values) == 1:
        return values[0]
    text = "".join(UNKNOWN if value.text is None else value.text for value in values)
    return replace(joined(values), text=text)


def formatted(left: Value, right: Value) -> Value:
    """``"..." % values``."""
    text = None if left.text is None else re.sub(r"%[sd]", UNKNOWN, left.text)
    return replace(left | right, text=text)


def part(value: Value, name: str) -> Value:
    """An attribute, or what lies under a key."""
    if _WHOLE in value.clock:
        return _of_moment(value, name)
    if "s" in value.clock and (name == UNKNOWN or name.lstrip("-").isdigit()):
        return value.rests.doubted(Source(Kind.CHANCE, "the digits of a moment", "["))
    if name.startswith(WRITTEN_THERE):
        return value.exists.doubted(Source(Kind.COUNTS, f"{name}, which controllers write", name))
    if not value.raw:
        return replace(value, text=None, table=value.table if value.table[:1] == ("request",) else ())
    if name in _ANSWERED or name.lstrip("-").isdigit():
        return replace(value, text=None) if name not in ("status_code", "returncode", "ok", "code") else value.exists
    if UNKNOWN in name:
        return replace(value, text=None)
    checked = fields_read(value, [name, "replicas"] if name == "status" else [name], name)
    own = name in ("replicas", "active")
    if name in _LEAVES or "/" in name or "." in name or checked.unknown != value.unknown:
        return replace(checked, own=value.own or own)
    return replace(value, text=None)


def _of_moment(value: Value, name: str) -> Value:
    letter = _MOMENTS.get(name)
    plain = replace(value, clock=value.clock - {_WHOLE}, text=None)
    if letter is not None:
        return replace(plain, clock=plain.clock | {letter})
    if name in (
        "replace",
        "astimezone",
        "isoformat",
        "timetuple",
        "date",
        "time",
        "strftime",
        "ctime",
        "tzinfo",
        "utcoffset",
    ):
        return replace(value, text=None)
    if name.lstrip("-").isdigit():  # time.localtime()[6], isocalendar()[1]
        return replace(plain, clock=plain.clock | {"u"})
    return plain.doubted(Source(Kind.CHANCE, f"the {name} of a moment", name))


def sliced(value: Value, piece: ast.Slice) -> Value:
    """A part of a text or a list."""
    if value.clock & {_WHOLE, "s"}:
        upper = piece.upper.value if isinstance(piece.upper, ast.Constant) else None
        if not isinstance(upper, int) or upper < 0 or upper > 19 or "s" in value.clock:
            return value.doubted(Source(Kind.CHANCE, "the digits of a moment", "["))
        return replace(value, clock=frozenset("F"), text=None)
    return replace(value, text=None)


class Program(Protocol):
    """The walk through a program: see :class:`~killcheck.executor.python_guards.Program`."""

    ground: Ground
    names: dict[str, Value]
    environment: dict[str, Value]
    stdin: Value
    out: Value

    def value(self, node: ast.expr | None) -> Value:
        """What an expression rests on."""

    def listed(self, node: ast.expr) -> list[Value] | None:
        """The elements of a list that is written out."""

    def resolved(self, node: ast.AST) -> str:
        """A dotted name with what was imported under its first word."""

    def bind(self, target: ast.expr, value: Value, items: list[Value] | None) -> None:
        """An assignment."""

    def variable(self, name: str, default: Value = KNOWN) -> Value:
        """A variable of the environment."""

    def text(self, value: Value) -> Value:
        """``exec`` and ``eval`` of a text."""


class Call(Struct, frozen=True):
    """A call: its full name, what it is of, its arguments, and all that they rest on."""

    node: ast.Call
    full: str
    owner: Value
    given: Sequence[Value]
    named: Mapping[str, Value]
    rests: Value

    @property
    def last(self) -> str:
        """The last part of its name."""
        return self.node.func.attr if isinstance(self.node.func, ast.Attribute) else self.full.rpartition(".")[2]

    def argument(self, name: str, at: int) -> Value | None:
        """An argument by its name, or by its place."""
        return self.named.get(name, self.given[at] if 0 <= at < len(self.given) else None)


def called(program: Program, call: Call) -> Value:
    """What a call that is not of the program's own functions comes to; what it changes is noted."""
    ground, node, full, last, owner = program.ground, call.node, call.full, call.last, call.owner
    given, named, rests = call.given, call.named, call.rests
    if full in _ENDS:
        ground.end(ground.here() | rests)
        return KNOWN
    if full in ("exec", "eval"):
        return program.text(given[0]) if given else KNOWN
    if full == "input":
        return program.stdin
    if full in _STARTS:
        return _started(program, call)
    if full in _NOW:
        return Value(clock=frozenset(_WHOLE))
    if full in _SECONDS:
        return Value(clock=frozenset("s"))
    if (last == "strftime" and full.startswith(("time.", "datetime."))) or (last == "strftime" and owner.clock):
        form = given[0].text if given else ""
        return clocked(form) if form is not None else unknown(Kind.CHANCE, "a moment", "strftime")
    if full in ("time.sleep", "asyncio.sleep"):
        waits = frozenset(one for one in rests.unknown if one.kind not in (Kind.CHANCE, Kind.POD))
        if waits or rests.raw or rests.listed:
            ground.end(ground.here() | replace(rests, unknown=waits))
        if given and lasts_long([given[0].text or ""]):
            ground.stalled |= ground.here().rests
        return KNOWN
    if full in ("os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop"):
        default = given[1] if len(given) > 1 else named.get("default", KNOWN)
        return program.variable(given[0].text or UNKNOWN if given else UNKNOWN, default)
    read = _read_file(program, call)
    if read is not None:
        return read
    asked = _asked(program, call)
    if asked is not None:
        return asked
    if full in _PURE or any(full == one or full.startswith(f"{one}.") for one in _PURE_MODULES):
        return _pure(program, full, last, given, rests)
    if isinstance(node.func, ast.Attribute) and (last in _METHODS or (owner.clock and last in _MOMENTS)):
        return _method(program, call)
    if owner.clock and _WHOLE in owner.clock:
        return part(owner, last) | rests.rests
    return _strange(program, full or last, owner | rests)


def _strange(program: Program, name: str, rests: Value) -> Value:
    if name.rpartition(".")[2] in _SIGNS_IN:
        return KNOWN.rests
    kind = Kind.CHANCE if name.startswith(_CHANCES) else Kind.POD if name.startswith(_NAMES) else Kind.PROGRAM
    value = rests.rests | unknown(kind, f"what {name}() says", name.rpartition(".")[2])
    if kind is Kind.PROGRAM:
        program.ground.raised |= program.ground.here() | value
    return value


def _pure(program: Program, full: str, last: str, given: Sequence[Value], rests: Value) -> Value:
    if full in ("print", "sys.stdout.write"):
        program.out |= rests.rests | program.ground.here()
    if full in ("len", "bool", "isinstance", "any", "all", "enumerate", "hasattr"):
        counted = replace(rests.exists, own=rests.own or (full == "len" and bool(rests.listed)))
        return counted if full in ("len", "bool", "hasattr", "isinstance") else rests.rests
    if full in ("str", "json.dumps", "repr", "format") and given and given[0].raw:
        return given[0].settled
    if full in ("str", "os.path.expanduser", "pathlib.Path", "os.fspath") and given:
        return given[0]
    if full == "os.path.join":
        return concatenated([one for value in given for one in (known("/"), value)][1:])
    if full == "getattr" and len(given) > 1:
        return part(given[0], given[1].text or UNKNOWN) | joined(given[2:])
    if last == "Request":
        return rests.rests
    return replace(rests, text=None)


def _method(program: Program, call: Call) -> Value:
    node, last, owner, given, rests = call.node, call.last, call.owner, call.given, call.rests
    assert isinstance(node.func, ast.Attribute)
    if owner.raw and last not in _KEEPS:
        owner = owner.settled
    if _WHOLE in owner.clock and last not in _OF_A_MOMENT and last not in _MOMENTS:
        owner = owner.doubted(Source(Kind.CHANCE, "the digits of a moment", last))
    if last in MUTATORS:
        name = node.func.value
        if isinstance(name, ast.Name | ast.Attribute):
            program.bind(name, replace(owner | rests, text=None), None)
    if last == "clear" and isinstance(node.func.value, ast.Name | ast.Attribute):
        program.bind(node.func.value, KNOWN.rests, None)
    if last == "write" and owner.text and owner.text.startswith("/"):
        program.ground.note(f"file {owner.text}", rests)
        program.names[f"file {owner.text}"] = rests.rests | program.ground.here()
    if last == "get" and given:
        return part(owner, given[0].text if given[0].text is not None else UNKNOWN) | joined(given[1:]) | given[0].rests
    if owner.clock and last in _MOMENTS:
        return part(owner, last) if _WHOLE in owner.clock else owner.rests
    if last in ("strip", "lower", "rstrip", "lstrip", "upper") and owner.text is not None and not given:
        return replace(owner, text=getattr(owner.text, last)())
    if last == "format" and owner.text is not None:
        return replace(owner | rests, text=re.sub(r"\{\w*\}", UNKNOWN, owner.text))
    if last in ("encode", "decode"):
        return owner
    return replace(owner | rests, text=None)


def _read_file(program: Program, call: Call) -> Value | None:
    """What a file says, or that it is there."""
    full, last, owner, given = call.full, call.last, call.owner, call.given
    if full in (
        "open",
        "io.open",
        "os.path.exists",
        "os.path.isfile",
        "os.stat",
        "os.listdir",
        "os.path.getmtime",
        "os.path.isdir",
    ) or (full.startswith("os.path.") and full not in _PURE_MODULES):
        path = given[0] if given else KNOWN
    elif last in ("read_text", "read_bytes", "exists", "is_file", "open", "stat") and not given[:1]:
        path = owner
    else:
        return None
    if path.text and f"file {path.text}" in program.names:
        return program.names[f"file {path.text}"]
    mode = given[1].text if len(given) > 1 and full == "open" else ""
    if mode and set(mode) & set("wax"):
        return replace(path, text=path.text)
    shell = program.ground.languages.shell(program.ground)
    return replace(shell.file(path), raw=frozenset())


def _started(program: Program, call: Call) -> Value:
    """Another program that is started."""
    node, full, given, named = call.node, call.full, call.given, call.named
    ground = program.ground
    shell = ground.languages.shell(ground)
    shell.variables = dict(program.environment)
    stdin = named.get("input", KNOWN)
    first = node.args[0] if node.args else None
    ended = ground.ended
    words = program.listed(first) if first is not None else None
    as_text = full in ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput") or (
        named.get("shell", KNOWN).text == "True"
    )
    if full.startswith("os.exec"):
        words = program.listed(node.args[1]) if len(node.args) > 1 else None
    if isinstance(first, ast.Call) and program.resolved(first.func) == "shlex.split" and first.args:
        as_text, words = True, None
        given = [program.value(first.args[0])]
    if isinstance(first, ast.List | ast.Tuple) and words is None:
        words = [program.value(one) for one in first.elts]
    if full.startswith("asyncio") and words is None:
        words = list(given)
    if isinstance(first, ast.BinOp) and words is None:
        words = _added(program, first)
    if as_text:
        text = given[0].text if given else ""
        if text is None:
            raise Unreadable("a command that is only known when it runs")
        if UNKNOWN in text:
            status, out = shell.command([replace(given[0], text=word) for word in text.split()], stdin, text[:60])
        else:
            status = shell.script(text)
            out = status
    else:
        if not words:
            raise Unreadable("a command that is only known when it runs")
        shown = " ".join(word.text or "..." for word in words)
        status, out = shell.command(words, stdin, shown.replace(UNKNOWN, "..."))
    ground.ended = ended
    if full.startswith("subprocess.check_") or named.get("check", KNOWN).text == "True":
        ground.raised |= ground.here() | status.exists
    return replace(out | status.exists, text=None, table=out.table)


def _added(program: Program, node: ast.BinOp) -> list[Value] | None:
    """``["kubectl"] + words``."""
    found: list[Value] = []
    for side in (node.left, node.right):
        words = _added(program, side) if isinstance(side, ast.BinOp) else program.listed(side)
        found += words if words is not None else [program.value(side).rests]
    return found


# -- requests ------------------------------------------------------------------------------------------------------
def _asked(program: Program, call: Call) -> Value | None:
    """A request to an API: by the client of Kubernetes, or to a URL; None: it is none."""
    given, full, last, rests = call.given, call.full, call.last, call.rests | call.owner
    shown = ast.unparse(call.node)[:60]
    if last == "Request" and (given or "url" in call.named):
        return _prepared(call, rests)
    made = bool(given) and given[0].table[:1] == ("request",)
    if last in ("urlopen", "open") and given and (full.endswith("urlopen") or made):
        _, method, url, body = given[0].table if made else ("", "GET", given[0].text or UNKNOWN, "")
        return _url(program, HttpCommand(method, url, body, fails=True), rests, shown)
    if last in _HTTP and given and isinstance(call.node.func, ast.Attribute):
        url = (call.argument("url", 1 if last == "request" else 0) or KNOWN).text or UNKNOWN
        if full.startswith(("requests.", "httpx.")) or re.search(rf"://|^/apis?/|^{UNKNOWN}*/", url):
            method = ((given[0].text or UNKNOWN) if last == "request" else last).upper()
            bodies = [call.named[key].text or "" for key in ("json", "data", "content", "body") if key in call.named]
            return _url(program, HttpCommand(method, url, "".join(bodies), fails=True), rests, shown)
    match = python_calls.client_method(last)
    return None if match is None else _client(program, call, match, shown)


def _prepared(call: Call, rests: Value) -> Value:
    """``Request(url, data, method=...)``, which is sent later."""
    url, data = call.argument("url", 0), call.argument("data", 1)
    method = call.named["method"].text if "method" in call.named else "POST" if data is not None else "GET"
    told = (url.text if url is not None else None) or UNKNOWN, (data.text if data is not None else None) or ""
    return replace(rests, text=None, table=("request", method or UNKNOWN, *told))


def _client(program: Program, call: Call, match: tuple[str, str], shown: str) -> Value:
    """A method of the ``kubernetes`` client."""
    ground, rests = program.ground, call.rests | call.owner
    verb, plural = match
    custom = plural == "custom_object"
    group = ((call.argument("group", 0) or KNOWN).text or "") if custom else ""
    if custom:
        plural = (call.argument("plural", 3 if "namespaced" in call.last else 2) or KNOWN).text or ""
    if verb not in ("get", "list"):
        tests = re.search(r"[\"']op[\"']\s*:\s*[\"']test", ast.unparse(call.node)) or "resource_version" in call.named
        rests = rests.doubted(Source(Kind.LOOKS, "a test in its patch", "test")) if tests else rests
        ground.act(shown, replace(rests, raw=frozenset()), aside=plural in _ASIDE)
        ground.keep(f"{plural}/{(call.argument('name', 0) or KNOWN).text or ''}", rests)
        return KNOWN.rests
    last = len(call.given) - 1
    name = (call.argument("name", last if custom else 0) or KNOWN).text or "" if verb == "get" else ""
    space = (call.argument("namespace", 2 if custom else last) or KNOWN).text or ""
    selector = call.named.get("label_selector", KNOWN).text or ""
    if "field_selector" in call.named and not (call.named["field_selector"].text or "").startswith("metadata."):
        rests = rests.doubted(Source(Kind.LOOKS, "which it selects by a field", "field_selector"))
    name, space = ("" if UNKNOWN in text else text for text in (name, space))
    asked = ApiCall(verb, group or _group_of(plural), plural, name=name, namespace=space, selector=selector)
    raw = Source(Kind.LOOKS, f"all that {plural} say", shown[:40])
    return replace(shell_acts.read_call(ground, asked, shown[:40]) | rests, raw=frozenset({raw}), text=None)


def _group_of(plural: str) -> str:
    """The group of a built-in kind."""
    return next((one.group for one in resources.built_in() if one.plural == plural), "")


def _url(program: Program, request: HttpCommand, rests: Value, shown: str) -> Value:
    """A request to a URL; what is no API of this cluster's may fail."""
    ground = program.ground
    if UNKNOWN in request.method:
        raise Unreadable("a request whose method is only known when it runs")
    status, out = shell_acts.made_call(ground, request, replace(rests, raw=frozenset(), table=()), shown)
    if status.unknown - rests.unknown:
        ground.raised |= ground.here() | status
    return replace(out, text=None)
