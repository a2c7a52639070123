"""What must be as it was for a program to turn its targets off again: every condition before its writes, by its source.

A program is walked from its start to each call that turns something off. Each condition on the way is made of parts
that are known to be the same each night, or that a drill tries on others; what is not, is told. What may *not* live
here: what is known (:mod:`killcheck.executor.resting`), verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from posixpath import basename

from msgspec import Struct

from killcheck.executor import python_guards
from killcheck.executor.reading import ConfigMaps, Given, containers_of
from killcheck.executor.resting import Act, Ground, Kind, Languages, Source, Unreadable, Value, World, known
from killcheck.executor.shell_guards import Shell
from killcheck.kube.objects import Obj, dig
from killcheck.text import lazy_re

__all__ = ["Around", "Guard", "Read", "of"]

#: Fields of the downward API that are others in each pod.
_OF_THE_POD = lazy_re.compile(r"^metadata\.(?:name|uid)$|^status\.|^spec\.nodeName$|controller-uid|job-name")
#: Sources of volumes that hold what the manifests say, or nothing at first.
_SAID = frozenset({"configMap", "secret", "projected", "emptyDir", "ephemeral", "image", "downwardAPI"})


_LANGUAGES = Languages(Shell, python_guards.walk)


class Around(Struct, frozen=True):
    """What a program's cluster has: see :class:`~killcheck.executor.resting.World`.

    ``loops``: it runs on from night to night; ``granted``: what its program may go by, since that is what it is for, or
    since it is seen otherwise.
    """

    has: Callable[[str, str, str, str], bool] = lambda _group, _plural, _name, _namespace: True
    own_pods: Callable[[str, str], bool] = lambda _selector, _namespace: False
    loops: bool = False
    granted: frozenset[Kind] = frozenset()


class Guard(Struct, frozen=True):
    """A condition before a write. ``line``: of the program; ``rests_on``: what may be otherwise on another night."""

    line: str
    rests_on: str
    kind: Kind


class Read(Struct, frozen=True):
    """What was read of a pod's programs: ``guards`` that are not known to hold each night.

    ``whole``: they were followed to their end, and seen to turn something off; False: what was not may do so too.
    """

    guards: tuple[Guard, ...] = ()
    whole: bool = True


def of(spec: Obj, namespace: str, config_maps: ConfigMaps, around: Around) -> Read:
    """The conditions of a pod's programs that are not known to hold each night."""
    acts: list[Act] = []
    before, texts = Value(), []
    inits = [one for one in dig(spec, "initContainers", default=[]) if one.get("restartPolicy") != "Always"]
    containers = [*inits, *dig(spec, "containers", default=[])]
    unread, strange = 0, False
    for container, given in zip(
        containers, containers_of({"containers": containers, **_volumes(spec)}, namespace, config_maps), strict=True
    ):
        world = _world(spec, container, namespace, given, around)
        ground = Ground(world, _LANGUAGES)
        ground.ended = before
        words = [*given.command, *given.args]
        texts += [*words, *given.files.values()]
        try:
            status = _walk(ground, words, given.image)
        except Unreadable:
            unread += 1
            continue
        acts += ground.acts
        strange = strange or ground.strange
        if any(container is one for one in inits):
            before |= status
    return Read(tuple(_guards(acts, texts, around)), bool(acts) and not unread and not strange)


def _volumes(spec: Obj) -> Obj:
    return {key: spec[key] for key in ("volumes",) if key in spec}


def _walk(ground: Ground, words: Sequence[str], image: str) -> Value:
    """Walk one container's program; what its end rests on."""
    if not words:
        raise Unreadable(f"the entrypoint of {image}")
    if words[0][:1] == "-" or (len(words) > 1 and basename(words[0]) == words[0] == "get"):
        raise Unreadable("the arguments of an image's entrypoint")
    try:
        return Shell(ground).command([known(word) for word in words], Value(), " ".join(words)[:60])[0]
    except RecursionError as error:
        raise Unreadable("a program that is nested too deep") from error


def _world(spec: Obj, container: Obj, namespace: str, given: Given, around: Around) -> World:
    volumes = {str(volume.get("name")): volume for volume in spec.get("volumes") or ()}
    mounted: list[str] = []
    lasting: list[str] = []
    for mount in container.get("volumeMounts") or ():
        volume = volumes.get(str(mount.get("name")), {})
        said = any(key in _SAID for key in volume) or not set(volume) - {"name"}
        (mounted if said else lasting).append(str(mount.get("mountPath")))
    told: dict[str, str | None] = dict(given.environment)
    passing = []
    for one in container.get("env") or ():
        field = str(dig(one, "valueFrom", "fieldRef", "fieldPath", default=""))
        if _OF_THE_POD.search(field):
            passing.append(str(one.get("name")))
        else:
            told.setdefault(str(one.get("name")), None)
    for name in passing:
        told.pop(name, None)
    return World(
        namespace,
        "\n".join((*given.command, *given.args, *given.files.values())),
        told,
        given.files,
        mounted,
        passing,
        lasting,
        around.loops,
        str(container.get("workingDir") or ""),
        around.has,
        around.own_pods,
    )


def _guards(acts: Iterable[Act], texts: Sequence[str], around: Around) -> Iterator[Guard]:
    found = list(acts)
    turning_off = [act for act in found if not act.aside] or found
    told = {source for act in turning_off for source in act.guards}
    sources = sorted(told, key=lambda one: (one.kind, one.what.startswith("how many"), one.what))
    lines = [line for text in texts for line in text.splitlines()]
    for source in sources:
        if source.kind in around.granted:
            continue
        yield Guard(_line(source, lines), source.what, source.kind)


def _line(source: Source, lines: Sequence[str]) -> str:
    return next((line.strip() for line in lines if source.word and source.word in line), source.word or source.what)
