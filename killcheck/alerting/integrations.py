"""What Alertmanager's receivers integrate: which of them its loading refuses, and which stay on its own pod.

One that is refused takes the whole configuration along. A field or a kind that is not listed is not known to be taken:
loading is strict, and later versions know more.

Sources: prometheus/alertmanager config/notifiers.go (``UnmarshalYAML`` of each kind: what is missing, at most one of
X & X_file) and config/config.go (``Config.UnmarshalYAML``: what ``global`` stands in for; ``parseURL``; ``HostPort``);
prometheus-operator pkg/alertmanager/operator.go (an AlertmanagerConfig that lacks the like is left out); RFC 6761
(``localhost``, ``invalid``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from killcheck.kube.objects import Obj, dig, items, mappings
from killcheck.text import lazy_re

__all__ = ["refused", "stay", "strange", "tell"]

_SUFFIX = "_configs"
#: What each kind needs: one of the fields of a line, or of those of ``global`` (@).
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "discord": ("webhook_url webhook_url_file",),
    "email": ("to", "smarthost @smtp_smarthost", "from @smtp_from"),
    "incidentio": ("url url_file", "alert_source_token alert_source_token_file http_config"),
    "jira": ("project", "issue_type", "api_url @jira_api_url"),
    "mattermost": ("webhook_url webhook_url_file @mattermost_webhook_url @mattermost_webhook_url_file",),
    "msteams": ("webhook_url webhook_url_file",),
    "msteamsv2": ("webhook_url webhook_url_file",),
    "opsgenie": ("api_key api_key_file @opsgenie_api_key @opsgenie_api_key_file",),
    "pagerduty": ("routing_key routing_key_file service_key service_key_file",),
    "pushover": ("user_key user_key_file", "token token_file"),
    "rocketchat": (
        "token_id token_id_file @rocketchat_token_id @rocketchat_token_id_file",
        "token token_file @rocketchat_token @rocketchat_token_file",
    ),
    "slack": (
        "api_url api_url_file app_token app_token_file @slack_api_url @slack_api_url_file @slack_app_token"
        " @slack_app_token_file",
    ),
    "sns": ("topic_arn target_arn phone_number",),
    "telegram": (
        "bot_token bot_token_file @telegram_bot_token @telegram_bot_token_file",
        "chat_id chat_id_file",
    ),
    "victorops": ("routing_key", "api_key api_key_file @victorops_api_key @victorops_api_key_file"),
    "webex": ("room_id", "http_config.authorization"),
    "webhook": ("url url_file url_secret",),
    "wechat": ("api_secret api_secret_file @wechat_api_secret @wechat_api_secret_file", "corp_id @wechat_api_corp_id"),
}
#: What else each may say, and all of them.
_ALL = "send_resolved http_config"
_MAY: Mapping[str, str] = {
    "discord": "content title message username avatar_url",
    "email": "hello auth_username auth_password auth_password_file auth_secret auth_secret_file auth_identity headers "
    "html text require_tls tls_config force_implicit_tls threading",
    "incidentio": "max_alerts timeout",
    "jira": "api_type summary description labels priority reopen_transition resolve_transition wont_fix_resolution "
    "reopen_duration fields",
    "mattermost": "channel username text fallback color pretext author_name author_link author_icon title title_link "
    "fields thumb_url footer footer_icon image_url icon_url icon_emoji attachments type props priority",
    "msteams": "title summary text",
    "msteamsv2": "title text",
    "opsgenie": "api_url message description source details entity responders actions tags note priority update_alerts",
    "pagerduty": "url client client_url description details images links source severity class component group timeout",
    "pushover": "title message url url_title device sound priority retry expire ttl html monospace",
    "rocketchat": "api_url channel color title title_link text fields short_fields emoji icon_url image_url thumb_url "
    "link_names actions",
    "slack": "app_url channel username color title title_link pretext text message_text fields short_fields footer "
    "fallback callback_id icon_emoji icon_url image_url thumb_url link_names mrkdwn_in actions timeout update_message",
    "sns": "api_url sigv4 subject message attributes",
    "telegram": "api_url message_thread_id message disable_notifications parse_mode",
    "victorops": "api_url message_type state_message entity_display_name monitoring_tool custom_fields",
    "webex": "api_url message",
    "webhook": "max_alerts timeout payload",
    "wechat": "api_url message to_user to_party to_tag agent_id message_type",
}
#: Where each sends to: its own field, and that of ``global``. Fields of these names elsewhere are no addresses.
_TO: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("discord", "msteams", "msteamsv2"), ("webhook_url", "")),
    **{kind: ("api_url", f"{kind}_api_url") for kind in ("jira", "opsgenie", "rocketchat", "slack", "telegram")},
    **{kind: ("api_url", f"{kind}_api_url") for kind in ("victorops", "webex", "wechat")},
    "email": ("smarthost", "smtp_smarthost"),
    "incidentio": ("url", ""),
    "mattermost": ("webhook_url", "mattermost_webhook_url"),
    "pagerduty": ("url", "pagerduty_url"),
    "sns": ("api_url", ""),
    "webhook": ("url", ""),
}
_GLOBAL = frozenset(
    {
        *("resolve_timeout", "http_config", "smtp_hello", "smtp_require_tls", "smtp_tls_config"),
        *("smtp_force_implicit_tls", *(f"smtp_auth_{one}" for one in ("username", "identity"))),
        *(f"smtp_auth_{one}{end}" for one in ("password", "secret") for end in ("", "_file")),
        *(word[1:] for lines in _NEEDS.values() for line in lines for word in line.split() if word[0] == "@"),
        *(shared for _, shared in _TO.values() if shared),
        *("slack_app_url",),
    }
)
#: What somebody fills in before Alertmanager reads it.
_FILLED_IN = lazy_re.compile(r"[{<$%]")
_HOST_PORT = lazy_re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*)):(.+)")


def refused(config: Obj, *, alone: bool = False) -> Iterator[str]:
    """Why Alertmanager refuses a configuration for what its receivers are. ``alone``: another has its ``global``."""
    shared = _shared(config)
    if not alone:
        yield from (f"global has both {why}" for why in _twice(dig(config, "global", default={})))
        common = sorted({field for _, field in _TO.values() if field})
        yield from (f"global {why}" for field in common for why in _misread(field, shared.get(_plain(field))))
    for receiver in mappings(config.get("receivers")):
        if not receiver.get("name"):
            yield "a receiver has no name"
        for kind, one in _integrations(receiver):
            of = f"{kind}{_SUFFIX} of receiver {receiver.get('name')}"
            yield from (f"{of} {why}" for why in _faults(kind, one, None if alone else shared))


def strange(config: Obj) -> Iterator[str]:
    """What it says of receivers that nobody here knows to be taken."""
    yield from sorted(str(key) for key in dig(config, "global", default={}) if key not in _GLOBAL)
    for kind, one in (each for receiver in mappings(config.get("receivers")) for each in _integrations(receiver)):
        known = {*_ALL.split(), *_MAY.get(kind, "").split(), *" ".join(_NEEDS.get(kind, ())).split()}
        yield from [f"{kind}{_SUFFIX}"] if kind not in _NEEDS else sorted(str(key) for key in set(one or ()) - known)


def tell(config: Obj, name: str) -> bool:
    """Whether a receiver tells somebody beyond Alertmanager's own pod."""
    return any(not _nowhere(kind, one or {}, _shared(config)) for kind, one in _named(config, name))


def stay(config: Obj, name: str) -> str:
    """The host of a receiver's that no message leaves the pod for; empty where it has none."""
    return next(filter(None, (_nowhere(kind, one or {}, _shared(config)) for kind, one in _named(config, name))), "")


def _named(config: Obj, name: str) -> Iterator[tuple[str, Obj | None]]:
    for receiver in mappings(config.get("receivers")):
        if str(receiver.get("name")) == name:
            yield from _integrations(receiver)


def _integrations(receiver: Obj) -> Iterator[tuple[str, Obj | None]]:
    """Each as its kind and what is said of it (None: nothing that can be read)."""
    for key, value in receiver.items():
        if str(key).endswith(_SUFFIX):
            kind = str(key).removesuffix(_SUFFIX)
            yield from ((kind, one if isinstance(one, dict) else None) for one in items(value))


def _plain(key: object) -> str:
    """A field's name, as a configuration and an Alertmanager of the operator's have it in common."""
    return str(key).replace("_", "").lower()


def _shared(config: Obj) -> dict[str, Any]:
    """What ``global`` says, by plain names; the operator's has ``smtp`` as one field."""
    said = dig(config, "global", default={})
    mail = dig(said, "smtp", default={})
    found = {_plain(key): value for key, value in said.items()} | {f"smtp{_plain(k)}": v for k, v in mail.items()}
    host = found.get("smtpsmarthost")
    if isinstance(host, dict):
        found["smtpsmarthost"] = f"{host.get('host', '')}:{host.get('port', '')}"
    return found


def _faults(kind: str, one: Obj | None, shared: Mapping[str, Any] | None) -> Iterator[str]:
    """Why loading refuses an integration; ``shared`` None: what ``global`` may stand in for is taken to be there."""
    if one is None:
        yield "is empty"
        return
    for line in _NEEDS.get(kind, ()):
        words = line.split()
        own = any(dig(one, *word.split(".")) for word in words if word[0] != "@")
        common = [word[1:] for word in words if word[0] == "@"]
        if not own and not (common if shared is None else any(shared.get(_plain(word)) for word in common)):
            yield f"has no {words[0]}"
    yield from (f"has both {why}" for why in _twice(one))
    if kind == "sns" and sum(bool(one.get(word)) for word in _NEEDS["sns"][0].split()) == 2:
        yield "has more than one of topic_arn, target_arn and phone_number"
    if kind in _TO and kind != "sns":
        yield from _misread(_TO[kind][0], one.get(_TO[kind][0]))


def _twice(said: Obj) -> Iterator[str]:
    for key, value in said.items():
        if value and said.get(f"{key}_file"):
            yield f"{key} and {key}_file"


def _misread(field: str, value: Any) -> Iterator[str]:
    """Why an address is none."""
    if not isinstance(value, str) or not value or _FILLED_IN.search(value):
        return
    if field.endswith("smarthost"):
        if not _HOST_PORT.fullmatch(value):
            yield f"has a {field} that is no host:port"
        return
    try:
        said = urlsplit(value)
        fine = said.scheme in ("http", "https") and bool(said.netloc)
    except ValueError:
        fine = False
    if not fine:
        yield f"has a {field} that is no http or https URL"


def _nowhere(kind: str, one: Obj, shared: Mapping[str, Any]) -> str:
    """The host that no message leaves the pod for, of those an integration sends to or through (an address may hold
    a secret).
    """
    own, common = _TO.get(kind, ("", ""))
    through = one.get("http_config") or shared.get("httpconfig")
    proxy = next((value for key, value in (through or {}).items() if _plain(key) == "proxyurl"), None)
    for address in (one.get(own) or shared.get(_plain(common)), proxy if kind != "email" else None):
        host = _host(address) if isinstance(address, str) and address else None
        if host is not None and _is_here(host):
            return host or "no host"
    return ""


def _host(address: str) -> str | None:
    """The host of a URL or host:port; None where there is none to be read."""
    try:
        if "://" in address:
            return urlsplit(address).hostname or ""
    except ValueError:
        return None
    said = _HOST_PORT.fullmatch(address)
    return (said[1] or said[2] or "") if said else address if address == "<secret>" else None


def _is_here(host: str) -> bool:
    """Whether it is the pod itself, or nothing at all: no host is dialled at home, ``<secret>`` is what was hidden."""
    name = host.lower().rstrip(".").partition("%")[0]
    if name in ("", "<secret>", "localhost.localdomain") or name.rpartition(".")[2] in ("localhost", "invalid"):
        return True
    try:
        found = ip_address(name)
    except ValueError:
        return False
    found = (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
    return found.is_loopback or found.is_unspecified
