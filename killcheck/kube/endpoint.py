"""Where an API server is and how it is trusted (address, proxy, TLS); what went wrong on the way, in one sentence."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
import tempfile
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from killcheck.kube.credentials import Login
from killcheck.kube.errors import KubeConfigError, Unreachable
from killcheck.kube.kubeconfig import Section

__all__ = ["Endpoint", "explain"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server. ``what`` is how messages name it; ``authority`` PEM of its CA (empty: the host's own trust)."""

    url: str
    what: str
    authority: bytes = field(default=b"", repr=False)
    insecure: bool = False
    server_name: str = ""
    proxy: str = field(default="", repr=False)

    @classmethod
    def of(cls, cluster: Section, context: str) -> Endpoint:
        """What a kubeconfig's cluster says. Raises KubeConfigError."""
        url = cluster.text("server").rstrip("/")
        where = f"{cluster.file}: cluster {cluster.name}"
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:  # a port or an IPv6 address that is none
            scheme, host, port = "", None, None
        if scheme not in ("https", "http") or not host:
            raise KubeConfigError(f"{where}: server must be an https:// address")
        authority = cluster.content("certificate-authority")
        insecure = cluster.flag("insecure-skip-tls-verify")
        if authority and insecure:
            raise KubeConfigError(f"{where}: certificate-authority and insecure-skip-tls-verify exclude each other")
        proxy = cluster.text("proxy-url") or _proxy_of_environment(scheme, host, port)
        if proxy and urlsplit(proxy).scheme not in ("http", "https"):
            raise KubeConfigError(f"{where}: only http and https proxies are supported")
        return cls(
            url,
            f"the API server {url} (context {context})",
            authority,
            insecure,
            cluster.text("tls-server-name"),
            proxy,
        )

    @property
    def secure(self) -> bool:
        """Whether requests are encrypted. As kubectl, we send no credentials where they are not."""
        return self.url.startswith("https:")

    def tls(self, login: Login) -> ssl.SSLContext:
        """A context that trusts the server and shows the login's client certificate. Raises KubeConfigError."""
        try:
            context = ssl.create_default_context(cadata=self.authority.decode("ascii", "replace") or None)
        except ssl.SSLError as error:
            raise KubeConfigError(f"{self.what}: its certificate-authority is not a PEM certificate") from error
        # As client-go. From Python 3.13 on CAs without an authority key identifier would be refused.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if login.certificate:
            self._show(context, login)
        return context

    def _show(self, context: ssl.SSLContext, login: Login) -> None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # mode 0600; ssl loads keys from files only
            file.write(login.certificate + b"\n" + login.key)
            file.flush()
            try:
                context.load_cert_chain(file.name, password="")  # never ask at the terminal
            except (ssl.SSLError, ValueError) as error:
                why = "client certificate and client key do not belong together, or the key is locked"
                raise KubeConfigError(f"{self.what}: {why}") from error


def _proxy_of_environment(scheme: str, host: str, port: int | None) -> str:
    """What HTTPS_PROXY and NO_PROXY say; address ranges in NO_PROXY count, as they do for Go's clients."""
    from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

    proxies = getproxies_environment()
    if host in ("localhost", "127.0.0.1", "::1") or scheme not in proxies:
        return ""
    if proxy_bypass_environment(f"{host}:{port}" if port else host, proxies):
        return ""
    for entry in proxies.get("no", "").split(","):
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip(), strict=False):
                return ""
        except ValueError:  # one of them is a name
            continue
    return proxies[scheme]


def explain(error: Exception, endpoint: Endpoint, request: str, *, write: bool = False) -> Unreachable:
    """The sentence for a failure of urllib3: what happened, to which server, what to do. ``request``: verb and path."""
    from urllib3 import exceptions as u

    reason: Any = getattr(error, "reason", None) if isinstance(error, u.MaxRetryError) else error
    what, host = endpoint.what, urlsplit(endpoint.url).hostname or ""
    if isinstance(reason, u.ProxyError):
        text = f"cannot reach {what} through the proxy: check proxy-url, or HTTPS_PROXY and NO_PROXY"
    elif isinstance(reason, u.NameResolutionError):
        text = f"cannot resolve the host name {host} of {what}: check the address, DNS and the VPN"
    elif isinstance(reason, u.NewConnectionError):  # a ConnectTimeoutError too, to urllib3
        text = _not_connected(reason, what)
    elif isinstance(reason, u.ConnectTimeoutError):
        text = f"no connection to {what} within the time-out: check the network, the VPN and the firewall"
    elif isinstance(reason, u.ReadTimeoutError) and request.startswith("watch "):
        text = f"{what} fell silent ({request}): the connection is dead, or the server hangs"
    elif isinstance(reason, u.ReadTimeoutError):
        text = f"{what} took the request and did not answer in time ({request}): it may be overloaded or gone"
    elif isinstance(reason, u.SSLError):
        text = _tls(reason, what)
    else:
        text = f"{what} broke the connection off ({request}): it may be restarting"
    if write and not isinstance(reason, u.NewConnectionError | u.ConnectTimeoutError | u.SSLError | u.ProxyError):
        text += "; whether the change was made is not known"
    return Unreachable(text)


def _not_connected(error: Exception, what: str) -> str:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ConnectionRefusedError):
        return f"{what} refused the connection: nothing listens there; is the cluster up, and is this its address?"
    if isinstance(cause, socket.gaierror):
        return f"cannot resolve the host name of {what}: check the address, DNS and the VPN"
    if isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return f"there is no route to {what}: check the network and the VPN"
    return f"no connection to {what}: check the network and the VPN"


def _tls(error: Exception, what: str) -> str:
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {what} was not accepted ({cause.verify_message}): is this the right server, and "
            "does the kubeconfig hold its current certificate-authority?"
        )
    alert = str(getattr(cause, "reason", "") or "").replace("_", " ").lower()
    if "alert" in alert:
        return f"{what} refused us during the TLS handshake ({alert}): is the client certificate still good?"
    return f"no TLS with {what}{f' ({alert})' if alert else ''}: does it speak https on this port?"
