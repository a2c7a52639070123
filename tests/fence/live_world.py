"""A living cluster over TLS on which canaries are sent out."""

from __future__ import annotations

from wire_world import CONTEXT, WireWorld

from killcheck.kube import resources as r

__all__ = ["CONTEXT", "LiveWorld"]


class LiveWorld(WireWorld):
    """The reference path, with what a canary could leave."""

    def __init__(self, folder, *, exec_mode="none", speed=60.0):
        super().__init__(folder, speed=speed, exec_mode=exec_mode)

    def fence(self, cwd, *argv, spec=None, **death):
        return self.order(cwd, "fence", str(spec or self.spec), "--on", CONTEXT, "--live", *argv, **death)

    def there(self):
        """Everything that a canary could leave."""
        with self.cluster.loop.entered():
            kube = self.cluster.kube
            left = [
                p["metadata"]["name"]
                for p in kube.list(r.PODS, "inference").items
                if "killcheck.dev/canary" in p["metadata"].get("labels", {})
            ]
            for resource, label in ((r.CONFIGMAPS, "killcheck.dev/run"), (r.LEASES, "killcheck.dev/lease")):
                left += [one["metadata"]["name"] for one in kube.list(resource, "inference", labels=label).items]
            return left

    def machines(self):
        with self.cluster.loop.entered():
            return sorted(c["metadata"]["name"] for c in self.cluster.kube.list(r.NODECLAIMS).items)
