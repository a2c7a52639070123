"""Whom Alertmanager tells of an alert, as far as its configuration is among the manifests: a route to a receiver that
tells nobody, and one that is muted by the clock, make no alarm of it.

Silences are set by hand while it runs: of them nobody knows here.

Sources: prometheus.io/docs/alerting/latest/configuration (route: matchers, match, match_re, continue, receiver,
mute_time_intervals, active_time_intervals; inhibit_rules: target_matchers, source_matchers), prometheus-operator's
Secret ``alertmanager.yaml``.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from killcheck.kube.objects import Obj, dig, items, mappings, ref_of
from killcheck.promql.evaluation import Unsupported, pattern
from killcheck.text import lazy_re
from killcheck.text.shown import brief
from killcheck.text.values import replace
from killcheck.text.yamlfile import YamlError, documents
from killcheck.witnesses.rules import Evaluated

__all__ = ["Routing", "delivered", "routings"]

_FILES = ("alertmanager.yaml", "alertmanager.yml")
_MATCHER = lazy_re.compile(r'\s*"?([^\s"=!~,{}]+)"?\s*(=~|!~|!=|=)\s*("(?:\\.|[^"\\])*"|[^\s,"]*)\s*(?:,|$)')
#: Labels that a Prometheus puts on what it sends, and whatever it is told to.
_OF_THE_SENDER = frozenset({"prometheus", "prometheus_replica", "cluster", "region", "environment", "env"})


class Told(Struct, frozen=True):
    """``silent``: why nobody is told; ``unproven``: why nobody knows; ``receiver``: who is, where it is known."""

    receiver: str = ""
    silent: str = ""
    unproven: str = ""


class Unknown(Exception):
    """Whether a matcher holds turns on a label of which nothing is known; the message is its name."""


class Routing(Struct, frozen=True):
    """One configuration, and the object that it stands in."""

    of: str
    config: Obj

    def tells(self, labels: Mapping[str, str | None]) -> Told:
        """What becomes of an alert with these labels (None: a value that is made when it fires)."""
        try:
            muted = next(self._inhibited(labels), "")
            routes = list(_routes(dig(self.config, "route", default={}), labels))
        except Unknown as error:
            return Told(unproven=f"which way it goes in {self.of} turns on its label {error}, which is not known")
        receivers = [str(one.get("receiver")) for one in routes]
        heard = [one for one in routes if self._tells_somebody(str(one.get("receiver")))]
        if not heard:
            return Told(silent=f"{self.of} sends it to receiver {', '.join(receivers)}, which tells nobody")
        if muted:
            return Told(unproven=muted)
        if all(one.get("mute_time_intervals") or one.get("active_time_intervals") for one in heard):
            named = [*items(heard[0].get("mute_time_intervals")), *items(heard[0].get("active_time_intervals"))]
            return Told(unproven=f"{self.of} mutes its route by the clock ({', '.join(map(str, named))})")
        return Told(str(heard[0].get("receiver")))

    def _tells_somebody(self, name: str) -> bool:
        found = [one for one in mappings(self.config.get("receivers")) if str(one.get("name")) == name]
        return bool(found) and any(value for key, value in found[0].items() if key.endswith("_configs"))

    def _inhibited(self, labels: Mapping[str, str | None]) -> Iterator[str]:
        for rule in mappings(self.config.get("inhibit_rules")):
            source, target = _matchers(rule, "source_"), _matchers(rule, "target_")
            if _hold(target, labels) and not (_sure(source, labels) and _hold(source, labels)):
                wanted = ", ".join(map("".join, source)) or "anything"
                yield f"{self.of} inhibits it while an alert of {wanted} fires"


def delivered(one: Evaluated, found: list[Routing]) -> Evaluated:
    """An alert that fires, with who is told of it; none that nobody is told of fires. ``found``: all there are."""
    if one.fires_s is None or not found:
        return one
    own = {name: None if "{{" in value else value for name, value in one.rule.labels}
    told = [way.tells({**dict(one.labels), **own, "alertname": one.rule.alert}) for way in found]
    heard = next((way for way in told if way.receiver), None)
    if heard is not None:
        return replace(one, receiver=heard.receiver)
    unproven = next((way.unproven for way in told if way.unproven), "")
    return replace(one, fires_s=None, unproven=unproven, silent="" if unproven else told[0].silent)


def routings(objects: Iterable[Obj]) -> list[Routing]:
    """The configurations of Alertmanager among manifests; one that cannot be read has no routes, and is passed over."""
    found = list[Routing]()
    for obj in objects:
        for text in _texts(obj):
            try:
                configs = [one.value for one in documents(text, ref_of(obj))]
            except YamlError:
                continue
            found += [Routing(ref_of(obj), one) for one in configs[:1] if isinstance(dig(one, "route"), dict)]
    return found


def _texts(obj: Obj) -> Iterator[str]:
    if obj.get("kind") not in ("Secret", "ConfigMap"):
        return
    for field in ("data", "stringData"):
        for name, text in (each for one in mappings(obj.get(field)) for each in one.items()):
            if name in _FILES and isinstance(text, str):
                yield _plain(text) if (obj["kind"], field) == ("Secret", "data") else text


def _plain(text: str) -> str:
    try:
        return b64decode(text, validate=True).decode()
    except (Base64Error, UnicodeDecodeError):
        return ""


def _routes(route: Obj, labels: Mapping[str, str | None], above: Obj | None = None) -> Iterator[Obj]:
    """Where it ends: the deepest that match; the children of a route in turn, until one that does not go on."""
    own = {"receiver": (above or {}).get("receiver")} | route
    matched = False
    for child in mappings(route.get("routes")):
        if _hold(_matchers(child), labels):
            matched = True
            yield from _routes(child, labels, own)
            if not child.get("continue"):
                break
    if not matched:
        yield own


def _matchers(spec: Obj, prefix: str = "") -> list[tuple[str, str, str]]:
    found = [
        (str(key), how, str(value))
        for field, how in (("match", "="), ("match_re", "=~"))
        for one in mappings(spec.get(prefix + field))
        for key, value in one.items()
    ]
    for text in map(str, items(spec.get(f"{prefix}matchers"))):
        found += _read(text.strip().removeprefix("{").removesuffix("}"))
    return found


def _read(text: str) -> Iterator[tuple[str, str, str]]:
    """The matchers of one text. Raises Unknown where it is none."""
    at = 0
    while at < len(text):
        one = _MATCHER.match(text, at)
        if one is None:
            raise Unknown(brief(text))
        yield one[1], one[2], one[3].strip('"')
        at = one.end()


def _sure(matchers: Iterable[tuple[str, str, str]], labels: Mapping[str, str | None]) -> bool:
    return all(labels.get(label, "") is not None for label, _, _ in matchers)


def _hold(matchers: Iterable[tuple[str, str, str]], labels: Mapping[str, str | None]) -> bool:
    """Whether all of them do. Raises Unknown where one that decides is not known."""
    unknown = ""
    for label, how, value in matchers:
        has = labels.get(label, None if label in _OF_THE_SENDER else "")
        if has is None:
            unknown = unknown or label
        elif not _holds(how, value, has):
            return False
    if unknown:
        raise Unknown(unknown)
    return True


def _holds(how: str, value: str, has: str) -> bool:
    if how in ("=", "!="):
        return (has == value) is (how == "=")
    try:
        return (pattern(value).fullmatch(has) is not None) is (how == "=~")
    except Unsupported:
        raise Unknown(brief(value)) from None
