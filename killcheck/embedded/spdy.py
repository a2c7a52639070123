"""The server's side of SPDY/3.1 after the upgrade: streams as kubectl port-forward and older kubectls' exec speak them.

Source: the SPDY/3 draft (draft-mbelshe-httpbis-spdy-00), and github.com/moby/spdystream, which both ends of Kubernetes
use. As there, windows are neither kept nor asked for.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from killcheck.embedded.api.http import Finished, Heard, Opened

__all__ = ["Spdy", "SpdyError"]

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN = 1
_VERSION = 3
_HEAD = 8
#: Bytes of one frame that are sent, and that are taken at most.
CHUNK = 1 << 16
FRAME_LIMIT = 1 << 24
#: Names and values that the headers' compression knows from the beginning (the draft, 2.6.10.1): each with its length,
#: and at the end text.
_WORDS = (
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8"
    "charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack("!I", len(word)) + word.encode() for word in _WORDS) + _TEXT.encode()


class SpdyError(Exception):
    """The peer does not speak SPDY/3.1."""


class Spdy:
    """Turns what a client says on its streams into events and back; does no IO. A stream's number is its channel."""

    def __init__(self) -> None:
        self.closed = False
        self._buffer = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._open: set[int] = set()
        self._last = 0

    # -- to the peer ---------------------------------------------------------------------------------------
    def message(self, channel: int, data: bytes | None) -> bytes:
        """Data on a stream; None: our end of it is closed."""
        if channel not in self._open:
            return b""
        if data is None:
            self._open.discard(channel)
            return _data(channel, b"", FIN)
        return b"".join(_data(channel, data[at : at + CHUNK]) for at in range(0, len(data), CHUNK))

    def close(self) -> bytes:
        """The farewell: every stream ends, and nothing more is accepted."""
        left = b"".join(_data(channel, b"", FIN) for channel in sorted(self._open))
        self._open.clear()
        return left + _control(GOAWAY, struct.pack("!II", self._last, 0))

    # -- from the peer -------------------------------------------------------------------------------------
    def received(self, data: bytes) -> Iterator[Opened | Heard | Finished | bytes]:
        """What the peer said: events, and bytes that are to be sent in answer. Sets ``closed``. Raises SpdyError."""
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            first, second = struct.unpack("!II", self._buffer[:_HEAD])
            flags, size = second >> 24, second & 0xFFFFFF
            if len(self._buffer) < _HEAD + size:
                return
            body, self._buffer = self._buffer[_HEAD : _HEAD + size], self._buffer[_HEAD + size :]
            if not first >> 31:
                yield from self._heard(first, body, flags)
            elif first >> 16 & 0x7FFF != _VERSION:
                raise SpdyError(f"version {first >> 16 & 0x7FFF} of SPDY")
            else:
                yield from self._controlled(first & 0xFFFF, body, flags)

    def _heard(self, channel: int, data: bytes, flags: int) -> Iterator[Heard | Finished]:
        if data:
            yield Heard(channel, data)
        if flags & FIN:
            yield Finished(channel)

    def _controlled(self, kind: int, body: bytes, flags: int) -> Iterator[Opened | Finished | bytes]:
        if kind == SYN_STREAM and len(body) >= 10:
            channel = struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF
            headers = self._headers(body[10:])
            self._open.add(channel)
            self._last = max(self._last, channel)
            none = self._deflate.compress(struct.pack("!I", 0)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
            yield _control(SYN_REPLY, struct.pack("!I", channel) + none)
            yield Opened(channel, headers)
            if flags & FIN:
                yield Finished(channel)
        elif kind == RST_STREAM and len(body) >= 4:
            channel = struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF
            self._open.discard(channel)
            yield Finished(channel)
        elif kind == PING and len(body) >= 4 and body[3] & 1:  # odd: the client's own, and not an answer
            yield _control(PING, body[:4])
        elif kind == GOAWAY:
            self.closed = True

    def _headers(self, block: bytes) -> dict[str, str]:
        """Raises SpdyError."""
        try:
            text = self._inflate.decompress(block, FRAME_LIMIT)
            count, at = struct.unpack("!I", text[:4])[0], 4
            words = []
            for _ in range(2 * count):
                size = struct.unpack("!I", text[at : at + 4])[0]
                words.append(text[at + 4 : at + 4 + size].decode("latin-1"))
                at += 4 + size
        except (zlib.error, struct.error) as error:
            raise SpdyError(f"headers that cannot be read: {error}") from error
        return dict(zip(words[::2], words[1::2], strict=True))


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack("!HHI", 0x8000 | _VERSION, kind, len(body)) + body


def _data(channel: int, data: bytes, flags: int = 0) -> bytes:
    return struct.pack("!II", channel, flags << 24 | len(data)) + data
