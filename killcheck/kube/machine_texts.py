"""What makes machines and is neither an object of Kubernetes nor Terraform's own text: templates, programs, scripts.

Read by form, for a fence alone: CloudFormation, Azure's templates (JSON and Bicep) and Ansible's modules by a closed
vocabulary of what launches nothing, a Pulumi or CDK program by the file that begins one, Terragrunt, scripts by the
command lines in them, and files of any launcher by the machines and cards that they name.

Sources: AWS' resource and property reference; Microsoft.ContainerService and Microsoft.Compute; the collections
community.aws, amazon.aws, google.cloud and azure.azcollection; the manuals of the command lines, 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from killcheck.kube import launcher_files, terraform_resources
from killcheck.kube.launch_lines import made_by_lines
from killcheck.text import lazy_re

__all__ = ["SCRIPTS", "SUFFIXES", "brings_nodes", "called", "costs", "holds_a_pool", "makes"]

#: Characters of a line that are shown.
_SHOWN = 60
#: Files of these are looked at for it, beside YAML and JSON.
SCRIPTS = frozenset({".sh", ".bash"})
SUFFIXES = frozenset({".hcl", ".bicep"}) | SCRIPTS
#: Resources of CloudFormation and of Azure's templates that launch no machine; any other may.
_RESOURCES = lazy_re.compile(r"\b(AWS::\w+::\w+|OS::(?!Heat::ResourceGroup)\w+::\w+|Microsoft\.\w+/[\w/]+)")
#: Types of CloudFormation that are not AWS': whoever registered them, or a function, makes what it likes.
_FOREIGN = lazy_re.compile(r"\bType[\"']?[ \t]*:[ \t]*[\"']?(?!AWS::|Alexa::)([A-Z]\w*(?:::[\w-]+){1,3})")
#: What machines are launched by, wherever in a text that is no object itself.
_POOLS = lazy_re.compile(
    r"\bkind[\"']?[ \t]*[:=][ \t]*[\"']?(Node(?:Pool|Claim|Overlay|Group|group)|\w*NodeClass|Provisioner"
    r"|Machine(?:Set|Deployment|Pool|Autoscaler)?|\w+MachinePool|ComputeClass)\b"
)
_INERT = lazy_re.compile(
    r"AWS::(IAM|S3|SNS|SQS|KMS|Lambda|Logs|Events|Scheduler|DynamoDB|CloudWatch|SSM|SecretsManager|ECR|Route53|RDS|EFS|ACM"
    r"|CertificateManager|ApiGateway\w*|Cognito|CloudFront|CloudTrail|Config|Budgets|CE|ElastiCache|Backup|WAFv2|Kinesis\w*"
    r"|StepFunctions|ElasticLoadBalancingV2|ServiceDiscovery|Serverless|Chatbot|XRay|GuardDuty|CDK|SES|Organizations)::\w+"
    r"|OS::(Neutron|Cinder|Keystone|Barbican|Designate|Swift|Glance|Octavia)::\w+"
    r"|OS::Heat::(Software\w+|CloudConfig|MultipartMime|WaitCondition\w*|RandomString|Value|None)"
    r"|AWS::EC2::(VPC\w*|Subnet\w*|SecurityGroup\w*|Route\w*|InternetGateway|NatGateway|EIP\w*|NetworkAcl\w*|FlowLog"
    r"|KeyPair|Volume\w*|NetworkInterface\w*|VPN\w*|TransitGateway\w*|PrefixList|PlacementGroup|EgressOnly\w+)"
    r"|AWS::EKS::(Addon|AccessEntry|PodIdentityAssociation|IdentityProviderConfig|FargateProfile)"
    r"|AWS::CloudFormation::(WaitCondition\w*|Interface|Init|Authentication|Designer)"
    r"|AWS::AutoScaling::(ScheduledAction|LifecycleHook|ScalingPolicy)"
    r"|Microsoft\.(Storage|Network|KeyVault|ManagedIdentity|Authorization|Insights|OperationalInsights|ContainerRegistry"
    r"|Sql|DBfor\w+|DocumentDB|ServiceBus|EventHub|EventGrid|Cache|Cdn|AlertsManagement|Monitor|Dashboard|Consumption"
    r"|CostManagement|PolicyInsights|Security|RecoveryServices|AppConfiguration|DataProtection)/[\w/]+"
    r"|Microsoft\.Resources/resourceGroups"
)
_OTHERS = lazy_re.compile(
    r"(?:container|compute)\.(?:v1|beta)\.(?:nodePool|cluster|instance)\b"
    r"|compute#(?:instance|instanceGroupManager|instanceTemplate|reservation)\b"
    r"|(?<=type: )(?:aws:(?:eks|ec2|autoscaling)|gcp:(?:container|compute)|azure-native:(?=\w))[\w/.-]*:\w+"
)
#: A template of Azure's that lies in a registry.
_REMOTE = lazy_re.compile(r"(?m)^[ \t]*module[ \t]+\w+[ \t]+'((?:br|ts)[:/][^'\n]*)'")
#: Ansible's modules of the clouds' collections, and those that launch nothing.
_MODULES = lazy_re.compile(
    r"(?m)^[ \t]*(?:-[ \t]+)?((?:(?:community|amazon)\.aws|google\.cloud|azure\.azcollection)\.\w+"
    r"|\w+\.\w+\.(?!\w*_(?:info|facts)\b)(?:\w+_)?(?:instance|server|droplet|node_?pool|virtual_?machine|vm)"
    r"|eks_nodegroup|ec2_instance|ec2_asg|autoscaling_group|ec2_spot_instance|gcp_container_(?:node_pool|cluster)"
    r"|gcp_compute_instance|azure_rm_(?:aks\w*|virtualmachine\w*))[ \t]*:"
)
_MODULES_INERT = lazy_re.compile(
    r".*\.(\w+_(info|facts)|s3\w*|iam\w*|sts\w*|rds\w*|route53\w*|kms\w*|sns\w*|sqs\w*|ecr\w*|cloudwatch\w*|lambda\w*"
    r"|elb\w*|ec2_(vpc|security_group|tag|key|eip|eni|snapshot|vol|ami|placement_group)\w*|dynamodb\w*|aws_\w+"
    r"|gcp_(storage|iam|dns|kms|pubsub|sql|logging|secret|compute_(network|subnetwork|firewall|route|address|disk))\w*"
    r"|azure_rm_(storage|keyvault|network|subnet|resourcegroup|publicip|dns|role|securitygroup|virtualnetwork)\w*)"
)
#: Files of launchers of their own (clusters for training): a field that names a card.
_CARD = lazy_re.compile(
    r"(?m)(?:^|[{,])[ \t]*[\"']?((?:accelerators|gpus?)[\"']?[ \t]*:[ \t]*[{\[\"']*"
    r"(?i:[ABH]\d00|GH200|GB\d00|L40S?|L4|T4|V100|A10G?|MI\d+X?)\b)"
)
#: Text that configures a chart; the chart is judged by itself.
_VALUES = lazy_re.compile(r"(?:.*[.-])?values(?:[.-].*)?\.ya?ml")
#: What a library of a cloud's is told by a program, with a number where one is needed.
_CALLS = lazy_re.compile(
    r"\b((?:(?:run|start)_instances|modify_instance_attribute|create_fleet|request_spot_(?:instances|fleet)"
    r"|create_nodegroup|create_auto_scaling_group|create_node_pool|create_(?:training|processing|transform)_job"
    r"|create_compute_environment|put_scheduled_update_group_action|instances\(\)\.(?:insert|start)"
    r"|begin_(?:create_or_update|start|power_on)|(?:Run|Start)Instances|Create(?:Fleet|Node[gG]roup|NodePool)|RequestSpot\w+"
    r"|(?:RunInstances|StartInstances|CreateFleet|CreateNodegroup)Command)\s*\("
    r"|(?:create|patch|replace)_cluster_custom_object\s*\([^()]{0,300}?(?:nodepools|nodeclaims|nodeoverlays|machine\w+)"
    r"|(?:set_desired_capacity|update_auto_scaling_group|update_nodegroup_config)\s*\([^)]{0,300}?"
    r"(?:DesiredCapacity|MaxSize|desiredSize|maxSize)\W{1,4}[1-9])"
)
#: Libraries of clouds' machines, by what a program says that uses one; and those that make what is described to them.
_LIBRARIES = lazy_re.compile(
    r"[\"'](?:ec2|autoscaling|eks|ecs|batch|sagemaker|emr[\w-]*|lightsail|compute|container)[\"']|compute_v1|container_v1"
    r"|ComputeManagementClient|ContainerServiceClient|client-(?:ec2|eks|ecs|batch|sagemaker|auto-scaling)\b"
    r"|service/(?:ec2|eks|autoscaling|batch|sagemaker)\b|arm(?:compute|containerservice)\b|go/(?:compute|container)/"
    r"|@google-cloud/(?:compute|container)"
)
_DESCRIBED = lazy_re.compile(
    r"(?m)^[ \t]*(?:import|from|const|require)\b[^\n]{0,200}?\b(pulumi\w*|aws[_-]cdk[\w./-]*|cdktf\w*|troposphere"
    r"|sky|dstack|runpod|vastai|modal|sagemaker|skypilot)\b"
)
#: What such a library is told to begin, in the spellings of Python, Go and JavaScript.
_BEGUN = lazy_re.compile(
    r"(\b(?:(?:run|create|start|request|update|modify|put|set|register|submit|resize|launch|increase|purchase|allocate)_"
    r"|(?:[rR]un|[cC]reate|[sS]tart|[rR]equest|[uU]pdate|[mM]odify|[pP]ut|[sS]et|[rR]esize|[lL]aunch|[pP]urchase))"
    r"\w*?(?:[iI]nstance|[fF]leet|[nN]ode_?[gG]roup|[nN]ode_?[pP]ool|[cC]apacity|[sS]caling_?[gG]roup|[tT]raining_?[jJ]ob"
    r"|[eE]ndpoint|[lL]aunch_?[tT]emplate|[vV]irtual_?[mM]achine|[aA]gent_?[pP]ool|[sS]cale_?[sS]et|[sS]pot)"
    r"(?!_?[pP]rofile|_?[mM]etadata|_?[tT]ag|_?[pP]rotection)\w*(?:Command)?\s*\(|\.(?:insert|start|resize|begin_start)\s*\()"
)
_ALL_ZERO = lazy_re.compile(r"[^()]{0,300}?(?:DesiredCapacity|MaxSize|desiredSize|maxSize|size)\W{1,4}0(?![\d.])")
#: Images of what brings nodes of its own, or sizes groups of a cloud past any pool.
_BRINGS_NODES = lazy_re.compile(
    r"virtual-?kubelet|(?:runpod|aci|fargate|aws|vast)-(?:virtual-)?kubelet|aci-connector|interlink|liqo|admiralty|escalator"
    r"|spotinst|ocean-controller|castai|cast-ai|machine-controller|cluster-api[\w-]*-controller|cerebral"
)
#: A chart of a helmfile that lies elsewhere.
_RELEASED = lazy_re.compile(r"(?m)^[ \t]+chart:[ \t]*[\"']?((?:oci://)?[\w-]+/[\w./-]+)")
_PLAYBOOK = lazy_re.compile(r"(?m)^[ \t-]*(?:hosts|tasks|runcmd|bootcmd|cmds|commands)[ \t]*:")
#: A step whose image is a cloud's command line, and what it is given.
_STEP = lazy_re.compile(
    r"\b(?:image|name)[\"']?:[ \t]*[\"']?[\w./-]*/(aws|gcloud|az|doctl|eksctl|oci|scw|hcloud)(?:-cli)?(?::\S*)?[\"']?"
    r"[ \t]*\n"
    r"[ \t]*(?:args|command):[ \t]*\[([^\]\n]*)\]"
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
        yield from holds_a_pool(text)
    else:
        yield from dict.fromkeys(_named(text))
        if not _VALUES.fullmatch(name):
            yield from dict.fromkeys(_launched(text))


def costs(file: str, text: str) -> Iterator[str]:
    """What in a file may make machines without accelerators, every one once."""
    name = PurePath(file).name
    if name not in _PROGRAMS and not _VALUES.fullmatch(name) and PurePath(file).suffix not in SCRIPTS:
        yield from dict.fromkeys(launcher_files.costing(text))


def called(text: str) -> Iterator[str]:
    """What a program tells a cloud's library to launch, or describes to one."""
    found = dict.fromkeys(" ".join(one[:_SHOWN].split()) for one in _CALLS.findall(text))
    yield from found or dict.fromkeys(_by_library(text))


def _by_library(text: str) -> Iterator[str]:
    yield from _DESCRIBED.findall(text)
    if _LIBRARIES.search(text):
        for one in _BEGUN.finditer(text):
            if not _ALL_ZERO.match(text, one.end()):
                yield " ".join(one[1][:_SHOWN].split())


def brings_nodes(image: str) -> bool:
    """Whether an image is known to bring nodes of its own, or to size a cloud's groups."""
    return _BRINGS_NODES.search(image.partition("@")[0]) is not None


def holds_a_pool(text: str) -> Iterator[str]:
    """The kinds that machines are launched by, of the objects that a text writes down."""
    yield from dict.fromkeys(_POOLS.findall(text))


def _named(text: str) -> Iterator[str]:
    """Resources of templates, and modules, that may launch machines."""
    yield from (one for one in _RESOURCES.findall(text) if not _INERT.fullmatch(one))
    if "AWSTemplateFormatVersion" in text or "AWS::" in text or "Resources" in text:
        yield from _FOREIGN.findall(text)
    yield from terraform_resources.calls_made(text)
    yield from _POOLS.findall(text)
    yield from (one for one in _MODULES.findall(text) if not _MODULES_INERT.fullmatch(one))
    yield from _OTHERS.findall(text)
    yield from _REMOTE.findall(text)
    yield from (f"chart {one}" for one in _RELEASED.findall(text) if not terraform_resources.brings_no_pools(one))
    for program, given in _STEP.findall(text):
        yield from made_by_lines(f"{program} {given}")
    if _PLAYBOOK.search(text):
        yield from made_by_lines(text)


def _launched(text: str) -> Iterator[str]:
    """Machines and cards that a launcher's own file names."""
    yield from _CARD.findall(text)
    yield from launcher_files.launching(text)
