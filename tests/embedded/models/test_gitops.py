"""What Argo CD and Flux put back of a Deployment that was scaled to zero, and what they leave alone."""

from __future__ import annotations

import pytest
from cluster_world import cluster
from gitops_objects import HEAL, NS, RESPECT, app, entry, flux

from killcheck.kube import resources as r
from killcheck.kube.objects import dig

#: A few seconds for a self-heal, and the longest interval below.
ARGO_S, FLUX_S = 60, 3700
#: What helm writes on what it installs.
MARKED = {"meta.helm.sh/release-name": "st"}


def painter(**annotations):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "painter", **NS, "annotations": annotations},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "painter"}},
            "template": {
                "metadata": {"labels": {"app": "painter"}},
                "spec": {"containers": [{"name": "server", "image": "ghcr.io/comfyui/comfyui:1"}]},
            },
        },
    }


def put_back(source, target, within_s, files=None):
    """Whether the three replicas come back after somebody scaled to zero."""
    with cluster(source, target) as made:
        made.git.files = files or {}
        made.loop.run_until(lambda: False, 5)
        made.kube.patch(r.DEPLOYMENTS, "painter", {"spec": {"replicas": 0}}, "studio", subresource="scale")

        def back():
            return dig(made.kube.get(r.DEPLOYMENTS, "painter", "studio"), "spec", "replicas") == 3

        if source["kind"] == "Application":  # five seconds, whatever else changes meanwhile
            made.kube.patch(r.DEPLOYMENTS, "painter", {"metadata": {"labels": {"seen": "yes"}}}, "studio")
            assert not made.loop.run_until(back, 4)
        return made.loop.run_until(back, within_s)


@pytest.mark.parametrize(
    ("application", "heals"),
    [
        (app(HEAL), True),
        (app({"selfHeal": True, "enabled": False}), False),
        (app({"prune": True}), False),
        (app(HEAL, RESPECT, ignore=[entry(jsonPointers=["/spec/replicas"])]), False),
        (app(HEAL, RESPECT, ignore=[entry(name="painter", jqPathExpressions=[".spec.replicas"])]), False),
        (app(HEAL, RESPECT, ignore=[{"group": "*", "kind": "*", "jsonPointers": ["/spec"]}]), False),
        (app(HEAL, RESPECT, ignore=[entry(namespace="other", jsonPointers=["/spec/replicas"])]), True),
        (app(HEAL, RESPECT, ignore=[{"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]), True),
        (app(HEAL, ignore=[entry(jsonPointers=["/spec/replicas"])]), False),
        (app(HEAL, RESPECT, ignore=[entry(managedFieldsManagers=["somebody"])]), True),
        (app(HEAL, RESPECT, ignore=[entry(jqPathExpressions=['.spec["replicas"]'])]), False),
        (app(HEAL, RESPECT, ignore=[entry(jqPathExpressions=[".spec.template.spec.containers[].image"])]), True),
    ],
)
def test_argo_heals_what_it_may_and_nothing_else(application, heals):
    assert put_back(application, painter(), ARGO_S) is heals


@pytest.mark.parametrize(
    ("creates", "described", "again"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_argo_makes_a_namespace_again_that_is_its_own_or_lies_in_git(creates, described, again):
    """A switch that deletes the namespace of its targets turns nothing off for good then."""
    application = app(HEAL)
    application["metadata"]["namespace"] = "argocd"
    sync = application["spec"]["syncPolicy"]
    sync["syncOptions"] = [*(sync.get("syncOptions") or ()), f"CreateNamespace={str(creates).lower()}"]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "studio"}}
    with cluster(application, painter(), *([space] if described else [])) as made:
        made.git.objects[:] = [one for one in made.git.objects if described or one.wanted["kind"] != "Namespace"]
        made.loop.run_until(lambda: False, 5)
        made.kube.delete(r.NAMESPACES, "studio")
        gone = lambda: made.kube.find(r.DEPLOYMENTS, "painter", "studio") is None  # noqa: E731
        assert made.loop.run_until(gone, ARGO_S)
        assert made.loop.run_until(lambda: not gone(), 3 * ARGO_S) is again


@pytest.mark.parametrize(("file", "heals"), [("repo/shop/a.yaml", True), ("repo/ml/a.yaml", False), ("", False)])
def test_argo_heals_in_another_namespace_what_lies_in_its_folder(file, heals):
    application = app(HEAL)
    application["spec"] |= {"source": {"path": "shop"}, "destination": {"namespace": "web"}}
    files = (
        {("Deployment", "studio", "painter"): file, ("Service", "web", "shop"): "repo/shop/web.yaml"} if file else {}
    )
    assert put_back(application, painter(), ARGO_S, files) is heals


@pytest.mark.parametrize(
    ("tracking", "heals"),
    [
        ("st:apps/Deployment:studio/painter", True),
        ("argocd_st:apps/Deployment:studio/painter", True),
        ("elsewhere:apps/Deployment:studio/painter", False),
    ],
)
def test_argo_tracks_by_annotation(tracking, heals):
    assert put_back(app(HEAL), painter(**{"argocd.argoproj.io/tracking-id": tracking}), ARGO_S) is heals


@pytest.mark.parametrize(
    ("source", "notes", "corrects"),
    [
        (flux("Kustomization", interval="10m", path="."), {}, True),
        (flux("Kustomization", interval="1h0m0s", path="."), {}, True),
        (flux("Kustomization", interval="1h", suspend=True), {}, False),
        (flux("Kustomization", interval="1h", targetNamespace="other"), {}, False),
        (flux("Kustomization", interval="1h"), {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}, False),
        (flux("Kustomization", interval="1h"), {"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}, False),
        (flux("Kustomization", interval="1h"), {"kustomize.toolkit.fluxcd.io/ssa": "Merge"}, True),
        (flux("HelmRelease", interval="30m", driftDetection={"mode": "enabled"}), {}, True),
        (flux("HelmRelease", interval="30m", driftDetection={"mode": "warn"}), {}, False),
        (flux("HelmRelease", interval="30m"), {}, False),
        (
            flux(
                "HelmRelease",
                interval="30m",
                driftDetection={
                    "mode": "enabled",
                    "ignore": [{"paths": ["/spec/replicas"], "target": {"kind": "Deployment"}}],
                },
            ),
            {},
            False,
        ),
        (
            flux("HelmRelease", interval="30m", driftDetection={"mode": "enabled"}),
            {"helm.toolkit.fluxcd.io/driftDetection": "disabled"},
            False,
        ),
    ],
)
def test_flux_corrects_at_its_interval(source, notes, corrects):
    assert put_back(source, painter(**notes), FLUX_S) is corrects


@pytest.mark.parametrize(
    ("created", "record", "again"),
    [(True, "studio", True), (True, "flux-system", False), (False, "studio", False)],
)
def test_release_whose_record_went_with_its_namespace_is_installed_anew(created, record, again):
    """A switch that deletes the namespace of its targets turns nothing off for good then, with drift or without."""
    release = flux("HelmRelease", interval="5m", targetNamespace="studio", storageNamespace=record)
    release["metadata"]["namespace"] = "flux-system"
    release["spec"]["install"] = {"createNamespace": created}
    with cluster(release, painter(**MARKED)) as made:
        made.loop.run_until(lambda: False, 5)
        made.kube.delete(r.NAMESPACES, "studio")
        gone = lambda: made.kube.find(r.DEPLOYMENTS, "painter", "studio") is None  # noqa: E731
        assert made.loop.run_until(gone, ARGO_S)
        assert made.loop.run_until(lambda: not gone(), 900) is again


@pytest.mark.parametrize(
    ("source", "mark", "goes"),
    [
        (flux("HelmRelease", interval="5m"), MARKED, True),
        (flux("HelmRelease", interval="5m", suspend=True), MARKED, False),
        (flux("Kustomization", interval="5m", prune=True), {}, True),
        (flux("Kustomization", interval="5m", prune=False), {}, False),
        (flux("Kustomization", interval="5m", prune=True, deletionPolicy="Orphan"), {}, False),
    ],
)
def test_source_that_is_deleted_takes_along_what_is_its_own(source, mark, goes):
    """What nothing says whose it is goes too, and that proves nothing."""
    resource = r.HELMRELEASES if source["kind"] == "HelmRelease" else r.KUSTOMIZATIONS
    with cluster(source, painter(**mark)) as made:
        made.loop.run_until(lambda: False, 5)
        made.kube.delete(resource, source["metadata"]["name"], source["metadata"]["namespace"])
        gone = lambda: made.kube.find(r.DEPLOYMENTS, "painter", "studio") is None  # noqa: E731
        assert made.loop.run_until(gone, 60) is goes
        assert bool(made.unknowns) is (goes and not mark)
