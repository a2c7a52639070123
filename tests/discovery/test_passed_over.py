"""Nothing stops a folder: what cannot be read is passed over with its cause, as data for whoever judges the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck import discover
from killcheck.cli import main
from killcheck.kube import manifests
from killcheck.kube.objects import ref_of
from killcheck.kube.passed_over import Cause, names_accelerators
from killcheck.run.session import Session
from killcheck.text.yamlfile import documents

HOLDER = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: serving}
spec:
  replicas: 3
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]}
"""
#: (file, its text, why it is not read, whether it undermines what is said of the rest)
STRANGERS = [
    ("values.yaml", "replicas: 3\nimage: {tag: x}\n", Cause.NO_MANIFEST, False),
    ("values-gpu.yaml", "modelSpec:\n- requestGPU: 4\n", Cause.NO_MANIFEST, False),
    ("dashboard.json", '{"panels": [], "title": "GPU"}', Cause.NO_MANIFEST, False),
    ("report.yaml", "- one\n- [two\n", Cause.NO_MANIFEST, False),
    ("kubeconfig.yaml", "apiVersion: v1\nkind: Config\nclusters: []\n", Cause.CONFIGURATION, False),
    ("eks.yaml", "apiVersion: eksctl.io/v1\nkind: ClusterConfig\nmetadata: {name: c}\n", Cause.CONFIGURATION, False),
    ("queue.yaml", "apiVersion: armada.example.org/v1\nkind: Queue\nname: a\nweight: 2\n", Cause.CONFIGURATION, False),
    ("nameless.yaml", "apiVersion: ml.example.org/v1\nkind: Model\nspec: {gpus: 2}\n", Cause.REFUSED, True),
    ("helm.yaml", HOLDER.replace("NAME", "{{ .Release.Name }}-x"), Cause.TEMPLATE, True),
    ("shell.yaml", HOLDER.replace("NAME", "${MODEL}-x"), Cause.TEMPLATE, True),
    ("dollar.yaml", HOLDER.replace("NAME", "$JOB_NAME"), Cause.TEMPLATE, True),
    ("whole.yaml", HOLDER.replace("{name: NAME, namespace: serving}", "${METADATA}"), Cause.TEMPLATE, True),
    ("angle.yaml", HOLDER.replace("NAME", "<<MODEL>>"), Cause.TEMPLATE, True),
    ("spruce.yaml", HOLDER.replace("NAME", '"((model))"'), Cause.TEMPLATE, True),
    ("azure.yaml", HOLDER.replace("NAME", '"#{Model}#"'), Cause.TEMPLATE, True),
    ("jinja.yaml", "{% for m in models %}\n" + HOLDER + "{% endfor %}\n", Cause.TEMPLATE, True),
    ("terraform.tftpl.yaml", "%{ if gpu }\n" + HOLDER + "%{ endif }\n", Cause.TEMPLATE, True),
    ("broken.yaml", HOLDER + "  - x\n", Cause.BROKEN, True),
    ("untyped.yaml", HOLDER.replace("name: c,", "name: off,"), Cause.REFUSED, True),
    ("sops.yaml", "apiVersion: ENC[AES256_GCM,data:a]\nkind: ENC[AES256_GCM,data:b]\n", Cause.UNREADABLE, True),
    ("left.yaml", "# killcheck:ignore: an example\n" + HOLDER, Cause.LEFT_OUT, False),
]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(("file", "text", "cause", "undermines"), STRANGERS, ids=[row[0] for row in STRANGERS])
def test_one_strange_file_stops_no_folder(tmp_path: Path, file: str, text: str, cause: Cause, undermines: bool):
    write(tmp_path, {file: text, "good.yaml": HOLDER.replace("NAME", "good")})
    loaded = manifests.load(tmp_path)
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/serving/good"]
    [one] = loaded.skipped
    assert (one.file, one.cause, one.undermines) == (str(tmp_path / file), cause, undermines)
    assert one.names_gpus == names_accelerators(text)


@pytest.mark.parametrize("row", [row for row in STRANGERS if row[2].is_fault], ids=lambda row: row[0])
def test_a_file_that_was_named_itself_and_cannot_be_read_is_an_error(tmp_path: Path, row):
    with pytest.raises(manifests.ManifestError, match=row[0]):
        manifests.load(write(tmp_path, {row[0]: row[1]}) / row[0])


def test_what_a_clusters_configuration_always_keeps_is_read(tmp_path):
    """eksctl's file is no object, and says how many machines with GPUs there are at the least."""
    groups = "- {name: cpu, instanceType: m5.large, minSize: 2}\n- {name: gpu, instanceType: g5.xlarge, minSize: 1}\n"
    head = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: c}\nmanagedNodeGroups:\n"
    files = {"eks.yaml": head + groups, "holder.yaml": HOLDER}
    (one,) = manifests.load([write(tmp_path, files)]).skipped
    assert (one.cause, one.floors) == (Cause.CONFIGURATION, (("managedNodeGroups[1]", 1),))
    # So do lists of resources that are no Kubernetes objects: CloudFormation's, Pulumi's.
    sizes = "{InstanceTypes: [g5.xlarge], ScalingConfig: {MinSize: 2}}"
    (tmp_path / "eks.yaml").write_text(f"Resources:\n  Gpu: {{Type: 'AWS::EKS::Nodegroup', Properties: {sizes}}}\n")
    assert [one.floors for one in manifests.load([tmp_path]).skipped] == [(("Resources.Gpu.Properties", 2),)]


_GROUP = 'resource "aws_eks_node_group" "gpu" {{\n  instance_types = ["{0}"]\n  scaling_config {{ {1} }}\n}}\n'
_ALONE = 'resource "{0}" "gpu" {{\n  instance_type = "p5.48xlarge"\n  {1}\n}}\n'
_POOL = (
    'resource "google_container_node_pool" "gpu" {{\n  {0}\n  node_config {{ machine_type = "a2-highgpu-1g" }}\n}}\n'
)
_MAP = 'module "eks" {{\n  node_groups = {{\n    gpu = {{ types = ["g5.xlarge"]\n min_size = {0} }}\n    x = {{ min_size = 3 }}\n  }}\n}}'


_OBJECT = 'resource "{0}" "x" {{\n  {1}\n}}\n'
_BY_NAME = (
    'resource "aws_launch_template" "gpu" { instance_type = "p4d.24xlarge" }\n'
    'resource "aws_autoscaling_group" "gpu" {\n  min_size = 2\n  launch_template { id = aws_launch_template.gpu.id }\n}\n'
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (_GROUP.format("p4d.24xlarge", "min_size = 2"), ("aws_eks_node_group.gpu", 2)),
        (_GROUP.format("p4d.24xlarge", "min_size = 0"), None),
        (_GROUP.format("p4d.24xlarge", "min_size = var.least"), None),
        (_GROUP.format("m6i.large", "min_size = 2"), None),
        (_POOL.format("autoscaling { min_node_count = 1 }"), ("google_container_node_pool.gpu", 1)),
        (_POOL.format("node_count = 2 # min_node_count = 0"), ("google_container_node_pool.gpu", 2)),
        (_MAP.format(1), ("gpu", 1)),
        (_BY_NAME, ("aws_autoscaling_group.gpu", 2)),
        (_MAP.format(0), None),
        (_ALONE.format("aws_ec2_capacity_reservation", "instance_count = 2"), ("aws_ec2_capacity_reservation.gpu", 2)),
        (_ALONE.format("aws_instance", ""), ("aws_instance.gpu", 1)),
        (_ALONE.format("aws_instance", "count = var.boxes"), None),
        (_ALONE.format("aws_iam_policy", ""), None),
        ('resource {{{{ instance_types = ["p4d.24xlarge"', None),
    ],
)
def test_machines_that_terraform_always_keeps_are_told(text: str, kept: tuple[str, int] | None, tmp_path: Path) -> None:
    (tmp_path / "nodes.tf").write_text(text)
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert [group for one in manifests.load([tmp_path]).skipped for group in one.floors] == ([kept] if kept else [])


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (_GROUP.format("p4d.24xlarge", "min_size = 0"), ["aws_eks_node_group.gpu"]),
        (_GROUP.format("m6i.large", "min_size = 2"), []),
        (_GROUP.format("${var.type}", ""), ["aws_eks_node_group.gpu"]),
        (
            'resource "azurerm_kubernetes_cluster_node_pool" "a" {\n  vm_size = var.size\n}\n',
            ["azurerm_kubernetes_cluster_node_pool.a"],
        ),
        (_POOL.format(""), ["google_container_node_pool.gpu"]),
        (_MAP.format(0), ["module.eks"]),
        (_BY_NAME, ["aws_launch_template.gpu"]),
        ('resource "aws_instance" "a" {\n  instance_type = "p4d.24xlarge"\n}\n', ["aws_instance.a"]),
        (
            'resource "google_container_cluster" "a" {\n  resource_limits {\n    resource_type = "nvidia-l4"\n  }\n}\n',
            ["google_container_cluster.a"],
        ),
        ('module "vpc" {\n  size = var.size\n}\nresource "aws_db_instance" "a" {\n  instance_type = var.size\n}\n', []),
        ('module "a" {\n  source = "git::https://example.com/platform.git"\n}\n', ["module.a"]),
        ('module "a" {\n  source = "../modules/nodes"\n}\n', ["module.a"]),
        ('module "a" {\n  source = "./."\n}\n', []),
        # Resources launch nothing only where that is known of their type, or of the machines that they name.
        ('resource aws_instance a {\n  instance_type = "p4d.24xlarge"\n}\n', ["aws_instance.a"]),
        ('resource "aws_instance" "a" {\n  name = "}"\n  instance_type = var.size\n}\n', ["aws_instance.a"]),
        ('resource "aws_instance" "a" {\n  u = <<E\n}\nE\n  instance_type = var.size\n}\n', ["aws_instance.a"]),
        ('resource "aws_instance" "a" {\n  instance_type = "m5.large"\n}\n', []),
        ('resource "aws_launch_template" "a" {\n  instance_requirements {\n  }\n}\n', ["aws_launch_template.a"]),
        (
            'resource "aws_autoscaling_group" "a" {\n  launch_template {\n    id = data.aws_launch_template.b.id\n  }\n}\n',
            ["aws_autoscaling_group.a"],
        ),
        (
            'resource "aws_eks_node_group" "a" {\n  launch_template {\n    id = "lt-1"\n  }\n}\n',
            ["aws_eks_node_group.a"],
        ),
        ('resource "aws_eks_node_group" "a" {\n  instance_types = ["m6i.large", "c7g.xlarge"]\n}\n', []),
        ('resource "aws_cloudformation_stack" "a" {\n  template_url = "x"\n}\n', ["aws_cloudformation_stack.a"]),
        ('resource "aws_s3_bucket" "a" {\n  provisioner "local-exec" {\n  }\n}\n', ["aws_s3_bucket.a"]),
        ('resource "google_container_cluster" "a" {\n  enable_autopilot = true\n}\n', ["google_container_cluster.a"]),
        ('resource "google_compute_instance" "a" {\n  machine_type = "e2-small"\n}\n', []),
        ('resource "azurerm_linux_virtual_machine" "a" {\n  size = "Standard_D2s_v5"\n}\n', []),
        (
            'resource "azurerm_kubernetes_cluster" "a" {\n  node_provisioning_profile {\n  }\n}\n',
            ["azurerm_kubernetes_cluster.a"],
        ),
        ('resource "oci_core_instance" "a" {\n  shape = "VM.Standard2.1"\n}\n', ["oci_core_instance.a"]),
        ('resource "helm_release" "a" {\n  chart = "keda"\n}\n', []),
        ('resource "helm_release" "a" {\n  chart = "pools"\n}\n', ["helm_release.a"]),
        (
            'resource "kubernetes_manifest" "a" {\n  manifest = { apiVersion = "karpenter.sh/v1" }\n}\n',
            ["kubernetes_manifest.a"],
        ),
        ('resource "kubernetes_manifest" "a" {\n  manifest = { apiVersion = "cert-manager.io/v1" }\n}\n', []),
        ('resource "random_id" "a" {\n}\nresource "aws_iam_role" "a" {\n}\n', []),
        ('module "a" {\n  source = "terraform-aws-modules/vpc/aws"\n}\n', []),
        ('module "a" {\n  source = "terraform-aws-modules/eks/aws//modules/karpenter"\n}\n', ["module.a"]),
    ],
)
def test_what_terraform_makes_nodes_of_is_told_to_fences(text: str, made: list[str], tmp_path: Path) -> None:
    (tmp_path / "nodes.tf").write_text(text)
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert Session(manifests=[tmp_path]).unevaluated() == [f"{one} ({tmp_path / 'nodes.tf'})" for one in made]


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("a.tf", _OBJECT.format("kubernetes_deployment", 'limits = { "nvidia.com/gpu" = "1" }'), True),
        ("a.tf", _OBJECT.format("helm_release", 'values = ["limits:\\n  nvidia.com/gpu: 4"]'), True),
        ("a.tf", _OBJECT.format("helm_release", 'values = ["tolerations: [{key: nvidia.com/gpu}]"]'), False),
        ("a.tf", _OBJECT.format("aws_eks_node_group", 'taint { key = "nvidia.com/gpu" }'), False),
        ("helmfile.yaml", "releases:\n  - name: a\n    chart: x/y\n    values: [{nvidia.com/gpu: 1}]\n", True),
        ("values.yaml", "image:\n  chart: x\n", False),
    ],
)
def test_what_makes_objects_with_gpus_from_elsewhere_undermines_a_drill(
    file: str, text: str, told: bool, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    (tmp_path / "gpu.yaml").write_text(HOLDER.replace("NAME", "read"))
    assert any(one.undermines for one in manifests.load([tmp_path]).skipped) is told


def test_a_broken_document_takes_no_other_with_it_and_lines_stay_true(tmp_path: Path):
    text = "---\n".join([HOLDER.replace("NAME", "one"), "kind: apiVersion: [\n", HOLDER.replace("NAME", "two")])
    loaded = manifests.load(write(tmp_path, {"all.yaml": text}) / "all.yaml")
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/serving/one", "Deployment/serving/two"]
    assert [one.line for one in loaded.skipped] == [11]
    lines = text.splitlines()
    for manifest in loaded.manifests:
        assert lines[manifest.line_of(("spec", "replicas")) - 1] == "  replicas: 3"
    assert loaded.manifests[1].line_of(("spec", "replicas")) == 17


def test_of_a_key_given_twice_the_last_counts_and_it_is_found(tmp_path: Path):
    text = HOLDER.replace("NAME", "x").replace("  replicas: 3\n", "  replicas: 3\n  replicas: 5\n")
    loaded = manifests.load(write(tmp_path, {"x.yaml": text}))
    assert loaded.objects[0]["spec"]["replicas"] == 5
    assert [str(one) for one in loaded.surprises] == [
        f"{tmp_path}/x.yaml:6: spec.replicas: key 'replicas' is given twice; the last one would win"
    ]
    result = CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)])
    assert "[not-read:6]" in result.output


def test_what_is_excluded_is_left_out_and_told(tmp_path: Path):
    write(
        tmp_path,
        {
            "a/x.yaml": HOLDER.replace("NAME", "x"),
            "b/y.yaml": HOLDER.replace("NAME", "y"),
            "c/z.yaml": HOLDER.replace("NAME", "z"),
            ".killcheckignore": "# mine\nb/\n",
        },
    )
    loaded = manifests.load(tmp_path, exclude=["z.*"])
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/serving/x"]
    assert {(Path(one.file).name, one.cause) for one in loaded.skipped} == {
        ("b", Cause.LEFT_OUT),
        ("z.yaml", Cause.LEFT_OUT),
    }


def test_variants_of_an_object_are_told_and_the_one_that_holds_gpus_is_asked_about(tmp_path: Path):
    idle = HOLDER.replace("NAME", "x").replace("nvidia.com/gpu: 2", "cpu: 2")
    write(tmp_path, {"dev/x.yaml": idle, "prod/x.yaml": HOLDER.replace("NAME", "x"), "test/x.yaml": idle})
    loaded = manifests.load(tmp_path)
    assert [Path(m.file).parent.name for m in loaded.manifests] == ["prod"]
    assert sorted(Path(m.file).parent.name for m in loaded.variants) == ["dev", "test"]
    assert "name one folder to ask about that one" in loaded.notes[0]
    assert [holder.devices for holder in discover.holders(loaded.objects)] == [6]


def test_jobs_with_generated_names_are_several(tmp_path: Path):
    jobs = [HOLDER.replace("name: NAME", f"generateName: run-, labels: {{queue: '{number}'}}") for number in range(3)]
    loaded = manifests.load(write(tmp_path, {"a.yaml": "---\n".join(jobs[:2]), "b.yaml": jobs[2]}))
    assert len(loaded.objects) == 3
    targets = discover.from_objects(loaded, complete=False).kill_path.targets
    assert [target.name for target in targets] == ["deployment-serving-run" + end for end in ("", "-2", "-3")]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("kind: Secret\nstringData: {token: 'ENC[AES256_GCM,data:x,type:str]'}\nsops: {mac: x}", {"token"}),
        ("kind: Secret\ndata: {password: <your password>}", {"password"}),
        ("kind: SealedSecret\nspec: {encryptedData: {key: AgB}}", {"key"}),
        ("kind: ExternalSecret\nspec: {data: [{secretKey: token}]}", {"token"}),
    ],
)
def test_a_secret_that_nobody_can_read_is_there(text: str, keys: set[str]):
    group = {"SealedSecret": "bitnami.com/v1alpha1", "ExternalSecret": "external-secrets.io/v1"}
    kind = text.split()[1]
    loaded = manifests.loads(f"apiVersion: {group.get(kind, 'v1')}\nmetadata: {{name: s, namespace: ns}}\n{text}\n")
    [secret] = [obj for obj in loaded.objects if obj["kind"] == "Secret"]
    assert (ref_of(secret), set(secret["data"])) == ("Secret/ns/s", keys)
    assert "killcheck.dev/unknown-content" in secret["metadata"]["annotations"]


def test_files_that_no_kustomization_names_are_told_and_folders_beside_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing renders it
    write(
        tmp_path,
        {
            "app/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n",
            "app/a.yaml": HOLDER.replace("NAME", "a"),
            "app/p.yaml": HOLDER.replace("NAME", "a"),
            "app/left.yaml": HOLDER.replace("NAME", "left"),
            "app/sub/b.yaml": HOLDER.replace("NAME", "b"),
        },
    )
    loaded = manifests.load(tmp_path)
    assert [ref_of(obj) for obj in loaded.objects] == ["Deployment/serving/a", "Deployment/serving/b"]
    assert {(Path(one.file).name, one.cause, one.names_gpus) for one in loaded.unseen} == {
        ("left.yaml", Cause.UNLISTED, True),
        ("kustomization.yaml", Cause.KUSTOMIZATION, True),
    }


def test_init_asks_which_overlay_and_lists_them(tmp_path: Path):
    write(
        tmp_path,
        {
            "base/kustomization.yaml": "resources: [d.yaml]\n",
            "base/d.yaml": HOLDER.replace("NAME", "d"),
            "overlays/dev/kustomization.yaml": "resources: [../../base]\nnamePrefix: dev-\n",
            "overlays/prod/kustomization.yaml": "resources: [../../base]\nnamePrefix: prod-\n",
        },
    )
    result = CliRunner().invoke(main, ["init", "-o", "-", "--manifests", str(tmp_path)])
    assert result.exit_code == 2
    assert f"killcheck init --manifests {tmp_path}/overlays/prod" in result.output
    write(tmp_path, {"more.yaml": HOLDER.replace("NAME", "more")})
    assert CliRunner().invoke(main, ["init", "-o", "-", "--manifests", str(tmp_path)]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nvidia.com/gpu: 1", True),
        ("cloud.google.com/gke-accelerator: nvidia-l4", True),
        ("gpu: 2", True),
        ("requestGPU: 1", True),
        ("google.com/tpu: 4", True),
        ("gpu: 0", False),
        ("description: no gpu at all", False),
    ],
)
def test_accelerators_are_seen_in_text_of_any_form(text: str, named: bool):
    assert names_accelerators(f"a:\n  {text}\n") is named


@pytest.mark.parametrize("between", [0, 60, 100, 300, 100_000])
def test_accelerators_are_seen_wherever_in_a_line_they_are(between: int):
    padding = " gpu " * (between // 5)
    assert names_accelerators(f"{padding}nvidia.com/gpu: 1")
    assert names_accelerators(f"{padding}numGpus=1{padding}")
    assert not names_accelerators(f"{padding}\n{padding}")
    assert not names_accelerators(f"{padding}gpus:\n  1{padding}")


def test_lines_stay_true_where_schemas_are_left_out(tmp_path: Path):
    version = (
        "  - name: v1\n    schema:\n      openAPIV3Schema:\n        type: object\n\n        # a: b\n    served: true\n"
    )
    definition = f"""\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.example.com}}
spec:
  versions:
{version}{version.replace("v1", "v2")}  group: example.com
  group: example.org
"""
    odd = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {hostname: yes, containers: []}\n"
    ignored = HOLDER.replace("NAME", "ignored")
    text = f"{definition}---\n{HOLDER.replace('NAME', 'one')}---\n{odd}---\n# killcheck:ignore\n{ignored}"
    write(tmp_path, {"all.yaml": text})
    without, whole = (manifests.load(tmp_path, schemas=wanted) for wanted in (False, True))
    assert [manifest.place for manifest in without.manifests] == [manifest.place for manifest in whole.manifests]
    assert [one.place for one in without.skipped] == [one.place for one in whole.skipped]
    assert [one.cause for one in without.skipped] == [Cause.REFUSED, Cause.LEFT_OUT]
    assert without.surprises == whole.surprises
    assert [one.line for one in whole.surprises] == [text[: text.index("group: example.org")].count("\n") + 1]
    places = [("spec", "versions", 1, "served"), ("spec", "group"), ("metadata", "name")]
    for path in places:
        assert [m.line_of(path) for m in without.manifests] == [m.line_of(path) for m in whole.manifests]


@pytest.mark.parametrize(
    ("file", "cause"),
    [
        ("gpu-yaml.template", Cause.TEMPLATE),
        ("job.yaml.tftpl", Cause.TEMPLATE),
        ("ray.yml.j2", Cause.TEMPLATE),
        ("pod.json.tmpl", Cause.TEMPLATE),
        ("embed.jsonnet", Cause.TEMPLATE),
        ("embed.cue", Cause.TEMPLATE),
        ("README.md.tmpl", None),
        ("notes.txt", None),
    ],
)
def test_a_template_that_its_name_tells_is_not_passed_over_in_silence(tmp_path: Path, file: str, cause: Cause | None):
    text = json.dumps(next(iter(documents(HOLDER, "h"))).value) if ".json" in file else HOLDER
    write(tmp_path, {"some/" + file: text, "some/gpu.yaml": HOLDER.replace("NAME", "read")})
    loaded = manifests.load(tmp_path)
    told = [(one.cause, one.names_gpus) for one in loaded.skipped]
    assert told == ([(cause, True)] if cause else [])
    (tmp_path / "some/gpu.yaml").unlink()
    alone = CliRunner().invoke(main, ["lint", "--manifests", str(tmp_path)])
    if cause:
        assert "nothing that was read asks for a GPU" in alone.output


@pytest.mark.parametrize("text", ["{{ define }}\ntext\n", "kind: Deployment\n", "apiVersion: v1\n"])
def test_a_template_of_something_else_is_not_told(tmp_path: Path, text: str):
    write(tmp_path, {"some.tpl": text, "gpu.yaml": HOLDER.replace("NAME", "read")})
    assert not manifests.load(tmp_path).skipped


@pytest.mark.parametrize(("text", "told"), [("k.batch.v1.cronJob.new('off')", True), ("{ kind: 'Service' }", False)])
def test_a_program_that_makes_schedules_is_told(tmp_path: Path, text: str, told: bool):
    write(tmp_path, {"some.libsonnet": text, "gpu.yaml": HOLDER.replace("NAME", "read")})
    assert bool(manifests.load(tmp_path).skipped) is told


def test_a_template_of_values_that_names_gpus_is_told(tmp_path: Path):
    write(tmp_path, {"values.tpl": "modelSpec: [{requestGPU: ${n}, numGpus: 2}]\n", "gpu.yaml": HOLDER})
    [one] = manifests.load(tmp_path, none_needed=True).skipped
    assert (one.cause, one.names_gpus, one.matters) == (Cause.NO_MANIFEST, True, True)


@pytest.mark.parametrize("files", [("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")])
def test_the_variant_of_a_custom_resource_that_names_gpus_is_asked_about(tmp_path: Path, files: tuple[str, str]):
    serving = "apiVersion: serving.example.com/v1\nkind: Serving\nmetadata: {name: one}\nspec: {engine: MORE}\n"
    texts = serving.replace("MORE", "{accelerator: nvidia-l4}"), serving.replace("MORE", "{accelerator: none}")
    write(tmp_path, dict(zip(files, texts, strict=True)))
    loaded = manifests.load(tmp_path)
    assert [Path(one.file).name for one in loaded.manifests] == [files[0]]
    assert [str(one) for one in discover.unknown_holders(loaded.objects)]


def test_a_quota_of_any_group_holds_nothing(tmp_path: Path):
    text = "apiVersion: q.example.com/v1\nkind: ElasticQuota\nmetadata: {name: q}\nspec: {max: {nvidia.com/gpu: 4}}\n"
    write(tmp_path, {"quota.yaml": text})
    assert discover.unknown_holders(manifests.load(tmp_path).objects) == []


def test_a_patch_in_a_folder_below_its_kustomization_is_no_object(tmp_path: Path):
    patch = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: good}\nspec: {replicas: 2}\n"
    kustomization = "resources: [good.yaml]\npatches: [{path: a-parts/more.yaml}]\n"
    write(
        tmp_path,
        {
            "a-parts/more.yaml": patch,
            "a-parts/own.yaml": HOLDER.replace("NAME", "own"),
            "z/kustomization.yaml": kustomization.replace("a-parts", "../a-parts").replace("good.yaml", "good.yaml"),
            "z/good.yaml": HOLDER.replace("NAME", "good"),
        },
    )
    assert [ref_of(obj) for obj in manifests.load(tmp_path).objects] == [
        "Deployment/serving/own",
        "Deployment/serving/good",
    ]


def test_a_folder_of_charts_alone_is_told_and_stops_nothing(tmp_path: Path):
    write(tmp_path, {"charts/a/Chart.yaml": "name: a\nversion: 1.0.0\n", "charts/a/values.yaml": "gpu: 1\n"})
    assert [one.cause for one in manifests.load(tmp_path).skipped] == [Cause.CHART]


@pytest.mark.parametrize(
    ("name", "text", "made"),
    [
        (
            "a.tf.json",
            '{"resource": {"aws_eks_node_group": {"g": {}}, "aws_vpc": {"v": {}}}}',
            ["aws_eks_node_group.g"],
        ),
        ("a.tf.json", '{"module": [{"m": {"source": "x"}}]}', ["module.m"]),
        ("a.tofu", _GROUP.format("p4d.24xlarge", "min_size = 0"), ["aws_eks_node_group.gpu"]),
        ("terragrunt.hcl", "inputs = {}\n", ["Terragrunt, whose module lies elsewhere"]),
        ("Pulumi.yaml", "name: a\nruntime: nodejs\n", ["a Pulumi program"]),
        ("cdk.json", '{"app": "node a"}', ["a CDK application"]),
        ("c.yaml", "Resources:\n  G:\n    Type: AWS::EKS::Nodegroup\n", ["AWS::EKS::Nodegroup"]),
        ("c.yaml", "Resources:\n  G:\n    Type: AWS::S3::Bucket\n", []),
        ("c.yaml", "Resources:\n  G:\n    Type: AWS::EMR::Cluster\n", ["AWS::EMR::Cluster"]),
        ("c.json", '{"Resources": {"P": {"Type": "AWS::PCS::ComputeNodeGroup"}}}', ["AWS::PCS::ComputeNodeGroup"]),
        ("c.yaml", "Resources: {F: {Type: 'AWS::Serverless::Function'}}\n", []),
        ("m.bicep", "resource s 'Microsoft.Storage/storageAccounts@2023-01-01' = {\n}\n", []),
        ("m.bicep", "module p 'br:registry.example/pool:v1' = {\n}\n", ["br:registry.example/pool:v1"]),
        (
            "p.yaml",
            "- hosts: a\n  tasks:\n    - amazon.aws.ec2_launch_template: {}\n",
            ["amazon.aws.ec2_launch_template"],
        ),
        ("p.yaml", "- hosts: a\n  tasks:\n    - amazon.aws.ec2_vpc_net_info: {}\n", []),
        ("p.yaml", "- hosts: a\n  tasks:\n    - shell: aws ec2 run-instances\n", ["aws ec2 run-instances"]),
        ("train.yaml", "resources:\n  accelerators: H100:8\n", ["accelerators: H100"]),
        ("f.yaml", "type: fleet\nresources: {gpu: H100:8}\n", ["gpu: H100"]),
        ("ray.yaml", "node_config: {InstanceType: p5.48xlarge}\n", ["InstanceType: p5.48xlarge"]),
        ("ray.yaml", "node_config: {InstanceType: m5.large}\n", []),
        ("helmfile.yaml", "releases:\n  - name: a\n    chart: pools/gpu\n", ["chart pools/gpu"]),
        ("helmfile.yaml", "releases:\n  - name: a\n    chart: kedacore/keda\n", []),
        (
            "play.yml",
            "- hosts: all\n  tasks:\n    - community.aws.eks_nodegroup: {a: b}\n",
            ["community.aws.eks_nodegroup"],
        ),
        (
            "a.bicep",
            "resource p 'Microsoft.ContainerService/managedClusters/agentPools@2023-01-01' = {}\n",
            ["Microsoft.ContainerService/managedClusters/agentPools"],
        ),
        (
            "up.sh",
            "# eksctl create nodegroup\neksctl create nodegroup --name g\n",
            ["eksctl create nodegroup --name g"],
        ),
        ("off.sh", "aws autoscaling update-auto-scaling-group --max-size 0\ngcloud compute instances stop a\n", []),
        ("off.sh", "gcloud container clusters resize c --num-nodes 0\n", []),
        ("up.sh", "gcloud --quiet container node-pools  create g\n", ["gcloud --quiet container node-pools create g"]),
        ("up.sh", "TOKEN=hunter2hunter2 eksctl create cluster\n", ["eksctl create cluster"]),
        (
            "up.sh",
            "AWS_SECRET_ACCESS_KEY=hunter2 x --max-size 2\n",
            ["AWS_SECRET_ACCESS_KEY=<redacted> x --max-size 2"],
        ),
        ("up.sh", "eksctl scale nodegroup --name g --nodes-max=4\n", ["eksctl scale nodegroup --name g --nodes-max=4"]),
        # options of programs that launch nothing
        ("release.sh", "last=$(git describe --tags $(git rev-list --tags --max-count=1)) | grep --max-count=1 v\n", []),
        ("up.sh", "git pull && eksctl scale g --nodes-max=4\n", ["eksctl scale g --nodes-max=4"]),
        ("a.tf.json", "[" * 5_000, ["Terraform that is no JSON"]),
        ("a.tf", "import {\n  to = aws_eks_node_group.g\n}\n", ["aws_eks_node_group.g, which is imported"]),
        ("a.tf", "import {\n  to = aws_vpc.v\n}\n", []),
        ("a.tf", 'resource "aws_autoscaling_schedule" "s" {\n  max_size = 9\n}\n', ["aws_autoscaling_schedule.s"]),
        ("a.tf", 'resource "aws_autoscaling_schedule" "s" {\n  max_size = 0\n}\n', []),
        ("c.yaml", "AWSTemplateFormatVersion: a\nR: {Type: Custom::Fleet}\n", ["Custom::Fleet"]),
        ("c.yaml", "AWSTemplateFormatVersion: a\nA: 'arn:aws:scheduler:::aws-sdk:ec2:stopInstances'\n", []),
        ("c.yaml", "- k8s:\n    definition:\n      kind: NodePool\n", ["NodePool"]),
        ("c.json", '{"kind": "compute#instanceGroupManager"}', ["compute#instanceGroupManager"]),
        # read in a time that grows with their length
        ("up.sh", "gcloud " * 14_000, []),
        ("c.yaml", "type: azure-native:" + "a" * 100_000, []),
        ("a.tf", 'module "m" {' + "\n" * 100_000 + "}\n", []),
        ("a.tf", "<<A\n" * 20_000, []),
        ("c.yaml", "instance_type= " * 10_000 + "\n" * 50_000, []),
    ],
)
def test_what_else_makes_machines_is_told_to_fences(name: str, text: str, made: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "n.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert [one.partition(" (/")[0] for one in Session(manifests=[tmp_path]).unevaluated()] == made


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"chart": "pools", "repoURL": "https://example.com"}, "chart pools"),
        ({"chart": "karpenter", "repoURL": "https://example.com"}, ""),
        ({"chart": "karpenter", "helm": {"values": "nodePool: {}"}}, "chart karpenter"),
        ({"path": "here", "repoURL": "https://example.com/us/infra"}, ""),
        ({"path": "away", "repoURL": "https://example.com/us/infra"}, "path away"),
        ({"path": "here", "repoURL": "https://example.com/us/other.git"}, "path here"),
        ({"path": ".", "repoURL": "https://example.com/us/infra/"}, ""),
        ({"path": "./", "repoURL": "https://example.com/us/other"}, "path ./"),
        ({"path": "here/.."}, "path here/.."),
        ({"path": "a\0b"}, "path a\0b"),
        ({"path": "b" * 300}, f"path {'b' * 300}"),
    ],
)
def test_what_a_source_applies_from_elsewhere_is_told_to_fences(source: dict, told: str, tmp_path: Path) -> None:
    write(tmp_path, {"here/.keep": "", ".git/config": '[remote "origin"]\n\turl = git@example.com:us/Infra.git\n'})
    app = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "a"},
        "spec": {"source": source},
    }
    (tmp_path / "a.json").write_text(json.dumps(app))
    expected = [f"what Application/a applies ({told})"] if told else []
    assert Session(manifests=[tmp_path]).unevaluated() == expected
