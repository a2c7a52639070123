"""Cluster DNS for one container: the API server and Services have addresses, no other name exists.

Source: RFC 1035; CoreDNS's kubernetes plugin answers NXDOMAIN for what it does not have in its zone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

__all__ = ["answer", "name_of_query"]

_A, _AAAA = 1, 28
_NOERROR, _SERVFAIL, _NXDOMAIN, _REFUSED = 0, 2, 3, 5
TTL_S = 30


def name_of_query(query: bytes) -> tuple[str, int, int]:
    """(name in lower case, type, end of the question). Raises ValueError for what is no query."""
    labels: list[str] = []
    at = 12
    try:
        while query[at]:
            size = query[at]
            if size > 63:
                raise ValueError("compressed name in a question")
            labels.append(query[at + 1 : at + 1 + size].decode("ascii").lower())
            at += size + 1
        kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError("not a DNS query") from error
    return ".".join(labels), kind, at + 5


def answer(
    query: bytes,
    address_of: Callable[[str], str | None],
    *,
    working: bool = True,
    given_up: bool = False,
) -> bytes | None:
    """The reply to a query; None: none, since it is no query. A name server that does not work fails every look-up.

    ``given_up``: what has the resolver do as if nobody had answered: glibc goes on to the next domain of its search
    list after a server's failure, and stops after silence as after a refusal (resolv/res_query.c).
    """
    try:
        name, kind, end = name_of_query(query)
    except ValueError:
        return None
    address = address_of(name) if working else None
    if not working:
        code = _REFUSED if given_up else _SERVFAIL
    else:
        code = _NOERROR if address else _NXDOMAIN
    records = b""
    if address and kind == _A:
        packed = bytes(int(part) for part in address.split("."))
        records = b"\xc0\x0c" + struct.pack("!HHIH", _A, 1, TTL_S, 4) + packed
    flags = 0x8180 | code
    header = query[:2] + struct.pack("!HHHHH", flags, 1, 1 if records else 0, 0, 0)
    return header + query[12:end] + records
