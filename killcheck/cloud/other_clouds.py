"""GCP and Azure asked for the machines behind Nodes (proof P3), by their own APIs, as a Node's provider id names them.

Credentials are found by the clouds' own libraries (google-auth, azure-identity), as the environment has them. Only
reads: ``compute.instances.get``, and ``Microsoft.Compute/virtualMachines/instanceView/read`` or, of a scale set,
``Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read``.

Sources: cloud.google.com/compute/docs/reference/rest/v1/instances/get (``status``); learn.microsoft.com/rest/api
"Virtual Machines - Instance View", "Virtual Machine Scale Set VMs - Get Instance View" (``PowerState/...``);
cloud-provider-gcp and cloud-provider-azure (the forms of ``spec.providerID``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from killcheck.cloud.session import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, TRIES, AskError, Kind
from killcheck.instances.reclaims import NAMES, cloud_of
from killcheck.text import lazy_re

if TYPE_CHECKING:
    import urllib3

__all__ = ["DELETED", "OtherClouds", "names_machine"]

#: Said of a machine that its cloud had, and has no more.
DELETED = "deleted"
_GCE = lazy_re.compile(r"gce://(?P<project>[^/]+)/(?P<zone>[^/]+)/(?P<name>[^/]+)")
_AZURE = lazy_re.compile(
    r"(?i)azure://(?P<id>/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/.+)"
)
_REFUSED: Mapping[int, tuple[Kind, str]] = {
    401: ("invalid-credentials", "the credentials were not taken"),
    403: ("denied", "access denied"),
    404: ("not-found", "there is no such machine"),
    429: ("throttled", f"throttled, {TRIES} times in a row"),
}


class Api(Struct, frozen=True):
    """How one cloud is asked. ``url``: of a machine's state, None where an id names no machine; ``word``: its own word
    in an answer; ``gone``: whether a refusal's message says that this machine is not there; ``needs``: the right;
    ``token``: a bearer token, raises AskError."""

    base: str
    url: Callable[[str], str | None]
    word: Callable[[Mapping[str, Any]], str]
    gone: Callable[[str, str], bool]
    needs: str
    token: Callable[[], str]


class OtherClouds(Struct):
    """Each machine of GCP or Azure, asked after by itself. ``endpoint``: of a stand-in on loopback for both of them.

    One that was there and is not found any more was deleted. One that never was is not known.
    """

    endpoint: str = ""
    apis: Mapping[str, Api] = field(default_factory=lambda: APIS)
    _seen: set[str] = field(default_factory=set)
    _pool: urllib3.PoolManager | None = None

    def states(self, provider_ids: Iterable[str]) -> Mapping[str, str]:
        """The cloud's own word for each machine that it knows. Raises AskError."""
        return {one: said for one in provider_ids if (said := self._state(one))}

    def _state(self, provider_id: str) -> str:
        cloud = cloud_of(provider_id) or ""
        api = self.apis[cloud]
        url = api.url(provider_id)
        if url is None:
            raise AskError(f"{provider_id} is no provider id of {NAMES[cloud]}'s machines")
        answer = self._asked(api, url, provider_id)
        if answer is None:
            return DELETED if provider_id in self._seen else ""
        self._seen.add(provider_id)
        return api.word(answer)

    def _asked(self, api: Api, url: str, about: str) -> Mapping[str, Any] | None:
        """What is answered; None: there is no such machine. Raises AskError."""
        # A stand-in gets nobody's token: what listens on this machine's port may be anybody's.
        headers = {"Authorization": f"Bearer {'stand-in' if self.endpoint else api.token()}"}
        from urllib3.exceptions import HTTPError

        try:
            answer = self._connections().request("GET", (self.endpoint or api.base) + url, headers=headers)
        except HTTPError as error:
            raise AskError(f"{api.needs}: it cannot be reached ({error})"[:300], kind="unreachable") from error
        if answer.status in (400, 404) and api.gone(about, _message(answer.data)):
            return None
        if answer.status != 200:
            kind, advice = _REFUSED.get(answer.status, ("other", "refused"))
            said = f"{api.needs}: {advice} ({answer.status}): {_message(answer.data)}"
            raise AskError(said, kind=kind, code=str(answer.status), needs=(api.needs,))
        try:
            found = json.loads(answer.data)
        except ValueError as error:
            raise AskError(f"{api.needs}: what came back is no JSON (a proxy between?)") from error
        if not isinstance(found, dict):
            raise AskError(f"{api.needs}: what came back is no answer of that API (a proxy between?)")
        return found

    def _connections(self) -> urllib3.PoolManager:
        import urllib3

        if self._pool is None:
            waits = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)
            again = urllib3.Retry(TRIES - 1, status_forcelist=(429, 500, 502, 503), raise_on_status=False, redirect=0)
            self._pool = urllib3.PoolManager(timeout=waits, retries=again)
        return self._pool


def names_machine(provider_id: str) -> bool:
    """Whether a provider id is one that this module asks after."""
    return cloud_of(provider_id) in APIS


def _message(body: bytes) -> str:
    """The sentence of an error; both clouds have it at the same place."""
    try:
        return str(json.loads(body)["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return "no reason given"


# -- GCP ---------------------------------------------------------------------------------------------------
def _gce_url(provider_id: str) -> str | None:
    found = _GCE.fullmatch(provider_id)
    if found is None:
        return None
    return "/compute/v1/projects/{project}/zones/{zone}/instances/{name}?fields=status".format(**found.groupdict())


def _gce_gone(provider_id: str, said: str) -> bool:
    """Of the machine itself: a project that is not there, or that nobody may see, says nothing of it."""
    return f"/instances/{provider_id.rpartition('/')[2]}' was not found" in said


@cache
def _google() -> Any:
    """Application default credentials. Raises AskError."""
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
    except ImportError as error:
        said = "GCP is asked with google-auth's credentials: pip install 'killcheck[gcp]'"
        raise AskError(said, kind="not-installed") from error
    try:
        found, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/compute.readonly"])
    except GoogleAuthError as error:
        said = f"no credentials of GCP: run gcloud auth application-default login ({error})"
        raise AskError(said[:300], kind="no-credentials") from error
    return found


def _google_token() -> str:
    found = _google()
    import urllib3
    from google.auth.exceptions import GoogleAuthError

    transport: Any = import_module("google.auth.transport.urllib3")
    try:
        if not found.valid:
            found.refresh(transport.Request(urllib3.PoolManager()))
    except GoogleAuthError as error:
        raise AskError(f"GCP gives no token: {error}"[:300], kind="expired") from error
    return str(found.token)


# -- Azure -------------------------------------------------------------------------------------------------
def _azure_url(provider_id: str) -> str | None:
    found = _AZURE.fullmatch(provider_id)
    if found is None or "/virtualmachines/" not in provider_id.lower():
        return None
    return f"{found['id']}/instanceView?api-version=2024-07-01"


def _azure_gone(provider_id: str, said: str) -> bool:
    """Of the machine, or of its whole scale set (cloud-provider-azure: isInstanceNotFoundError; ResourceNotFound)."""
    words = provider_id.split("/")
    named = {f"'microsoft.compute/{kind}/{name}'".lower() for kind, name in pairwise(words[1:])}
    active = f"instanceId {words[-1]} is not an active Virtual Machine Scale Set VM instanceId" in said
    return active or any(one in said.lower() for one in named if "/virtualmachine" in one)


def _azure_word(answer: Mapping[str, Any]) -> str:
    """Its power state; while it is made or deleted there may be none."""
    codes = [str(one.get("code", "")) for one in answer.get("statuses") or ()]
    doing = next((code.lower() for code in codes if code.lower().startswith("provisioningstate/")), "")
    power = next((code for code in codes if code.lower().startswith("powerstate/")), "")
    return "PowerState/deallocating" if doing.endswith("/deleting") else power or "starting"


@cache
def _azure() -> Any:
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError as error:
        said = "Azure is asked with azure-identity's credentials: pip install 'killcheck[azure]'"
        raise AskError(said, kind="not-installed") from error
    return DefaultAzureCredential()


def _azure_token() -> str:
    found = _azure()
    from azure.core.exceptions import AzureError

    try:
        return str(found.get_token("https://management.azure.com/.default").token)
    except AzureError as error:
        said = f"Azure gives no token: run az login ({str(error).splitlines()[0]})"
        raise AskError(said[:300], kind="no-credentials") from error


APIS: Mapping[str, Api] = {
    "gcp": Api(
        "https://compute.googleapis.com",
        _gce_url,
        lambda answer: str(answer.get("status") or "unknown"),
        _gce_gone,
        "compute.instances.get",
        _google_token,
    ),
    "azure": Api(
        "https://management.azure.com",
        _azure_url,
        _azure_word,
        _azure_gone,
        "Microsoft.Compute/.../virtualMachines/instanceView/read",
        _azure_token,
    ),
}
