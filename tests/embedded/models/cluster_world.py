"""A whole embedded cluster with manifests in it, for tests of what lives beside Kubernetes."""

from contextlib import contextmanager

from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.objects import condition, dig, name_of


@contextmanager
def cluster(*objects, **settings):
    """A cluster with ``objects`` loaded; nothing is run on this host unless ``exec_mode`` says so."""
    made = Cluster(**{"exec_mode": "none"} | settings)
    try:
        made.load(objects)
        yield made
    finally:
        made.close()


def until(made, done, seconds=1800):
    """Run until ``done()``; answers how many seconds that took, or fails."""
    began = made.loop.monotonic()
    assert made.loop.run_until(done, seconds), "it did not happen"
    return made.loop.monotonic() - began


def pods(made, **labels):
    """Pods with these labels."""
    text = ",".join(f"{key}={value}" for key, value in labels.items())
    return made.kube.list(r.PODS, labels=text or None).items


def running(made, count, **labels):
    """A condition: so many pods are Running."""
    return lambda: sum(dig(p, "status", "phase") == "Running" for p in pods(made, **labels)) == count


def gpu_nodes(made):
    """Nodes with GPUs."""
    return [n for n in made.kube.list(r.NODES).items if int(dig(n, "status", "capacity", "nvidia.com/gpu", default=0))]


def ready(node):
    """The status of a Node's Ready condition."""
    return (condition(node, "Ready") or {}).get("status")


def events(made, reason):
    """The messages of all events of a reason."""
    return [e.get("message") or e.get("note") for e in made.kube.list(r.EVENTS).items if e["reason"] == reason]


def named(made, resource, name, namespace=None):
    """One object, or None."""
    return made.kube.find(resource, name, namespace)


__all__ = ["cluster", "events", "gpu_nodes", "name_of", "named", "pods", "ready", "running", "until"]
