"""Addresses, networks and URLs in CEL.

Source: k8s.io/apiserver/pkg/cel/library/{ip,cidr,urls}.go of Kubernetes v1.36. An error is a value, as ``celpy`` wants.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["FUNCTIONS"]


class _Address:
    """What ``ip('10.0.0.1')`` makes."""

    def __init__(self, text: str) -> None:
        try:
            self.value = ip_address(text)
        except ValueError:
            raise ValueError(
                f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): '
                "unable to parse IP"
            ) from None
        if "%" in text:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if self.value.version == 6 and self.value.ipv4_mapped is not None:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Address) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return str(self.value)


class _Network:
    """What ``cidr('10.0.0.0/8')`` makes."""

    def __init__(self, text: str) -> None:
        if "/" not in text:
            raise ValueError(f'network address parse error during conversion from string: "{text}"')
        self.address = ip_address(text.partition("/")[0])
        self.value = ip_network(text, strict=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Network) and (self.address, self.value) == (other.address, other.value)

    def __hash__(self) -> int:
        return hash((self.address, self.value))

    def contains(self, other: Any) -> bool:
        """A network or an address, or the text of one."""
        inner = (
            other
            if isinstance(other, _Address | _Network)
            else (_Network(str(other)) if "/" in str(other) else _Address(str(other)))
        )
        if isinstance(inner, _Address):
            return inner.value in self.value
        return inner.value.version == self.value.version and inner.value.subnet_of(self.value)  # type: ignore[arg-type]


class _Url:
    """What ``url('https://a.b/c')`` makes; only absolute ones and absolute paths are URLs."""

    def __init__(self, text: str) -> None:
        self.parts = urlsplit(text)
        if not (self.parts.scheme and self.parts.netloc) and not text.startswith("/"):
            raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')


def _wrapped(value: Any) -> Any:
    from celpy import celtypes

    if isinstance(value, bool):
        return celtypes.BoolType(value)
    if isinstance(value, int):
        return celtypes.IntType(value)
    if isinstance(value, str):
        return celtypes.StringType(value)
    if isinstance(value, dict):
        return celtypes.MapType(
            {
                celtypes.StringType(key): celtypes.ListType([celtypes.StringType(each) for each in listed])
                for key, listed in value.items()
            }
        )
    return value


def _careful(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        """Give back an error that was given, and make one of an exception: CEL's || and && need errors as values."""
        from celpy.evaluation import CELEvalError

        failed = next((each for each in arguments if isinstance(each, Exception)), None)
        if failed is not None:
            return failed
        try:
            return _wrapped(function(*arguments))
        except (ValueError, AttributeError) as error:
            return CELEvalError(str(error))

    return call


def _is(kind: Callable[[str], object]) -> Callable[[Any], bool]:
    def ask(text: Any) -> bool:
        try:
            kind(str(text))
        except ValueError:
            return False
        return True

    return ask


def _host(url: _Url) -> str:
    return url.parts.netloc.rpartition("@")[2]


_METHODS: dict[str, Callable[..., Any]] = {
    "isIP": _is(_Address),
    "ip": lambda of: _Address(str(of.address if isinstance(of, _Network) else of)),
    "family": lambda address: address.value.version,
    "isUnspecified": lambda address: address.value.is_unspecified,
    "isLoopback": lambda address: address.value.is_loopback,
    "isLinkLocalMulticast": lambda address: address.value.is_multicast and address.value.is_link_local,
    "isLinkLocalUnicast": lambda address: address.value.is_link_local,
    "isGlobalUnicast": lambda address: (
        not (
            address.value.is_multicast
            or address.value.is_loopback
            or address.value.is_unspecified
            or address.value.is_link_local
        )
    ),
    "isCIDR": _is(_Network),
    "cidr": lambda text: _Network(str(text)),
    "containsIP": lambda network, inner: network.contains(inner),
    "containsCIDR": lambda network, inner: network.contains(inner),
    "prefixLength": lambda network: network.value.prefixlen,
    "masked": lambda network: _Network(str(network.value)),
    "isURL": _is(_Url),
    "url": lambda text: _Url(str(text)),
    "getScheme": lambda url: url.parts.scheme,
    "getHost": _host,
    "getHostname": lambda url: url.parts.hostname or "",
    "getPort": lambda url: str(url.parts.port or ""),
    "getEscapedPath": lambda url: url.parts.path,
    "getQuery": lambda url: parse_qs(url.parts.query, keep_blank_values=True),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {name: _careful(each) for name, each in _METHODS.items()}
