"""Run a client library's own test suite on the embedded cluster, and compare which of its tests pass on a real one.

    python tests/conformance/client_suites.py kr8s CHECKOUT [--kubeconfig REAL] [--hollow-nodes 2] [--python PYTHON]

CHECKOUT is a clone of the client's repository, PYTHON an interpreter that has what its tests import. Without REAL it is
only told what passes here. Exit code 1: a test passes on the real cluster and not on the embedded one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ET
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from killcheck.clock import WallLoop
from killcheck.cluster.hollow_nodes import HollowNodes, Shape
from killcheck.embedded.cluster import Cluster
from killcheck.embedded.default_objects import node
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.errors import Conflict, NotFound

#: Where each client keeps the tests that want a cluster, in its repository.
SUITES = {
    "kr8s": ("kr8s",),
    "python": ("kubernetes/e2e_test", "kubernetes/aio/e2e_test", "kubernetes/dynamic"),
}
#: The namespace that keeps the journal of hollow nodes, while a suite runs.
NAMESPACE = "killcheck-client-suites"
HERE = Path(__file__).parent
#: Suites list pods of all namespaces and expect some: on their own clusters DNS and proxies run.
GROUND = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "killcheck-client-suites", "namespace": "kube-system"},
    "spec": {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.9"}],
    },
}


def stand(kube: Kube) -> None:
    """Have a pod in kube-system."""
    with suppress(Conflict):  # with an earlier run's
        kube.create(r.PODS, GROUND, "kube-system")


@contextmanager
def embedded(folder: Path) -> Iterator[Path]:
    """The kubeconfig of an embedded cluster that runs at the wall's pace, what its pods run in a sandbox of this host."""
    cluster = Cluster(exec_mode="host", speed=1)
    over = threading.Event()
    thread = threading.Thread(target=lambda: cluster.loop.run_until(over.is_set), name="suite-cluster")
    try:
        nodes = [node(f"cpu-{number}", "m6i.2xlarge", cpu=8, memory="32Gi") for number in (1, 2)]
        cluster.load([*nodes, GROUND])
        path = folder / "embedded.kubeconfig"
        path.write_text(cluster.kubeconfig())
        thread.start()
        yield path
    finally:
        over.set()
        cluster.loop.post(lambda: None)
        if thread.ident is not None:
            thread.join()
        cluster.close()


@contextmanager
def real(kubeconfig: Path, folder: Path, hollow: int) -> Iterator[Path]:
    """A copy of a kubeconfig with its certificates inside, and as many hollow nodes on its cluster."""
    path = folder / "real.kubeconfig"
    path.write_text(yaml.safe_dump(inlined(yaml.safe_load(kubeconfig.read_text()), kubeconfig.parent)))
    context = yaml.safe_load(path.read_text())["current-context"]
    loop = WallLoop()
    kube = connect(context, kubeconfig=path, loop=loop)
    stand(kube)
    try:
        if hollow:
            with _nodes(kube, loop, hollow, folder, context):
                yield path
        else:
            yield path
    finally:
        with suppress(NotFound):
            kube.delete(r.PODS, GROUND["metadata"]["name"], "kube-system", grace_s=0)


@contextmanager
def _nodes(kube: Kube, loop: WallLoop, hollow: int, folder: Path, context: str) -> Iterator[None]:
    """Hollow nodes, for as long as this lasts."""
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    with suppress(Conflict):  # with an earlier run's
        kube.create(r.NAMESPACES, made)
    nodes = HollowNodes(
        kube, loop, Shape(hollow, 0, taints=()), home=NAMESPACE, context=context, exec_mode="host", folder=folder
    )
    over = threading.Event()
    thread = threading.Thread(target=lambda: loop.run_until(over.is_set), name="suite-nodes")
    try:
        nodes.up()
        thread.start()
        yield
    finally:
        over.set()
        loop.post(lambda: None)
        if thread.ident is not None:
            thread.join()
        left = nodes.down()
        with suppress(NotFound):
            kube.delete(r.NAMESPACES, NAMESPACE)
        for said in left:
            print(f"left behind: {said}", file=sys.stderr)


def inlined(config: dict, folder: Path) -> dict:
    """A kubeconfig whose certificates and keys are in it: suites write them where they want them."""
    for said in [*(c["cluster"] for c in config["clusters"]), *(u["user"] for u in config["users"])]:
        for name in ("certificate-authority", "client-certificate", "client-key"):
            if name in said:
                said[f"{name}-data"] = b64encode((folder / said.pop(name)).read_bytes()).decode()
    return config


def run(suite: str, checkout: Path, kubeconfig: Path, python: str, words: list[str], minutes: float) -> dict[str, str]:
    """Each test's outcome, ``passed``, ``failed`` or ``skipped``, by its name. Raises SystemExit where none passed."""
    said = kubeconfig.with_suffix(".junit.xml")
    path = os.pathsep.join([str(HERE), str(checkout), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    env = os.environ | {"KUBECONFIG": str(kubeconfig), "SUITE_KUBECONFIG": str(kubeconfig), "PYTHONPATH": path}
    command = [
        python,
        "-m",
        "pytest",
        "-p",
        "kind_in_place",
        "-p",
        "no:pytest-kind",
        "-o",
        "addopts=",
        "-q",
        f"--junitxml={said}",
    ]
    command += ["--continue-on-collection-errors"]
    log = kubeconfig.with_suffix(".log")
    with log.open("w") as out:
        subprocess.run(
            [*command, *SUITES[suite], *words],
            cwd=checkout,
            env=env,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=minutes * 60,
        )
    if not said.exists():
        raise SystemExit(f"{suite}: the suite wrote no report; pytest said:\n{log.read_text()[-2000:]}")
    found = outcomes(said)
    if "passed" not in found.values():
        raise SystemExit(
            f"{suite}: no test passed, so nothing can be compared; pytest said:\n{log.read_text()[-2000:]}"
        )
    return found


def outcomes(junit: Path) -> dict[str, str]:
    """What a JUnit report says of each test; one that is in it twice has passed where both have."""
    found: dict[str, str] = {}
    for case in ET.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        told = {child.tag for child in case}
        outcome = "failed" if told & {"failure", "error"} else "skipped" if "skipped" in told else "passed"
        found[name] = outcome if found.get(name, "passed") == "passed" else found[name]
    return found


def compared(here: dict[str, str], there: dict[str, str]) -> tuple[list[str], list[str]]:
    """The tests that pass there and not here, and the other way round."""
    ours, theirs = ({name for name, said in one.items() if said == "passed"} for one in (here, there))
    return sorted(theirs - ours), sorted(ours - theirs)


def counted(found: dict[str, str]) -> str:
    """How many ended how, in words."""
    return ", ".join(f"{list(found.values()).count(said)} {said}" for said in ("passed", "failed", "skipped"))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("checkout", type=Path, help="of the client's repository")
    parser.add_argument("--kubeconfig", type=Path, help="of a real cluster to compare with")
    parser.add_argument("--hollow-nodes", type=int, default=0, help="to put on it, where it has no kubelets")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has what the tests import")
    parser.add_argument("--minutes", type=float, default=40, help="the longest that one run may take")
    parser.add_argument("--keep", type=Path, help="a folder for reports and logs")
    parser.add_argument("only", nargs="*", help="words for pytest, after --")
    said = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as made:
        folder = (said.keep or Path(made)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        checkout = said.checkout.resolve()
        with embedded(folder) as path:
            here = run(said.suite, checkout, path, said.python, said.only, said.minutes)
        print(f"embedded: {counted(here)}")
        if not said.kubeconfig:
            return 0
        with real(said.kubeconfig, folder, said.hollow_nodes) as path:
            there = run(said.suite, checkout, path, said.python, said.only, said.minutes)
        print(f"real: {counted(there)}")
    lacking, beyond = compared(here, there)
    for title, names in (("pass on the real one alone", lacking), ("pass on the embedded one alone", beyond)):
        print(f"{len(names)} {title}", *(f"  {name}" for name in names), sep="\n")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
