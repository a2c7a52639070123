"""What a managed cluster's webhook gives pods whose account has an identity in its cloud: a token, and variables.

Sources: aws/amazon-eks-pod-identity-webhook pkg/handler (annotation ``role-arn``; EKS runs it);
Azure/azure-workload-identity pkg/webhook (the pod's label ``use``, the account's ``client-id``; AKS' add-on). On GKE a
metadata server answers instead, and pods are left as they are.
"""

from __future__ import annotations

from msgspec import Struct

from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.store import Store
from killcheck.kube.objects import Obj, annotations_of, labels_of

__all__ = ["WorkloadIdentity"]

_ACCOUNTS = ("", "serviceaccounts")


class _Given(Struct, frozen=True):
    """``identity``: the account's annotation; ``label``: of the pod, without which nothing is given; ``env``: variables
    beside the token's file, filled in with the account's identity."""

    identity: str
    label: str
    volume: str
    folder: str
    file: str
    audience: str
    lives_s: int
    token_file: str
    env: dict[str, str]


_ALL = (
    _Given(
        "eks.amazonaws.com/role-arn",
        "",
        "aws-iam-token",
        "/var/run/secrets/eks.amazonaws.com/serviceaccount",
        "token",
        "sts.amazonaws.com",
        86400,
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        {"AWS_ROLE_ARN": "{}"},
    ),
    _Given(
        "azure.workload.identity/client-id",
        "azure.workload.identity/use",
        "azure-identity-token",
        "/var/run/secrets/azure/tokens",
        "azure-identity-token",
        "api://AzureADTokenExchange",
        3600,
        "AZURE_FEDERATED_TOKEN_FILE",
        {
            "AZURE_CLIENT_ID": "{}",
            "AZURE_TENANT_ID": "00000000-0000-0000-0000-000000000000",
            "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
        },
    ),
)


class WorkloadIdentity:
    """EKS' and AKS' webhooks."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def mutate(self, request: AdmissionRequest) -> None:
        """Give a pod what its account's identity takes; what it says itself stays."""
        pod = request.obj
        if request.resource != ("", "pods") or request.operation != "CREATE" or request.subresource or pod is None:
            return
        name = str((pod.get("spec") or {}).get("serviceAccountName") or "default")
        account = self.store.get(_ACCOUNTS, (request.namespace, name))
        for one in _ALL if account is not None else ():
            identity = annotations_of(account or {}).get(one.identity)
            if identity and (not one.label or labels_of(pod).get(one.label) == "true"):
                _give(pod["spec"], one, identity)


def _give(spec: Obj, one: _Given, identity: str) -> None:
    told = {name: text.format(identity) for name, text in one.env.items()}
    told[one.token_file] = f"{one.folder}/{one.file}"
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        env, mounts = container.get("env") or [], container.get("volumeMounts") or []
        there = {entry.get("name") for entry in env}
        container["env"] = [*env, *({"name": n, "value": v} for n, v in told.items() if n not in there)]
        if all(mount.get("mountPath") != one.folder for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": one.volume, "mountPath": one.folder, "readOnly": True}]
    volumes = spec.get("volumes") or []
    if all(volume.get("name") != one.volume for volume in volumes):
        token = {"audience": one.audience, "expirationSeconds": one.lives_s, "path": one.file}
        projected = {"defaultMode": 420, "sources": [{"serviceAccountToken": token}]}  # defaulted already
        spec["volumes"] = [*volumes, {"name": one.volume, "projected": projected}]
