"""What a cloud account says of itself: answers of its APIs, saved as JSON, or asked through boto3.

Each document is recognised by its shape, as ``aws``, ``gcloud`` and ``az`` print it: DescribeAutoScalingGroups,
DescribeLaunchTemplates and -Versions, DescribeLaunchConfigurations, DescribeNodegroup, DescribeFargateProfile,
``gcloud container clusters|node-pools describe|list``, ``az aks show|nodepool list``, GetAccountAuthorizationDetails,
DescribePolicy (an SCP). What is not recognised makes the account *unproven*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field

from killcheck.cloud.iam import Access, Decision
from killcheck.fence import awsgroups, otherclouds
from killcheck.fence.pools import Pool
from killcheck.fence.templates import Templates
from killcheck.instances.catalogue import Catalogue
from killcheck.instances.launchable import launchable
from killcheck.kube.objects import dig
from killcheck.text.files import text_of
from killcheck.text.jsontext import from_text

__all__ = ["Account", "AccountError"]


class AccountError(Exception):
    """The account could not be asked, or a saved answer could not be read; one sentence for a person."""


class Account(Struct):
    """Everything that was exported of an account. ``unknown`` says what could not be recognised."""

    scaling_groups: list[Mapping[str, Any]] = field(default_factory=list)
    node_groups: list[Mapping[str, Any]] = field(default_factory=list)
    fargate: list[str] = field(default_factory=list)
    template_versions: list[Mapping[str, Any]] = field(default_factory=list)
    templates: list[Mapping[str, Any]] = field(default_factory=list)
    configurations: list[Mapping[str, Any]] = field(default_factory=list)
    gke: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    gke_clusters: list[Mapping[str, Any]] = field(default_factory=list)
    aks: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    roles: list[Mapping[str, Any]] = field(default_factory=list)
    managed_policies: list[Mapping[str, Any]] = field(default_factory=list)
    scps: list[Any] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    region: str = ""
    #: Where the account is at hand: IAM's simulator, asked with a role's ARN and instance types.
    simulator: Callable[[str, Iterable[str]], Mapping[str, Decision]] | None = None

    @classmethod
    def of(cls, documents: Iterable[Any], names: Iterable[str] = ()) -> Account:
        """From parsed JSON documents; ``names`` are what to call them where one is not recognised."""
        account, called = cls(), list(names)
        for number, document in enumerate(documents):
            if not account._take(document):
                name = called[number] if number < len(called) else f"document {number + 1}"
                account.unknown.append(f"{name} is no answer of a cloud API that is known here")
        return account

    @classmethod
    def load(cls, paths: Iterable[Path]) -> Account:
        """From files, or folders of ``*.json``. Raises AccountError for what cannot be read as JSON."""
        documents, names = [], []
        for path in _files(paths):
            try:
                documents.append(from_text(text_of(path)))
            except (OSError, ValueError) as error:
                raise AccountError(f"{path}: {error}") from error
            names.append(str(path))
        return cls.of(documents, names)

    def pools(self, catalogue: Catalogue) -> Iterator[Pool]:
        """Every pool outside Karpenter."""
        templates = self.known_templates(catalogue)
        managed = {name for group in self.node_groups for name in _groups_behind(group)}
        for group in self.scaling_groups:
            name = str(group.get("AutoScalingGroupName", ""))
            owner = awsgroups.owned_by_node_group(group)
            if name not in managed and owner not in {group.get("nodegroupName") for group in self.node_groups}:
                yield awsgroups.auto_scaling_group(group, templates)
        for group in self.node_groups:
            yield awsgroups.eks_node_group(group, templates)
        for cluster, pool in self.gke:
            yield otherclouds.gke_pool(pool, catalogue, cluster)
        for found in self.gke_clusters:
            automatic = otherclouds.gke_auto_provisioning(found, catalogue)
            if automatic:
                yield automatic
        for cluster, pool in self.aks:
            yield otherclouds.aks_pool(pool, catalogue, cluster)

    def known_templates(self, catalogue: Catalogue) -> Templates:
        """What was exported of launch templates."""
        templates = Templates(launchable(catalogue))
        templates.add_versions(self.template_versions)
        templates.add_templates(self.templates)
        templates.add_configurations(self.configurations)
        return templates

    def access_of(self, role: str) -> Access | None:
        """The policies of a role (name or ARN); None where the role was not exported."""
        name = role.rpartition("/")[2]
        found = next((one for one in self.roles if one.get("RoleName") == name), None)
        if found is None:
            return None
        policies: list[Any] = [_document(one.get("PolicyDocument")) for one in found.get("RolePolicyList") or ()]
        for attached in found.get("AttachedManagedPolicies") or ():
            policies.append(self._managed(str(attached.get("PolicyArn"))))
        boundary = dig(found, "PermissionsBoundary", "PermissionsBoundaryArn")
        linked = str(found.get("Path", "")).startswith("/aws-service-role/")
        return Access(
            [policy for policy in policies if policy is not None],
            self._managed(boundary) if boundary else None,
            [self.scps] if self.scps else [],
            linked,
        )

    def unread_policies(self, role: str) -> list[str]:
        """Managed policies of a role whose text was not exported: what they allow is not known."""
        name = role.rpartition("/")[2]
        found = next((one for one in self.roles if one.get("RoleName") == name), {})
        arns = [str(one.get("PolicyArn")) for one in found.get("AttachedManagedPolicies") or ()]
        arns += [str(arn) for arn in [dig(found, "PermissionsBoundary", "PermissionsBoundaryArn")] if arn]
        return [arn for arn in arns if self._managed(arn) is None]

    # -- inside --------------------------------------------------------------------------------------------
    def _managed(self, arn: str) -> Any:
        for policy in self.managed_policies:
            if policy.get("Arn") == arn:
                versions = policy.get("PolicyVersionList") or ()
                default = next((one for one in versions if one.get("IsDefaultVersion")), None)
                return _document(default.get("Document")) if default else None
        return None

    def _take(self, document: Any) -> bool:
        if isinstance(document, list):
            taken = [self._take(one) for one in document]
            return bool(taken) and all(taken)
        if not isinstance(document, Mapping):
            return False
        return self._take_aws(document) or self._take_gke(document) or self._take_aks(document)

    def _take_aws(self, document: Mapping[str, Any]) -> bool:
        lists = {
            "AutoScalingGroups": self.scaling_groups,
            "LaunchTemplateVersions": self.template_versions,
            "LaunchTemplates": self.templates,
            "LaunchConfigurations": self.configurations,
            "RoleDetailList": self.roles,
            "Policies": self.managed_policies,
        }
        taken = [name for name in lists if isinstance(document.get(name), list)]
        for name in taken:
            lists[name].extend(document[name])
        if isinstance(document.get("nodegroup"), Mapping):
            self.node_groups.append(document["nodegroup"])
            taken.append("nodegroup")
        if isinstance(document.get("fargateProfile"), Mapping):
            self.fargate.append(str(document["fargateProfile"].get("fargateProfileName", "?")))
            taken.append("fargateProfile")
        if dig(document, "Policy", "PolicySummary", "Type") == "SERVICE_CONTROL_POLICY":
            self.scps.append(_document(document["Policy"].get("Content")))
            taken.append("Policy")
        return bool(taken)

    def _take_gke(self, document: Mapping[str, Any]) -> bool:
        if isinstance(document.get("nodePools"), list):
            name = str(document.get("name", ""))
            self.gke += [(name, pool) for pool in document["nodePools"]]
            self.gke_clusters.append(document)
            self.unknown += filter(None, [otherclouds.provisioned_elsewhere(document)])
            return True
        if isinstance(dig(document, "config", "machineType"), str):
            self.gke.append(("", document))
            return True
        return False

    def _take_aks(self, document: Mapping[str, Any]) -> bool:
        if isinstance(document.get("agentPoolProfiles"), list):
            self.aks += [(str(document.get("name", "")), pool) for pool in document["agentPoolProfiles"]]
            self.unknown += filter(None, [otherclouds.provisioned_elsewhere(document)])
            return True
        if isinstance(document.get("vmSize"), str):
            self.aks.append(("", document))
            return True
        return False


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise AccountError(f"{path}: no *.json in it: expected what a cloud's command line prints")
        yield from found


def _document(policy: Any) -> Any:
    """A policy document: IAM's API sends them URL-encoded, its clients decode them."""
    if isinstance(policy, str):
        try:
            return from_text(unquote(policy))
        except ValueError:
            return policy
    return policy


def _groups_behind(group: Mapping[str, Any]) -> list[str]:
    return [str(one.get("name")) for one in dig(group, "resources", "autoScalingGroups", default=())]
