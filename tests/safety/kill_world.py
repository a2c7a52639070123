"""A living cluster over TLS, a picture of it, and drills on it that can be killed."""

from __future__ import annotations

from safety_world import PULL_SECRET, PULLS_WITH, differences, picture
from wire_world import CONTEXT, WireWorld

from killcheck.kube import resources as r

__all__ = ["CONTEXT", "KillWorld"]

#: Virtual seconds in a wall second: the drill under test lives by the wall clock.
SPEED = 400.0
#: A laptop is dead here after a second's silence.
QUICK = {"laptop-killed": {"silent_after_s": 1}}


class KillWorld(WireWorld):
    """The reference path, what it was like, and whether it is so again."""

    def __init__(self, folder):
        super().__init__(folder, speed=SPEED)
        with self.cluster.loop.entered():
            self.cluster.kube.create(r.SECRETS, PULL_SECRET)
            spec = {"jobTemplate": {"spec": {"template": {"spec": PULLS_WITH}}}}
            self.cluster.kube.patch(r.CRONJOBS, "gpu-nightly-off", {"spec": spec}, "inference")
        self.before = self.picture()

    def picture(self):
        with self.cluster.loop.entered():
            return picture(self.cluster)

    def drill(self, cwd, names, **death):
        under = [word for name in names for word in ("--under", name)]
        return self.order(
            cwd,
            "drill",
            str(self.spec),
            "--on",
            CONTEXT,
            *under,
            "--watch",
            "1s",
            "--yes",
            "--json",
            settings=QUICK,
            **death,
        )

    def settled(self):
        """What is different, once what is under way has come to its end."""
        for _ in range(8):
            left = differences(self.before, self.picture())
            if not left and self.on():
                return []
            self.cluster.loop.advance(120)
        return differences(self.before, self.picture()) or ([] if self.on() else ["the GPUs are not on"])

    def on(self):
        with self.cluster.loop.entered():
            pods = self.cluster.kube.list(r.PODS, "inference", labels="app=vllm").items
            jobs = self.cluster.kube.list(r.PODS, "inference", labels="batch.kubernetes.io/job-name").items
        return (
            not jobs
            and [p["status"].get("phase") for p in pods if "deletionTimestamp" not in p["metadata"]] == ["Running"]
            and len(pods) == 1
        )
