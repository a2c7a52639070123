"""Applications of Argo CD, and sources of Flux, that hold what is in namespace studio."""

from __future__ import annotations

NS = {"namespace": "studio"}
RESPECT = "RespectIgnoreDifferences=true"
HEAL = {"selfHeal": True}


def app(automated, *options, ignore=()):
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "st", "namespace": "argocd"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.com/x.git", "path": "."},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "studio"},
            "ignoreDifferences": list(ignore),
            "syncPolicy": {"automated": automated, "syncOptions": list(options)},
        },
    }


def entry(**more):
    return {"group": "apps", "kind": "Deployment", **more}


def flux(kind, **spec):
    group = {"Kustomization": "kustomize.toolkit.fluxcd.io/v1", "HelmRelease": "helm.toolkit.fluxcd.io/v2"}[kind]
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "st", **NS}, "spec": spec}
