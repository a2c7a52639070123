"""A registry that runs as a container of the engine: its tags as objects, deleted and given back through its own API.

The Distribution API v2 (distribution/distribution docs/content/spec/api.md): a manifest is fetched with its media type,
deleted by digest (every tag that points to it goes with it, which is why they are one object here), and put back by tag
under the same digest as long as its blobs were not collected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from killcheck.engine.projection import TAGS, name_in, versioned
from killcheck.engine.refusal import Refusal
from killcheck.kube.errors import Unreachable
from killcheck.kube.objects import Obj, dig

__all__ = ["Registry", "parts_of", "registry_of", "tag_name"]

#: What a manifest may be (the media types that registries of 2026 hold).
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
TIMEOUT_S = 5.0
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


def tag_name(image: str) -> str:
    """An image reference as an object's name."""
    return quote(image, safe="")


def parts_of(image: str) -> tuple[str, str, str]:
    """(registry, repository, tag) of an image reference; registry is empty where it names none."""
    first, slash, rest = image.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    host, path = (first, rest) if named else ("", image)
    repository, _, tag = path.partition("@")[0].rpartition(":") if ":" in path.rpartition("/")[2] else (path, "", "")
    return host, repository, tag or "latest"


def registry_of(containers: list[Obj], image: str) -> Obj | None:
    """The container (as inspected) that serves an image's registry; None where none of these does."""
    host = parts_of(image)[0]
    name, _, port = host.rpartition(":") if ":" in host else (host, "", "80")
    for one in containers:
        if name in _LOCAL and port in _published(one):
            return one
        aliases = {
            alias
            for network in (dig(one, "NetworkSettings", "Networks", default={}) or {}).values()
            for alias in network.get("Aliases") or []
        }
        if name and name not in _LOCAL and name in {name_in(one), *aliases}:
            return one
    return None


def _published(inspect: Obj) -> set[str]:
    bindings = dig(inspect, "HostConfig", "PortBindings", default={}) or {}
    return {str(binding.get("HostPort")) for found in bindings.values() for binding in found or []}


@dataclass
class Registry:
    """One registry at ``url``, asked over HTTP. Raises Refusal with its own answer, Unreachable."""

    url: str

    @classmethod
    def of(cls, image: str, engine_host: str) -> Registry:
        """The one that an image names, as it is reached from here."""
        host = parts_of(image)[0]
        if not host:
            raise Refusal(422, "Invalid", f"image {image} names no registry")
        name, _, port = host.partition(":")
        if name in _LOCAL and engine_host.startswith(("tcp:", "ssh:", "http")):
            name = urlsplit(engine_host).hostname or name
        return cls(f"http://{name}:{port or '80'}")

    def status(self) -> int:
        """What it answers to whoever asks for its version: 200, 401, 429..."""
        return int(self._ask("GET", "/v2/").status)

    def get(self, image: str) -> Obj:
        """The tag, with its manifest and every other tag of the same. Raises Refusal (404)."""
        _, repository, tag = parts_of(image)
        answer = self._ask("GET", f"/v2/{repository}/manifests/{tag}", {"accept": _MANIFESTS})
        if answer.status == 404:
            raise Refusal(404, "NotFound", f"the registry has no {image}")
        self._good(answer, image)
        digest = answer.headers.get("docker-content-digest", "")
        if not digest:
            raise Refusal(
                422,
                "Invalid",
                f"the registry {self.url} gives {image} no digest (Docker-Content-Digest): "
                "which tags go with it cannot be told",
            )
        tags = [other for other in self._tags(repository) if other == tag or self._digest(repository, other) == digest]
        return versioned(
            {
                "apiVersion": TAGS.api_version,
                "kind": TAGS.kind,
                "metadata": {"name": tag_name(image), "uid": digest},
                "spec": {
                    "image": image,
                    "digest": digest,
                    "tags": sorted({tag, *tags}),
                    "mediaType": answer.headers.get("content-type", ""),
                    "manifest": answer.data.decode(),
                },
            }
        )

    def delete(self, image: str) -> Obj:
        """Delete its manifest, and so the tag."""
        found = self.get(image)
        repository = parts_of(image)[1]
        answer = self._ask("DELETE", f"/v2/{repository}/manifests/{found['spec']['digest']}")
        if answer.status == 405:
            raise Refusal(
                405,
                "MethodNotAllowed",
                f"the registry {self.url} deletes nothing: set REGISTRY_STORAGE_DELETE_ENABLED=true",
            )
        self._good(answer, image)
        return found

    def put(self, obj: Obj) -> Obj:
        """Put a manifest back under all of its tags."""
        spec = obj["spec"]
        repository = parts_of(spec["image"])[1]
        for tag in spec["tags"]:
            answer = self._ask(
                "PUT",
                f"/v2/{repository}/manifests/{tag}",
                {"content-type": spec["mediaType"]},
                spec["manifest"].encode(),
            )
            self._good(answer, spec["image"])
        return self.get(spec["image"])

    # -- inside --------------------------------------------------------------------------------------------
    def _tags(self, repository: str) -> list[str]:
        answer = self._ask("GET", f"/v2/{repository}/tags/list")
        self._good(answer, repository)
        return [str(tag) for tag in json.loads(answer.data).get("tags") or []]

    def _digest(self, repository: str, tag: str) -> str:
        """Of another tag; empty where it is gone. What it does not tell might go with the tag, and stay away."""
        answer = self._ask("HEAD", f"/v2/{repository}/manifests/{tag}", {"accept": _MANIFESTS})
        if answer.status != 404:
            self._good(answer, f"{repository}:{tag}")
        return str(answer.headers.get("docker-content-digest", ""))

    def _good(self, answer: Any, what: str) -> None:
        if answer.status >= 400:
            raise Refusal(
                answer.status,
                "",
                f"the registry {self.url} answers {answer.status} for {what}: "
                f"{answer.data.decode(errors='replace')[:300]}",
            )

    def _ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Any:
        import urllib3

        try:
            return urllib3.request(
                method, self.url + path, headers=headers or {}, body=body, timeout=TIMEOUT_S, retries=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"the registry {self.url} does not answer: {error}") from error
