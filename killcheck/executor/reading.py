"""What an executor does, read off its pod template: its API calls, the programs it needs, how it hides failure.

Nothing is run. Shell, kubectl, curl, wget and Python are understood, in the manifest itself or in a mounted ConfigMap;
what is not is listed as not understood: an executor that touches a target by means we cannot read is still one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from posixpath import basename, join, normpath
from typing import NamedTuple, TypeVar

from msgspec import Struct, field

from killcheck.executor import kubectl_calls, python_calls, shell_script
from killcheck.executor.api_calls import ApiCall, HttpCommand, call_of_url, curl, wget
from killcheck.executor.false_green import FalseGreen
from killcheck.executor.shell_exits import ends_as_success, ends_in_failure, least_wait
from killcheck.executor.shell_refusals import goes_on, made, refused
from killcheck.executor.shell_script import UNKNOWN, Command, ShellSyntaxError
from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["ApiCall", "ConfigMaps", "Given", "Reading", "containers_of", "read"]

#: ConfigMaps by (namespace, name).
ConfigMaps = Mapping[tuple[str, str], Obj]

_T = TypeVar("_T")
#: What makes a failure heard that is swallowed.
_FAILING = "Give curl -f (better: -fsS --retry 5): it then fails on 401, 403 and 404."
_LET_THROUGH = "Take the '|| ...' away, or let what follows end in exit 1."
_NOT_PIPED = "Set 'set -o pipefail' (bash), or do not pipe the command on."
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh", "busybox"})
_PYTHONS = lazy_re.compile(r"python(\d(\.\d+)?)?|pypy3?|uv")
#: Words of the shell itself: no program is needed for them.
_BUILTINS = frozenset(
    """
    : . [ [[ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo
    enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf
    pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit
    umask unalias unset wait
""".split()
)
#: Programs that act on something outside Kubernetes.
_CLOUD = frozenset({"aws", "gcloud", "az", "eksctl", "doctl", "oci", "terraform", "tofu", "pulumi", "systemctl", "ssh"})
#: Programs that act on Kubernetes in ways that are not read here.
_OPAQUE = frozenset({"kustomize", "argocd", "flux", "kubeadm", "oc", "k9s", "stern", "keda"})
#: Of helm's commands those that change releases.
_OF_RELEASES = frozenset({"install", "upgrade", "rollback", "uninstall", "delete", "del", "un"})
#: ...and the others, whose own words may be among those (``helm plugin install``); what leads it to another cluster.
_OF_HELM = _OF_RELEASES | set(
    """
    completion create dependency dep env get help history lint list ls package plugin pull push registry repo search
    show status template test verify version
    """.split()
)
_ELSEWHERE = ("--kubeconfig", "--kube-context", "--kube-apiserver")
#: Commands that ``oc`` has from kubectl, with the same flags; ``oc adm drain`` is ``kubectl drain``.
_OC_AS_KUBECTL = frozenset(
    """
    adm annotate apply autoscale create delete describe edit get label logs patch replace rollout scale set wait
""".split()
)
#: Interpreters of languages that are not read here.
_INTERPRETERS = frozenset({"node", "deno", "bun", "ruby", "perl", "php", "java", "pwsh", "lua", "Rscript", "dotnet"})
#: Programs that, run by themselves, touch nothing of Kubernetes.
_PLAIN = (
    r"sleep|true|false|echo|cat|date|ls|tail|jq|yq|pause|nginx|redis-server|pg_dump(all)?|psql|mysqldump|restic|rclone"
)
#: Where an image has its programs.
_PROGRAMS = ("/bin/", "/usr/", "/sbin/", "/opt/")
#: Programs whose names are nobody's functions.
_COMMON = frozenset("kubectl oc curl wget jq yq python python3 bash aws gcloud az helm envsubst nc dig psql".split())
#: Programs that start the rest of their arguments.
_WRAPPERS = frozenset({"timeout", "env", "nice", "nohup", "time", "exec", "command", "xargs", "sudo", "tini"})
_MAX_DEPTH = 6
#: Scripts that one program comes to, and characters of one with all that it sources: they may call themselves.
_MAX_SCRIPTS = 200
_MAX_TEXT = 2_000_000
#: Commands of one script about which it is asked what becomes of their failure.
_MAX_ASKED = 40
#: What was read of so many pod specs is kept, by a digest of all that it depends on.
_MOST_KNOWN = 512


class Reading(Struct, frozen=True):
    """What is known of an executor.

    ``calls`` are its requests to the Kubernetes API, in order. ``tools``: the programs its image must contain.
    ``outside``: commands that act elsewhere (a cloud CLI). ``not_understood``: what could not be read.
    ``false_green``: how a failure of it ends as success. ``modules``: what its Python imports
    beyond the standard library and the files beside it. ``commands``: the argument vectors of the programs that it
    runs, scripts' own included; a word that is only known at run time holds ``UNKNOWN``. ``waits_s``: seconds that its
    script sleeps at least before it changes anything.
    """

    calls: tuple[ApiCall, ...] = ()
    tools: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    not_understood: tuple[str, ...] = ()
    false_green: tuple[FalseGreen, ...] = ()
    modules: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    waits_s: float = 0.0

    @property
    def writes(self) -> tuple[ApiCall, ...]:
        """The calls that change anything."""
        return tuple(call for call in self.calls if call.writes)


_known: dict[bytes, Reading] = {}


def read(spec: Obj, namespace: str, config_maps: ConfigMaps | None = None) -> Reading:
    """Read a pod spec in ``namespace``; every container of it, init containers first."""
    reader = _Reader(namespace, config_maps or {})
    containers = [*dig(spec, "initContainers", default=[]), *dig(spec, "containers", default=[])]
    given = [reader.given(spec, container) for container in containers]
    # The same programs are read by a drill's every start of them, and by its ledger.
    key = blake2b(repr((namespace, given)).encode("utf-8", "surrogatepass")).digest()
    found = _known.get(key)
    if found is None:
        for one in given:
            reader.container(one)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[key] = reader.reading()
    return found


def containers_of(spec: Obj, namespace: str, config_maps: ConfigMaps) -> list[Given]:
    """What there is to read of each container of a pod spec, with what the kubelet makes of its words."""
    reader = _Reader(namespace, config_maps)
    return [reader.expanded(reader.given(spec, container)) for container in spec.get("containers") or ()]


class Given(NamedTuple):
    """All that one container's reading depends on, but for its namespace."""

    name: str
    image: str
    working_dir: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: dict[str, str]
    files: dict[str, str]


class _Reader(Struct):
    namespace: str
    config_maps: ConfigMaps
    calls: list[ApiCall] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    not_understood: list[str] = field(default_factory=list)
    false_green: list[FalseGreen] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    working_dir: str = ""
    #: A file that is not known was sourced: any word may be a function of it.
    sourced: bool = False
    scripts: int = 0
    waits_s: float = 0.0
    #: What may be no failure that is hidden, if the rest of the script sees it: (it, the command, whether that fails).
    suspects: list[tuple[FalseGreen, Command, bool]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def reading(self) -> Reading:
        """All that was found, each thing once."""

        def once(items: Iterable[_T]) -> tuple[_T, ...]:
            return tuple(dict.fromkeys(items))

        return Reading(
            tuple(dict.fromkeys(_narrowed(self.calls))),
            once(self.tools),
            once(self.outside),
            once(self.not_understood),
            once(self.false_green),
            once(self.modules),
            tuple(dict.fromkeys(self.commands)),
            self.waits_s,
        )

    # -- a container -----------------------------------------------------------------------------------------
    def given(self, spec: Obj, container: Obj) -> Given:
        """What there is to read of one container."""
        return Given(
            str(container.get("name")),
            str(container.get("image")),
            str(container.get("workingDir") or ""),
            tuple(str(word) for word in container.get("command") or ()),
            tuple(str(word) for word in container.get("args") or ()),
            self._environment(container),
            self._files(spec, container),
        )

    def expanded(self, given: Given) -> Given:
        """The same with its variables put into its words; of an image that is known, with its entrypoint."""
        self.environment = dict(given.environment)
        words = tuple(self._kubelet_expanded(word) for word in given.command)
        words = words or tuple(filter(None, (_entrypoint(given.image),)))
        return given._replace(command=words, args=tuple(self._kubelet_expanded(word) for word in given.args))

    def container(self, given: Given) -> None:
        """Read one container: its command, or what is known of its image's own."""
        self.environment, self.files, self.working_dir = dict(given.environment), dict(given.files), given.working_dir
        words = [self._kubelet_expanded(word) for word in given.command]
        arguments = [self._kubelet_expanded(word) for word in given.args]
        if not words:
            entrypoint = _entrypoint(given.image)
            if not entrypoint:
                what = f"container {given.name} runs the entrypoint of its image ({given.image})"
                self.not_understood.append(what)
                return
            words = [entrypoint]
        self.program([*words, *arguments], Command(tuple(words), last=True))

    def _environment(self, container: Obj) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            data = self._config_map(dig(source, "configMapRef", "name"))
            found |= {f"{source.get('prefix', '')}{key}": str(value) for key, value in data.items()}
        for entry in container.get("env") or ():
            value = entry.get("value")
            if value is None:
                value = self._value_from(entry.get("valueFrom") or {})
            if value is not None:
                found[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: found.get(m[1], m[0]), str(value))
        found.setdefault("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        found.setdefault("KUBERNETES_SERVICE_PORT", "443")
        return found

    def _value_from(self, source: Obj) -> str | None:
        if dig(source, "fieldRef", "fieldPath") == "metadata.namespace":
            return self.namespace
        reference = source.get("configMapKeyRef") or {}
        data = self._config_map(reference.get("name"))
        return data.get(reference.get("key", ""))

    def _config_map(self, name: object) -> dict[str, str]:
        found = self.config_maps.get((self.namespace, str(name)))
        return dig(found, "data", default={}) if found else {}

    def _files(self, spec: Obj, container: Obj) -> dict[str, str]:
        """The texts that ConfigMaps put into the container, by path."""
        volumes = {str(volume.get("name")): volume for volume in spec.get("volumes") or ()}
        found = {"/var/run/secrets/kubernetes.io/serviceaccount/namespace": self.namespace}
        for mount in container.get("volumeMounts") or ():
            entries = self._entries(volumes.get(str(mount.get("name")), {}))
            at = str(mount.get("mountPath", ""))
            sub = mount.get("subPath")
            found |= {at: entries[sub]} if sub in entries else {join(at, path): text for path, text in entries.items()}
        return found

    def _entries(self, volume: Obj) -> dict[str, str]:
        sources = [volume, *dig(volume, "projected", "sources", default=[])]
        found: dict[str, str] = {}
        for source in sources:
            config_map = source.get("configMap")
            if not config_map:
                continue
            data = self._config_map(config_map.get("name"))
            items = config_map.get("items")
            paths = {item["key"]: item["path"] for item in items} if items else {key: key for key in data}
            found |= {path: data[key] for key, path in paths.items() if key in data}
        return found

    def _kubelet_expanded(self, word: str) -> str:
        """``$(NAME)`` as the kubelet replaces it in command and args; ``$$(NAME)`` stays."""
        return re.sub(
            r"\$?\$\((\w+)\)", lambda m: m[0][1:] if m[0][1] == "$" else self.environment.get(m[1], m[0]), word
        )

    def _path(self, word: str) -> str:
        """A path as the container's working directory completes it."""
        return normpath(join(self.working_dir, word))

    # -- a program -------------------------------------------------------------------------------------------
    def program(self, words: Sequence[str], command: Command, depth: int = 0) -> None:
        """One program with its arguments, as ``command`` runs it (who sees its exit code)."""
        words = _unwrapped(words, self.tools)
        if not words or depth > _MAX_DEPTH:
            return
        name = basename(words[0])
        path = self._path(words[0]) if "/" in words[0] else words[0]
        if UNKNOWN in words[0]:
            self.not_understood.append("a command whose name is only known when it runs")
        elif name == "eval":
            self.shell(" ".join(words[1:]), False, depth + 1)
        elif name in (".", "source"):
            self.sourced = True  # a line of its own that is known was replaced by what it sources
            self._file(words[1] if len(words) > 1 else "", (), command, depth)
        elif name in _SHELLS:
            self._shell_command(name, words, command, depth)
        elif path in self.files:
            self._file(path, words[1:], command, depth)
        elif _PYTHONS.fullmatch(name):
            self._python_command(name, words, command, depth)
        else:
            self._leaf(name, words, command)

    def _leaf(self, name: str, words: Sequence[str], command: Command) -> None:
        if name not in _BUILTINS:
            own = words[0][0] == "/" and not words[0].startswith(_PROGRAMS)  # a file of the script's own making
            self.tools += [] if own or (self.sourced and name not in _COMMON) else [name]
            self.commands.append(tuple(words))
        if name == "curl":
            self._http(curl(words), command)
        elif name == "wget":
            self._http(wget(words), command)
        elif name == "kubectl" or (name == "oc" and words[1:2] and words[1] in _OC_AS_KUBECTL):
            self._kubectl([words[0], *words[2:]] if words[1:2] == ["adm"] else words, command)
        elif name in _CLOUD:
            self.outside.append(_shown(words))
        elif name == "helm":
            self._helm(words)
        elif name in _OPAQUE or (words[0][0] == "/" and not words[0].startswith(_PROGRAMS)):
            self.not_understood.append(_shown(words))
        elif name in _INTERPRETERS:
            self.not_understood.append(f"{_shown(words)}: a program for {name}, which is not read here")
        elif not re.fullmatch(_PLAIN, name) and name not in _BUILTINS and self._is_main(words, command):
            self.not_understood.append(f"{_shown(words)}: a program that is in the image, not in the manifests")

    def _helm(self, words: Sequence[str]) -> None:
        """It is not read, but that it looks for its releases first (helm.sh pkg/storage/driver/secrets.go)."""
        self.not_understood.append(_shown(words))
        options = r"(?:^|\x00)(?:-n|--namespace)(?:=|\x00)?([^\x00=]+)"
        named = re.search(options, "\0".join(words[1:]))
        first = next((word for word in words[1:] if word in _OF_HELM), None)
        acts = first in _OF_RELEASES and not any(word.startswith(_ELSEWHERE) for word in words)
        if acts and "HELM_DRIVER" not in self.environment and not (named and UNKNOWN in named[1]):
            self.calls.append(ApiCall("list", "", "secrets", namespace=named[1] if named else self.namespace))

    @staticmethod
    def _is_main(words: Sequence[str], command: Command) -> bool:
        """Whether a container runs it by itself, rather than a script among other things."""
        return command.last and tuple(words) == command.words

    def _http(self, requests: Sequence[HttpCommand], command: Command) -> None:
        for request in requests:
            call = call_of_url(request.method, request.url, self._body(request.body))
            if call is None:
                self.not_understood.append(f"{request.method} {request.url.replace(UNKNOWN, '...')}")
                continue
            self.calls.append(call)
            if call.writes and not request.fails and not request.prints_status:
                how = f"curl without -f: a refused request ({call}) is exit code 0, the Job Complete"
                self._suspect(FalseGreen(how, _FAILING), command, fails=False)
            if call.writes:
                self._exit_code(str(call), command)

    def _body(self, body: str) -> str:
        return self.files.get(normpath(body[1:]), "") if body.startswith("@") else body

    def _kubectl(self, words: Sequence[str], command: Command) -> None:
        found = kubectl_calls.read(words, self.namespace, self.files, command.stdin or "")
        if found.unknown:
            self.not_understood.append(found.unknown.replace(UNKNOWN, "..."))
        line = kubectl_calls.command_line(words[1:])
        if line.words[:2] == ["config", "set-context"]:  # what follows is asked in that namespace
            self.namespace = line.flag("n", "namespace") or self.namespace
        if found.empty and line.flag("o", "output") in ("yaml", "json"):
            return  # what is printed is for another command, which is read by itself
        if found.empty:
            self.false_green.append(FalseGreen(f"kubectl {found.empty}", "Take --dry-run away."))
            return
        self.calls += found.calls
        aside = line.words[:1] in (["annotate"], ["label"])
        if any(call.writes for call in found.calls) and not aside:  # marks for people turn nothing off
            self._exit_code(_shown(words[:3]), command)

    def _exit_code(self, what: str, command: Command) -> None:
        """Whether anyone would notice that a command which changes something failed."""
        if command.then == "||":
            ending = " ".join(command.fallback)
            remembered = re.match(r"[A-Za-z_]\w*\+?=", ending)  # and decided later
            if not remembered and not re.match(r"(exit [1-9]|exit$|return [1-9]|false\b|kill\b)", ending):
                how = f"'{what}' is followed by '|| {ending}': its failure is swallowed"
                self._suspect(FalseGreen(how, _LET_THROUGH), command)
        elif command.then == "&":
            self._suspect(FalseGreen(f"'{what}' runs in the background: nobody sees its exit code"), command)
        elif command.then == "|" and not command.pipefail:
            how = f"'{what}' is piped on without pipefail: its exit code is lost"
            self._suspect(FalseGreen(how, _NOT_PIPED), command)
        elif not (command.errexit or command.last or command.tested or command.then == "&&"):
            how = f"no 'set -e', and more runs after '{what}': its failure is ignored"
            self._suspect(FalseGreen(how, "Begin the script with 'set -eu'."), command)

    def _suspect(self, how: FalseGreen, command: Command, *, fails: bool = True) -> None:
        """Hidden, unless the script that runs the command sees to it in another way."""
        if command.origin is None:
            self.false_green.append(how)
        else:
            self.suspects.append((how, command, fails))

    # -- scripts ---------------------------------------------------------------------------------------------
    def shell(
        self,
        text: str,
        errexit: bool,
        depth: int,
        arguments: Sequence[str] = (),
        pipefail: bool = False,
    ) -> None:
        """A shell script's text."""
        self.scripts += 1
        if self.scripts > _MAX_SCRIPTS:
            self.not_understood.append("scripts that call each other without an end")
            return
        positional = {str(i): word for i, word in enumerate(arguments)} | {"@": " ".join(arguments[1:])}
        text = self._with_files(self._with_sources(text))
        try:
            script = shell_script.parse(text, self.environment | positional, errexit=errexit, pipefail=pipefail)
        except (ShellSyntaxError, IndexError) as error:
            self.not_understood.append(f"a shell script that cannot be read: {error}")
            return
        outer, self.suspects = self.suspects, []
        ran: list[tuple[Command, frozenset[ApiCall]]] = []
        for command in script.commands:
            before = len(self.calls)
            self.program(command.words, command, depth + 1)
            ran.append((command, frozenset(call for call in self.calls[before:] if call.writes)))
        origins = [command.origin for command, calls in ran if calls]
        if origins and not any(command.origin is None for command, calls in ran if calls):
            wait_s = least_wait(text, lambda w: any(w is one for one in origins), errexit=errexit, pipefail=pipefail)
            self.waits_s = max(self.waits_s, wait_s)
        self._hidden(text, ran, {"errexit": errexit, "pipefail": pipefail})
        self.suspects = outer

    def _hidden(
        self, text: str, ran: Sequence[tuple[Command, frozenset[ApiCall]]], started: Mapping[str, bool]
    ) -> None:
        """Failures that nobody sees: of the suspects those that the script does not see to, and those that it surely
        lets pass."""
        if len({id(one.origin) for one, calls in ran if calls}) > _MAX_ASKED:
            self.false_green += [how for how, _, _ in self.suspects]
            return
        for how, command, fails in self.suspects:
            if not ends_in_failure(text, refused(command, ran, fails), **started):
                self.false_green.append(how)
        seen = {id(command.origin) for _, command, _ in self.suspects}
        for command, calls in ran:
            if not calls or command.origin is None or id(command.origin) in seen:
                continue
            seen.add(id(command.origin))
            lock = made(command.words)
            if lock and re.search(rf"\bdelete\b.*{re.escape(lock.split()[-1])}", text):
                continue  # a lock: that it is held is no failure
            if ends_as_success(text, refused(command, ran), **started):
                self.false_green.append(goes_on(_shown(command.words[:3]), lock))

    def _with_sources(self, text: str) -> str:
        """Lines that source a file which is known, replaced by it: its functions are used further down."""

        def content(match: re.Match[str]) -> str:
            return self.files.get(self._path(match[1]), match[0])

        for _ in range(_MAX_DEPTH):
            if len(text) > _MAX_TEXT:
                break
            text = re.sub(r"""^[ \t]*(?:\.|source)[ \t]+["']?([\w./-]+)["']?[ \t]*$""", content, text, flags=re.M)
        return text

    def _with_files(self, text: str) -> str:
        """``$(cat FILE)`` of a file that is known (the namespace of the ServiceAccount, a ConfigMap's key)."""

        def content(match: re.Match[str]) -> str:
            found = self.files.get(normpath(match[1]))
            simple = found is not None and re.fullmatch(r"[\w./:@-]*", found.strip())
            return found.strip() if found is not None and simple else match[0]

        return re.sub(r"""\$\((?:cat\s+|<\s*)["']?([\w./-]+)["']?\)""", content, text)

    def _shell_command(self, name: str, words: Sequence[str], command: Command, depth: int) -> None:
        """``sh -c TEXT``, ``bash script.sh``, or a script from a here-document."""
        rest = list(words[1:])
        if name == "busybox" and rest:
            self.program(rest, command, depth + 1)
            self.tools.append("busybox")
            return
        self.tools.append(name)
        errexit = pipefail = False
        while rest and rest[0].startswith(("-", "+")):
            option = rest.pop(0)
            letters = "" if option.startswith("--") else option[1:]
            if "o" in letters and rest:
                named = rest.pop(0)
                errexit, pipefail = errexit or named == "errexit", pipefail or named == "pipefail"
            errexit = errexit or ("e" in letters and option[0] == "-")
            if "c" in letters:
                self.shell(rest[0] if rest else "", errexit, depth + 1, ["sh", *rest[2:]], pipefail)
                return
        if rest:
            self._file(rest[0], rest[1:], command, depth, name)
        elif command.stdin:
            self.shell(command.stdin, errexit, depth + 1)

    def _file(
        self,
        path: str,
        arguments: Sequence[str],
        command: Command,
        depth: int,
        interpreter: str = "",
    ) -> None:
        """A script by its path, if a ConfigMap brings it."""
        text = self.files.get(self._path(path)) if path else None
        if text is None:
            where = path.replace(UNKNOWN, "...")
            self.not_understood.append(f"{where}: a script that is in the image, not in the manifests")
            return
        first = text.partition("\n")[0]
        if "python" in first and not interpreter:
            self.tools.append("python3")
            self._python(text, depth, [path, *arguments])
        else:
            if first.startswith("#!") and not interpreter:
                self.tools.append(basename(first[2:].split()[-1] if "env " in first else first[2:].split()[0]))
            errexit = bool(re.match(r"#!.*\s-\w*e", first))
            self.shell(text, errexit, depth + 1, [path, *arguments])

    def _python_command(self, name: str, words: Sequence[str], command: Command, depth: int) -> None:
        self.tools.append(name)
        rest = [word for word in words[1:] if word not in ("-u", "-B", "-E", "-I", "-s", "-S", "-")]
        if not rest:
            self._python(command.stdin or "", depth)
        elif rest[0] == "-c":
            self._python(rest[1] if len(rest) > 1 else "", depth, ["-c", *rest[2:]])
        elif self._path(rest[0]) in self.files:
            self._python(self.files[self._path(rest[0])], depth, rest)
        else:
            self.not_understood.append(_shown(words) + ": a program that is in the image, not in the manifests")

    def _python(self, text: str, depth: int, arguments: Sequence[str] = ()) -> None:
        found = python_calls.read(text, self.environment, arguments, self.files)
        self.calls += found.calls
        self.not_understood += found.not_understood
        self.false_green += found.false_green
        beside = {basename(path).partition(".")[0] for path in self.files}
        self.modules += [name for name in found.modules if name not in {*sys.stdlib_module_names, *beside, ""}]
        for program in found.programs:
            before = len(self.calls)
            self.program(program.words, Command(program.words, errexit=True), depth + 1)
            if program.unchecked and any(call.writes for call in self.calls[before:]):
                what = _shown(program.words[:3])
                how = f"line {program.line}: {program.unchecked}: the exit code of '{what}' is lost"
                self.false_green.append(FalseGreen(how))


def _narrowed(calls: Sequence[ApiCall]) -> Iterator[ApiCall]:
    """Calls about objects whose names come from a list: they are in that list's namespace, and have its labels."""
    for call in calls:
        lists = [c for c in calls if c.verb == "list" and (c.group, c.resource) == (call.group, call.resource)]
        if not (call.writes and call.named and not call.name and lists):
            yield call
            continue
        for one in lists:
            yield replace(call, namespace=call.namespace or one.namespace, selector=call.selector or one.selector)


def _unwrapped(words: Sequence[str], tools: list[str]) -> list[str]:
    """The command behind ``timeout 30 ...``, ``env A=b ...``, ``exec ...``."""
    rest = list(words)
    while rest and basename(rest[0]) in _WRAPPERS:
        name = basename(rest.pop(0))
        if name not in _BUILTINS:
            tools.append(name)
        while rest and (rest[0].startswith("-") or "=" in rest[0] or re.fullmatch(r"\d+[smh]?", rest[0])):
            rest.pop(0)
    return rest


def _entrypoint(image: str) -> str:
    """The entrypoint of images whose name says what they are; empty where nobody can know."""
    name = basename(image.partition("@")[0]).partition(":")[0]
    return {"kubectl": "kubectl", "curl": "curl"}.get(name, "")


def _shown(words: Sequence[str]) -> str:
    """A command for a message: at most a line, no secrets (values of headers and tokens left out)."""
    text = " ".join("..." if re.search(r"(?i)bearer|token|password|secret", word) else word for word in words)
    text = " ".join(text.replace(UNKNOWN, "...").split())
    return text if len(text) <= 120 else text[:117] + "..."
