"""Alertmanager's configurations among objects: which of them is used, what AlertmanagerConfigs add, what is refused.

Where an Alertmanager of the operator's is there, its own Secret counts and no other, with the AlertmanagerConfigs that
it selects. Without one, whatever is called `alertmanager.yaml`: of several nobody knows which is used.

Sources: prometheus-operator Documentation/api-reference (AlertmanagerSpec, AlertmanagerConfig) and
pkg/alertmanager/amcfg.go (each route gets its namespace as a matcher and ``continue``, and comes before the Secret's;
inhibition within the namespace; one that names what is not there is left out; without a Secret there is a receiver that
tells nobody); prometheus/alertmanager config/config.go (what is refused; of receivers: :mod:`.integrations`).
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from killcheck.alerting import integrations
from killcheck.alerting.monitors import matches, within
from killcheck.alerting.routing import Routing, Unknown, matchers_of
from killcheck.kube.objects import Obj, dig, items, labels_of, mappings, name_of, namespace_of, ref_of
from killcheck.text import lazy_re
from killcheck.text.yamlfile import YamlError, documents, format_path

__all__ = ["of_manager", "written"]

_FILES = ("alertmanager.yaml", "alertmanager.yml")
#: Fields of an Alertmanager that change what becomes of an alert and are heeded here; how it runs changes nothing.
_HEEDED = frozenset(
    {
        *("configSecret", "alertmanagerConfiguration", "alertmanagerConfigSelector", "replicas", "paused"),
        *("alertmanagerConfigNamespaceSelector", "alertmanagerConfigMatcherStrategy"),
    }
)
_INERT = lazy_re.compile(
    r"image\w*|version|tag|sha|baseImage|log\w+|storage|resources|retention|volume\w*|configMaps|secrets|externalUrl"
    r"|routePrefix|portName|serviceAccountName|serviceName|listenLocal|priorityClassName|securityContext|affinity"
    r"|tolerations|nodeSelector|topologySpreadConstraints|podMetadata|podManagementPolicy|minReadySeconds|hostAliases"
    r"|automountServiceAccountToken|terminationGracePeriodSeconds|updateStrategy|dns\w+|enableServiceLinks|hostUsers"
    r"|hostNetwork|persistentVolumeClaimRetentionPolicy|web|cluster\w+|additionalPeers|forceEnableClusterMode"
    r"|additionalArgs|limits"
)
_TOP = frozenset(
    {"global", "route", "receivers", "inhibit_rules", "templates", "time_intervals", "mute_time_intervals", "tracing"}
)
_OF_ROUTES = frozenset(
    {
        *("receiver", "routes", "continue", "match", "match_re", "matchers", "group_by", "group_wait"),
        *("group_interval", "repeat_interval", "mute_time_intervals", "active_time_intervals"),
    }
)
_LISTS = frozenset({"receivers", "routes", "inhibit_rules", "templates", "group_by", "equal"})
#: prometheus/common model/time.go ``ParseDuration``.
_DURATION = lazy_re.compile(r"0|(?=\d)(?:\d+y)?(?:\d+w)?(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?(?:\d+ms)?")
#: The operator's own, where there is no Secret.
_NOBODY: Mapping[str, Any] = {"route": {"receiver": "null"}, "receivers": [{"name": "null"}]}


def written(objects: Iterable[Obj]) -> list[Routing]:
    """Every configuration that stands in a Secret or a ConfigMap."""
    return [_routing(ref_of(obj), text) for obj in objects for text in _texts(obj)]


def of_manager(manager: Obj, objects: Sequence[Obj], spaces: dict[str, dict[str, str]]) -> Routing:
    """The configuration of one Alertmanager of the operator's."""
    spec, ref = dig(manager, "spec", default={}), ref_of(manager)
    if spec.get("replicas") == 0:
        return Routing(ref, {}, silent=f"{ref} has no replicas")
    strange = sorted(
        name for name, value in spec.items() if value and name not in _HEEDED and not _INERT.fullmatch(name)
    )
    unproven = f"what spec.{strange[0]} of {ref} makes of alerts is not evaluated" if strange else ""
    if spec.get("paused") is True:
        unproven = f"{ref} is paused: its operator writes it no configuration"
    base = _base(manager, objects)
    found = [_converted(one) for one in objects if _is_chosen(manager, one, spaces)]
    strategy = dig(spec, "alertmanagerConfigMatcherStrategy", "type") or "OnNamespace"
    merged = _merged(base.config, [(one, _prefixed(manager, one, strategy)) for one in found])
    silent, lacking = base.silent, next(integrations.refused(merged), "")
    if lacking and not silent:
        silent = f"Alertmanager refuses {base.of} with what AlertmanagerConfigs add: {lacking}"
    if silent and base.doubted:
        silent, unproven = "", silent
    seen = spec.get("hostNetwork") is not True  # nothing runs beside it but what its operator puts there
    return Routing(base.of, merged, silent, unproven or base.unproven, base.doubted, alone=seen)


def _base(manager: Obj, objects: Sequence[Obj]) -> Routing:
    """What its AlertmanagerConfigs are laid over."""
    spec, ref = dig(manager, "spec", default={}), ref_of(manager)
    whole = dig(spec, "alertmanagerConfiguration", "name")
    home = namespace_of(manager) or "default"
    if whole:
        for one in objects:
            if _is_config(one) and (namespace_of(one) or "default", name_of(one)) == (home, whole):
                shared = {"global": dig(spec, "alertmanagerConfiguration", "global", default={})}
                return _checked(Routing(ref_of(one), _converted(one)[1] | shared), own=False)
        return Routing(ref, {}, unproven=f"AlertmanagerConfig {whole} of {ref} is not here")
    name = str(spec.get("configSecret") or f"alertmanager-{name_of(manager)}")
    for obj in objects:
        if obj.get("kind") == "Secret" and (namespace_of(obj) or "default", name_of(obj)) == (home, name):
            texts = list(_texts(obj))
            if not texts:
                return Routing(ref, {}, unproven=f"{ref_of(obj)} has no alertmanager.yaml that can be read")
            return _routing(ref_of(obj), texts[0])
    return Routing(f"Secret {name} of {ref}, which is not here,", dict(_NOBODY), doubted=True)


def _is_config(obj: Obj) -> bool:
    return obj.get("kind") == "AlertmanagerConfig" and str(obj.get("apiVersion", "")).startswith(
        "monitoring.coreos.com/"
    )


def _is_chosen(manager: Obj, obj: Obj, spaces: dict[str, dict[str, str]]) -> bool:
    """Whether an AlertmanagerConfig is selected, and not one that its operator leaves out."""
    if not _is_config(obj) or not within(manager, "alertmanagerConfigNamespaceSelector", obj, spaces):
        return False
    if not matches(dig(manager, "spec", "alertmanagerConfigSelector"), labels_of(obj)):
        return False
    routing = _checked(Routing(ref_of(obj), _converted(obj)[1]), own=False, alone=True)
    return not routing.silent and dig(obj, "spec", "route") is not None


def _converted(obj: Obj) -> tuple[Obj, Obj]:
    """An AlertmanagerConfig as Alertmanager writes the same."""
    return obj, _snake(dig(obj, "spec", default={}))


def _snake(value: Any) -> Any:
    if isinstance(value, list):
        return [_snake(one) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) <= {"name", "value", "matchType", "regex"} and "value" in value and "name" in value:
        how = value.get("matchType") or ("=~" if value.get("regex") else "=")
        quoted = str(value["value"]).replace("\\", "\\\\").replace('"', '\\"')
        return f'{value["name"]}{how}"{quoted}"'
    renamed = {"source_match": "source_matchers", "target_match": "target_matchers"}
    keys = {key: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(key)).lower() for key in value}  # apiURL: api_url
    return {renamed.get(keys[key], keys[key]): _snake(one) for key, one in value.items()}


def _prefixed(manager: Obj, one: tuple[Obj, Obj], strategy: str) -> list[str]:
    """The matcher that is laid before everything of an AlertmanagerConfig."""
    home = namespace_of(one[0]) or "default"
    own = strategy == "OnNamespaceExceptForAlertmanagerNamespace" and home == (namespace_of(manager) or "default")
    return [] if strategy == "None" or own else [f'namespace="{home}"']


def _merged(base: Obj, added: Sequence[tuple[tuple[Obj, Obj], list[str]]]) -> Obj:
    """A configuration with what AlertmanagerConfigs lay over it: their routes first, each going on to the next."""
    if not added:
        return base
    config = {**base, "route": dict(dig(base, "route", default={}))}
    routes, receivers, rules = list[Obj](), [*mappings(base.get("receivers"))], [*mappings(base.get("inhibit_rules"))]
    intervals = [*mappings(base.get("time_intervals"))]
    for (obj, said), prefix in added:
        name = f"{namespace_of(obj)}/{name_of(obj)}"
        route = _renamed(said.get("route") or {}, name)
        routes.append({**route, "matchers": [*prefix, *items(route.get("matchers"))], "continue": True})
        receivers += [{**one, "name": f"{name}/{one.get('name')}"} for one in mappings(said.get("receivers"))]
        for field in ("mute_time_intervals", "time_intervals"):  # v1alpha1's word, and v1beta1's
            intervals += [{**one, "name": f"{name}/{one.get('name')}"} for one in mappings(said.get(field))]
        for rule in mappings(said.get("inhibit_rules")):
            sides = {side: [*prefix, *items(rule.get(side))] for side in ("source_matchers", "target_matchers")}
            rules.append({**rule, **sides})
    config["route"]["routes"] = [*routes, *mappings(config["route"].get("routes"))]
    return {**config, "receivers": receivers, "inhibit_rules": rules, "time_intervals": intervals}


def _renamed(route: Obj, name: str) -> Obj:
    found = dict(route)
    if route.get("receiver"):
        found["receiver"] = f"{name}/{route['receiver']}"
    for field in ("mute_time_intervals", "active_time_intervals"):
        if route.get(field):
            found[field] = [f"{name}/{one}" for one in items(route[field])]
    if route.get("routes"):
        found["routes"] = [_renamed(one, name) for one in mappings(route["routes"])]
    return found


# -- what is written ---------------------------------------------------------------------------------------------
def _routing(of: str, text: str) -> Routing:
    try:
        found = documents(text, of)
        configs = [one.value for one in found]
    except YamlError:
        return Routing(of, {}, unproven=f"the alertmanager.yaml of {of} cannot be read")
    if not configs or not isinstance(dig(configs[0], "route"), dict):
        return Routing(of, {}, silent=f"Alertmanager refuses {of}: no route")
    if found[0].duplicates:
        return Routing(
            of, {}, silent=f"Alertmanager refuses {of}: {format_path(found[0].duplicates[0][0])} is there twice"
        )
    return _checked(Routing(of, configs[0]))


def _checked(one: Routing, *, own: bool = True, alone: bool = False) -> Routing:
    """With why Alertmanager refuses it, or may. ``own``: as its own file has it; ``alone``: what it is laid over has
    the ``global``.
    """
    why = [*_refused(one.config), *(_refused_at_root(one.config) if own else ())]
    refused = next(iter([*why, *integrations.refused(one.config, alone=alone)]), "")
    strange = next(_strange(one.config, own=own), "")
    silent = f"Alertmanager refuses {one.of}: {refused}" if refused else ""
    unproven = f"whether Alertmanager takes {one.of} is not known ({strange})" if strange else ""
    return Routing(one.of, one.config, silent=silent, unproven="" if silent else unproven)


def _refused(config: Obj) -> Iterator[str]:
    route = dig(config, "route", default={})
    named = [str(one.get("name")) for one in mappings(config.get("receivers"))]
    clocks = [
        str(one.get("name")) for key in ("time_intervals", "mute_time_intervals") for one in mappings(config.get(key))
    ]
    yield from _unlisted(config)
    if route.get("receiver") in (None, ""):
        yield "its first route has no receiver"
    yield from (f"receiver {name} is there twice" for name in named if named.count(name) > 1)
    yield from (f"time interval {name} is there twice" for name in clocks if clocks.count(name) > 1)
    for one in _every(route):
        if one.get("receiver") and str(one["receiver"]) not in named:
            yield f"receiver {one['receiver']} is not there"
        for field in ("mute_time_intervals", "active_time_intervals"):
            yield from (
                f"time interval {name} is not there" for name in map(str, items(one.get(field))) if name not in clocks
            )
        yield from _untimed(one)
        by = [str(name) for name in items(one.get("group_by"))]
        if len(set(by)) < len(by) or ("..." in by and len(by) > 1):
            yield f"group_by is {', '.join(by)}"


def _untimed(route: Obj) -> Iterator[str]:
    """Waits of a route that are none."""
    for field in ("group_wait", "group_interval", "repeat_interval"):
        said = str(route.get(field)) if route.get(field) is not None else "1s"
        if not _DURATION.fullmatch(said):
            yield f"{field} {said} is no duration"
        elif field != "group_wait" and not said.strip("0smhdwy"):
            yield f"{field} is zero"


def _unlisted(config: Obj) -> Iterator[str]:
    """What is to be a list and is none: loading is strict."""
    places = [config, *_every(dig(config, "route", default={})), *mappings(config.get("receivers"))]
    for key, value in (each for place in [*places, *mappings(config.get("inhibit_rules"))] for each in place.items()):
        listed = key in _LISTS or str(key).endswith(("_configs", "_intervals", "matchers"))
        if listed and value is not None and not isinstance(value, list):
            yield f"{key} is no list"


def _refused_at_root(config: Obj) -> Iterator[str]:
    """Every alert goes to the first route: it can leave none out."""
    fields = ("matchers", "match", "match_re", "mute_time_intervals", "active_time_intervals", "continue")
    yield from (f"its first route has {field}" for field in fields if dig(config, "route", field))


def _strange(config: Obj, *, own: bool) -> Iterator[str]:
    yield from sorted(map(str, set(config) - _TOP))
    for one in _every(dig(config, "route", default={})):
        yield from sorted(map(str, set(one) - _OF_ROUTES))
        yield from _unread(one, "")
    for one in mappings(config.get("inhibit_rules")):
        yield from (text for side in ("source_", "target_") for text in _unread(one, side))
    for one in mappings(config.get("receivers")):
        yield from sorted(str(key) for key in one if key != "name" and not str(key).endswith("_configs"))
    if own:
        yield from integrations.strange(config)


def _unread(one: Obj, prefix: str) -> Iterator[str]:
    """A matcher that is none to those who read it here."""
    try:
        for _, how, value in matchers_of(one, prefix):
            if how.endswith("~"):
                re.compile(value)
    except (Unknown, re.error) as error:
        yield str(error)


def _every(route: Obj) -> Iterator[Obj]:
    waiting, count = [route], 0
    while waiting and (count := count + 1) < 10_000:
        yield (one := waiting.pop())
        waiting += mappings(one.get("routes"))


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
