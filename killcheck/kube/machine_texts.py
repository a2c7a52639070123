"""What makes machines and is neither an object of Kubernetes nor Terraform's own text: templates, programs, scripts.

Read by form, for a fence alone: CloudFormation, Azure's templates (JSON and Bicep), Ansible's modules, a Pulumi or CDK
program by the file that begins one, Terragrunt, and scripts by the command lines in them.

Sources: AWS' resource and property reference; Microsoft.ContainerService and Microsoft.Compute; the collections
community.aws, amazon.aws, google.cloud and azure.azcollection; the manuals of the command lines, 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["SCRIPTS", "SUFFIXES", "made_by_lines", "makes"]

#: Characters of a line that are shown.
_SHOWN = 60
#: Files of these are looked at for it, beside YAML and JSON.
SCRIPTS = frozenset({".sh", ".bash"})
SUFFIXES = frozenset({".hcl", ".bicep"}) | SCRIPTS
#: Options of a command line, and what it is about, before what it is to do.
_ON = r"(?:\S+ +){0,8}"
#: A cloud's command line that makes pools or machines, or says how large one may become.
_MAKES = lazy_re.compile(
    rf"\b(eksctl +{_ON}create +(nodegroup|cluster)"
    rf"|gcloud +{_ON}(node-pools|clusters|instances|instance-groups +managed) +create"
    rf"|az +{_ON}(aks +nodepool +add|(aks|vm|vmss) +create)|aws +{_ON}eks +create-nodegroup"
    rf"|aws +{_ON}autoscaling +create-auto-scaling-group|aws +{_ON}ec2 +(run-instances|create-fleet|request-spot-)"
    rf"|(terraform|tofu|terragrunt) +{_ON}apply|pulumi +{_ON}up|cdk +{_ON}deploy)\b"
    r"|--?(max-(size|nodes|count)|nodes-max|num-nodes|node-count|new-capacity)[= ]0*[1-9]|\bmaxSize[\"']?[=:] ?0*[1-9]"
)
_TYPES = lazy_re.compile(
    r"AWS::(?:EKS::Nodegroup|AutoScaling::AutoScalingGroup|EC2::(?:Instance|EC2Fleet|SpotFleet)\b"
    r"|Batch::ComputeEnvironment|SageMaker::(?:NotebookInstance|Endpoint|Cluster)\b|CloudFormation::Stack\b)"
    r"|Microsoft\.(?:ContainerService/managedClusters|Compute/virtualMachine)\w*"
    r"|(?:container|compute)\.(?:v1|beta)\.(?:nodePool|cluster|instance)\b"
    r"|(?<=type: )(?:aws:(?:eks|ec2|autoscaling)|gcp:(?:container|compute)|azure-native:(?=\w))[\w/.-]*:\w+"
)
_MODULES = lazy_re.compile(
    r"(?m)^[ \t]*(?:-[ \t]+)?((?:\w+\.){0,2}(?:eks_nodegroup|ec2_instance|ec2_asg|autoscaling_group|ec2_spot_instance"
    r"|gcp_container_(?:node_pool|cluster)|gcp_compute_instance|azure_rm_(?:aks\w*|virtualmachine\w*)))[ \t]*:"
)
#: Files that begin a program of which nobody here knows what it makes.
_PROGRAMS = {
    "Pulumi.yaml": "a Pulumi program",
    "Pulumi.yml": "a Pulumi program",
    "cdk.json": "a CDK application",
    "cdktf.json": "a CDK application",
    "terragrunt.hcl": "Terragrunt, whose module lies elsewhere",
}


def makes(file: str, text: str) -> Iterator[str]:
    """What in a file may make machines, in a word each, every one once."""
    name = PurePath(file).name
    if name in _PROGRAMS:
        yield _PROGRAMS[name]
    elif PurePath(file).suffix in SCRIPTS:
        yield from made_by_lines(text)
    else:
        yield from dict.fromkeys([*_TYPES.findall(text), *_MODULES.findall(text)])


def made_by_lines(text: str) -> Iterator[str]:
    """The lines of a script, or of a pipeline's steps, that make machines, from the command on."""
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    found = ((line, _MAKES.search(line)) for line in lines if not line.startswith("#"))
    yield from dict.fromkeys(redact(line[one.start(1) if one[1] else 0 :])[:_SHOWN] for line, one in found if one)
