"""Build ci/Dockerfile on a base made here, and drill with the image: not root, read-only, as the CronJob's pod would.

The base has this machine's Python, a busybox and the wheels that killcheck needs, so that nothing is pulled. Takes a
Docker Engine, named by KILLCHECK_TEST_DOCKER; without one it says so and ends well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/ci"))
IMAGE, BASE = "killcheck-test:image", "killcheck-test:base"
#: What compiled modules of wheels load besides.
_LOADED = sorted(
    found
    for name in ("libgcc_s.so.1", "libstdc++.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0", "libutil.so.1")
    for found in Path("/lib").glob(f"*/{name}")
)
#: What a Python of somewhere brings along and killcheck never imports.
_NOT_NEEDED = re.compile(r"/(test|tests|idlelib|tkinter|turtledemo|__pycache__|site-packages)(/|$)")


def docker(*argv: str | Path, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
    words = ["docker", "--host", os.environ["KILLCHECK_TEST_DOCKER"], *map(str, argv)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if expect is not None and done.returncode != expect:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
    return done


def libraries(*binaries: Path) -> set[Path]:
    """The shared libraries that programs and modules load, and the loader."""
    done = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False)
    return {Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)}


def base(folder: Path) -> None:
    """The base image: Python under /usr/local, a shell, wheels that pip takes without any network."""
    wheels = folder / "wheels"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--wheel-dir", wheels),
            *("setuptools>=77", "wheel", f"{ROOT}[aws]"),
        ],
        check=True,
    )
    for own in wheels.glob("killcheck-*.whl"):
        own.unlink()
    prefix, version = Path(sys.base_prefix), f"{sys.version_info.major}.{sys.version_info.minor}"
    standard = Path(os.__file__).parent
    modules = list((standard / "lib-dynload").glob("*.so"))
    program = Path(os.path.realpath(sys.executable))
    archive = folder / "base.tar"
    with tarfile.open(archive, "w") as made:
        made.add(program, f"usr/local/bin/python{version}")
        for name in ("python", "python3"):
            link = tarfile.TarInfo(f"usr/local/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, f"python{version}"
            made.addfile(link)
        made.add(standard, f"usr/local/lib/python{version}", filter=_needed)
        for library in sorted({*libraries(program, *modules), *prefix.glob("lib/libpython*.so*"), *_LOADED}):
            made.add(os.path.realpath(library), str(library).lstrip("/"))
        busybox = shutil.which("busybox") or sys.exit("busybox is not installed")
        for name in ("sh", "true", "sed", "cat", "ls"):
            made.add(busybox, f"bin/{name}")
        made.add(wheels, "wheels")
        for path, text in {
            "etc/pip.conf": "[global]\nno-index = true\nfind-links = /wheels\ndisable-pip-version-check = true\n",
            "etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        }.items():
            (folder / "text").write_text(text)
            made.add(folder / "text", path)
        for name in ("tmp", "var/lib", "var/run/secrets"):
            empty = tarfile.TarInfo(name)
            empty.type, empty.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            made.addfile(empty)
    where = f"{prefix}/lib"
    docker("import", "--change", f"ENV LD_LIBRARY_PATH={where} PATH=/usr/local/bin:/bin", archive, BASE)


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _NOT_NEEDED.search("/" + entry.name) else entry


def drill(folder: Path) -> str:
    """The recipe's pod, as a container: drills the reference path on a cluster of this process."""
    from own_world import QUICK, living, nothing_left, put_account, recipe

    pod = recipe("drill.yaml")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    with living("rbac.yaml", "drill.yaml") as cluster:
        account = folder / "account"
        token = put_account(cluster, pod, account)
        (folder / "killcheck.yaml").write_text(yaml.safe_dump(QUICK))
        folder.chmod(0o755)
        host, _, port = cluster.wire.url.removeprefix("https://").rpartition(":")
        [container] = pod["containers"]
        done = docker(
            *("run", "--rm", "--network", "host", "--read-only", "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", "--user", "65534:65534"),
            *("--tmpfs", "/var/lib/killcheck:uid=65534,gid=65534,mode=0700", "--workdir", container["workingDir"]),
            *("--volume", f"{account}:/var/run/secrets/kubernetes.io/serviceaccount:ro"),
            *("--volume", f"{folder / 'killcheck.yaml'}:/etc/killcheck/killcheck.yaml:ro"),
            *("--env", f"KUBERNETES_SERVICE_HOST={host}", "--env", f"KUBERNETES_SERVICE_PORT={port}"),
            *(
                word
                for env in container["env"]
                if "value" in env
                for word in ("--env", f"{env['name']}={env['value']}")
            ),
            *(IMAGE, *container["command"]),
        )
        left = nothing_left(cluster)
    if "SURVIVED" not in done.stdout or token in done.stdout + done.stderr or left != ([], 1):
        sys.exit(f"the image's drill: {left}\n{done.stdout}{done.stderr}")
    return "survived, nothing left"


def main() -> None:
    if "KILLCHECK_TEST_DOCKER" not in os.environ:
        print("image: not tried: no Docker Engine is named by KILLCHECK_TEST_DOCKER")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            base(folder)
            docker(
                *("build", "--network", "none", "--file", ROOT / "ci/Dockerfile", "--build-arg", f"BASE={BASE}"),
                *("--tag", IMAGE, ROOT),
            )
            said = drill(folder)
        finally:
            docker("image", "rm", "--force", IMAGE, BASE, expect=None)
    print(f"image: built from ci/Dockerfile, drilled read-only and not as root: {said}")


if __name__ == "__main__":
    main()
