"""Credentials from a command (kubeconfig's ``exec``): run, and every way in which it can fail told in one sentence.

Not the Python client's ExecProvider: that one has no time-out, lets the command read our standard input, and its
caller logs a failure and goes on without credentials (seen, kubernetes 36).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from killcheck.kube.errors import CredentialsError, KubeConfigError
from killcheck.kube.kubeconfig import Section
from killcheck.kube.objects import Obj, dig, parse_time
from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["ExecPlugin", "Issued"]

#: Wall seconds that a plugin may take: alone, and with a person at the terminal to ask.
ALONE_S = 30.0
ASKED_S = 300.0
#: The end of a plugin's stderr that is told, in characters.
_TOLD = 600
_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SECRET_NAME = lazy_re.compile(r"(?i)(secret|token|passw|pwd|api[-_]?key|private|credential)")


@dataclass(frozen=True, slots=True)
class Issued:
    """What a plugin printed: a token, a client certificate with its key (PEM), or both."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints an ExecCredential. ``str()`` of it is its command line without secrets."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: tuple[tuple[str, str], ...] = field(repr=False)
    version: str
    folder: Path
    hint: str = ""
    interactive: str = "IfAvailable"
    cluster: Obj | None = field(default=None, repr=False)
    timeout_s: float = ALONE_S

    @classmethod
    def of(cls, user: Section, cluster: Section) -> ExecPlugin:
        """What a user's ``exec`` says. Raises KubeConfigError where it makes no sense."""
        config = user.fields["exec"]
        what = f"{user.file}: user {user.name}: exec"
        if not isinstance(config, dict) or not isinstance(config.get("command"), str) or not config["command"]:
            raise KubeConfigError(f"{what}: there is no command")
        if config.get("apiVersion") not in _VERSIONS:
            raise KubeConfigError(f"{what}: apiVersion must be {' or '.join(_VERSIONS)}")
        try:
            env = tuple((str(entry["name"]), str(entry["value"])) for entry in config.get("env") or ())
        except (KeyError, TypeError) as error:
            raise KubeConfigError(f"{what}: env must be a list of name and value") from error
        return cls(
            config["command"],
            tuple(str(arg) for arg in config.get("args") or ()),
            env,
            config["apiVersion"],
            user.file.parent.absolute(),
            str(config.get("installHint") or ""),
            str(config.get("interactiveMode") or "IfAvailable"),
            _cluster_info(cluster) if config.get("provideClusterInfo") else None,
        )

    def __str__(self) -> str:
        shown = (word if "<redacted>" in word else shlex.quote(word) for word in _masked([self.command, *self.args]))
        return f"the credential plugin `{' '.join(shown)}`"

    def run(self) -> Issued:
        """Run the command. Raises CredentialsError naming it, its exit code and what it said."""
        interactive = self._may_ask()
        printed = self._execute(interactive)
        try:
            credential = json.loads(printed)
        except ValueError:
            said = "printed nothing" if not printed.strip() else "printed something that is not JSON"
            raise CredentialsError(f"{self} {said}: log in again, or run it by hand to see") from None
        return self._issued(credential)

    # -- inside --------------------------------------------------------------------------------------------
    def _may_ask(self) -> bool:
        terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
        if self.interactive == "Always" and not terminal:
            raise CredentialsError(f"{self} must ask a person (interactiveMode: Always), and there is no terminal")
        return terminal and self.interactive != "Never"

    def _execute(self, interactive: bool) -> str:
        info: Obj = {"interactive": interactive}
        if self.cluster is not None:
            info["cluster"] = self.cluster
        review = {"apiVersion": self.version, "kind": "ExecCredential", "spec": info}
        environ = {**os.environ, **dict(self.env), "KUBERNETES_EXEC_INFO": json.dumps(review)}
        process = self._spawn(environ, interactive)
        timeout_s = max(self.timeout_s, ASKED_S) if interactive else self.timeout_s
        try:
            printed, said = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._kill(process, interactive)
            _, said = process.communicate()
            raise CredentialsError(f"{self} did not finish within {timeout_s:g} s{self._said(said)}") from None
        if process.returncode:
            raise CredentialsError(f"{self} failed with exit code {process.returncode}{self._said(said)}")
        return printed or ""

    def _spawn(self, environ: dict[str, str], interactive: bool) -> subprocess.Popen[str]:
        path = environ.get("PATH")
        # As client-go: a bare name is looked up, anything with a slash is relative to the kubeconfig.
        program = str(self.folder / self.command) if "/" in self.command else shutil.which(self.command, path=path)
        if program is None:
            raise CredentialsError(self._missing("was not found on the PATH"))
        try:
            # Alone, it gets a session of its own: no terminal to prompt on, and one group to kill.
            return subprocess.Popen(
                [program, *self.args],
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                env=environ,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=not interactive,
            )
        except OSError as error:
            raise CredentialsError(self._missing(f"could not be started: {error.strerror}")) from error

    def _missing(self, what: str) -> str:
        return f"{self} {what}" + (f": {' '.join(redact(self.hint).split())}" if self.hint else "")

    @staticmethod
    def _kill(process: subprocess.Popen[str], interactive: bool) -> None:
        if interactive:
            process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def _said(self, stderr: str | None) -> str:
        text = redact(" ".join((stderr or "").split()))
        for name, value in self.env:
            if _SECRET_NAME.search(name) and len(value) >= 4:
                text = text.replace(value, "<redacted>")
        for given, shown in zip(self.args, _masked(self.args), strict=True):
            if shown != given and len(given) >= 4:
                text = text.replace(given.partition("=")[2] or given, "<redacted>")
        if not text:
            return "; it said nothing on stderr" if stderr is not None else "; see above what it said"
        return f": {text if len(text) <= _TOLD else '...' + text[-_TOLD:]}"

    def _issued(self, credential: Any) -> Issued:
        status = dig(credential, "status", default={})
        if dig(credential, "kind") != "ExecCredential" or not isinstance(status, dict):
            raise CredentialsError(f"{self} printed something that is not an ExecCredential")
        if credential.get("apiVersion") != self.version:
            raise CredentialsError(f"{self} printed another version than the kubeconfig's apiVersion, {self.version}")
        token, certificate, key = (
            str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData")
        )
        if not token and not (certificate and key):
            raise CredentialsError(f"{self} printed an ExecCredential without a token or a client certificate")
        ends = status.get("expirationTimestamp")
        try:
            return Issued(token.strip(), certificate, key, parse_time(ends) if ends else None)
        except (ValueError, AttributeError) as error:
            raise CredentialsError(f"{self} printed an expirationTimestamp that is not a time") from error


def _masked(words: Sequence[str]) -> list[str]:
    """The words of a command line, values of flags that sound secret left out."""
    shown: list[str] = []
    hide = False
    for word in words:
        flag, equals, _ = word.partition("=")
        secret = bool(_SECRET_NAME.search(flag)) and word.startswith("-")
        if hide and not word.startswith("-"):
            shown.append("<redacted>")
        elif secret and equals:
            shown.append(f"{flag}=<redacted>")
        else:
            shown.append(redact(word))
        hide = secret and not equals
    return shown


def _cluster_info(cluster: Section) -> Obj:
    """``spec.cluster`` of KUBERNETES_EXEC_INFO (client-go pkg/apis/clientauthentication, Cluster)."""
    import base64

    info: Obj = {"server": cluster.text("server")}
    for key in ("tls-server-name", "proxy-url"):
        if cluster.text(key):
            info[key] = cluster.text(key)
    if cluster.flag("insecure-skip-tls-verify"):
        info["insecure-skip-tls-verify"] = True
    authority = cluster.content("certificate-authority")
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.fields.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info
