"""Names, labels, ports: Kubernetes' rules for small strings, each answering with what is wrong.

Source: k8s.io/apimachinery/pkg/util/validation/validation.go and pkg/api/validate/content.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from killcheck.embedded.api.validation.fields import Causes, invalid, required, too_long

__all__ = [
    "NO_ADDRESS",
    "annotation_map",
    "config_key",
    "dns_label",
    "dns_label_cause",
    "dns_subdomain",
    "dns_subdomain_cause",
    "domain_prefixed_path",
    "env_name",
    "host_ip",
    "is_address",
    "label_name",
    "label_value",
    "labels",
    "port_name",
    "port_number",
    "port_number_or_name",
    "qualified_name",
    "service_name",
]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(" + _NAME + ")?"
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_NAME_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)
_DNS_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
#: What is said of a text that should be an address.
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
ANNOTATIONS_LIMIT_BYTES = 256 * 1024


def _regex(words: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}'" for example in examples)
    listed = f"e.g. {listed.replace(' or ', ',  or ')}, " if examples else ""
    return f"{words} ({listed}regex used for validation is '{pattern}')"


def _longer(value: str, most: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {most} {unit}"] if len(value.encode()) > most else []


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value, re.ASCII) is not None


@lru_cache(maxsize=4096)
def dns_label(value: str) -> tuple[str, ...]:
    """A DNS label of at most 63 characters."""
    wrong = _longer(value, 63)
    if not _matches(_LABEL, value):
        dots = _matches(_SUBDOMAIN, value)
        wrong.append("must not contain dots" if dots else _regex(_LABEL_WORDS, _LABEL, "my-name", "123-abc"))
    return tuple(wrong)


@lru_cache(maxsize=4096)
def dns_subdomain(value: str) -> tuple[str, ...]:
    """A DNS subdomain of at most 253 characters: what most objects' names are."""
    wrong = _longer(value, 253)
    if not _matches(_SUBDOMAIN, value):
        wrong.append(_regex(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return tuple(wrong)


@lru_cache(maxsize=1024)
def service_name(value: str) -> tuple[str, ...]:
    """A DNS label that begins with a letter."""
    wrong = _longer(value, 63)
    if not _matches(_DNS_1035, value):
        wrong.append(_regex(_DNS_1035_WORDS, _DNS_1035, "my-name", "abc-123"))
    return tuple(wrong)


@lru_cache(maxsize=4096)
def qualified_name(value: str) -> tuple[str, ...]:
    """``[prefix/]name``: keys of labels, resource names, finalizers."""
    prefix, slash, name = value.rpartition("/")
    if value.count("/") > 1:
        words = _regex(_NAME_WORDS, _NAME, "MyName", "my.name", "123-abc")
        return (f"a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    wrong: list[str] = []
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {words}" for words in dns_subdomain(prefix)]
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name) > 63:
        wrong.append("name part must be no more than 63 bytes")
    if not _matches(_NAME, name):
        wrong.append("name part " + _regex(_NAME_WORDS, _NAME, "MyName", "my.name", "123-abc"))
    return tuple(wrong)


@lru_cache(maxsize=4096)
def label_value(value: str) -> tuple[str, ...]:
    """A label's value."""
    wrong = _longer(value, 63, "bytes")
    if not _matches(_VALUE, value):
        wrong.append(_regex(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(wrong)


def label_name(path: str, value: str) -> Causes:
    """A label's key."""
    return [invalid(path, value, words) for words in qualified_name(value)]


def labels(path: str, given: dict[str, str] | None) -> Causes:
    """A map of labels."""
    causes: Causes = []
    for name, value in (given or {}).items():
        causes += label_name(path, name)
        causes += [invalid(path, value, words) for words in label_value(value)]
    return causes


def annotation_map(path: str, given: dict[str, str] | None) -> Causes:
    """A map of annotations: keys in any case, 256 KiB altogether."""
    causes: Causes = []
    size = 0
    for name, value in (given or {}).items():
        causes += [invalid(path, name, words) for words in qualified_name(name.lower())]
        size += len(name.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long(path, ANNOTATIONS_LIMIT_BYTES))
    return causes


def dns_label_cause(path: str, value: str) -> Causes:
    """``dns_label`` as causes."""
    return [invalid(path, value, words) for words in dns_label(value)]


def dns_subdomain_cause(path: str, value: str) -> Causes:
    """``dns_subdomain`` as causes."""
    return [invalid(path, value, words) for words in dns_subdomain(value)]


def domain_prefixed_path(path: str, value: str) -> Causes:
    """A subdomain, a slash and a path (apimachinery/pkg/util/validation, IsDomainPrefixedPath)."""
    if not value:
        return [required(path)]
    domain, _, rest = value.partition("/")
    if not domain or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    causes = [invalid(path, domain, words) for words in dns_subdomain(domain)]
    if not _matches(_PATH, rest):
        causes.append(invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH}')"))
    return causes


def env_name(value: str) -> list[str]:
    """An environment variable's name, as 1.36 sees it: any printable ASCII but '='."""
    if all(32 <= ord(c) < 127 and c != "=" for c in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    pattern = "[-._a-zA-Z0-9]+"
    wrong = _longer(value, 253)
    if not _matches(pattern, value):
        words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(_regex(words, pattern, "key.name", "KEY_NAME", "key-name"))
    if value == ".":
        wrong.append("must not be '.'")
    elif value == "..":
        wrong.append("must not be '..'")
    elif value.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def port_number(path: str, value: int) -> Causes:
    """1 to 65535."""
    return [] if 1 <= value <= 65535 else [invalid(path, value, "must be between 1 and 65535, inclusive")]


def port_name(value: str) -> list[str]:
    """An IANA service name of at most 15 characters."""
    wrong = _longer(value, 15)
    if not _matches("[-a-z0-9]+", value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def port_number_or_name(path: str, value: int | str) -> Causes:
    """A port by number or by name."""
    if isinstance(value, int):
        return port_number(path, value)
    return [invalid(path, value, words) for words in port_name(value)]


def host_ip(path: str, value: str) -> Causes:
    """An IP address of either family."""
    if not value:
        return [required(path)]
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return [invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def is_address(text: str) -> bool:
    """Whether a text is an IP address, of either version."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
