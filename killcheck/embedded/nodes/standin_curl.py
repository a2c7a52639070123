"""In a container: makes curl's requests on a host that has no curl. The options below, over HTTP; any other is a limit.

Its exit codes and what it says on standard error are curl 8's (its manual page; tool_operate.c, lib/strerror.c). That a
stand-in ran is told to the cluster, and with the verdict. What it does not know is not guessed: the outcome is unknown.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import sys
import time
from typing import IO, NoReturn
from urllib.parse import urlsplit

from killcheck.embedded.nodes.shim_agent import ask, complain

#: Flags: how curl names them, and the one name that they have here.
FLAGS = {
    "-f": "fail", "--fail": "fail", "--fail-with-body": "body", "-s": "silent", "--silent": "silent", "-S": "show",
    "--show-error": "show", "-k": "insecure", "--insecure": "insecure", "-I": "head", "--head": "head",
    "-i": "include", "--include": "include", "-g": "", "--globoff": "", "-N": "", "--no-buffer": "", "-L": "follow",
    "--location": "follow", "--compressed": "", "--http1.1": "", "--retry-connrefused": "", "--retry-all-errors": "",
}  # fmt: skip
#: Options with a value. Retries are counted by the shim that called this.
VALUED = {
    "-X": "method", "--request": "method", "-H": "header", "--header": "header", "-d": "data", "--data": "data",
    "--data-ascii": "data", "--data-raw": "raw", "--data-binary": "binary", "--json": "json", "-o": "output",
    "--output": "output", "-w": "written", "--write-out": "written", "--cacert": "cacert", "-m": "limit",
    "--max-time": "limit", "--connect-timeout": "connect", "--connect-to": "to", "-A": "agent",
    "--user-agent": "agent", "--url": "url",
    "-K": "config", "--config": "config", "--retry": "", "--retry-delay": "", "--retry-max-time": "",
}  # fmt: skip
#: What the variables of ``--write-out`` stand for, by name.
WRITTEN = {"%{http_code}": "{0:03d}", "%{response_code}": "{0:03d}", "\\n": "\n", "\\t": "\t"}
HTTP_ERROR, VERIFY_FAILED = 22, 60


def beyond(what: str) -> NoReturn:
    """Say that this asks for more than the stand-in knows: the cluster gives the container up. Never returns."""
    complain(f"killcheck's stand-in for curl does not know {what}")
    ask("lacking curl")
    sys.exit(2)


class Failed(Exception):
    """A transfer that failed: curl's exit code and what it says."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def parsed(argv: list[str]) -> dict[str, list[str]]:
    """Every option by its one name, with its values (flags: one empty value each time)."""
    found: dict[str, list[str]] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "-" or not word.startswith("-"):
            found.setdefault("url", []).append(word)
        elif word.startswith("--"):
            name, given, value = word.partition("=")
            if name in VALUED and not given and words:
                value = words.pop(0)
            elif name not in (VALUED if given else FLAGS):
                beyond(name)
            found.setdefault(VALUED.get(name) or FLAGS.get(name, ""), []).append(value)
        else:
            letters(word[1:], words, found)
    return found


def letters(word: str, words: list[str], found: dict[str, list[str]]) -> None:
    """Short options in one word; the last may take the rest of the word, or the next word, as its value."""
    for index, letter in enumerate(word):
        name = f"-{letter}"
        if name in VALUED:
            value = word[index + 1 :] or (words.pop(0) if words else "")
            found.setdefault(VALUED[name], []).append(value)
            return
        if name not in FLAGS:
            beyond(name)
        found.setdefault(FLAGS[name], []).append("")


def body(options: dict[str, list[str]]) -> bytes | None:
    """What is sent; None: nothing."""
    parts = []
    for name in ("data", "raw", "binary", "json"):
        for value in options.get(name, ()):
            if value.startswith("@") and name != "raw":
                data = read(value[1:])
                parts.append(data.translate(None, b"\r\n\0") if name == "data" else data)
            else:
                parts.append(value.encode("utf-8", "surrogateescape"))
    return (b"" if "json" in options else b"&").join(parts) if parts else None


def read(name: str) -> bytes:
    """A file's content, or standard input's; what curl makes of one that cannot be read depends on its version."""
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        with open(name, "rb") as file:  # noqa: PTH123 - starts without pathlib: it is quick
            return file.read()
    except OSError:
        beyond(f"a file that cannot be read ({name})")


def headers(options: dict[str, list[str]]) -> dict[str, str]:
    """The request's headers, curl's own included; ``Name:`` takes one away, ``Name;`` sends it empty."""
    sent = {"user-agent": options.get("agent", ["curl/8.0.0"])[-1], "accept": "*/*"}
    if "json" in options:
        sent |= {"content-type": "application/json", "accept": "application/json"}
    elif options.keys() & {"data", "raw", "binary"}:
        sent["content-type"] = "application/x-www-form-urlencoded"
    for line in given_headers(options):
        name, colon, value = line.partition(":")
        if colon and not value.strip():
            sent.pop(name.strip().lower(), None)
        elif colon:
            sent[name.strip().lower()] = value.strip()
        else:
            sent[name.rstrip(";").lower()] = ""
    return sent


def given_headers(options: dict[str, list[str]]) -> list[str]:
    """Each ``-H``, and each line of the files that ``-H @FILE`` names."""
    found = []
    for line in options.get("header", ()):
        text = read(line[1:]).decode("utf-8", "surrogateescape") if line.startswith("@") else line
        found += text.splitlines() if line.startswith("@") else [text]
    return found


def configured(options: dict[str, list[str]]) -> None:
    """Take the URL of a ``-K FILE`` that has nothing else; whatever else one may say is a limit."""
    for name in options.pop("config", ()):
        for line in read(name).decode("utf-8", "surrogateescape").splitlines():
            key, _, value = line.partition("=")
            if key.strip() != "url" or not (value := value.strip()).startswith('"') or "\\" in value:
                beyond("-K FILE with more than a URL")
            options.setdefault("url", []).append(value.strip('"'))


def trust(options: dict[str, list[str]]) -> ssl.SSLContext:
    """Whom to believe. Raises Failed where the named certificates cannot be read."""
    named = options.get("cacert", [None])[-1]
    try:
        context = ssl.create_default_context(cafile=named)
    except (OSError, ssl.SSLError) as error:
        raise Failed(77, f"error setting certificate file: {named}") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # curl does not ask for it
    if "insecure" in options:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _Led(http.client.HTTPConnection):
    """A connection to somewhere else than its URL says (``--connect-to``); TLS still asks for the URL's host."""

    def __init__(self, host: str, port: int, place: tuple[str, int], tls: ssl.SSLContext | None, limit: float) -> None:
        super().__init__(host, port, timeout=limit or None)
        self.place = place
        self.tls = tls

    def connect(self) -> None:
        """Raises OSError."""
        self.sock = socket.create_connection(self.place, self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as curl does
        if self.tls is not None:
            self.sock = self.tls.wrap_socket(self.sock, server_hostname=self.host)


def proxied(scheme: str, host: str) -> bool:
    """Whether the environment sends a request to a proxy."""
    names = (f"{scheme}_proxy", "all_proxy", "ALL_PROXY", *(("HTTPS_PROXY",) if scheme == "https" else ()))
    if not any(os.environ.get(name) for name in names):
        return False
    direct = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")).replace(" ", "").split(",")
    return not any(one and (one == "*" or f".{host}".endswith(f".{one.lstrip('.')}")) for one in direct)


def connection(url: str, options: dict[str, list[str]]) -> _Led:
    """The connection for a URL, not made yet. Raises Failed."""
    split = urlsplit(url)
    if split.scheme not in ("http", "https"):
        beyond(f"{split.scheme or 'no scheme'}: in a URL")
    if split.username or proxied(split.scheme, split.hostname or ""):
        beyond("credentials in a URL" if split.username else "proxies")
    try:
        host, port = split.hostname or "", split.port or (443 if split.scheme == "https" else 80)
    except ValueError as error:
        raise Failed(3, "URL rejected: Port number was not a decimal number between 0 and 65535") from error
    if not host:
        raise Failed(3, "URL rejected: No host part in the URL")
    place = (host, port)
    for rule in options.get("to", ()):
        from_host, from_port, to_host, to_port = rule.split(":")
        if from_host in ("", host) and from_port in ("", str(port)):
            place = (to_host or host, int(to_port or port))
            break
    tls = trust(options) if split.scheme == "https" else None
    return _Led(host, port, place, tls, min(limits(options), default=0.0))


def limits(options: dict[str, list[str]]) -> list[float]:
    """Seconds, of every limit that is one. Raises Failed."""
    try:
        return [float(v) for name in ("limit", "connect") for v in options.get(name, ()) if float(v)]
    except ValueError as error:
        raise Failed(2, "expected a proper numerical parameter") from error


def transfer(url: str, options: dict[str, list[str]]) -> None:
    """One request, its answer written where it belongs. Raises Failed."""
    sent, link = body(options), connection(url, options)
    method = options.get("method", ["HEAD" if "head" in options else "GET" if sent is None else "POST"])[-1]
    split, begun = urlsplit(url), time.monotonic()
    place = f"{link.host} port {link.port}"
    try:
        link.putrequest(
            method, (split.path or "/") + (f"?{split.query}" if split.query else ""), skip_accept_encoding=True
        )
        wanted = headers(options)
        for name, value in wanted.items():
            link.putheader(name, value)
        if sent is not None and not wanted.keys() & {"content-length", "transfer-encoding"}:
            link.putheader("Content-Length", str(len(sent)))
        link.endheaders(sent)
        deliver(link.getresponse(), options)
    except socket.gaierror as error:
        raise Failed(6, f"Could not resolve host: {link.host}") from error
    except ssl.SSLCertVerificationError as error:
        raise Failed(VERIFY_FAILED, f"SSL certificate problem: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise Failed(35, f"TLS connect error: {error.reason}") from error
    except TimeoutError as error:
        spent = int((time.monotonic() - begun) * 1000)
        raise Failed(28, f"Operation timed out after {spent} milliseconds with 0 bytes received") from error
    except http.client.RemoteDisconnected as error:
        raise Failed(52, "Empty reply from server") from error
    except (ConnectionResetError, http.client.HTTPException) as error:
        raise Failed(56, "Recv failure: Connection reset by peer") from error
    except ConnectionError as error:
        raise Failed(7, f"Failed to connect to {place} after 0 ms: Could not connect to server") from error
    except OSError as error:
        raise Failed(7, f"Failed to connect to {place} after 0 ms: {error.strerror or error}") from error
    finally:
        link.close()


def deliver(answer: http.client.HTTPResponse, options: dict[str, list[str]]) -> None:
    """Write the answer as it comes. Raises Failed for an HTTP error that is to count as one."""
    if "follow" in options and answer.status in (301, 302, 303, 307, 308):
        beyond("how to follow a redirect")
    bad = answer.status >= 400
    if not (bad and "fail" in options):
        name = options.get("output", ["-"])[-1]
        if name == "-":
            copy(answer, options, sys.stdout.buffer)
        else:
            with open(name, "wb") as file:  # noqa: PTH123
                copy(answer, options, file)
    sys.stdout.write(filled(options.get("written", [""])[-1], answer.status))
    sys.stdout.flush()
    if bad and options.keys() & {"fail", "body"}:
        raise Failed(HTTP_ERROR, f"The requested URL returned error: {answer.status}")


def copy(answer: http.client.HTTPResponse, options: dict[str, list[str]], out: IO[bytes]) -> None:
    """The answer, as it comes: a watch never ends."""
    if options.keys() & {"head", "include"}:
        head = "".join(f"{key}: {value}\r\n" for key, value in answer.getheaders())
        out.write(f"HTTP/1.1 {answer.status} {answer.reason}\r\n{head}\r\n".encode("latin-1", "replace"))
    while data := answer.read1(65536):
        out.write(data)
        out.flush()
    out.flush()


def filled(form: str, status: int) -> str:
    """What ``--write-out`` writes."""
    for variable, value in WRITTEN.items():
        form = form.replace(variable, value.format(status))
    return form


def main(argv: list[str]) -> int:
    """As curl: the exit code of the last transfer."""
    options = parsed(argv)
    configured(options)
    form = options.get("written", [""])[-1]
    if "%{" in filled(form, 0) or form.startswith("@"):
        beyond(f"--write-out {form}")
    if "url" not in options:
        complain("curl: (2) no URL specified")
        return 2
    if len(options["url"]) > 1:
        beyond("several URLs")
    ask("stands curl")
    try:
        transfer(options["url"][0], options)
    except Failed as error:
        if "silent" not in options or "show" in options:
            complain(f"curl: ({error.code}) {error}")
        if error.code != HTTP_ERROR:
            sys.stdout.write(filled(form, 0))
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
