"""The client against the embedded API server's own TLS: certificates, tokens, watches, access reviews."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from https_server import kubeconfig

from killcheck.clock import WallLoop
from killcheck.embedded.api import bootstrap
from killcheck.embedded.api.admission.chain import Chain
from killcheck.embedded.api.authn import Authenticator
from killcheck.embedded.api.core import Config
from killcheck.embedded.api.http import User
from killcheck.embedded.api.rbac import Authorizer
from killcheck.embedded.api.server import ApiServer
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.tokens import Issuer
from killcheck.embedded.pki import Pki
from killcheck.embedded.transport import InProcessTransport
from killcheck.embedded.wire import Server
from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.config import connect
from killcheck.kube.errors import CredentialsError, Forbidden, Unauthorized
from killcheck.kube.informer import Informer
from killcheck.kube.objects import Obj, name_of
from killcheck.kube.permissions import Permission, missing, rules

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))


class Cluster:
    """The API server over TLS, its loop on a thread of its own; ``kube`` is the way in without a wire."""

    def __init__(self, pki: Pki) -> None:
        self.loop = WallLoop()
        store, rng = Store(), random.Random(1)
        issuer, authorizer = Issuer(store, self.loop, rng=rng), Authorizer(store)
        server = ApiServer(
            store,
            self.loop,
            Config(
                authenticator=Authenticator(issuer, authorizer),
                authorizer=authorizer,
                admission=Chain(store, self.loop, authorizer, rng),
                rng=rng,
            ),
        )
        self.kube = Kube(InProcessTransport(server, self.loop, ADMIN))
        self.wire = Server(server, self.loop, pki)
        self._over = False
        self._thread = threading.Thread(target=self.loop.run_until, args=(lambda: self._over,))
        for obj in bootstrap.objects():
            self.create(obj)
        bootstrap.install_roles(server)
        account = {"name": "killcheck", "namespace": "default"}
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})

    def create(self, obj: Obj) -> Obj:
        resource = self.kube.resource_for(obj["apiVersion"], obj["kind"])
        return self.kube.create(resource, obj)

    def start(self) -> None:
        self._thread.start()
        self.wire.start()

    def stop(self) -> None:
        self.wire.stop()
        with self.loop.entered():
            self._over = True
        self._thread.join()

    def token(self) -> str:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
        issued = self.kube.create(r.SERVICEACCOUNTS, request, "default", name="killcheck", subresource="token")
        return str(issued["status"]["token"])


@pytest.fixture(scope="module")
def cluster(pki: Pki) -> Iterator[Cluster]:
    cluster = Cluster(pki)
    cluster.start()
    yield cluster
    cluster.stop()


def test_its_own_kubeconfig_lets_us_in_and_a_watch_sees_what_others_do(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "config"
    cluster.wire.write_kubeconfig(path)
    loop = WallLoop()
    kube = connect("killcheck-embedded", kubeconfig=path, loop=loop)
    assert "default" in [name_of(obj) for obj in kube.list(r.NAMESPACES).items]
    changes: list[tuple[str, str]] = []
    informer = Informer(
        kube,
        loop,
        r.CONFIGMAPS,
        namespace="default",
        on_change=lambda change, old, new: changes.append((change, name_of(new or old or {}))),
    )
    informer.start()
    seen = len(changes)
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
    cluster.kube.patch(r.CONFIGMAPS, "a", {"data": {"x": "y"}}, "default")
    kube.delete(r.CONFIGMAPS, "a", "default")
    assert loop.run_until(lambda: len(changes) == seen + 3, 120)
    assert changes[seen:] == [("added", "a"), ("modified", "a"), ("deleted", "a")]
    informer.stop()


def test_a_service_account_is_told_what_it_lacks_and_the_rules_help(cluster: Cluster, tmp_path: Path, pki: Pki) -> None:
    path = kubeconfig(tmp_path / "config", cluster.wire.url, pki, {"token": cluster.token()})
    kube = connect("here", kubeconfig=path, loop=WallLoop())
    wanted = [
        Permission("list", "", "pods"),
        Permission("patch", "apps", "deployments", "scale", "default", "vllm"),
        Permission("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ]
    lacking = missing(kube, wanted)
    assert lacking == wanted[:2]
    with pytest.raises(Forbidden, match='User "system:serviceaccount:default:killcheck" cannot list resource "pods"'):
        kube.list(r.PODS)
    import yaml

    for role in yaml.safe_load_all(rules(lacking)):
        cluster.create(role)
        subject = {"kind": "ServiceAccount", "name": "killcheck", "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": "killcheck"}
        cluster.create(
            {
                "apiVersion": role["apiVersion"],
                "kind": f"{role['kind']}Binding",
                "metadata": role["metadata"],
                "subjects": [subject],
                "roleRef": reference,
            }
        )
    assert missing(kube, wanted) == []
    assert kube.list(r.PODS).items == []


def test_a_token_of_somewhere_else_is_refused(cluster: Cluster, tmp_path: Path, pki: Pki) -> None:
    path = kubeconfig(tmp_path / "config", cluster.wire.url, pki, {"token": "not-of-here"})
    with pytest.raises(Unauthorized):
        connect("here", kubeconfig=path, loop=WallLoop()).list(r.PODS)


def test_nobody_is_never_who_we_are(cluster: Cluster, tmp_path: Path, pki: Pki) -> None:
    path = kubeconfig(tmp_path / "config", cluster.wire.url, pki, {})
    with pytest.raises(CredentialsError):
        connect("here", kubeconfig=path, loop=WallLoop())
