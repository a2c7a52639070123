"""GET pods/NAME/log: which container is meant, how much of its log, and a log that goes on.

Source: ``LogLocation`` in pkg/registry/core/pod/strategy.go and ``ValidatePodLogOptions`` of Kubernetes v1.36. Lines
carry no times here: who asks for times, or for the lines since some time, is told so instead of being given others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from killcheck.clock import Loop, Timer
from killcheck.embedded.api import status
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj, dig

if TYPE_CHECKING:
    from killcheck.embedded.api.server import ApiServer

__all__ = ["Growing", "container_of", "log"]

_HEADERS = {"Content-Type": "text/plain"}
#: Seconds between looks at a log that is followed.
LOOK_S = 0.5
_STREAMS = ("All", "Stdout", "Stderr")


def log(server: ApiServer, call: Call) -> Response:
    """Answer the request, from the kubelet of the pod's node. Raises StatusError."""
    pod = server.reader.find(call)
    tail, limit = _options(call)
    container = container_of(pod, call.request.param("container"))
    node = str(dig(pod, "spec", "nodeName", default=""))
    if not node:
        return Response(200, "", dict(_HEADERS))
    kubelet = server.kubelets.get(node)
    if kubelet is None:
        path = f"https://{node}:10250/containerLogs/{call.namespace}/{call.name}/{container}"
        raise StatusError(500, "", f'Get "{path}": dial tcp: lookup {node}: no such host')
    text = kubelet.log(pod, container, previous=call.request.flag("previous"))
    if not call.request.flag("follow") or call.request.flag("previous"):
        return Response(200, _trimmed(text, tail, limit), dict(_HEADERS))

    def look() -> tuple[str, bool]:
        now = server.store.get(("", "pods"), call.key)
        if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
            return "", True
        return kubelet.log(now, container, previous=False), not _runs(now, container)

    skipped = len(text) - len(_trimmed(text, tail, None))
    return Response(200, None, dict(_HEADERS), stream=Growing(server.loop, look, skip=skipped))


class Growing:
    """A text that grows, as a ``http.Stream`` of str: looked at twice a second until ``look`` says that it is whole.

    ``look`` answers (all of it so far, whether it has ended) and may raise StatusError, which ends the stream, too.
    """

    def __init__(self, loop: Loop, look: Callable[[], tuple[str, bool]], *, skip: int = 0) -> None:
        self.loop = loop
        self._look = look
        self._told = skip
        self._timer: Timer | None = None
        self._on_frame: Callable[[Any], None] = lambda _: None
        self._on_end: Callable[[], None] = lambda: None

    def subscribe(self, on_frame: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """Begin with what is there."""
        self._on_frame, self._on_end = on_frame, on_end
        self._tell()

    def close(self) -> None:
        """The reader has gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_frame, self._on_end = (lambda _: None), (lambda: None)

    def _tell(self) -> None:
        self._timer = None
        try:
            text, over = self._look()
        except StatusError:
            text, over = "", True
        if len(text) > self._told:
            self._on_frame(text[self._told:])
            self._told = len(text)
        if over:
            self._on_end()
        else:
            self._timer = self.loop.call_later(LOOK_S, self._tell)


def container_of(pod: Obj, asked: str) -> str:
    """The container that is meant. Raises StatusError 400."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    all_names = [
        str(c["name"]) for field in ("initContainers", "containers", "ephemeralContainers")
        for c in spec.get(field) or []]
    if asked:
        if asked not in all_names:
            raise status.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    main = spec.get("containers") or []
    if len(main) == 1:
        return str(main[0]["name"])
    words = f"a container name must be specified for pod {name}"
    raise status.bad_request(f"{words}, choose one of: [{' '.join(all_names)}]" if main else words)


def _runs(pod: Obj, container: str) -> bool:
    for field in ("containerStatuses", "initContainerStatuses"):
        for one in dig(pod, "status", field, default=[]):
            if one.get("name") == container:
                return "running" in (one.get("state") or {})
    return False


def _options(call: Call) -> tuple[int | None, int | None]:
    """``tailLines`` and ``limitBytes``. Raises StatusError 422, or 501 for what cannot be answered here."""
    request = call.request
    causes: list[Obj] = []
    tail, limit, since = (_whole(call, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    if tail is not None and tail < 0:
        causes.append(_wrong("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(_wrong("limitBytes", limit, "must be greater than 0"))
    if since is not None and request.param("sinceTime"):
        message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append({"reason": "FieldValueForbidden", "message": message, "field": ""})
    elif since is not None and since < 1:
        causes.append(_wrong("sinceSeconds", since, "must be greater than 0"))
    stream = request.param("stream") or "All"
    if stream not in _STREAMS:
        listed = ", ".join(f'"{name}"' for name in _STREAMS)
        message = f'Unsupported value: "{stream}": supported values: {listed}'
        causes.append({"reason": "FieldValueNotSupported", "message": message, "field": "stream"})
    if causes:
        raise status.invalid("PodLogOptions", "", call.name, causes)
    if since is not None or request.param("sinceTime") or request.flag("timestamps") or stream != "All":
        raise StatusError(
            501, "NotImplemented", "the embedded cluster keeps a container's log as one text without times: "
            "sinceSeconds, sinceTime, timestamps and a single stream cannot be served", details={})
    return tail, limit


def _whole(call: Call, name: str) -> int | None:
    text = call.request.param(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _wrong(field: str, value: int, words: str) -> Obj:
    return {"reason": "FieldValueInvalid", "message": f"Invalid value: {value}: {words}", "field": field}


def _trimmed(text: str, tail: int | None, limit: int | None) -> str:
    """The end of a log, and no more of it than asked for."""
    if tail is not None:
        text = "".join(text.splitlines(keepends=True)[-tail:]) if tail else ""
    return text if limit is None else text[:limit]
