"""Programs that fail by themselves when they are fired, or never start."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from killcheck.probes.base import Finding, Probe
from killcheck.probes.rehearsed import not_found, telling
from killcheck.probes.script_lines import of_end
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World

from killcheck.images.contents import is_known
from killcheck.rehearsal.record import Ending, Outcome
from killcheck.text import lazy_re

__all__ = ["FailsWhenFired"]


class FailsWhenFired(Probe):
    """Fired once in a rehearsal, with everything there: a command line that is not taken, a script that breaks off."""

    id = "fails-when-fired"
    rehearsed = True
    claim = "An executor that is fired with everything at its place starts, and ends with exit code 0."
    remedy = "Run it by hand with this image and account, and mend what it says."
    failures = (2, 11, 14)
    sources = ("KBVE/kbve#11818", "rwlove/home-ops#11969")

    def ask(self, world: World) -> Iterable[Finding]:
        """Those whose failure no other question of a rehearsal explains."""
        for one in world.watched:
            first = one.seen.first if one.seen else None
            if first is None:
                continue
            if first.outcome is Outcome.NOT_STARTED:
                why = first.why.removeprefix("(combined from similar events): ")
                remedy, field = next((todo for sign, *todo in _UNSTARTED if sign in why), ("", ""))
                path = (*one.path, field) if field and field in one.spec else one.path
                yield self.finding(world, one.owner, path, f"fired once, it never started: {why}", remedy=remedy)
            failed = first.failed
            if failed is None or any(True for _ in first.refused) or not_found(failed) or first.outside:
                continue
            yield self._failure(world, one, failed, services=first.services)

    def _failure(self, world: World, one: Executor, failed: Ending, services: tuple[str, ...]) -> Finding:
        said = telling(failed)
        message = f"container {failed.container} ends with exit code {failed.code}: {said}"
        if missing := _not_served(failed):
            return self.unproven(world, one.owner, f"{message} (a rehearsal serves no {missing})")
        if services:
            return self.unproven(world, one.owner, f"{message} (it asks Service {services[0]}: nothing answers there)")
        if "ModuleNotFoundError" in failed.log and not is_known(_image(one, failed)):
            return self.unproven(world, one.owner, f"{message} (this host has it not; the image may)")
        if _OUT_OF_REACH.search(failed.log) and (addresses := _addresses(one)):
            message += f"; it asks {', '.join(addresses)}, outside the cluster"
        if _PLAIN_HTTP.search(one.text):
            message += "; it speaks plain HTTP to the API server, which takes HTTPS alone"
        at = of_end(world, one, failed)
        return self.finding(world, one.owner, command_path(one), message, remedy=_remedy(said), at=at)


_OUT_OF_REACH = lazy_re.compile(r"(?i)timed? ?out|timeout|unreachable|refused|no route")
#: A request to the API server without TLS.
_PLAIN_HTTP = lazy_re.compile(r"http://(?:\$\{?KUBERNETES_SERVICE_HOST|kubernetes(?:\.default)?[.:/])")
_ADDRESS = lazy_re.compile(r"(?<![\w.])(?!127\.|0\.|169\.254\.)(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
#: How alike words are of which one is the other misspelt (0 to 1).
_MISSPELT = 0.8
#: How clients say that a type is not served.
_NO_TYPE = lazy_re.compile(r"""doesn't have a resource type "([^"]+)"|no matches for kind "([^"]+)\"""")


def _addresses(one: Executor) -> list[str]:
    """The IPv4 addresses in what it runs: of hosts that no name was looked up for."""
    return list(dict.fromkeys(_ADDRESS.findall(one.text)))


def _not_served(failed: Ending) -> str | None:
    """The type that a client did not find, where that says more of the rehearsal: it is none of Kubernetes' own,
    misspelt. None: it says something of the program."""
    from killcheck.embedded import builtin

    found = _NO_TYPE.search(failed.log)
    name = (found[1] or found[2]).partition(".")[0].lower() if found else ""
    ours = [word for kind in builtin() for word in (kind.resource.plural, kind.resource.kind.lower())]
    return name if name and not get_close_matches(name, ours, 1, _MISSPELT) else None


#: What a line of a log comes from, by words in it: what to do about that.
_REMEDIES = (
    (
        "localhost:8080",
        "kubectl found no cluster: in a pod it takes the pod's own only without client flags such as --request-timeout "
        "(kubernetes/kubernetes#93474), and with a token mounted. Use `timeout 20 kubectl ...` instead.",
    ),
    (
        "exec format error",
        "Build the image for its nodes' architecture too, or let its pod select nodes of its own (kubernetes.io/arch).",
    ),
    ("no such file or directory", "Let its first line name an interpreter of its image, and end lines without \\r."),
)


#: Why a Job's pod was not made or did not start, by words in it: what to do about that, and the field of the pod.
_UNSTARTED = (
    ("failed quota", "Give each of its containers the requests and limits that the quota counts.", ""),
    ("exceeded quota", "Ask for less, raise the quota, or keep some of it free for the switch.", ""),
    ("usage per", "Stay within the LimitRange of its namespace, or let that allow it.", ""),
    ("violates PodSecurity", "Set what it names in the pod's securityContext, and in its containers'.", ""),
    ("serviceaccount", "Create the ServiceAccount (and its binding), or name one that exists.", "serviceAccountName"),
    ("tolerate taint", "Tolerate the taint, or select a pool without one.", "nodeSelector"),
    ("untolerated taint", "Tolerate the taint, or select a pool without one.", "nodeSelector"),
    ("didn't match Pod's node affinity", "Select labels that some node has.", "nodeSelector"),
    ("couldn't find key", "Name a key that is there, or mark the reference optional.", ""),
    ("not found", "Bring it back, name the one that is there, or mark the reference optional.", ""),
    ("runAsNonRoot", "Set runAsUser: 65534 (its image says root), or take an image of another user.", ""),
    ("failed calling webhook", "Bring the webhook's Service back, or set its failurePolicy: Ignore.", ""),
)


def _remedy(said: str) -> str:
    """What is known of such an end, or else the question's own remedy."""
    words = said.lower()
    if "read-only file system" in words:
        return "Mount an emptyDir where it writes (/tmp): its root is read-only (readOnlyRootFilesystem)."
    wanted = [remedy for sign, remedy in _REMEDIES if sign in words]
    known = wanted and ("localhost" in words or words.startswith("exec "))
    return wanted[0] if known else FailsWhenFired.remedy


def _image(one: Executor, ending: Ending) -> str:
    found = [str(c.get("image", "")) for _, c in one.containers if c.get("name") == ending.container]
    return found[0] if found else ""
