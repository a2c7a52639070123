"""Contexts, users, credentials: which server we speak to, as whom, and what is said when that is not clear."""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from https_server import SECRET, HttpsServer, Reply, Seen, base64_of, certificate_user, kubeconfig

from killcheck.clock import VirtualLoop, WallLoop
from killcheck.embedded.pki import Pki
from killcheck.kube.client import Kube
from killcheck.kube.config import connect, in_cluster
from killcheck.kube.errors import CredentialsError, KubeConfigError, KubeError, Unauthorized
from killcheck.kube.exec_plugin import ExecPlugin

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
UNAUTHORIZED = Reply(401, {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"})
OK = Reply(200, {"gitVersion": "v1.36.2"})


def version(kube: Kube) -> str:
    return str(kube.call("GET", "/version").body["gitVersion"])


def only(*tokens: str) -> Callable[[Seen], Reply]:
    return lambda seen: OK if seen.token in tokens else UNAUTHORIZED


def plugin(tmp_path: Path, script: str, **config: Any) -> dict[str, Any]:
    """A user whose credentials come from a shell script beside the kubeconfig."""
    (tmp_path / "login").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "login").chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login",
            "interactiveMode": "Never",
            **config,
        }
    }


def credential(token: str, **status: str) -> str:
    return json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": token, **status},
        }
    )


# -- contexts ----------------------------------------------------------------------------------------------------
def test_an_unknown_context_is_answered_with_the_nearest_names(tmp_path: Path, pki: Pki) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", pki, {"token": SECRET}, context="gpu-staging")
    with pytest.raises(KubeConfigError, match=r"no context 'gpu-stagign' .* did you mean gpu-staging\?"):
        connect("gpu-stagign", kubeconfig=path, loop=WallLoop())
    with pytest.raises(KubeConfigError, match="there are gpu-staging"):
        connect("production", kubeconfig=path, loop=WallLoop())


def test_the_current_context_is_not_a_default(tmp_path: Path, pki: Pki) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", pki, {"token": SECRET})
    with pytest.raises(KubeConfigError, match="there is no context ''"):
        connect("", kubeconfig=path, loop=WallLoop())


def test_several_files_are_merged_and_the_first_wins(
    server: HttpsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "ca.crt").write_text(server.pki.ca_pem)
    context = {"name": "merged", "context": {"cluster": "c", "user": "u"}}
    first = {"contexts": [context], "users": [{"name": "u", "user": {"token": "first"}}]}
    second = {
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"token": "second"}}],
    }
    (tmp_path / "one" / "config").write_text(yaml.safe_dump(first))
    (tmp_path / "two" / "config").write_text(json.dumps(second))
    files = [tmp_path / "one" / "config", tmp_path / "gone", tmp_path / "two" / "config"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    server.answer = only("first")
    assert version(connect("merged", loop=WallLoop())) == "v1.36.2"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"contexts": [{"name": "here", "context": {"cluster": "c", "user": "nobody"}}]},
            "user 'nobody', which is not",
        ),
        (
            {"contexts": [{"name": "here", "context": {"cluster": "x", "user": "somebody"}}]},
            "cluster 'x', which is not",
        ),
        ({"contexts": [{"name": "here", "context": {"cluster": "c"}}]}, "context here names no user"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "cluster c has no server"),
        ({"clusters": [{"name": "c", "cluster": {"server": "localhost:6443"}}]}, "must be an https:// address"),
        ({"clusters": [{"name": "c", "cluster": {"server": "https://localhost:port"}}]}, "must be an https:// address"),
        (
            {
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": "https://localhost",
                            "certificate-authority-data": "eA==",
                            "insecure-skip-tls-verify": True,
                        },
                    }
                ]
            },
            "exclude each other",
        ),
        ({"users": [{"name": "somebody", "user": {}}]}, "user somebody .* has no credentials"),
        ({"users": [{"name": "somebody", "user": {"token": f"{SECRET}\nX-Evil: 1"}}]}, "does not hold a token"),
        (
            {"users": [{"name": "somebody", "user": {"auth-provider": {"name": "gcp"}}}]},
            "gcp was removed from Kubernetes",
        ),
        ({"users": "none"}, "users must be a list"),
    ],
)
def test_a_kubeconfig_that_makes_no_sense(tmp_path: Path, pki: Pki, change: dict[str, Any], said: str) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", pki, {"token": SECRET})
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(KubeError, match=said) as caught:
        connect("here", kubeconfig=path, loop=WallLoop())
    assert SECRET not in str(caught.value)


def test_a_broken_kubeconfig_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"users:\n- name: x\n  user: {{token: {SECRET}\n")
    with pytest.raises(KubeConfigError, match=r"config:\d+: not a kubeconfig") as caught:
        connect("here", kubeconfig=path, loop=WallLoop())
    assert SECRET not in str(caught.value)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KubeConfigError, match="No such file"):
        connect("here", kubeconfig=tmp_path / "none", loop=WallLoop())
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KubeConfigError, match="there is no kubeconfig"):
        connect("here", loop=WallLoop())


# -- certificates ------------------------------------------------------------------------------------------------
def test_a_client_certificate_is_shown(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    version(kube_for(certificate_user(server.pki.admin)))
    assert [seen.peer for seen in server.seen] == ["kubernetes-admin"]


def test_an_expired_client_certificate_is_said_by_name(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    later = VirtualLoop(datetime.now(UTC) + timedelta(days=400))
    with pytest.raises(CredentialsError, match=r"user somebody .*certificate \(CN=kubernetes-admin\) expired at 20"):
        version(kube_for(certificate_user(server.pki.admin), loop=later))
    assert server.seen == []


def test_a_certificate_with_the_key_of_another(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    user = certificate_user(server.pki.admin) | {"client-key-data": base64_of(server.pki.client("other").key_pem)}
    with pytest.raises(KubeConfigError, match="do not belong together"):
        version(kube_for(user))


# -- tokens ------------------------------------------------------------------------------------------------------
def test_a_token_file_is_read_anew(server: HttpsServer, kube_for: Callable[..., Kube], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    kube = kube_for({"tokenFile": "token"})
    version(kube)
    (tmp_path / "token").write_text("two\n")
    version(kube)
    assert [seen.token for seen in server.seen] == ["one", "two"]
    (tmp_path / "token").unlink()
    with pytest.raises(CredentialsError, match=r"cannot read .*token: No such file"):
        version(kube)
    assert len(server.seen) == 2, "never anonymously"


def test_a_stored_token_that_was_replaced_meanwhile(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    tmp_path: Path,
) -> None:
    kube = kube_for({"token": "old"})
    kubeconfig(tmp_path / "config", server.url, server.pki, {"token": "new"})
    server.answer = only("new")
    assert version(kube) == "v1.36.2"
    server.answer = only()
    with pytest.raises(Unauthorized):
        version(kube)
    assert [seen.token for seen in server.seen] == ["old", "new", "new"]


def test_in_a_pod_the_rotated_token_is_used(server: HttpsServer, tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    (tmp_path / "ca.crt").write_text(server.pki.ca_pem)
    (tmp_path / "token").write_text("one")
    kube = in_cluster(WallLoop(), account=tmp_path, environ=environ)
    version(kube)
    (tmp_path / "token").write_text("two")
    version(kube)
    assert [seen.token for seen in server.seen] == ["one", "two"]


def test_outside_of_a_pod(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="this is not a pod"):
        in_cluster(WallLoop(), account=tmp_path, environ={})
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(CredentialsError, match=r"ca\.crt"):
        in_cluster(WallLoop(), account=tmp_path, environ=environ)


def test_impersonation_is_never_forgotten(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    version(kube_for({"token": SECRET, "as": "weak", "as-groups": ["a", "b"], "as-user-extra": {"why": ["drill"]}}))
    headers = server.seen[0].headers
    assert headers["Impersonate-User"] == "weak"
    assert headers.get_all("Impersonate-Group") == ["a", "b"]
    assert headers["Impersonate-Extra-why"] == "drill"


def test_an_oidc_token_that_expired(server: HttpsServer, kube_for: Callable[..., Kube]) -> None:
    claims = base64_of(json.dumps({"exp": (NOON - timedelta(hours=1)).timestamp()})).rstrip("=")
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": f"eyJh.{claims}.sig"}}}
    with pytest.raises(CredentialsError, match="the token expired at 2026-11-21T11:00:00Z"):
        version(kube_for(user, loop=VirtualLoop(NOON)))
    assert server.seen == []


# -- exec plugins ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("script", "config", "said"),
    [
        (
            f"echo 'SSO session has expired; token={SECRET} Authorization: Bearer {SECRET}' >&2; exit 3",
            {},
            r"`\./login` failed with exit code 3: SSO session has expired",
        ),
        ("exit 255", {}, "exit code 255; it said nothing on stderr"),
        ("exit 0", {}, "printed nothing: log in again"),
        (f"echo {SECRET}", {}, "printed something that is not JSON"),
        ("read answer && exit 0; echo 'MFA code?' >&2; exit 1", {}, r"exit code 1: MFA code\?"),
        ("echo no", {"interactiveMode": "Always"}, "must ask a person .* there is no terminal"),
        (
            "exit 0",
            {"command": "kubelogin-of-nobody", "installHint": "brew install it"},
            "`kubelogin-of-nobody` was not found on the PATH: brew install it",
        ),
        ("exit 0", {"command": "./nowhere"}, "could not be started: No such file"),
        (f"echo '{credential('')}'", {}, "without a token or a client certificate"),
        (f"echo '{credential(SECRET).replace('/v1', '/v1beta1')}'", {}, "another version than the kubeconfig's"),
        (
            f"echo '{credential(SECRET, expirationTimestamp='2026-11-21T11:59:59Z')}'",
            {},
            "gave credentials that had expired at 2026-11-21T11:59:59Z",
        ),
        (f"echo '{credential(SECRET, expirationTimestamp='tomorrow')}'", {}, "that is not a time"),
        (
            'echo "$1 $KEY_SECRET" >&2; exit 1',
            {"args": [f"--client-secret={SECRET}"], "env": [{"name": "KEY_SECRET", "value": SECRET}]},
            r"`\./login --client-secret=<redacted>` failed",
        ),
    ],
)
def test_an_exec_plugin_that_fails_is_named_and_nothing_is_sent(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    tmp_path: Path,
    script: str,
    config: dict[str, Any],
    said: str,
) -> None:
    script = script.replace(f"token={SECRET} ", "")
    kube = kube_for(plugin(tmp_path, script, **config), loop=VirtualLoop(NOON))
    with pytest.raises(CredentialsError, match=said) as caught:
        version(kube)
    assert server.seen == []
    assert SECRET not in str(caught.value)


def test_an_exec_plugin_that_hangs_is_killed_with_its_children(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("killcheck.kube.exec_plugin.ExecPlugin.__init__.__defaults__", _impatient(), raising=True)
    said, spawn = tmp_path / "said", ExecPlugin._spawn

    def spawned(self: ExecPlugin, environ: dict[str, str], interactive: bool) -> Any:
        """Its time is counted from its first words, however busy this host."""
        process = spawn(self, environ, interactive)
        while process.poll() is None and not said.exists():
            select.select([], [], [], 0.001)
        return process

    monkeypatch.setattr(ExecPlugin, "_spawn", spawned)
    kube = kube_for(plugin(tmp_path, f"echo waiting for the browser >&2; touch {said}; sleep 60"))
    with pytest.raises(CredentialsError, match=r"did not finish within 0\.1 s: waiting for the browser"):
        version(kube)


def _impatient() -> tuple[Any, ...]:
    return (*(ExecPlugin.__init__.__defaults__ or ())[:-1], 0.1)


def test_an_exec_token_is_renewed_when_it_expires(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    tmp_path: Path,
) -> None:
    first, second = (
        credential(name, expirationTimestamp=f"2026-11-21T1{hour}:00:00Z")
        for name, hour in (("first", 3), ("second", 4))
    )
    loop = VirtualLoop(NOON)
    kube = kube_for(
        plugin(
            tmp_path,
            f"[ -e ran ] && echo '{second}' || echo '{first}'; touch ran".replace("ran", str(tmp_path / "ran")),
        ),
        loop=loop,
    )
    version(kube)
    loop.sleep(3000)
    version(kube)
    loop.sleep(600)
    version(kube)
    assert [seen.token for seen in server.seen] == ["first", "first", "second"]


def test_an_exec_token_that_is_refused_is_renewed_once(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    tmp_path: Path,
) -> None:
    script = f"echo x >> {tmp_path}/runs; echo '{credential('token-N')}' | sed s/N/$(wc -l < {tmp_path}/runs)/"
    kube = kube_for(plugin(tmp_path, script))
    server.answer = only("token-2")
    assert version(kube) == "v1.36.2"
    server.answer = only()
    with pytest.raises(Unauthorized):
        version(kube)
    assert [seen.token for seen in server.seen] == ["token-1", "token-2", "token-2", "token-3"]


def test_an_exec_plugin_may_give_a_client_certificate_and_is_told_of_the_cluster(
    server: HttpsServer,
    kube_for: Callable[..., Kube],
    tmp_path: Path,
) -> None:
    identity = server.pki.client("from-plugin")
    answer = json.dumps(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"clientCertificateData": identity.certificate_pem, "clientKeyData": identity.key_pem},
        }
    )
    (tmp_path / "answer").write_text(answer)
    script = f'printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; cat {tmp_path}/answer'
    version(kube_for(plugin(tmp_path, script, provideClusterInfo=True)))
    assert server.seen[0].peer == "from-plugin"
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["cluster"]["server"] == server.url
    assert info["spec"]["interactive"] is False
