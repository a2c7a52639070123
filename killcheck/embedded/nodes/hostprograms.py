"""The programs of this host that stand in for those of an image."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from killcheck.embedded.nodes import startable
from killcheck.text import lazy_re

__all__ = ["BINARY_DIRS", "CLOUD_CLIS", "INSTALLERS", "OPERATORS_CLIS", "HostPrograms", "clouds_by_path"]

#: Where a host's own programs are.
BINARY_DIRS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
#: What reaches clouds that are not modelled here: nobody can say how it would end.
CLOUD_CLIS = frozenset(
    {
        "aws",
        "gcloud",
        "gsutil",
        "bq",
        "az",
        "eksctl",
        "doctl",
        "oci",
        "runpodctl",
        "vastai",
        "docker",
        "podman",
        "terraform",
        "ssh",
        "gke-gcloud-auth-plugin",
        "aws-iam-authenticator",
        "kubeseal",
    }
)
#: The same by their whole paths, where machines and images have them.
_CLOUD_BY_PATH = lazy_re.compile(
    rf"(?<![\w./-])((?:/usr(?:/local)?)?/bin|/snap/bin|/opt/[\w./-]+/bin)/({'|'.join(sorted(CLOUD_CLIS))})(?![\w./-])"
)
#: What fetches programs and libraries: nothing can be fetched here, and this host's own would look at this host.
INSTALLERS = frozenset(
    {
        "apk",
        "apt",
        "apt-get",
        "aptitude",
        "brew",
        "bun",
        "cargo",
        "conda",
        "dnf",
        "gem",
        "krew",
        "mamba",
        "microdnf",
        "npm",
        "npx",
        "pacman",
        "pip",
        "pip3",
        "pipx",
        "pnpm",
        "poetry",
        "snap",
        "tdnf",
        "uv",
        "uvx",
        "yarn",
        "yum",
        "zypper",
    }
)
#: What images for operators' chores have, and few hosts: where nothing is known of an image, whoever calls one of these
#: and meets none here has met a limit of this host.
OPERATORS_CLIS = frozenset(
    {
        "helm",
        "oc",
        "yq",
        "jq",
        "kustomize",
        "argocd",
        "flux",
        "kubectx",
        "kubens",
        "velero",
        "istioctl",
        "vault",
        "gh",
        "mc",
        "s5cmd",
        "rclone",
        "psql",
        "redis-cli",
        "mysql",
        "grpcurl",
        "ray",
        "wget",
        "nvidia-smi",
        "node",
        "ruby",
        "perl",
        "bc",
        "envsubst",
        "slack",
        "openstack",
        "ibmcloud",
        "linode-cli",
        "hcloud",
        "nomad",
        "consul",
        "rke",
        "k",
    }
)
#: Names under which an image has what this host has under another.
_SAME = {
    "ash": "sh",
    "[[": "[",
    "nawk": "awk",
    "mawk": "awk",
    "gawk": "awk",
    "python2": "",
    "python2.7": "",
    "python": "python3",
}
#: Version managers' scripts that start a program of the same name.
_SHIMS = (".pyenv/shims", ".asdf/shims", ".rbenv/shims", ".nodenv/shims", "mise/shims")


@dataclass
class HostPrograms:
    """``search``: the directories looked through, in order. ``unseen``: by their names, programs of this host that
    cannot start in a container, with what keeps them from it.
    """

    search: tuple[str, ...] = field(
        default_factory=lambda: tuple(
            d for d in (*os.environ.get("PATH", "").split(":"), *BINARY_DIRS) if d and not d.endswith(_SHIMS)
        )
    )
    unseen: dict[str, str] = field(default_factory=dict, init=False)
    _listed: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False)
    _found: dict[str, str | None] = field(default_factory=dict, init=False, repr=False)

    def lacks(self, without: frozenset[str]) -> frozenset[str]:
        """The programs that an image of which nothing is known may have and this host has not."""
        return (CLOUD_CLIS | INSTALLERS) - without | {
            name for name in OPERATORS_CLIS - without if self.find(name) is None
        }

    def find(self, name: str) -> str | None:
        """The real path of a program; None where this host has none, or where running it would prove nothing."""
        if name in CLOUD_CLIS or name in INSTALLERS:
            return None
        name = _SAME.get(name, name)
        if name.startswith("python"):
            return python() if name == "python3" else None
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def keeps_out(self, name: str) -> str | None:
        """What keeps a program of this host, looked for before, from starting in a container; None: nothing does."""
        why = self.unseen.get(name)
        put = f"put a {name} that is one binary into /usr/local/bin, or say --exec docker"
        return None if why is None else f"it calls {name}, and {why} ({put})"

    def _find(self, name: str) -> str | None:
        for directory in self.search:
            if name not in self._named(directory):
                continue
            candidate = os.path.join(directory, name)  # noqa: PTH118 - hundreds of names are looked for: paths would cost
            if not (os.access(candidate, os.X_OK) and os.path.isfile(candidate)):  # noqa: PTH113
                continue
            real = os.path.realpath(candidate)
            why = startable.unseen(real)
            if why is None:
                self.unseen.pop(name, None)
                return real
            self.unseen.setdefault(name, f"this machine's {candidate} cannot start in the sandbox: {why}")
        return None

    def _named(self, directory: str) -> frozenset[str]:
        """What is in a directory: one look for all the names that are looked for."""
        if directory not in self._listed:
            try:
                self._listed[directory] = frozenset(os.listdir(directory))  # noqa: PTH208
            except OSError:
                self._listed[directory] = frozenset()
        return self._listed[directory]


def clouds_by_path(texts: Iterable[str], without: frozenset[str]) -> set[tuple[str, str]]:
    """(folder, name) of the clouds' command lines that texts call by their whole paths: they are never run, and what is
    asked of them is heard there too. ``without``: names of those that the image has not."""
    found = {place for text in texts for place in _CLOUD_BY_PATH.findall(text) if place[1] not in without}
    return {(os.path.realpath(folder) if folder in BINARY_DIRS else folder, name) for folder, name in found}


def python() -> str:
    """The interpreter behind the one that runs killcheck, outside any virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
