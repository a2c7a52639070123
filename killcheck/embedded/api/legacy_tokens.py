"""Secrets of type ``kubernetes.io/service-account-token``: filled with a token, and gone with their ServiceAccount.

In Kubernetes this is kube-controller-manager's tokens controller, which holds the signing key. Here the key stays in
the API server, and so does this.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from killcheck.clock import Loop
from killcheck.embedded.api.store import Change, Key, Store
from killcheck.embedded.api.tokens import SECRETS, SERVICE_ACCOUNTS, Issuer
from killcheck.kube.objects import Obj, annotations_of, copy, key_of, name_of, namespace_of, uid_of

__all__ = ["LegacyTokens"]

TYPE = "kubernetes.io/service-account-token"
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


class LegacyTokens:
    """Fills token Secrets a moment after they are written; ``ca`` answers the cluster's CA certificate (PEM)."""

    def __init__(self, store: Store, loop: Loop, issuer: Issuer, ca: Callable[[], str]) -> None:
        self.store = store
        self.loop = loop
        self.issuer = issuer
        self.ca = ca
        self._stop = [
            store.listen(SECRETS, self._secret_changed),
            store.listen(SERVICE_ACCOUNTS, self._account_changed),
        ]

    def stop(self) -> None:
        """Leave Secrets alone from now on."""
        for stop in self._stop:
            stop()

    def _secret_changed(self, change: Change) -> None:
        if change.new is not None and change.new.get("type") == TYPE:
            self.loop.call_soon(self._settle, change.key)

    def _account_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None and uid_of(change.old) == uid_of(change.new):
            return
        for key, secret in list(self.store.items(SECRETS, change.key[0])):
            if secret.get("type") == TYPE and annotations_of(secret).get(NAME) == change.key[1]:
                self.loop.call_soon(self._settle, key)

    def _settle(self, key: Key) -> None:
        secret = self.store.get(SECRETS, key)
        if secret is None or secret.get("type") != TYPE:
            return
        account = self.store.get(SERVICE_ACCOUNTS, (key[0], annotations_of(secret).get(NAME, "")))
        if account is None or annotations_of(secret).get(UID, uid_of(account)) != uid_of(account):
            self.store.remove(SECRETS, key)
        elif not _complete(secret):
            self.store.put(SECRETS, key_of(secret), self._filled(secret, account))

    def _filled(self, secret: Obj, account: Obj) -> Obj:
        filled = copy(secret)
        filled["metadata"].setdefault("annotations", {})[UID] = uid_of(account)
        data = {
            "token": self.issuer.legacy(account, secret),
            "ca.crt": self.ca(),
            "namespace": namespace_of(secret),
        }
        kept: Obj = filled.get("data") or {}
        filled["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()} | {
            key: value for key, value in kept.items() if value
        }
        return filled


def _complete(secret: Obj) -> bool:
    data: Obj = secret.get("data") or {}
    return (
        bool(name_of(secret))
        and all(data.get(key) for key in ("token", "ca.crt", "namespace"))
        and (UID in annotations_of(secret))
    )
