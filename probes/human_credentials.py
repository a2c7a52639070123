"""Credentials of a person in the kill path."""

from __future__ import annotations

from collections.abc import Iterable

from killcheck.probes.base import Finding, Probe
from killcheck.probes.where import command_path
from killcheck.probes.world import Executor, World, namespace_or_default

from killcheck.kube.objects import Obj, dig, name_of
from killcheck.text import lazy_re

__all__ = ["HumanCredentials"]


class HumanCredentials(Probe):
    """An SSO session lasts eight hours: a switch with a person's kubeconfig or profile works until that evening."""

    id = "human-credentials"
    claim = "Nothing in the kill path depends on a person's session."
    remedy = "Give it an identity of its own: a ServiceAccount and a Role; for the cloud, IRSA or Workload Identity."
    failures = (20, 21)
    sources = ("seed 0", "aws/aws-cli#8561", "oracle/oci-cli#1119", "aws/containers-roadmap#2419")

    def ask(self, world: World) -> Iterable[Finding]:
        """Kubeconfigs with an exec plugin, SSO profiles, keys in the environment; the spec's own commands."""
        for one in world.layer_executors:
            yield from self._executor(world, one)
        for config in world.of("ConfigMap"):
            for key, text in dig(config, "data", default={}).items():
                if _EXEC.search(str(text)) and _mounts(world, config):
                    message = f"{key} is a kubeconfig with an exec plugin: it needs somebody's login"
                    yield self.finding(world, config, ("data", key), message)

    def _executor(self, world: World, one: Executor) -> Iterable[Finding]:
        if _LOGIN.search(one.text):
            message = "logs in as a person would: there is nobody at 3 a.m."
            yield self.finding(world, one.owner, command_path(one), message)
        for path, container in one.containers:
            for index, entry in enumerate(container.get("env") or ()):
                where = (*path, "env", index)
                if entry.get("name") == "AWS_PROFILE":
                    message = f"AWS_PROFILE={entry.get('value')}: a person's profile, whose session ends"
                    yield self.finding(world, one.owner, where, message)
                if entry.get("name") == "AWS_SESSION_TOKEN":
                    yield self.finding(world, one.owner, where, "a session token: it is dead within hours")


def _mounts(world: World, config: Obj) -> bool:
    """Whether an executor mounts a ConfigMap."""
    return any(
        dig(volume, "configMap", "name") == name_of(config) and one.namespace == namespace_or_default(config)
        for one in world.layer_executors
        for volume in one.spec.get("volumes") or ()
    )


_LOGIN = lazy_re.compile(
    r"\b(aws sso login|gcloud auth login|az login\b(?!.*(--identity|--service-principal|--federated)))"
)
_EXEC = lazy_re.compile(r"(?s)kind:\s*Config\b.*\bexec:|\bexec:.*(aws|gke-gcloud-auth-plugin|kubelogin|oidc)")
