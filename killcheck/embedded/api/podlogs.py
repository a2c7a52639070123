"""GET pods/NAME/log: which container is meant, how much of its log, and a log that goes on.

Source: ``LogLocation`` in pkg/registry/core/pod/strategy.go, ``ValidatePodLogOptions``, and the kubelet's own reader,
pkg/kubelet/kuberuntime/logs/logs.go, of Kubernetes v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck.clock import Loop, Timer
from killcheck.embedded.api import ours, status
from killcheck.embedded.api.call import Call
from killcheck.embedded.api.http import Response
from killcheck.embedded.api.status import StatusError
from killcheck.embedded.containerlog import ContainerLog, Line
from killcheck.embedded.limits import DRILL_IT
from killcheck.kube.objects import Obj, dig, parse_time
from killcheck.kube.pod_annotations import EXECUTE
from killcheck.text import lazy_re

if TYPE_CHECKING:
    from killcheck.embedded.api.core import Core

__all__ = ["LOOK_S", "Growing", "Options", "Part", "container_of", "log"]

_HEADERS = {"Content-Type": "text/plain"}
#: Seconds between looks at a log that is followed; at one that has been silent: a part of that time, and no more.
LOOK_S, SILENT_PART, LOOK_MOST_S = 0.5, 16.0, 30.0
#: time.RFC3339 of Go, which takes fractions of a second, too.
_RFC3339 = lazy_re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)")


class Options(Struct, frozen=True):
    """What is asked of a log: ``tail`` lines, ``limit`` in bytes (None: all), none from before ``since``."""

    tail: int | None
    limit: int | None
    since: datetime | None
    timestamps: bool


def log(server: Core, call: Call) -> Response:
    """Answer the request, from the kubelet of the pod's node. Raises StatusError."""
    pod = server.find(call)
    options = _options(call, server.loop.now())
    container = container_of(pod, call.request.param("container"))
    if not dig(pod, "spec", "nodeName"):
        return Response(204, "", dict(_HEADERS))
    kubelet = server.kubelet_of(pod)
    written = kubelet.log(pod, container, previous=call.request.flag("previous"))
    if call.over_wire and kubelet.hollow(pod, container):
        server.limits.meet(
            ours.who(call.user),
            f"it read the log of pod {call.name}, which is hollow and says nothing",
            f'let its containers really run (annotation {EXECUTE}: "true"), or {DRILL_IT}',
        )
    part = Part(options, written)
    if not call.request.flag("follow") or call.request.flag("previous"):
        return Response(200, part.rest(written), dict(_HEADERS))
    run = _restarts(pod, container)

    def look() -> tuple[str, bool]:
        now = server.store.get(("", "pods"), call.key)
        if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
            return "", True
        again = _restarts(now, container) != run  # it is one run that is followed, and not the container
        told = part.rest(kubelet.log(now, container, previous=again))
        return told, again or part.full or not _runs(now, container)

    def changes(tell: Callable[[], None]) -> Callable[[], None]:
        return server.store.listen(("", "pods"), lambda change: tell() if change.key == call.key else None)

    return Response(200, None, dict(_HEADERS), stream=Growing(server.loop, look, changes))


class Part:
    """The part of a log that was asked for, told piece by piece.

    Raises StatusError 501 where times are asked for that nobody knows.
    """

    def __init__(self, options: Options, log: ContainerLog) -> None:
        self._options = options
        self._timed = options.timestamps or options.since is not None
        if self._timed and log.data and not log.marks:
            raise StatusError(
                501,
                "NotImplemented",
                "the times at which this container wrote its log are not known: sinceSeconds, "
                "sinceTime and timestamps cannot be served",
                details={},
            )
        self._told = 0 if options.tail is None else log.tail(options.tail)
        self._left = options.limit

    @property
    def full(self) -> bool:
        """Whether as many bytes have been told as may be."""
        return self._left == 0

    def rest(self, log: ContainerLog) -> str:
        """What has not been told yet."""
        text = "".join(map(self._shown, log.lines(self._told)))
        self._told = max(self._told, log.end)
        if self._left is not None:
            encoded = text.encode()[: self._left]
            self._left -= len(encoded)
            text = encoded.decode("utf-8", "ignore")
        return text

    def _shown(self, line: Line) -> str:
        if not self._timed or line.when is None:
            return line.text
        if self._options.since is not None and line.when < self._options.since:
            return ""
        if not self._options.timestamps:
            return line.text
        # RFC3339Nano with all nine digits, as the kubelet prints it.
        return f"{line.when.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z {line.text}"


class Growing:
    """A text that grows, as a ``http.Stream`` of str: looked at until ``look`` says that it is whole.

    Twice a second, less often the longer it has been silent (a reader that waits for ever costs a night nothing), and
    when ``changes`` tells. ``look`` answers (what has come since it was asked last, whether that was all) and may raise
    StatusError, which ends the stream, too.
    """

    def __init__(
        self,
        loop: Loop,
        look: Callable[[], tuple[str, bool]],
        changes: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        self.loop = loop
        self._look = look
        self._changes = changes
        self._stop: Callable[[], None] = lambda: None
        self._spoke = 0.0
        self._timer: Timer | None = None
        self._on_frame: Callable[[Any], None] = lambda _: None
        self._on_end: Callable[[], None] = lambda: None

    def subscribe(self, on_frame: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        """Begin with what is there."""
        self._on_frame, self._on_end = on_frame, on_end
        self._spoke = self.loop.monotonic()
        self._stop = self._changes(self._soon)
        self._tell()

    def close(self) -> None:
        """The reader has gone."""
        self._stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_frame, self._on_end = (lambda _: None), (lambda: None)

    def _soon(self) -> None:
        """The pod has changed, within a write: what it means for the log is looked at after that."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self.loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._timer = None
        try:
            text, over = self._look()
        except StatusError:
            text, over = "", True
        if text:
            self._spoke = self.loop.monotonic()
            self._on_frame(text)
        if over:
            self._stop()
            self._on_end()
        else:
            silent_s = self.loop.monotonic() - self._spoke
            wait_s = min(max(LOOK_S, silent_s / SILENT_PART), LOOK_MOST_S)
            self._timer = self.loop.call_later(wait_s, self._tell)


def container_of(pod: Obj, asked: str) -> str:
    """The container that is meant. Raises StatusError 400."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    all_names = [
        str(c["name"])
        for field in ("initContainers", "containers", "ephemeralContainers")
        for c in spec.get(field) or []
    ]
    if asked:
        if asked not in all_names:
            raise status.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    main = spec.get("containers") or []
    if len(main) == 1:
        return str(main[0]["name"])
    words = f"a container name must be specified for pod {name}"
    raise status.bad_request(f"{words}, choose one of: [{' '.join(all_names)}]" if main else words)


def _status(pod: Obj, container: str) -> Obj:
    for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for one in dig(pod, "status", field, default=[]):
            if one.get("name") == container:
                return dict(one)
    return {}


def _runs(pod: Obj, container: str) -> bool:
    return "running" in (_status(pod, container).get("state") or {})


def _restarts(pod: Obj, container: str) -> int:
    return int(_status(pod, container).get("restartCount", 0))


def _options(call: Call, now: datetime) -> Options:
    """What is asked for at ``now``. Raises StatusError 400, 422, or 501 for what cannot be answered here."""
    request = call.request
    causes: list[Obj] = []
    tail, limit, since = (_whole(call, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    begin = _time(request.param("sinceTime"))
    if tail is not None and tail < 0:
        causes.append(_wrong("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(_wrong("limitBytes", limit, "must be greater than 0"))
    if since is not None and begin is not None:
        message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append({"reason": "FieldValueForbidden", "message": message, "field": ""})
    elif since is not None and since < 1:
        causes.append(_wrong("sinceSeconds", since, "must be greater than 0"))
    if "stream" in request.query:  # PodLogsQuerySplitStreams is an alpha feature, and off
        message = "Forbidden: may not be specified"
        causes.append({"reason": "FieldValueForbidden", "message": message, "field": "stream"})
    if causes:
        raise status.invalid("PodLogOptions", "", call.name, causes)
    if since is not None:
        begin = now - timedelta(seconds=since)
    return Options(tail, limit, begin, request.flag("timestamps"))


def _time(text: str) -> datetime | None:
    """``sinceTime``; the API server hands whole seconds of it on to the kubelet."""
    if text in ("", "null"):
        return None
    try:
        if _RFC3339.fullmatch(text):
            return parse_time(text).replace(microsecond=0)
    except ValueError:
        pass
    raise status.bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": not a time of RFC 3339')


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
