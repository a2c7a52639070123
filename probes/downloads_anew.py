"""Models and data sets that each start of a target fetches again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from killcheck.probes.base import Finding, Probe
from killcheck.probes.world import World

from killcheck.kube.objects import Obj, annotations_of, dig
from killcheck.spec.chargeback import DOWNLOADS
from killcheck.text import lazy_re
from killcheck.text.yamlfile import Path

__all__ = ["DownloadsAnew"]


class DownloadsAnew(Probe):
    """What is off every night is on every morning: a hundred gibibytes a start are a bill, and a cold start."""

    id = "downloads-anew"
    claim = "No target fetches its model or data anew at each start."
    remedy = (
        "Mount a PersistentVolumeClaim that keeps it, or count it: the annotation killcheck.dev/downloads, and "
        "chargeback.egressUsdPerGib."
    )
    severity = "note"
    failures = (27, 58)
    sources = (
        "seed 4: egress can rival compute where every pod downloads the same model",
        "huggingface.co/docs/huggingface_hub: HF_HOME, by default ~/.cache/huggingface",
        "docs.vllm.ai: vllm serve, --model and --download-dir",
    )

    def ask(self, world: World) -> Iterable[Finding]:
        """The containers of every target: what they fetch, and whether anything they mount outlives the pod.

        What a model server fetches by its own is asked where the spec says what a start may cost or take.
        """
        spec = world.kill_path
        servers = spec.chargeback is not None or any(layer.cold_start_s for layer in spec.layers)
        for obj, template in world.target_templates:
            if DOWNLOADS in annotations_of({"metadata": template.metadata}):
                continue  # somebody counts it
            stays = {str(one.get("name")) for one in dig(template.spec, "volumes", default=[]) if not _goes(one)}
            for path, container in _containers(template.spec, template.path):
                fetched = _fetched(container, servers=servers)
                if fetched and not any(mount.get("name") in stays for mount in container.get("volumeMounts") or ()):
                    message = f"fetches {fetched} at every start, and keeps it nowhere that outlives the pod"
                    yield self.finding(world, obj, path, message)


def _goes(volume: Obj) -> bool:
    """Whether a volume goes with its pod, or holds nothing that a program fetches."""
    return bool(set(volume) & {"emptyDir", "configMap", "secret", "projected", "downwardAPI", "ephemeral"})


def _containers(spec: Obj, path: Path) -> Iterator[tuple[Path, Obj]]:
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind) or ()):
            yield (*path, kind, i), container


def _fetched(container: Obj, *, servers: bool) -> str | None:
    """What a container fetches, in its own words; None where nothing is seen."""
    words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
    found = _COMMANDS.search(" ".join(words))
    if found:
        return str(next(filter(None, found.groups())))
    if servers and _SERVERS.search(str(container.get("image", ""))):
        for name, value in zip(words, [*words[1:], ""], strict=True):
            flag, _, own = name.partition("=")
            if flag in _MODEL_FLAGS and _HUB.fullmatch(own or value):
                return own or value
    return None


#: Programs that fetch, with the store or the name that they fetch; what is sent to a store is no download.
_COMMANDS = lazy_re.compile(
    r"(?:huggingface-cli|\bhf) download\s+(?:-\S+\s+){0,30}([^\s\"']+)"
    r"|snapshot_download\(\s*(?:repo_id=)?[\"']([^\"']+)"
    r"|\b(?:cp|sync|rsync|copy)\s+(?:-\S+\s+){0,30}[\"']?((?:s3|gs|az)://[^\s\"']+|https://\w+\.blob\.core\.windows\.net/[^\s\"']+)"
)
_SERVERS = lazy_re.compile(r"vllm|text-generation-inference|sglang|lmdeploy")
_MODEL_FLAGS = frozenset({"serve", "--model", "--model-id", "--model-path"})
#: A repository's name on the Hugging Face hub: an owner and a name, and no path of a disk.
_HUB = lazy_re.compile(r"[\w.-]+/[\w.-]+")
