"""Which of Terraform's resources launch machines, by their types: a closed vocabulary.

A resource launches nothing where its type is known for that, or where it is a machine or a group whose machine types
are words in the text, of families without devices. Any other may launch machines, and is told: there are thousands.

Sources (2026): the registries' pages of hashicorp/aws, google, azurerm, kubernetes, helm and of the providers named;
AWS', GCE's and Azure's families of machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from killcheck.kube.furniture import FURNITURE
from killcheck.text import lazy_re

__all__ = ["brings_no_pools", "calls_made", "launches", "launches_nothing"]

#: Characters of a call that are shown, and digits of a number that are read.
_SHOWN = 60
_DIGITS = 9

#: Providers that have no machines of anybody's: randomness, files, DNS, rights, alarms, code.
_PROVIDERS = lazy_re.compile(
    r"(random|tls|time|local|archive|template|cloudinit|http|external|github|gitlab|bitbucket|datadog|pagerduty|grafana"
    r"|opsgenie|newrelic|sentry|statuspage|vault|okta|auth0|cloudflare|tailscale|onepassword|doppler|mongodbatlas"
    r"|snowflake|postgresql|mysql|consul|tfe|sops|dns|acme|htpasswd|docker|ko|wavefront|splunk|honeycombio)_\w+"
)
_AWS = lazy_re.compile(
    r"aws_(default_\w+|vpc\w*|subnet|security_group\w*|route\w*|internet_gateway\w*|egress_only\w+|nat_gateway|eip\w*"
    r"|network_(acl|interface)\w*|main_route\w+|flow_log|ec2_(tag|transit_gateway\w*|managed_prefix_list\w*|subnet\w+)"
    r"|customer_gateway|vpn_\w+|dx_\w+|iam_\w+|accessanalyzer\w+|s3\w+|kms_\w+|ecr\w*|sqs_\w+|sns_\w+|cloudwatch_\w+"
    r"|scheduler_\w+|dynamodb_\w+|db_\w+|rds_\w+|docdb_\w+|neptune_\w+|elasticache_\w+|memorydb_\w+|redshift\w*"
    r"|opensearch\w*|elasticsearch\w*|acm\w*|efs_\w+|fsx_\w+|ebs_\w+|volume_attachment|backup_\w+|lambda_\w+|sfn_\w+"
    r"|ssm_\w+|secretsmanager_\w+|lb\w*|alb\w*|elb|proxy_protocol_policy|app_cookie\w+|cognito_\w+|api_gateway\w*"
    r"|apigatewayv2\w*|appautoscaling_\w+|cloudfront_\w+|cloudtrail\w*|config_\w+|guardduty_\w+|securityhub_\w+"
    r"|inspector\w*|macie\w*|wafv2_\w+|waf_\w+|shield_\w+|kinesis\w*|msk\w*|mq_\w+|budgets_\w+|ce_\w+|cur_\w+"
    r"|organizations_\w+|ram_\w+|servicequotas_\w+|resourcegroups\w*|service_discovery_\w+|ses\w*|transfer_\w+"
    r"|glue_(catalog|registry|schema|connection|classifier|crawler|data\w+|security\w+|resource_policy)\w*|athena_\w+"
    r"|key_pair|eks_(addon|access_\w+|identity_provider_config|pod_identity_association)|autoscaling_(lifecycle_hook"
    r"|notification|attachment|group_tag|traffic_source_attachment|policy|schedule)|placement_group|identitystore_\w+|ssoadmin_\w+"
    r"|prometheus_\w+|grafana_\w+|codecommit_\w+|codeartifact_\w+|codestar\w*|signer_\w+|oam_\w+|xray_\w+|synthetics_\w+)"
)
_GOOGLE = lazy_re.compile(
    r"google_(project\w*|folder\w*|organization\w*|service_account\w*|billing_\w+|tags_\w+|storage_\w+|bigquery_\w+"
    r"|pubsub_\w+|kms_\w+|secret_manager_\w+|sql_\w+|dns_\w+|logging_\w+|monitoring_\w+|artifact_registry_\w+"
    r"|container_registry|redis_\w+|spanner_\w+|firestore_\w+|filestore_\w+|iam_\w+|iap_\w+|certificate_manager_\w+"
    r"|cloud_scheduler_\w+|cloudfunctions2?_\w+|eventarc_\w+|access_context_manager_\w+|service_networking_\w+"
    r"|network_\w+|vpc_access_\w+|apikeys_\w+|gke_hub_\w+|cloud_asset_\w+|scc_\w+"
    r"|compute_(network\w*|subnetwork\w*|firewall\w*|router\w*|address|global_\w+|route|ssl_\w+|url_map|region_url_map"
    r"|backend_\w+|region_backend_\w+|(region_)?health_check|https?_health_check|(region_)?disk\w*|forwarding_rule"
    r"|target_\w+|region_target_\w+|security_policy|shared_vpc_\w+|project_\w+|managed_ssl\w+|vpn_\w+|ha_vpn\w+"
    r"|external_vpn\w+|interconnect\w*|service_attachment|image|snapshot|resource_policy|packet_mirroring|attached_disk))"
)
_AZURE = lazy_re.compile(
    r"(azurerm_(resource_group\w*|virtual_network\w*|subnet\w*|network_\w+|public_ip\w*|nat_gateway\w*|route\w*"
    r"|role_\w+|user_assigned_identity|federated_identity\w*|storage_\w+|key_vault\w*|log_analytics_\w+|monitor_\w+"
    r"|application_insights\w*|container_registry\w*|dns_\w+|private_\w+|lb\w*|application_gateway|firewall\w*|mssql_\w+"
    r"|sql_\w+|postgresql_\w+|mysql_\w+|cosmosdb_\w+|servicebus_\w+|eventhub\w*|eventgrid_\w+|redis_\w+|recovery_\w+"
    r"|backup_\w+|policy_\w+|management_\w+|consumption_\w+|cost_\w+|security_\w+|availability_set|managed_disk"
    r"|disk_encryption_set|proximity_placement_group|ssh_public_key|frontdoor\w*|cdn_\w+|traffic_manager\w*|bastion_host"
    r"|virtual_network_gateway\w*|express_route\w*|vpn_\w+|express\w+|advisor\w*|app_configuration\w*|subscription\w*"
    r"|portal_dashboard|dashboard_grafana)|azuread_\w+)"
)
_KUBERNETES = lazy_re.compile(
    r"kubernetes_(namespace|config_map|secret|service|role|cluster_role|network_policy|ingress|limit_range|resource_quota"
    r"|persistent_volume|storage_class|priority_class|deployment|stateful_set|daemonset|daemon_set|job|cron_job|pod"
    r"|horizontal_pod_autoscaler|annotations|labels|default_service_account|env|node_taint|csi_driver|runtime_class"
    r"|endpoints|endpoint_slice|token_request|certificate_signing_request|validating_webhook_configuration)\w*"
)
#: Resources that are machines or groups of them, and say which by a word.
_TYPED = frozenset(
    {
        *(
            "aws_instance",
            "aws_spot_instance_request",
            "aws_eks_node_group",
            "aws_launch_template",
            "aws_launch_configuration",
        ),
        *("aws_autoscaling_group", "aws_eks_cluster", "google_compute_instance", "google_compute_instance_template"),
        *("google_compute_region_instance_template", "google_container_node_pool", "google_container_cluster"),
        *("google_compute_instance_group_manager", "google_compute_region_instance_group_manager"),
        *("google_compute_autoscaler", "google_compute_region_autoscaler"),
        *("azurerm_linux_virtual_machine", "azurerm_windows_virtual_machine", "azurerm_virtual_machine"),
        *("azurerm_linux_virtual_machine_scale_set", "azurerm_windows_virtual_machine_scale_set"),
        *("azurerm_virtual_machine_scale_set", "azurerm_kubernetes_cluster", "azurerm_kubernetes_cluster_node_pool"),
    }
)
_CHOICES = lazy_re.compile(
    r"\b(?:instance_types?|machine_type|vm_size|size|sku(?:_name)?)\s*=\s*(\[[^\]]{0,4000}\]|[^\n,}]+)"
)
_WORDS = lazy_re.compile(r'[\s\[\],]*(?:"[^"$%]*"[\s\[\],]*)+')
_WORD = lazy_re.compile(r'"([^"$%]*)"')
#: Machines of AWS, Google and Azure that come without devices, by their families; what SKUs and counts are called.
_PLAIN = lazy_re.compile(
    r"(a1|c\d\w*(-flex)?|m\d\w*(-flex)?|r\d\w*(-flex)?|t\d\w*|x\d\w*|z1d|d[23]\w*|h1|i\d\w*|im4gn|is4gen|hpc\d\w*|mac\d[\w-]*"
    r"|u-?\w+)\.[\w-]+"
    r"|(custom|e2|n1|n2|n2d|n4|n4a|n4d|c2|c2d|c3|c3d|c4|c4a|c4d|t2a|t2d|m1|m2|m3|m4|h3|h4d|z3|x4|f1|g1)-[\w-]+"
    r"|Standard_[A-MO-Z]\w*|Standard|Basic|Premium|Free|Paid|\d[\w.-]*"
)
#: What chooses machines without naming them, or lets somebody else choose.
_CHOSEN_ELSEWHERE = lazy_re.compile(
    r"\b(instance_requirements|cluster_autoscaling|enable_autopilot|node_provisioning_profile|guest_accelerator"
    r"|accelerators?|source_instance_template|autopilot)\b|\bgpu\w*\s*[={]|\bdynamic\s+\""
)
#: A template by a name that this text does not have, of groups that launch by one.
_TEMPLATE = lazy_re.compile(
    r"\b(?:launch_template|launch_template_specification|version|launch_configuration|instance_template)\s*[={]"
)
_BY_TEMPLATE = lazy_re.compile(r"autoscaling_group|node_group$|group_manager")
_OWN_TEMPLATE = lazy_re.compile(
    r"(?<!data\.)\b(?:aws_launch_template|aws_launch_configuration|google_compute_(?:region_)?instance_template)\.[\w-]+"
)
_PROVISIONER = lazy_re.compile(r'\bprovisioner\s+"')
_KIND = lazy_re.compile(r"""\bapiVersion["']?\s*[=:]\s*["']?([\w./-]+)""")
#: What a service without machines of its own (a schedule, a workflow) is told to call, and how large a group may get.
_TOLD = lazy_re.compile(
    r"(arn:aws[\w-]*:(?:scheduler|states):::(?:aws-sdk:)?(?:ec2|autoscaling|eks|ecs|batch|sagemaker\w*|emr[\w-]*|ssm)"
    r":(?!describe|list|get|stop|terminate|delete|cancel)\w+"
    r"|AWS-StartEC2Instance\w*|AWS::Include|ScheduledAction\b(?:(?!\n[ \t]*\n)[^\x00]){0,600}?"
    r"\b(?:MaxSize|DesiredCapacity)\W{1,4}[1-9]\d*)"
)
#: How large a group is to get, by such a call; and by a schedule of its own (-1: as it is).
_SIZE = lazy_re.compile(r"\b(?:MaxSize|DesiredCapacity|maxSize|desiredSize)\W{1,8}(\d+)")
_GROWS = lazy_re.compile(r"\b(?:max_size|desired_capacity)\s*=[ \t]*+(?!(?:0|-1)\s*$)", re.M)
#: How far behind a call what it is called with may stand.
_INPUT = 600
#: Charts that bring no pools.
_CHARTS = lazy_re.compile(
    r"karpenter(-crd)?|nvidia-device-plugin|gpu-operator|dcgm-exporter|kube-prometheus-stack|prometheus[\w-]*|grafana"
    r"|loki[\w-]*|tempo|mimir\w*|alloy|metrics-server|cert-manager|external-dns|ingress-nginx|nginx-ingress\w*"
    r"|aws-load-balancer-controller|keda|keda-add-ons-http|kueue|jobset|lws|argo-cd|argocd|argo-workflows|argo-rollouts"
    r"|aws-ebs-csi-driver|aws-efs-csi-driver|aws-fsx-csi-driver|secrets-store-csi-driver[\w-]*|external-secrets|velero"
    r"|istiod|base|gateway|istio-\w+|linkerd[\w-]*|cilium|traefik|vault|kyverno|gatekeeper|kubecost|cost-analyzer"
    r"|opencost|descheduler|vpa|vertical-pod-autoscaler|goldilocks|reloader|sealed-secrets|kube-state-metrics"
    r"|aws-node-termination-handler|jupyterhub|kuberay-operator|volcano|datadog|fluent-bit|aws-for-fluent-bit|vector"
    r"|redis|postgresql|mysql|rabbitmq|kafka|minio|harbor|actions-runner-controller|gha-runner-scale-set[\w-]*"
    r"|node-feature-discovery|opentelemetry-\w+|falco|trivy-operator|neuron-device-plugin|aws-efa-k8s-device-plugin"
)
_CHART = lazy_re.compile(r'\bchart\s*=\s*"([^"\n]*)"')


def launches_nothing(kind: str) -> bool:
    """Whether a type of resource is known to launch no machine."""
    known = (_PROVIDERS, _AWS, _GOOGLE, _AZURE, _KUBERNETES)
    return kind == "aws_eks_fargate_profile" or any(one.fullmatch(kind) for one in known)


def calls_made(text: str) -> Iterator[str]:
    """What services without machines of their own are told, in a text, to launch by others, or to let grow."""
    for found in _TOLD.finditer(text):
        sizes = _SIZE.findall(text, found.end(), found.end() + _INPUT) if ":" in found[0] else []
        if not sizes or any(int(size[:_DIGITS]) for size in sizes):
            yield " ".join(found[0][:_SHOWN].split())


def brings_no_pools(chart: str) -> bool:
    """Whether a chart is known, by its name, for what it brings, and no pool is in it."""
    return _CHARTS.fullmatch(chart.rpartition("/")[2]) is not None


def launches(kind: str, block: str) -> bool:
    """Whether a resource of a type, with the text of its block, may launch machines with devices."""
    if _PROVISIONER.search(block):
        return True  # whatever its program does
    if next(calls_made(block), None) is not None:
        return True
    if kind == "aws_autoscaling_schedule":
        return _GROWS.search(block) is not None
    if launches_nothing(kind):
        return False
    if kind in ("null_resource", "terraform_data"):
        return False
    if kind == "helm_release":
        chart = _CHART.search(block)
        return chart is None or not brings_no_pools(chart[1]) or "karpenter.sh" in block
    if kind in ("kubernetes_manifest", "kubectl_manifest"):
        said = _KIND.findall(block)
        return len(said) != 1 or not all(map(_is_inert, said))
    return kind not in _TYPED or next(_doubts(kind, block), None) is not None


def _is_inert(api_version: str) -> bool:
    group = api_version.rpartition("/")[0]
    return "." not in group or group in FURNITURE


def _doubts(kind: str, block: str) -> Iterator[str]:
    """Why the machines of a resource are not known to have no devices."""
    yield from (found[0] for found in _CHOSEN_ELSEWHERE.finditer(block))
    for found in _CHOICES.finditer(block):
        words = _WORD.findall(found[1]) if _WORDS.fullmatch(found[1]) else [found[1]]
        yield from (word for word in words if not _PLAIN.fullmatch(word))
    by_template = _BY_TEMPLATE.search(kind) is not None and _TEMPLATE.search(block) is not None
    if by_template and not _OWN_TEMPLATE.search(block):
        yield "a template that is not in this text"
