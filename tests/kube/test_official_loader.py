"""Kubeconfigs of every kind, read by us and by the official client: the same server, trust and credentials."""

from __future__ import annotations

import base64
import itertools
import json
import os
from pathlib import Path

import pytest
import yaml

from killcheck.clock import WallLoop
from killcheck.embedded.pki import Pki
from killcheck.kube.credentials import from_user
from killcheck.kube.endpoint import Endpoint
from killcheck.kube.kubeconfig import contexts, load

PKI = Pki()
ADMIN = PKI.client("me", ["team"])
SERVER = "https://api.example:6443"
PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "from-the-plugin"},
}


def inline(text):
    return base64.b64encode(text.encode()).decode()


#: What a cluster may say; ``HERE`` is the kubeconfig's folder.
CLUSTERS = {
    "public": {},
    "ca-inline": {"certificate-authority-data": inline(PKI.ca_pem)},
    "ca-beside": {"certificate-authority": "ca.pem"},
    "ca-below": {"certificate-authority": "pki/../ca.pem"},
    "ca-absolute": {"certificate-authority": "HERE/ca.pem"},
    "ca-twice": {"certificate-authority-data": inline(PKI.ca_pem), "certificate-authority": "gone.pem"},
    "insecure": {"insecure-skip-tls-verify": True},
    "secure-said": {"insecure-skip-tls-verify": False},
    "other-name": {"tls-server-name": "kubernetes.default"},
    "proxied": {"proxy-url": "http://proxy.example:3128"},
    "slash": {"server": f"{SERVER}/"},
    "path": {"server": f"{SERVER}/k8s/clusters/c-1"},
}
#: What a user may say.
USERS = {
    "token": {"token": "stored"},
    "token-file": {"tokenFile": "token"},
    "token-file-absolute": {"tokenFile": "HERE/token"},
    "certificate-inline": {
        "client-certificate-data": inline(ADMIN.certificate_pem),
        "client-key-data": inline(ADMIN.key_pem),
    },
    "certificate-files": {"client-certificate": "me.pem", "client-key": "me.key"},
    "certificate-and-token": {
        "client-certificate": "HERE/me.pem",
        "client-key-data": inline(ADMIN.key_pem),
        "token": "stored",
    },
    "password": {"username": "me", "password": "secret"},
    "plugin-beside": {"exec": {"apiVersion": PLUGIN["apiVersion"], "command": "./login", "interactiveMode": "Never"}},
    "plugin-with-arguments": {
        "exec": {
            "apiVersion": PLUGIN["apiVersion"],
            "command": "sh",
            "args": ["-c", 'test "$WHO" = me && cat "$WHERE/credential"'],
            "env": [{"name": "WHO", "value": "me"}, {"name": "WHERE", "value": "HERE"}],
            "interactiveMode": "Never",
        }
    },
}
LAYOUTS = ("one-file", "two-files", "a-file-that-is-not-there", "the-first-wins")
#: Every cluster and every user at least once, and every layout with each kind of relative path.
TABLE = [
    *((cluster, "token", "one-file") for cluster in CLUSTERS),
    *(("ca-inline", user, "one-file") for user in USERS if user != "token"),
    *itertools.product(("ca-beside", "ca-absolute"), ("token-file", "certificate-files", "plugin-beside"), LAYOUTS[1:]),
]


def written(folder, cluster, user, layout):
    """The files; returns what KUBECONFIG lists."""
    for place in ("a", "b"):
        here = folder / place
        (here / "pki").mkdir(parents=True)
        for name, text in (
            ("ca.pem", PKI.ca_pem),
            ("me.pem", ADMIN.certificate_pem),
            ("me.key", ADMIN.key_pem),
            ("token", "from-a-file"),
            ("credential", json.dumps(PLUGIN)),
            ("login", f"#!/bin/sh\ncat '{here}/credential'\n"),
        ):
            (here / name).write_text(text)
        (here / "login").chmod(0o755)
    first, second = folder / "a/config", folder / "b/config"
    apart = layout in ("two-files", "the-first-wins")
    home = second if layout == "two-files" else first
    whole = {
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **CLUSTERS[cluster]}}],
        "users": [{"name": "u", "user": USERS[user]}],
    }
    named = {"contexts": [{"name": "ours", "context": {"cluster": "c", "user": "u", "namespace": "team"}}]}
    other = {
        "clusters": [{"name": "c", "cluster": {"server": "https://other.example"}}],
        "users": [{"name": "u", "user": {"token": "another"}}],
        "contexts": [{"name": "ours", "context": {"cluster": "c", "user": "u"}}],
    }
    texts = {home: whole if layout == "two-files" else whole | named}
    if apart:
        texts[first if layout == "two-files" else second] = named if layout == "two-files" else other
    for file, part in texts.items():
        said = yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **part}).replace("HERE", str(file.parent))
        file.write_text(said)
    listed = [first, second] if apart else [first]
    return [folder / "gone", *listed] if layout == "a-file-that-is-not-there" else listed


def official(paths):
    """(server, CA, verified, server name, authorization, certificate, key) by the official loader."""
    from kubernetes import client
    from kubernetes.config import kube_config  # it takes half a second, which no other worker needs

    found = client.Configuration()
    kube_config.load_kube_config(
        ":".join(map(str, paths)), context="ours", client_configuration=found, persist_config=False
    )
    return (
        found.host,
        Path(found.ssl_ca_cert).read_text() if found.ssl_ca_cert else "",
        found.verify_ssl,
        found.tls_server_name or "",
        next((one["value"] for one in found.auth_settings().values()), ""),
        Path(found.cert_file).read_text() if found.cert_file else "",
        Path(found.key_file).read_text() if found.key_file else "",
    )


def ours(paths, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    assert contexts() == ["ours"]
    found = load("ours")
    endpoint = Endpoint.of(found.cluster, "ours")
    assert endpoint.proxy == found.cluster.fields.get("proxy-url", "")  # which the official loader passes over
    login = from_user(found.user, lambda: load("ours").user, found.cluster, WallLoop()).login()
    return (
        endpoint.url,
        endpoint.authority.decode(),
        not endpoint.insecure,
        endpoint.server_name,
        login.authorization,
        login.certificate.decode(),
        login.key.decode(),
    )


@pytest.mark.parametrize(("cluster", "user", "layout"), TABLE, ids=[" ".join(row) for row in TABLE])
def test_both_read_the_same(cluster, user, layout, tmp_path, monkeypatch):
    for name in [name for name in os.environ if "proxy" in name.lower()]:
        monkeypatch.delenv(name)
    paths = written(tmp_path, cluster, user, layout)
    assert ours(paths, monkeypatch) == official(paths)
