"""Every pod runs as a ServiceAccount that exists, and gets that account's token mounted.

Source: plugin/pkg/admission/serviceaccount/admission.go; recordings 01 (the volume) and 11 (the refusal).
The recorded cluster is an OpenShift build, which also projects ``openshift-service-ca.crt``; Kubernetes does not.
"""

from __future__ import annotations

import random

from killcheck.clock import Loop
from killcheck.embedded.api.admission.request import AdmissionRequest
from killcheck.embedded.api.admission.runtimeclass import unfit_for_a_path
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import POD_TOKEN_EXPIRATION_S, SERVICE_ACCOUNTS
from killcheck.kube.objects import Obj, annotations_of, copy, dig, parse_time

__all__ = ["ServiceAccount", "random_suffix"]

NAMESPACES = ("", "namespaces")
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
ENFORCE_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
MIRROR = "kubernetes.io/config.mirror"
#: The alphabet of generated names: no vowels, nothing that looks like something else.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
#: The API server waits this long (10 tries of 100 to 200 ms) for the ``default`` account of a new namespace.
DEFAULT_ACCOUNT_PATIENCE_S = 2.0


def random_suffix(rng: random.Random) -> str:
    """Five characters, as generated names end."""
    return "".join(rng.choice(ALPHABET) for _ in range(5))


class ServiceAccount:
    """ServiceAccount admission of pods."""

    def __init__(self, store: Store, loop: Loop, rng: random.Random) -> None:
        self.store = store
        self.loop = loop
        self.rng = rng

    def mutate(self, request: AdmissionRequest) -> None:
        """Name the account, mount its token, add its pull secrets; refuse as :meth:`validate` does."""
        pod = request.obj
        if pod is None or request.operation != "CREATE" or request.subresource:
            return
        if MIRROR in annotations_of(pod):
            self._check_mirror(request, pod)
            return
        spec = pod.setdefault("spec", {})
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = "default"
        spec["serviceAccount"] = spec["serviceAccountName"]
        account = self._account(request, spec["serviceAccountName"])
        if self._automounts(account, spec):
            self._mount(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = copy({"list": account["imagePullSecrets"]})["list"]
        self._check_secrets(request, account, spec)

    def _account(self, request: AdmissionRequest, name: str) -> Obj:
        account = self.store.get(SERVICE_ACCOUNTS, (request.namespace, name))
        if account is not None:
            return account
        if name == "default" and self._young(request.namespace):
            return {}
        wrong = unfit_for_a_path(name)  # of the client's own, before anything is asked
        why = f'invalid resource name "{name}": [{" ".join(wrong)}]' if wrong else f'serviceaccount "{name}" not found'
        raise request.forbidden(f"error looking up service account {request.namespace}/{name}: {why}")

    def _young(self, namespace: str) -> bool:
        """Whether the account of a new namespace would come while the API server waits for it."""
        created = dig(self.store.get(NAMESPACES, ("", namespace)), "metadata", "creationTimestamp")
        if not created:
            return False
        return (self.loop.now() - parse_time(created)).total_seconds() < DEFAULT_ACCOUNT_PATIENCE_S

    @staticmethod
    def _automounts(account: Obj, spec: Obj) -> bool:
        for said in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
            if said is not None:
                return bool(said)
        return True

    def _mount(self, spec: Obj) -> None:
        volumes: list[Obj] = spec.get("volumes") or []
        known = next((v["name"] for v in volumes if v.get("name", "").startswith(VOLUME_PREFIX)), "")
        name = known or VOLUME_PREFIX + random_suffix(self.rng)
        needed = False
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            mounts: list[Obj] = container.get("volumeMounts") or []
            if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
                container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
                needed = True
        if needed and not known:
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]

    @staticmethod
    def _check_mirror(request: AdmissionRequest, pod: Obj) -> None:
        if dig(pod, "spec", "serviceAccountName"):
            raise request.forbidden("a mirror pod may not reference service accounts")

    @staticmethod
    def _check_secrets(request: AdmissionRequest, account: Obj, spec: Obj) -> None:
        """With the annotation on the account, a pod may use only the Secrets that the account lists."""
        if annotations_of(account).get(ENFORCE_MOUNTABLE, "").lower() not in ("true", "t", "1"):
            return
        name = dig(account, "metadata", "name", default="")
        allowed = {secret.get("name") for secret in account.get("secrets") or ()}
        tail = f"is not allowed because service account {name} does not reference that"
        for volume in spec.get("volumes") or ():
            secret = dig(volume, "secret", "secretName")
            if secret and secret not in allowed:
                raise request.forbidden(f'volume with secret.secretName="{secret}" {tail} secret')
        for what, key in (("init container", "initContainers"), ("container", "containers")):
            for container in spec.get(key) or ():
                for where, secret in _secret_references(container):
                    if secret not in allowed:
                        raise request.forbidden(
                            f"{what} {container.get('name', '')} with {where} referencing "
                            f'secret.secretName="{secret}" {tail} secret'
                        )
        pulls = {secret.get("name") for secret in account.get("imagePullSecrets") or ()}
        for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
            if secret.get("name") not in pulls:
                raise request.forbidden(f'imagePullSecrets[{index}].name="{secret.get("name")}" {tail} imagePullSecret')


def _secret_references(container: Obj) -> list[tuple[str, str]]:
    found = []
    for env in container.get("env") or ():
        secret = dig(env, "valueFrom", "secretKeyRef", "name")
        if secret:
            found.append((f"envVar {env.get('name', '')}", secret))
    found += [
        ("envFrom", source["secretRef"].get("name", ""))
        for source in container.get("envFrom") or ()
        if source.get("secretRef")
    ]
    return found


def _token_volume() -> Obj:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": POD_TOKEN_EXPIRATION_S, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
        "defaultMode": 420,
    }
