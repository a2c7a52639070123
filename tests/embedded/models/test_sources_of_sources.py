"""Sources of Git that are another source's own: what a switch writes on them is put back as well."""

from __future__ import annotations

import pytest
from cluster_world import cluster

from killcheck.kube import resources as r
from killcheck.kube.argo_applications import HERE
from killcheck.kube.objects import dig

MARK = {"annotations": {"argocd.argoproj.io/tracking-id": "root:argoproj.io/Application:argocd/child"}}
BY_FLUX = {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux"}}


def _application(name, to, **meta):
    spec = {
        "destination": {"server": HERE[-1], "namespace": to},
        "syncPolicy": {"automated": {"selfHeal": True, "prune": True}},
    }
    head = {"name": name, "namespace": "argocd"} | meta
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": head, "spec": spec}


@pytest.mark.parametrize(
    ("meta", "root_to", "heals", "unknown"),
    [
        (MARK, "argocd", True, False),
        (MARK, "elsewhere", True, False),
        ({}, "argocd", False, True),
        ({}, "elsewhere", False, False),
    ],
)
def test_application_of_another_is_healed_by_it_or_nobody_knows(meta, root_to, heals, unknown):
    with cluster(_application("root", root_to), _application("child", "clips", **meta)) as made:
        made.loop.run_until(lambda: False, 60)
        made.kube.patch(r.APPLICATIONS, "child", {"spec": {"syncPolicy": {"automated": None}}}, "argocd")

        def automated():
            return dig(made.kube.get(r.APPLICATIONS, "child", "argocd"), "spec", "syncPolicy", "automated")

        assert made.loop.run_until(lambda: bool(automated()), 900) is heals
        assert bool(made.unknowns) is unknown


@pytest.mark.parametrize("said", [True, False])
def test_suspension_of_a_release_is_put_back_only_where_git_says_the_field(said):
    spec = {"interval": "5m", "chart": {"spec": {"chart": "c"}}} | ({"suspend": False} if said else {})
    api = "toolkit.fluxcd.io"
    release = {"apiVersion": f"helm.{api}/v2", "kind": "HelmRelease", "spec": spec}
    release["metadata"] = {"name": "clips", "namespace": "clips", **BY_FLUX}
    apps = {"apiVersion": f"kustomize.{api}/v1", "kind": "Kustomization", "spec": {"interval": "10m", "prune": True}}
    apps["metadata"] = {"name": "apps", "namespace": "flux"}
    with cluster(release, apps) as made:
        made.kube.patch(r.HELMRELEASES, "clips", {"spec": {"suspend": True}}, "clips")

        def suspended():
            return dig(made.kube.get(r.HELMRELEASES, "clips", "clips"), "spec", "suspend")

        assert made.loop.run_until(lambda: not suspended(), 1300) is said


@pytest.mark.parametrize("finalizers", [[], ["resources-finalizer.argocd.argoproj.io"]])
def test_application_takes_along_what_it_holds_where_its_finalizer_says_so(finalizers):
    app = _application("clips", "clips", finalizers=finalizers)
    app["spec"]["syncPolicy"] = {}
    account = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a", "namespace": "clips"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}
    account["spec"] = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    account["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "clips:batch/CronJob:clips/a"}
    with cluster(app, account) as made:
        made.kube.delete(r.APPLICATIONS, "clips", "argocd")
        made.loop.run_until(lambda: False, 30)
        assert made.kube.find(r.APPLICATIONS, "clips", "argocd") is None
        assert (made.kube.find(r.CRONJOBS, "a", "clips") is None) is bool(finalizers)
        assert not made.unknowns
