"""Whom Alertmanager tells of an alert, as far as its configuration is among the manifests: a route to a receiver that
tells nobody, and one that is muted by the clock, make no alarm of it. Nor does a group that waits too long.

Sources: prometheus.io/docs/alerting/latest/configuration (route: matchers, match, match_re, continue, receiver,
group_wait, mute_time_intervals, active_time_intervals; inhibit_rules: target_matchers, source_matchers);
prometheus/alertmanager inhibit/inhibit.go (an alert that both sides match is inhibited by none that both match).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from killcheck.alerting import integrations
from killcheck.alerting.rules import Evaluated
from killcheck.kube.objects import Obj, dig, items, mappings
from killcheck.promql.evaluation import Unsupported, pattern
from killcheck.promql.language import duration_s
from killcheck.text import lazy_re
from killcheck.text.shown import brief
from killcheck.text.values import replace

__all__ = ["Routing", "Unknown", "alert_labels", "delivered", "hold", "matchers_of"]

_MATCHER = lazy_re.compile(r'\s*"?([^\s"=!~,{}]+)"?\s*(=~|!~|!=|=)\s*("(?:\\.|[^"\\])*"|[^\s,"]*)\s*(?:,|$)')
#: Labels that a Prometheus puts on what it sends, and whatever it is told to.
_ALWAYS_SENT = frozenset({"prometheus", "prometheus_replica"})
_OF_THE_SENDER = _ALWAYS_SENT | {"cluster", "region", "environment", "env"}


class Told(Struct, frozen=True):
    """``silent``: why nobody is told; ``unproven``: why nobody knows; ``receiver``: who is, where it is known."""

    receiver: str = ""
    silent: str = ""
    unproven: str = ""


class Unknown(Exception):
    """Whether a matcher holds turns on a label of which nothing is known; the message is its name."""


class Routing(Struct, frozen=True):
    """One configuration, and the object that it stands in.

    ``silent``: why nobody is told by it, whatever fires; ``unproven``: why nobody knows; ``doubted``: it is what there
    is where nothing else was seen; ``alone``: nothing else runs where a message to ``localhost`` would arrive.
    """

    of: str
    config: Obj
    silent: str = ""
    unproven: str = ""
    doubted: bool = False
    alone: bool = False

    def tells(self, labels: Mapping[str, str | None], left_s: float) -> Told:
        """What becomes of an alert with these labels (None: a value that is made when it fires), in so many seconds."""
        if self.silent or self.unproven:
            return Told(silent=self.silent, unproven="" if self.silent else self.unproven)
        try:
            muted = next(self._inhibited(labels), "")
            routes = list(_routes(dig(self.config, "route", default={}), labels))
        except Unknown as error:
            return Told(unproven=f"which way it goes in {self.of} turns on its label {error}, which is not known")
        heard = [one for one in routes if integrations.tell(self.config, str(one.get("receiver")))]
        if not heard:
            return self._unheard([str(one.get("receiver")) for one in routes])
        if muted:
            return Told(unproven=muted)
        return self._in_time(heard, left_s)

    def _in_time(self, heard: Sequence[Obj], left_s: float) -> Told:
        """Whether one of its routes tells somebody before the alarm's time is over."""
        soon = [one for one in heard if _waits_s(one) <= left_s]
        if not soon:
            return Told(silent=f"{self.of} waits {heard[0].get('group_wait')} before it tells anybody (group_wait)")
        if all(one.get("mute_time_intervals") or one.get("active_time_intervals") for one in soon):
            named = [*items(soon[0].get("mute_time_intervals")), *items(soon[0].get("active_time_intervals"))]
            return Told(unproven=f"{self.of} mutes its route by the clock ({', '.join(map(str, named))})")
        return Told(str(soon[0].get("receiver")))

    def _unheard(self, receivers: Sequence[str]) -> Told:
        """Of receivers that tell nobody."""
        here = next(filter(None, (integrations.stay(self.config, name) for name in receivers)), "")
        told = f"{self.of} sends it to receiver {', '.join(receivers)}, which tells nobody"
        told += f" outside its own pod ({here})" if here else ""
        return Told(unproven=told) if self.doubted or (here and not self.alone) else Told(silent=told)

    def _inhibited(self, labels: Mapping[str, str | None]) -> Iterator[str]:
        for rule in mappings(self.config.get("inhibit_rules")):
            source, target = matchers_of(rule, "source_"), matchers_of(rule, "target_")
            # Whoever matches both sides is inhibited by none that does: by nobody, where a source is always a target.
            both = set(target) <= set(source) and _sure(source, labels) and hold(source, labels)
            if hold(target, labels) and not both:
                wanted = ", ".join(map("".join, source)) or "anything"
                yield f"{self.of} inhibits it while an alert of {wanted} fires"


def delivered(
    one: Evaluated, found: Sequence[Routing], within_s: float, external: Mapping[str, str] | None = None
) -> Evaluated:
    """An alert that fires, with who is told of it; none that nobody is told of fires. ``found``: all that hear of it;
    ``external``: the labels that its Prometheus adds (None: nobody saw it).
    """
    if one.fires_s is None or not found:
        return one
    labels = alert_labels(one, external)
    told = [way.tells(labels, within_s - one.fires_s) for way in found]
    heard = next((way for way in told if way.receiver), None)
    if heard is not None:
        return replace(one, receiver=heard.receiver)
    unproven = next((way.unproven for way in told if way.unproven), "")
    return replace(one, fires_s=None, unproven=unproven, silent="" if unproven else told[0].silent)


def alert_labels(one: Evaluated, external: Mapping[str, str] | None) -> dict[str, str | None]:
    """The labels of an alert as it is sent (None: a value that nobody knows)."""
    own = {name: None if "{{" in value else value for name, value in one.rule.labels}
    taken = dict.fromkeys(_OF_THE_SENDER if external is None else _ALWAYS_SENT)
    return {**taken, **(external or {}), **dict(one.labels), **own, "alertname": one.rule.alert}


def _waits_s(route: Obj) -> float:
    """How long a group waits for others before the first notification, in seconds."""
    try:
        return duration_s(str(route.get("group_wait") or "30s"))
    except Unsupported:
        return 0.0 if str(route.get("group_wait")) == "0" else float("inf")


def _routes(route: Obj, labels: Mapping[str, str | None], above: Obj | None = None) -> Iterator[Obj]:
    """Where it ends: the deepest that match; the children of a route in turn, until one that does not go on."""
    own = {field: (above or {}).get(field) for field in ("receiver", "group_wait")} | route
    matched = False
    for child in mappings(route.get("routes")):
        if hold(matchers_of(child), labels):
            matched = True
            yield from _routes(child, labels, own)
            if not child.get("continue"):
                break
    if not matched:
        yield own


def matchers_of(spec: Obj, prefix: str = "") -> list[tuple[str, str, str]]:
    """As (label, operator, value). Raises Unknown where one cannot be read."""
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


def hold(matchers: Iterable[tuple[str, str, str]], labels: Mapping[str, str | None]) -> bool:
    """Whether all of them do. Raises Unknown where one that decides is not known."""
    unknown = ""
    for label, how, value in matchers:
        has = labels.get(label, "")
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
