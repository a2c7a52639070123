import pytest

from killcheck.fence import Account, AccountError, Ceiling, evaluate
from killcheck.fence.evaluate import pools_of
from killcheck.instances.catalogue import shipped

ONE = Ceiling(max_devices_per_node=1)


def asg(name="gpu", *, least=0, most=4, **spec):
    return {
        "AutoScalingGroups": [
            {"AutoScalingGroupName": name, "MinSize": least, "MaxSize": most, "DesiredCapacity": least, **spec}
        ]
    }


def versions(name, *types, default=1, **data):
    return {
        "LaunchTemplateVersions": [
            {
                "LaunchTemplateName": name,
                "LaunchTemplateId": f"lt-{name}",
                "VersionNumber": number,
                "DefaultVersion": number == default,
                "LaunchTemplateData": {"InstanceType": kind, **data},
            }
            for number, kind in enumerate(types, 1)
        ]
    }


def template(name, version=None):
    return {"LaunchTemplate": {"LaunchTemplateName": name} | ({"Version": version} if version else {})}


def mixed(name, *overrides, version=None):
    return {
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": template(name, version)["LaunchTemplate"],
                "Overrides": list(overrides),
            }
        }
    }


def only(*documents, objects=(), ceiling=ONE):
    report = evaluate(list(objects), ceiling, account=Account.of(documents))
    (result,) = report.results
    return result


@pytest.mark.parametrize(
    ("documents", "verdict", "worst", "reason"),
    [
        ([asg(**template("t")), versions("t", "g5.xlarge")], "safe", "g5.xlarge", ""),
        ([asg(**template("t")), versions("t", "p5.48xlarge")], "exposed", "p5.48xlarge", "8 devices"),
        ([asg(**template("t", "2")), versions("t", "g5.xlarge", "p5.48xlarge")], "exposed", "p5.48xlarge", ""),
        ([asg(**template("t", "$Latest")), versions("t", "g5.xlarge", "p5.48xlarge")], "exposed", "p5.48xlarge", ""),
        ([asg(**template("t", "$Default")), versions("t", "g5.xlarge", "p5.48xlarge")], "safe", "g5.xlarge", ""),
        ([asg(**template("t", "3")), versions("t", "g5.xlarge")], "unproven", None, "version 3 was not exported"),
        ([asg(**template("other"))], "unproven", None, "launch template other"),
        ([asg()], "unproven", "", "neither a launch template nor a launch configuration"),
        (
            [
                asg(LaunchConfigurationName="old"),
                {"LaunchConfigurations": [{"LaunchConfigurationName": "old", "InstanceType": "p3.16xlarge"}]},
            ],
            "exposed",
            "p3.16xlarge",
            "",
        ),
        ([asg(**template("t")), versions("t", "p9.96xlarge")], "unproven", "", "p9.96xlarge is not in the catalogue"),
        (
            [
                asg(**mixed("t", {"InstanceType": "g5.xlarge"}, {"InstanceType": "trn1.32xlarge"})),
                versions("t", "g5.xlarge"),
            ],
            "exposed",
            "trn1.32xlarge",
            "16 devices",
        ),
        (
            [asg(**mixed("t", {"InstanceType": "g5.xlarge"}, {})), versions("t", "p4d.24xlarge")],
            "exposed",
            "p4d.24xlarge",
            "",
        ),
        ([asg(most=None, **template("t")), versions("t", "g5.xlarge")], "unproven", "g5.xlarge", "size is None"),
    ],
)
def test_auto_scaling_groups(documents, verdict, worst, reason):
    result = only(*documents)
    assert result.verdict == verdict, result
    assert worst is None or result.worst_instance == worst
    assert any(reason in text for text in (*result.reasons, ""))


def test_a_group_that_follows_the_latest_version_says_who_chooses():
    result = only(asg(**template("t", "$Latest")), versions("t", "g5.xlarge"))
    assert any("whoever may write a version of it chooses the type" in note for note in result.notes)
    assert any("do not bind" in note for note in result.notes)


def test_weights_let_more_instances_in_than_the_groups_size_says():
    ceiling = Ceiling(max_devices=10)
    heavy = only(asg(most=10, **mixed("t", {"InstanceType": "g5.xlarge"})), versions("t", "g5.xlarge"), ceiling=ceiling)
    light = only(asg(most=10, **mixed("t", {"InstanceType": "g5.xlarge", "WeightedCapacity": "0.5"})), ceiling=ceiling)
    assert (heavy.verdict, heavy.max_nodes) == ("safe", 10)
    assert (light.verdict, light.max_nodes) == ("exposed", 20)


def test_a_floor_bills_whatever_pods_want():
    result = only(asg(least=2, **template("t")), versions("t", "p4d.24xlarge"), ceiling=Ceiling(max_usd_per_hour=1000))
    assert (result.verdict, result.floor, result.max_usd_per_hour) == ("safe", 2, 87.8306)


ATTRIBUTES = {"VCpuCount": {"Min": 4, "Max": 200}, "MemoryMiB": {"Min": 8192}}


@pytest.mark.parametrize(
    ("more", "verdict", "reason"),
    [
        ({"AcceleratorCount": {"Max": 0}}, "safe", ""),
        ({"AcceleratorCount": {"Max": 1}, "AcceleratorTypes": ["gpu"]}, "safe", ""),
        ({"AcceleratorCount": {"Min": 1}}, "exposed", "devices"),
        ({"AcceleratorManufacturers": ["nvidia"]}, "exposed", "devices"),
        ({"AcceleratorNames": ["h100"]}, "exposed", "p5.48xlarge"),
        ({"AcceleratorTypes": ["inference"]}, "exposed", "devices"),
        ({}, "unproven", "price protection"),
        ({"ExcludedInstanceTypes": ["p*", "g*", "inf*", "trn*", "dl*", "f*", "vt*"]}, "safe", ""),
        ({"AllowedInstanceTypes": ["m5.*"]}, "safe", ""),
        ({"InstanceGenerations": ["current"], "AcceleratorCount": {"Min": 8}}, "unproven", "InstanceGenerations"),
        ({"Sunniness": "high"}, "unproven", "attribute Sunniness is not known"),
    ],
)
def test_attribute_based_selection(more, verdict, reason):
    result = only(asg(**mixed("t", {"InstanceRequirements": ATTRIBUTES | more})))
    assert result.verdict == verdict, result
    assert any(reason in text for text in (*result.reasons, ""))


def test_attributes_leave_out_metal_and_burstable_types_unless_asked():
    types = {}
    for name, more in (("plain", {}), ("metal", {"BareMetal": "included", "BurstablePerformance": "required"})):
        (pool,) = pools_of(
            [],
            account=Account.of(
                [
                    asg(
                        **mixed(
                            "t",
                            {
                                "InstanceRequirements": {
                                    "VCpuCount": {"Min": 2},
                                    "MemoryMiB": {"Min": 1},
                                    "AcceleratorCount": {"Max": 0},
                                }
                                | more
                            },
                        )
                    )
                ]
            ),
        )
        types[name] = {one.name for one in pool.types.members(pool.possible)}
    assert "m5.metal" not in types["plain"]
    assert "t3.medium" not in types["plain"]
    assert "t3.medium" in types["metal"]
    assert all(name.startswith("t") for name in types["metal"])


def node_group(*types, least=0, most=2, **more):
    return {
        "nodegroup": {
            "nodegroupName": "gpu",
            "clusterName": "dev",
            "scalingConfig": {"minSize": least, "maxSize": most},
            "instanceTypes": list(types),
            **more,
        }
    }


def test_managed_node_groups_and_the_groups_behind_them_are_counted_once():
    group = node_group("g5.xlarge", "g5.12xlarge", resources={"autoScalingGroups": [{"name": "eks-gpu-1"}]})
    result = only(group, asg("eks-gpu-1", **template("t")), versions("t", "g5.12xlarge"))
    assert (result.pool, result.verdict, result.worst_instance) == ("EKSNodegroup/dev/gpu", "exposed", "g5.12xlarge")
    tagged = asg("eks-gpu-1", Tags=[{"Key": "eks:nodegroup-name", "Value": "gpu"}], **template("t"))
    assert only(node_group("g5.xlarge"), tagged).pool == "EKSNodegroup/dev/gpu"


def test_a_managed_node_group_takes_its_type_from_its_template_or_eks_default():
    by_template = only(node_group(launchTemplate={"name": "t", "version": "1"}), versions("t", "p5.48xlarge"))
    assert by_template.worst_instance == "p5.48xlarge"
    assert only(node_group()).worst_instance == "t3.medium"


def test_fargate_has_no_devices():
    report = evaluate([], ONE, account=Account.of([{"fargateProfile": {"fargateProfileName": "default"}}]))
    assert report.notes == ("Fargate profile default: Fargate has no devices",)
    assert report.verdict == "safe"


def gke(machine="a2-highgpu-1g", *, accelerators=(), locations=("us-central1-a",), **more):
    return {
        "name": "gpu",
        "config": {"machineType": machine, "accelerators": list(accelerators)},
        "locations": list(locations),
        "initialNodeCount": 1,
        **more,
    }


@pytest.mark.parametrize(
    ("pool", "verdict", "nodes", "devices"),
    [
        (gke(), "safe", 1, 1),
        (gke("a3-highgpu-8g"), "exposed", 1, 8),
        (gke("ct6e-standard-8t"), "exposed", 1, 8),
        (gke("e2-standard-4"), "safe", 1, 0),
        (
            gke("n1-standard-16", accelerators=[{"acceleratorType": "nvidia-tesla-v100", "acceleratorCount": "4"}]),
            "exposed",
            1,
            4,
        ),
        (gke("n1-standard-16", accelerators=[{"acceleratorType": "nvidia-tesla-v100"}]), "unproven", 1, 0),
        (gke("a9-ultragpu-16g"), "unproven", None, None),
        (
            gke(locations=("a", "b", "c"), autoscaling={"enabled": True, "minNodeCount": 1, "maxNodeCount": 4}),
            "safe",
            12,
            1,
        ),
        (gke(locations=("a", "b"), autoscaling={"enabled": True, "totalMaxNodeCount": 5}), "safe", 5, 1),
        (gke(autoscaling={"enabled": True}), "unproven", 0, 1),
    ],
)
def test_gke_node_pools(pool, verdict, nodes, devices):
    result = only([pool])
    assert (result.verdict, result.max_devices_per_node) == (verdict, devices), result
    assert nodes is None or result.max_nodes == nodes


def test_gke_auto_provisioning_may_choose_any_shape_with_the_accelerator():
    cluster = {
        "name": "dev",
        "nodePools": [gke("e2-medium")],
        "autoscaling": {
            "enableNodeAutoprovisioning": True,
            "resourceLimits": [
                {"resourceType": "cpu", "maximum": "200"},
                {"resourceType": "nvidia-tesla-a100", "maximum": "8"},
            ],
        },
    }
    report = evaluate([], ONE, account=Account.of([cluster]))
    automatic = report.of("GKEAutoProvisioning/dev")
    assert (automatic.verdict, automatic.max_devices_per_node, automatic.max_devices) == ("unproven", 8, 8)


@pytest.mark.parametrize(
    ("pool", "verdict", "nodes"),
    [
        ({"vmSize": "Standard_NC24ads_A100_v4", "count": 3}, "safe", 3),
        (
            {"vmSize": "Standard_ND96isr_H100_v5", "count": 0, "enableAutoScaling": True, "minCount": 0, "maxCount": 2},
            "exposed",
            2,
        ),
        ({"vmSize": "Standard_D4s_v5", "count": 3}, "safe", 3),
        ({"vmSize": "Standard_NX96_v9", "count": 1}, "unproven", None),
        ({"vmSize": "Standard_NC24ads_A100_v4", "enableAutoScaling": True}, "unproven", None),
    ],
)
def test_aks_node_pools(pool, verdict, nodes):
    result = only([{"name": "gpu", **pool}])
    assert result.verdict == verdict
    assert nodes is None or result.max_nodes == nodes
    whole = only({"name": "dev", "agentPoolProfiles": [{"name": "gpu", **pool}]})
    assert (whole.pool, whole.verdict) == ("AKSNodePool/dev/gpu", verdict)


MANIFESTS = [
    *(
        (
            {"apiVersion": group, "kind": kind, "metadata": {"name": "big"}, "spec": spec},
            f"{kind}/big",
            "unproven",
            None,
        )
        for group, kind, spec in (
            ("kops.k8s.io/v1alpha2", "InstanceGroup", {"machineType": "p5.48xlarge", "minSize": 0, "maxSize": 4}),
            ("spotinst.io/v1", "OceanLaunchSpec", {"instanceTypes": ["p5.48xlarge"]}),
        )
    ),
    (
        {
            "apiVersion": "eksctl.io/v1alpha5",
            "kind": "ClusterConfig",
            "metadata": {"name": "dev"},
            "managedNodeGroups": [{"name": "gpu", "instanceTypes": ["p5.48xlarge"], "minSize": 1, "maxSize": 3}],
        },
        "EKSNodegroup/gpu",
        "exposed",
        3,
    ),
    (
        {
            "apiVersion": "eksctl.io/v1alpha5",
            "kind": "ClusterConfig",
            "metadata": {"name": "dev"},
            "nodeGroups": [{"name": "cpu", "instanceType": "m5.large", "desiredCapacity": 2}],
        },
        "EKSNodegroup/cpu",
        "safe",
        2,
    ),
    (
        {
            "apiVersion": "eksctl.io/v1alpha5",
            "kind": "ClusterConfig",
            "metadata": {"name": "dev"},
            "nodeGroups": [{"name": "any", "instanceSelector": {"vCPUs": 4}, "maxSize": 1}],
        },
        "EKSNodegroup/any",
        "unproven",
        1,
    ),
    (
        {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "nodeGroups": {"gpu": "p5.48xlarge"}},
        "EKSNodegroup/?",
        "unproven",
        None,
    ),
    (
        {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "managedNodeGroups": ["p5.48xlarge"]},
        "EKSNodegroup/?",
        "unproven",
        None,
    ),
    (
        {
            "apiVersion": "eks.services.k8s.aws/v1alpha1",
            "kind": "Nodegroup",
            "metadata": {"name": "gpu"},
            "spec": {"instanceTypes": ["g5.48xlarge"], "scalingConfig": {"maxSize": 1, "minSize": 0}},
        },
        "EKSNodegroup/gpu",
        "exposed",
        1,
    ),
    (
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "AWSManagedMachinePool",
            "metadata": {"name": "gpu"},
            "spec": {"instanceType": "g5.xlarge", "scaling": {"maxSize": 2}},
        },
        "EKSNodegroup/gpu",
        "safe",
        2,
    ),
    (
        {
            "apiVersion": "eks.aws.upbound.io/v1beta1",
            "kind": "NodeGroup",
            "metadata": {"name": "gpu"},
            "spec": {
                "forProvider": {"instanceTypes": ["trn1.32xlarge"], "scalingConfig": [{"maxSize": 1, "minSize": 0}]}
            },
        },
        "EKSNodegroup/gpu",
        "exposed",
        1,
    ),
    (
        {
            "apiVersion": "container.cnrm.cloud.google.com/v1beta1",
            "kind": "ContainerNodePool",
            "metadata": {"name": "gpu"},
            "spec": {
                "nodeConfig": {"machineType": "n1-standard-8", "guestAccelerator": [{"type": "t4", "count": 2}]},
                "autoscaling": {"maxNodeCount": 3},
                "nodeLocations": ["a", "b"],
            },
        },
        "GKENodePool/gpu",
        "exposed",
        6,
    ),
    (
        {
            "apiVersion": "container.cnrm.cloud.google.com/v1beta1",
            "kind": "ContainerNodePool",
            "metadata": {"name": "gpu"},
            "spec": {
                "location": "us-central1",  # a region: in how many of its zones nobody says
                "nodeConfig": {"machineType": "g2-standard-4"},
                "autoscaling": {"maxNodeCount": 1},
            },
        },
        "GKENodePool/gpu",
        "unproven",
        1,
    ),
    (
        {
            "apiVersion": "containerservice.azure.com/v1api20240901",
            "kind": "ManagedClustersAgentPool",
            "metadata": {"name": "gpu"},
            "spec": {"vmSize": "Standard_NC6s_v3", "count": 1},
        },
        "AKSNodePool/gpu",
        "safe",
        1,
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "groups", "labels": {"killcheck.dev/node-groups": "true"}},
            "data": {"groups": "[{name: gpu, instanceType: p4d.24xlarge, max: 2}]"},
        },
        "NodeGroup/gpu",
        "exposed",
        2,
    ),
]


@pytest.mark.parametrize(("manifest", "pool", "verdict", "nodes"), MANIFESTS)
def test_manifests_that_make_pools(manifest, pool, verdict, nodes):
    (result,) = evaluate([manifest], ONE).results
    assert (result.pool, result.verdict, result.max_nodes) == (pool, verdict, nodes)
    if verdict == "exposed":
        assert result.door
        assert result.remedy


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("MachineDeployment", "cluster.x-k8s.io/v1beta1"),
        ("ComputeClass", "cloud.google.com/v1"),
        ("Provisioner", "karpenter.sh/v1alpha5"),
        ("NodePool", "hypershift.openshift.io/v1beta1"),
    ],
)
def test_what_launches_machines_and_is_not_evaluated_is_never_passed_over(kind, version):
    report = evaluate([{"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {}}], ONE)
    assert (report.results[0].verdict, report.verdict, report.exit_code) == ("unproven", "unproven", 3)
    assert "is not evaluated" in report.results[0].reasons[0]


def test_an_answer_that_is_not_recognised_leaves_the_cluster_unproven(tmp_path):
    report = evaluate([], ONE, account=Account.of([{"Reservations": []}, 3, []]))
    assert report.verdict == "unproven"
    assert len(report.cluster.reasons) == 3
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(AccountError, match=r"a\.json"):
        Account.load([tmp_path])
    (tmp_path / "a.json").write_text('{"AutoScalingGroups": []}')
    assert Account.load([tmp_path]).unknown == []


def test_a_price_of_ones_own_decides_the_dollars():
    catalogue = shipped().priced({"p5e.48xlarge": 30})
    account = Account.of([asg(most=2, **template("t")), versions("t", "p5e.48xlarge")])
    ceiling = Ceiling(max_usd_per_hour=100)
    assert evaluate([], ceiling, account=account).verdict == "unproven"
    assert evaluate([], ceiling, catalogue, account=account).verdict == "safe"


def test_without_a_ceiling_nothing_is_proven_and_the_worst_is_still_said():
    result = only(asg(**template("t")), versions("t", "p5.48xlarge"), ceiling=Ceiling())
    assert (result.verdict, result.worst_instance, result.max_usd_per_hour) == ("unproven", "p5.48xlarge", 220.16)


GKE = {
    "name": "gpu",
    "config": {"machineType": "g2-standard-4"},
    "locations": ["us-central1-a"],
    "autoscaling": {"enabled": True, "maxNodeCount": 4},
}
AKS = {"name": "gpu", "vmSize": "Standard_NC4as_T4_v3", "enableAutoScaling": True, "maxCount": 4, "minCount": 0}
EKS = {"nodegroupName": "gpu", "instanceTypes": ["g5.xlarge"], "scalingConfig": {"maxSize": 4, "minSize": 0}}


@pytest.mark.parametrize(
    ("documents", "verdict"),
    [
        ([asg(**template("t")), versions("t", "g5.xlarge")], "safe"),
        ([asg(**template("t"), AvailabilityZones=["a", "b"]), versions("t", "g5.xlarge")], "unproven"),
        (
            [asg(**template("t"), InstanceMaintenancePolicy={"MaxHealthyPercentage": 110}), versions("t", "g5.xlarge")],
            "unproven",
        ),
        (
            [asg(**template("t"), WarmPoolConfiguration={"MaxGroupPreparedCapacity": 9}), versions("t", "g5.xlarge")],
            "unproven",
        ),
        ([{"nodegroup": EKS}], "safe"),
        ([{"nodegroup": {**EKS, "subnets": ["s"], "updateConfig": {"maxUnavailable": 1}}}], "unproven"),
        ([{"nodegroup": {**EKS, "subnets": ["s"], "updateConfig": {"updateStrategy": "MINIMAL"}}}], "safe"),
        ([GKE], "safe"),
        ([{**GKE, "upgradeSettings": {"maxSurge": 1}}], "unproven"),
        ([{**GKE, "upgradeSettings": {"strategy": "BLUE_GREEN"}}], "unproven"),
        ([AKS], "safe"),
        ([{**AKS, "upgradeSettings": {"maxSurge": "33%"}}], "unproven"),
        ([{"name": "c", "autopilot": {"enabled": True}, "nodePools": [GKE]}], "unproven"),
        ([{"name": "c", "nodeProvisioningProfile": {"mode": "Auto"}, "agentPoolProfiles": [AKS]}], "unproven"),
    ],
)
def test_a_group_may_be_larger_while_its_nodes_are_replaced(documents, verdict):
    assert evaluate([], Ceiling(max_devices=4), account=Account.of(documents)).cluster.verdict == verdict


def test_pools_that_are_replaced_at_the_same_time_count_together():
    report = evaluate(
        [], Ceiling(max_devices=9), account=Account.of([[{**GKE, "upgradeSettings": {"maxSurge": 1}}, AKS]])
    )
    assert report.cluster.verdict == "safe"
    report = evaluate(
        [], Ceiling(max_devices=8), account=Account.of([[{**GKE, "upgradeSettings": {"maxSurge": 1}}, AKS]])
    )
    assert report.cluster.verdict == "unproven"
    assert "up to 9 while nodes are replaced" in report.cluster.reasons[0]
