"""A stand-in of a market that rents machines by the hour: offers, machines, and who ended which, on loopback.

Two shapes of API. ``vast``: offers under ``bundles``, rented by PUT on ``asks``, listed under ``instances``, ended by
DELETE; a machine whose program has ended is ``exited`` and stays in the list until somebody ends it, and each has a
key of its own for itself (CONTAINER_API_KEY, CONTAINER_ID). ``runpod``: a list of pods with ``desiredStatus`` and
``costPerHr``, made by POST, ended by DELETE (RUNPOD_API_KEY, RUNPOD_POD_ID).

Sources: docs.vast.ai/cli/reference/show-instances (the states), vast.ai/developers/api (the paths);
docs.runpod.io/api-reference (Pods). Nothing of theirs is asked.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct, field

from killcheck.entries import Becomes, leaves
from killcheck.text import lazy_re

__all__ = ["SHAPES", "Contract", "Ended", "Market"]

#: The APIs that it can be spoken to as.
SHAPES = ("vast", "runpod")
#: How long a machine loads until its program runs, where nobody says, in seconds.
BOOTS_S = 60.0
_VAST = lazy_re.compile(r"/api/v[01]/(bundles|asks|instances)(?:/(\d+))?/?")
_RUNPOD = lazy_re.compile(r"/v1/pods(?:/([\w-]+))?(?:/(start|stop))?/?")
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda found, wanted: bool(found == wanted),
    "neq": lambda found, wanted: bool(found != wanted),
    "gt": lambda found, wanted: bool(found > wanted),
    "gte": lambda found, wanted: bool(found >= wanted),
    "lt": lambda found, wanted: bool(found < wanted),
    "lte": lambda found, wanted: bool(found <= wanted),
    "in": lambda found, wanted: found in wanted,
    "notin": lambda found, wanted: found not in wanted,
}
#: Parts of a search that choose no offers.
_NO_FIELDS = ("order", "type", "limit", "allocated_storage")


class Contract(Struct):
    """A machine that somebody rented: of which offer, since when, and how it stands."""

    id: str
    offer: Mapping[str, Any]
    since: datetime
    status: str = "loading"
    label: str = ""
    began: datetime | None = None
    #: How its program ended; None: it runs, or has none.
    code: int | None = None

    @property
    def key(self) -> str:
        """The key by which it may end itself, and nothing else."""
        return f"own-{self.id}"


class Ended(Struct, frozen=True):
    """That a machine was ended or stopped, when, and by whom: itself, or the account."""

    id: str
    at: datetime
    by_itself: bool
    #: When its program began to run; None: it never did.
    began: datetime | None = None


@leaves("worker fleets", "offers of a real market: the stand-in rents what the spec lists", Becomes.UNSEEN)
class Market(Struct):
    """The WSGI application. ``boots`` is told of each machine that was rented, ``ends`` of each that goes; both from a
    thread of the server's."""

    offers: list[dict[str, Any]]
    now: Callable[[], datetime]
    shape: str = "vast"
    boots_s: float = BOOTS_S
    boots: Callable[[Contract], None] = lambda contract: None
    ends: Callable[[Contract], None] = lambda contract: None
    contracts: dict[str, Contract] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    #: Offers that a fault has taken away, by their ids.
    gone: set[str] = field(default_factory=set)
    #: Searches and rents that were answered with less than there was before that.
    missed: list[str] = field(default_factory=list)
    #: Whether a machine's own key is good.
    own_keys: bool = True
    #: What loads hangs.
    hangs: bool = False
    _made: int = 0
    _lock: Any = field(default_factory=threading.RLock)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        with self._lock:
            status, answer = self._answer(environ)
        text = b"" if answer is None else json.dumps(answer).encode()
        start_response(f"{status} Answer", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
        return [text]

    def _answer(self, environ: Mapping[str, Any]) -> tuple[int, Any]:
        path, method = str(environ["PATH_INFO"]), str(environ["REQUEST_METHOD"])
        query = {name: values[-1] for name, values in parse_qs(str(environ.get("QUERY_STRING", ""))).items()}
        who = str(environ.get("HTTP_AUTHORIZATION", "")).removeprefix("Bearer ").strip() or query.get("api_key", "")
        if not who or (who.startswith("own-") and not self.own_keys):
            return 401, {"success": False, "error": "auth_error", "msg": "This action requires login."}
        try:
            size = int(environ.get("CONTENT_LENGTH") or 0)
            sent = json.loads(environ["wsgi.input"].read(size) or b"{}") if size else {}
            query["q"] = json.loads(query.get("q", "{}"))
        except ValueError:
            return 400, {"success": False, "error": "invalid_args", "msg": "expected JSON"}
        found = (_VAST if self.shape == "vast" else _RUNPOD).fullmatch(path)
        if found is None or not isinstance(sent, dict) or not isinstance(query["q"], dict):
            return 404, {"success": False, "error": "not_found", "msg": f"this stand-in has no {path}"}
        return (
            self._vast(method, found, sent, query["q"], who)
            if self.shape == "vast"
            else self._runpod(method, found, sent, who)
        )

    # -- what there is to rent -----------------------------------------------------------------------------
    def free(self) -> list[dict[str, Any]]:
        """Offers that nobody has rented."""
        taken = {str(one.offer["id"]) for one in self.contracts.values()}
        return [one for one in self.offers if str(one["id"]) not in taken and str(one["id"]) not in self.gone]

    def rent(self, offer: Mapping[str, Any], label: str = "") -> Contract:
        """Rent a machine: it loads, and bills."""
        self._made += 1
        contract = Contract(str(7000 + self._made), offer, self.now(), label=label)
        self.contracts[contract.id] = contract
        self.boots(contract)
        return contract

    def end(self, contract: Contract, who: str, *, destroy: bool) -> None:
        """Stop a machine, or end it for good."""
        self.ended.append(Ended(contract.id, self.now(), who == contract.key, contract.began))
        contract.status = "stopped"
        if destroy:
            self.contracts.pop(contract.id, None)
        self.ends(contract)

    def program_ended(self, contract: Contract, code: int | None) -> None:
        """A machine's own program has ended: the machine is there still."""
        with self._lock:
            contract.code = code
            if contract.status in ("loading", "running"):
                contract.status = "exited"

    def stuck(self, hang: bool) -> None:
        """Let what loads hang, or come up: as if it had been rented now."""
        with self._lock:
            self.hangs = hang
            for contract in list(self.contracts.values()) if not hang else ():
                if contract.status == "loading":
                    self.boots(contract)

    def running(self, contract: Contract) -> bool:
        """Whether it is there, loaded or not; it runs from now on."""
        with self._lock:
            if contract.status == "loading" and contract.id in self.contracts and not self.hangs:
                contract.status, contract.began = "running", self.now()
            return contract.status == "running"

    def _wanted(self, query: Mapping[str, Any]) -> list[dict[str, Any]] | str:
        """The offers that a search asks for; why not, for one that is not understood."""

        def fits(offer: Mapping[str, Any]) -> bool:
            return all(
                name in offer and all(_holds(test, offer[name], wanted) for test, wanted in tests.items())
                for name, tests in asked.items()
            )

        asked = {
            name: tests if isinstance(tests, dict) else {"eq": tests}
            for name, tests in query.items()
            if name not in _NO_FIELDS
        }
        unknown = sorted({test for tests in asked.values() for test in tests} - set(_TESTS))
        if unknown:
            return f"this stand-in knows no {', '.join(unknown)}"
        there = [one for one in self.free() if fits(one)]
        hidden = [one for one in self.offers if str(one["id"]) in self.gone and fits(one)]
        if hidden:
            self.missed.append(f"a search found {len(there)} offer(s), and not {len(hidden)} that had been there")
        return sorted(there, key=lambda one: float(one.get("dph_total") or 0.0))

    # -- Vast.ai -------------------------------------------------------------------------------------------
    def _vast(self, method: str, found: re.Match[str], sent: dict[str, Any], query: Any, who: str) -> tuple[int, Any]:
        what, number = found[1], found[2] or ""
        if what == "bundles":
            search = sent.get("q", sent) if method == "POST" else query
            offers = self._wanted(search) if isinstance(search, dict) else "expected a search with fields"
            if isinstance(offers, str):
                return 400, {"success": False, "error": "invalid_args", "msg": offers}
            return 200, {"offers": [{**one, "rentable": True} for one in offers]}
        if what == "asks":
            offer = next((one for one in self.free() if str(one["id"]) == number), None)
            if method != "PUT" or offer is None or who.startswith("own-"):
                return 400, {"success": False, "error": "no_such_ask", "msg": f"error 404/3603: no_such_ask {number}"}
            contract = self.rent(offer, str(sent.get("label") or ""))
            return 200, {"success": True, "new_contract": int(contract.id)}
        if not number:
            return 200, {"instances": [_as_vast(one) for one in self.contracts.values()]}
        return self._of_one(method, number, sent, who)

    def _of_one(self, method: str, number: str, sent: Mapping[str, Any], who: str) -> tuple[int, Any]:
        contract = self.contracts.get(number)
        if contract is None or (who.startswith("own-") and who != contract.key):
            return 404, {"success": False, "error": "no_such_instance", "msg": f"Instance {number} not found."}
        if method == "GET":
            return 200, {"instances": _as_vast(contract)}
        if method == "DELETE" or sent.get("state") == "stopped":
            self.end(contract, who, destroy=method == "DELETE")
        elif sent.get("state") == "running":
            contract.status = "loading"
            self.boots(contract)
        else:
            return 400, {"success": False, "error": "invalid_args", "msg": "expected state: running or stopped"}
        return 200, {"success": True}

    # -- RunPod --------------------------------------------------------------------------------------------
    def _runpod(self, method: str, found: re.Match[str], sent: dict[str, Any], who: str) -> tuple[int, Any]:
        name, what = found[1] or "", found[2] or ""
        if not name:
            return (
                self._make_pod(sent)
                if method == "POST"
                else (
                    200,
                    [_as_pod(one) for one in self.contracts.values()],
                )
            )
        contract = self.contracts.get(name)
        if contract is None:
            return 404, {"error": "pod not found", "status": 404}
        if method == "DELETE" or what == "stop":
            self.end(contract, who, destroy=method == "DELETE")
            return (204, None) if method == "DELETE" else (200, _as_pod(contract))
        if what == "start":
            contract.status = "loading"
            self.boots(contract)
        return 200, _as_pod(contract)

    def _make_pod(self, sent: Mapping[str, Any]) -> tuple[int, Any]:
        """The first of the types that it names of which there is one: they are tried in order."""
        named = sent.get("gpuTypeIds") or []
        for kind in named if isinstance(named, list) else []:
            asked = self._wanted({"gpu_name": kind})
            if isinstance(asked, list) and asked:
                return 201, _as_pod(self.rent(asked[0], str(sent.get("name") or "")))
        return 500, {"error": "There are no instances currently available", "status": 500}


def _holds(test: str, found: Any, wanted: Any) -> bool:
    """Whether a value is as a search has it; what cannot be compared is not."""
    try:
        return _TESTS[test](found, wanted)
    except TypeError:
        return False


def _as_vast(contract: Contract) -> dict[str, Any]:
    """An entry of the list, as its documentation has them; of the offer what is the offer's."""
    offer = {name: value for name, value in contract.offer.items() if name != "id"}
    return offer | {
        "id": int(contract.id),
        "actual_status": contract.status,
        "intended_status": "stopped" if contract.status == "stopped" else "running",
        "start_date": contract.since.timestamp(),
        "label": contract.label,
    }


def _as_pod(contract: Contract) -> dict[str, Any]:
    offer = contract.offer
    return {
        "id": contract.id,
        "name": contract.label,
        "desiredStatus": "EXITED" if contract.status == "stopped" else "RUNNING",
        "costPerHr": offer.get("dph_total"),
        "gpu": {"id": offer.get("gpu_name"), "count": offer.get("num_gpus", 1), "displayName": offer.get("gpu_name")},
        "lastStartedAt": contract.since.isoformat(),
    }
