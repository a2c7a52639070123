"""Who puts workloads to sleep by the clock, as their own words have it: kube-green, and the two kube-downscalers.

Only what turns off is read here, and when it would wake again. Sources: kube-green/kube-green (June 2026)
api/v1alpha1/{sleepinfo_types,defaultpatches}.go (``M H * * weekdays`` in ``timeZone``; Deployments and StatefulSets
unless told otherwise, none that another controller owns) and internal/controller/sleepinfo/jsonpatch; caas-team/
py-kube-downscaler (April 2026) kube_downscaler/{cmd,helper,scaler}.py, which hjacobs/kube-downscaler 23.2 began:
arguments, environment, annotations of workloads and of their namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from killcheck.images.reference import InvalidReference, parse
from killcheck.kube import schedule
from killcheck.kube.objects import (
    Obj,
    annotations_of,
    controller_of,
    dig,
    labels_of,
    mappings,
    name_of,
    namespace_of,
)
from killcheck.text import lazy_re

__all__ = [
    "DOWNSCALER",
    "KUBE_GREEN",
    "PERIODS",
    "Downscaler",
    "is_downscaler",
    "is_sleep_info",
    "puts_to_sleep",
    "sleeps_at",
    "wakes_at",
]

#: The field managers as which they write, and the names of the models.
KUBE_GREEN, DOWNSCALER = "kube-green", "py-kube-downscaler"
_PREFIX = "downscaler/"
#: Annotations whose meaning is not read here.
PERIODS = ("upscale-period", "downscale-period")
_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_SPAN = lazy_re.compile(r"([a-zA-Z]{3})-([a-zA-Z]{3}) (\d\d):(\d\d)-(\d\d):(\d\d) ([a-zA-Z/_]+)")
#: ``--include-resources``: those that hold pods and are scaled, or suspended.
_PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "Rollout": "rollouts", "CronJob": "cronjobs"}
_BY_DEFAULT = "py-kube-downscaler,kube-downscaler,downscaler"


# -- kube-green ------------------------------------------------------------------------------------------------
def is_sleep_info(obj: Obj) -> bool:
    """Whether an object is a SleepInfo of kube-green's."""
    return obj.get("kind") == "SleepInfo" and obj.get("apiVersion") == "kube-green.com/v1alpha1"


def sleeps_at(sleep_info: Obj) -> schedule.Schedule:
    """When it puts to sleep. Raises ScheduleError."""
    return _at(sleep_info, "sleepAt")


def wakes_at(sleep_info: Obj) -> schedule.Schedule | None:
    """When it wakes again; None: never. Raises ScheduleError."""
    return _at(sleep_info, "wakeUpAt") if dig(sleep_info, "spec", "wakeUpAt") else None


def _at(sleep_info: Obj, field: str) -> schedule.Schedule:
    spec = sleep_info.get("spec") or {}
    hours, _, minutes = str(spec.get(field, "")).partition(":")
    return schedule.parse(f"{minutes} {hours} * * {spec.get('weekdays', '')}", str(spec.get("timeZone") or "UTC"))


#: By kind: the field that says so, and what it is where it is not said.
_SUSPENDED = {
    "Deployment": ("suspendDeployments", True),
    "StatefulSet": ("suspendStatefulSets", True),
    "CronJob": ("suspendCronJobs", False),
}


def puts_to_sleep(sleep_info: Obj, obj: Obj) -> bool:
    """Whether it takes a workload of its namespace to zero, or suspends a CronJob of it."""
    spec = sleep_info.get("spec") or {}
    wanted = _SUSPENDED.get(str(obj.get("kind")))
    if wanted is None or spec.get(wanted[0], wanted[1]) is False or controller_of(obj) is not None:
        return False
    if (namespace_of(obj) or "default") != (namespace_of(sleep_info) or "default"):
        return False
    includes = mappings(spec.get("includeRef"))
    left_out = any(_is_named(one, obj) for one in mappings(spec.get("excludeRef")))
    return not left_out and (not includes or any(_is_named(one, obj) for one in includes))


def _is_named(ref: Obj, obj: Obj) -> bool:
    if ref.get("matchLabels"):
        return bool(ref["matchLabels"].items() <= labels_of(obj).items())
    asked = (ref.get("apiVersion"), ref.get("kind"), ref.get("name"))
    return asked == (obj.get("apiVersion"), obj.get("kind"), name_of(obj))


# -- kube-downscaler -------------------------------------------------------------------------------------------
def is_downscaler(obj: Obj) -> bool:
    """Whether a Deployment runs one of the kube-downscalers, all of whose flags are read here."""
    if obj.get("kind") != "Deployment" or _container(obj) is None:
        return False
    try:
        return not Downscaler.of(obj).unread
    except ValueError:
        return False


def _container(obj: Obj) -> Obj | None:
    for one in mappings(dig(obj, "spec", "template", "spec", "containers")):
        try:
            path = parse(str(one.get("image", ""))).path
        except InvalidReference:
            continue
        if path.rpartition("/")[2] in ("kube-downscaler", "py-kube-downscaler"):
            return one
    return None


class Downscaler(Struct, frozen=True):
    """One of them, by its flags and its environment. ``unread``: what of them is not read here."""

    namespaces: frozenset[str] = frozenset()
    plurals: frozenset[str] = frozenset({"deployments"})
    uptime: str = "always"
    downtime: str = "never"
    excluded_namespaces: tuple[re.Pattern[str], ...] = (lazy_re.compile("kube-system"),)
    excluded_names: frozenset[str] = frozenset(_BY_DEFAULT.split(","))
    replicas: int = 0
    interval_s: float = 30.0
    grace_s: float = 900.0
    dry_run: bool = False
    environment: Mapping[str, str] = {}
    unread: tuple[str, ...] = ()

    @classmethod
    def of(cls, deployment: Obj, config_maps: Iterable[Obj] = ()) -> Downscaler:
        """Raises ValueError for a number that is none. ``config_maps``: one of them may be its environment."""
        container = _container(deployment) or {}
        words = [str(one) for one in (*(container.get("command") or ()), *(container.get("args") or ()))]
        home = namespace_of(deployment) or "default"
        held = {name_of(one): one for one in config_maps if (namespace_of(one) or "default") == home}
        env: dict[str, str] = {}
        for one in mappings(container.get("envFrom")):
            env |= dig(held.get(str(dig(one, "configMapRef", "name"))), "data", default={})
        env |= {str(one.get("name")): str(one.get("value") or "") for one in mappings(container.get("env"))}
        said = {flag.upper().replace("-", "_"): value for flag, value in _flags(words)}
        given = {**env, **said}

        def words_of(key: str, default: str) -> list[str]:
            return [one.strip() for one in (given.get(key) or default).split(",") if one.strip()]

        unread: list[str] = [
            key for key in ("UPSCALE_PERIOD", "DOWNSCALE_PERIOD", "MATCHING_LABELS", "ONCE") if key in given
        ]
        unread += (
            ["secrets"]
            if any("configMapRef" not in one for one in mappings(container.get("envFrom")))
            or any("valueFrom" in one for one in mappings(container.get("env")))
            else []
        )
        return cls(
            namespaces=frozenset(words_of("NAMESPACE", "")),
            plurals=frozenset(words_of("INCLUDE_RESOURCES", "deployments")),
            uptime=given.get("DEFAULT_UPTIME") or "always",
            downtime=given.get("DEFAULT_DOWNTIME") or "never",
            excluded_namespaces=tuple(map(_pattern, words_of("EXCLUDE_NAMESPACES", "kube-system"))),
            excluded_names=frozenset(words_of("EXCLUDE_DEPLOYMENTS", _BY_DEFAULT)),
            replicas=_number(given.get("DOWNTIME_REPLICAS") or "0"),
            interval_s=_number(given.get("INTERVAL") or "30"),
            grace_s=_number(given.get("GRACE_PERIOD") or "900"),
            dry_run="DRY_RUN" in said,
            environment=env,
            unread=tuple(unread),
        )

    def reaches(self, obj: Obj, namespace: Obj) -> bool:
        """Whether it looks at a workload at all, whatever the hour. ``namespace``: the workload's."""
        home = namespace_of(obj) or "default"
        return (
            _PLURALS.get(str(obj.get("kind"))) in self.plurals
            and (not self.namespaces or home in self.namespaces)
            and not any(pattern.fullmatch(home) for pattern in self.excluded_namespaces)
            and name_of(obj) not in self.excluded_names
            and not any(_told(one, "exclude").lower() == "true" for one in (obj, namespace))
            and not any(_told(one, key) for one in (obj, namespace) for key in PERIODS)
        )

    def is_down(self, obj: Obj, namespace: Obj, now: datetime) -> bool:
        """Whether a workload is to be down now. Raises ValueError where its words are no time that it takes."""
        if any(_until(one, now) for one in (obj, namespace)):
            return False
        forced = [_told(one, "force-uptime") for one in (obj, namespace)]
        if any(one and one.lower() != "false" for one in forced):
            return False
        if any(_told(one, "force-downtime").lower() == "true" for one in (obj, namespace)):
            return True
        up = _told(obj, "uptime") or _told(namespace, "uptime") or self.uptime
        down = _told(obj, "downtime") or _told(namespace, "downtime") or self.downtime
        return not (self._within(now, up) and not self._within(now, down))

    def replicas_of(self, obj: Obj, namespace: Obj) -> int:
        """How many replicas it leaves. Raises ValueError."""
        said = _told(obj, "downtime-replicas") or _told(namespace, "downtime-replicas")
        return _number(said) if said else self.replicas

    def changes(self, obj: Obj, namespace: Obj, after: datetime) -> Iterator[datetime]:
        """The moments of the coming week at which that changes, to the quarter of an hour."""
        was, at = self.is_down(obj, namespace, after), after
        for _ in range(7 * 96):
            at += timedelta(minutes=15)
            if self.is_down(obj, namespace, at) != was:
                was = not was
                yield at

    def _within(self, now: datetime, spec: str) -> bool:
        """``matches_time_spec``."""
        if spec.lower() in ("always", "never"):
            return spec.lower() == "always"
        return any(self._in_span(now, one.strip()) for one in spec.split(","))

    def _in_span(self, now: datetime, span: str) -> bool:
        if re.search(r"\d\d$", span) and "T" not in span:
            span = f"{span} {self.environment.get('DEFAULT_TIMEZONE', '')}"
        if re.match(r"\d\d:", span):
            span = f"{self.environment.get('DEFAULT_WEEKFRAME', '')} {span}"
        found = _SPAN.fullmatch(span)
        if found is None or not {found[1].upper(), found[2].upper()} <= set(_DAYS):
            raise ValueError(f"{span!r} is no time span")
        local = now.astimezone(schedule.zone(found[7]))
        first, last = _DAYS.index(found[1].upper()), _DAYS.index(found[2].upper())
        day = local.weekday()
        on_day = first <= day <= last if first <= last else day >= first or day <= last
        begun, end = (int(found[i]) * 60 + int(found[i + 1]) for i in (3, 5))
        return on_day and begun <= local.hour * 60 + local.minute < end


def _pattern(said: str) -> re.Pattern[str]:
    """A regular expression without groups that repeat: on no name does it go on for ever. Raises ValueError."""
    if re.search(r"\)[*+{?]|[*+}]{2}", said):
        raise ValueError(f"{said[:40]!r} repeats a group: it is not read here")
    try:
        return re.compile(said)
    except re.error as error:
        raise ValueError(f"{said[:40]!r} is no regular expression: {error}") from error


def _number(said: str) -> int:
    """A count or seconds, as argparse's ``int`` takes them. Raises ValueError."""
    if not re.fullmatch(r" *[0-9]{1,9} *", said):
        raise ValueError(f"{said[:40]!r} is no number")
    return int(said)


def _until(obj: Obj, now: datetime) -> bool:
    """Whether it is left alone until a date to come. Raises ValueError for what is no date."""
    said = _told(obj, "exclude-until")
    if not said:
        return False
    until = datetime.fromisoformat(said.replace("Z", "+00:00"))
    return now < (until if until.tzinfo else until.replace(tzinfo=now.tzinfo))


def _told(obj: Obj, what: str) -> str:
    return str(annotations_of(obj).get(_PREFIX + what) or "")


def _flags(words: Collection[str]) -> Iterator[tuple[str, str]]:
    """``--flag=value`` and ``--flag value``."""
    each = iter([part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])])
    flag = ""
    for word in each:
        if word.startswith("--"):
            if flag:
                yield flag, ""
            flag = word.removeprefix("--")
        elif flag:
            yield flag, word
            flag = ""
    if flag:
        yield flag, ""
