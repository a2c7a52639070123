"""Command lines that make machines, or let pools make more: of clouds, of clusters, of who rents GPUs.

A closed vocabulary, by the program: what only looks, ends or gives back machines, or is about something else than
machines, launches nothing. Any other line of these programs may. Sizes that are all zero are a kill path's own.

Sources (2026): the manuals of aws, gcloud, az, eksctl, kubectl, helm; the creating words of the other programs' own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from killcheck.kube import launcher_files, terraform_resources
from killcheck.text import lazy_re
from killcheck.text.redaction import redact

__all__ = ["made_by_lines"]

#: Characters of a line that are shown.
_SHOWN = 60
#: Programs whose names nobody uses for anything else.
_CLOUDS = (
    r"aws|gcloud|eksctl|kubectl|oc|helm|doctl|ibmcloud|linode-cli|hcloud|scw|vultr-cli|civo|aliyun|tccli|kops|rosa"
)
#: ...and those whose names are words too: only where a command begins.
_OTHERS = (
    "az|oci|exo|yc|openstack|clusterctl|sky|dstack|runpodctl|vastai|brev|nebius|crusoe|terraform|tofu|terragrunt|pulumi"
    "|cdk|sam|ray|pcluster"
)
_LINE = lazy_re.compile(
    rf"(?:(?<![\w./@-])(?:/(?:usr/|usr/local/|snap/)?bin/)?({_CLOUDS})"
    rf"|(?:^|[;&|({{$`\"'!\[]|\b(?:run:|sudo|exec|then|do|xargs|time|-c))[ \t@\[\"'-]*({_OTHERS}))"
    r"[\"',]*[ \t]+([^;&|)`\n]+)"
)
_SIZES = lazy_re.compile(
    r"(?:(?<=\s--)|(?<=\s-)|(?<![\w-]))(?:max[-_]?size|desired[-_]?capacity|desired[-_]?size|min[-_]?size|max[-_]?(?:nodes|count)|min[-_]?(?:nodes|count)"
    r"|nodes-(?:min|max)|num[-_]nodes|node[-_]count|new[-_]capacity|desired-count|replicas|nodes|count|instance-count)"
    r"[\"']?\s*[=: ]\s*[\"']?([^\s,}\"']+)",
    re.IGNORECASE,
)
#: Whatever the program is.
_SIZED = lazy_re.compile(
    r"--?(max-(size|nodes|count)|nodes-max|num-nodes|node-count|new-capacity|desired-capacity)"
    r"[= ]0*[1-9]|\bmaxSize[\"']?[=:] ?0*[1-9]"
)
#: Where one command of a line ends and the next begins, and programs that have such options too and launch nothing.
_NEXT = lazy_re.compile(r"[|;&`]|\$\(")
_HARMLESS = lazy_re.compile(r"(?:\w+=\S* +|sudo +|! +)*(?:\S*/)?(?:git|[ez]?grep|rg|ag|journalctl) ")
_ZERO = lazy_re.compile(r"0+")
#: Words that look, end or give back, whatever they are about.
_ENDS = lazy_re.compile(
    r"(describe|list|get|show|ls|wait|delete|destroy|terminate|stop|deallocate|cancel|deregister|detach|suspend|remove|rm"
    r"|down|uninstall|rollback|plan|validate|fmt|init|output|preview|synth|diff|template|lint|status|version|help|login"
    r"|logout|configure|history|logs?|top|explain|drain|cordon|annotate|label|completion|ssh|scp|utils|export|search|info"
    r"|import|state|repo|dependency|pull|push|package|registry|test|disassociate|untag|tag|revoke|authorize|simulate"
    r"|decode|lookup|enter-standby|send-spot-instance-interruptions|release|reset|return|wait-until-\w+|workspace|providers?"
    r"|graph|console|whoami|auth|queue|cost-report|check|tail|abandon-instances)(-[\w-]+)?"
)
#: What a cloud has beside machines: groups of its command line, and nouns of what is made.
_AWS_ELSEWHERE = frozenset(
    "s3 s3api sts iam sso sso-oidc configure ecr ecr-public kms logs cloudwatch secretsmanager sns sqs dynamodb rds"
    " route53 route53domains elb elbv2 acm efs fsx backup ce cur budgets pricing organizations account cloudfront"
    " cloudtrail config apigateway apigatewayv2 codeartifact resourcegroupstaggingapi resource-groups service-quotas"
    " accessanalyzer guardduty securityhub ram support health wafv2 athena kinesis firehose elasticache".split()
)
_GOOGLE_ELSEWHERE = frozenset(
    "auth config projects organizations iam services storage secrets kms logging artifacts pubsub sql dns info version"
    " components domains iap monitoring billing source endpoints topic feedback policy-intelligence".split()
)
_AZURE_ELSEWHERE = frozenset(
    "login logout account acr storage keyvault group ad role network monitor identity configure extension feature"
    " provider version policy sql redis postgres mysql lock tag cloud graph functionapp webapp consumption"
    " costmanagement cosmosdb servicebus eventhubs appconfig security advisor bicep upgrade config find".split()
)
_NOUNS = lazy_re.compile(
    r"[\w-]*(kubeconfig|credentials|addons?|tags?|security-group|key-?pair|vpc|subnets?|route|routers?|volume|snapshot"
    r"|images?|networks?|address(?:es)?|gateway|access-entry|access-policy|pod-?identity|identity-?provider|logging|parameter"
    r"|lifecycle-hook|lifecycle-action|notification|instance-protection|instance-health|instance-metadata-options"
    r"|instance-tags|firewall-rules|firewall|disks?|ssl-certificates|target-\w+|forwarding-rules|backend-services"
    r"|health-checks|url-maps|iam-policy-binding|metadata|iamserviceaccount|iamidentitymapping|fargateprofile|namespaces?"
    r"|secrets?|configmaps?|serviceaccounts?|roles?|rolebindings?|clusterroles?|clusterrolebindings?|ssh-keys?|domains?"
    r"|registry|databases?|buckets?|load-?balancers?|projects?)(-[\w-]+)?"
)
#: What begins something, of programs whose every other word is not known.
_BEGINS = lazy_re.compile(
    r"(?:[\w-]+-)?(?:create|add|launch|up|start|run|apply|deploy|scale|resize|rent|new|update|edit|set|replace|provision"
    r"|resume|exec|submit|install|upgrade|patch|modify|put|boot|reboot|restart|request|allocate|enable|purchase|reserve|exit)(?:-[\w-]+)?"
)
#: Kinds that machines come of, as kubectl's users spell them.
_POOLS = lazy_re.compile(
    r"(nodepools?|nodeclaims?|nodeoverlays?|\w*nodeclass(?:es)?|machines?|machine(?:set|deployment|pool|autoscaler)s?"
    r"|provisioners?|nodegroups?)(?:\.[\w.]+)?(?:/.*)?"
)
_REMOTE = lazy_re.compile(r"https?://|git@|git::|ssh://|github\.com/|oci://")
_LIMITS = lazy_re.compile(r"[\"']?spec[\"']?\s*:\s*\{\s*[\"']?limits[\"']?\s*:\s*\{([^{}]*)\}\s*\}\s*\}?[\"']?$")
_VALUE = lazy_re.compile(r":\s*[\"']?([^\"',}\s]+)")
#: Options without a value.
_ALONE = frozenset({"-y", "-q", "-i", "--quiet", "--yes", "--force", "--debug", "--wait", "--install"})
_QUOTES = str.maketrans("\"',[]", "     ")


def made_by_lines(text: str) -> Iterator[str]:
    """The lines of a script, or of a pipeline's steps, that make machines, from the command on; each once."""
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    found = (one for line in lines if not line.startswith(("#", "//")) for one in _made_by(line))
    yield from dict.fromkeys(redact(one)[:_SHOWN].strip() for one in found)


def _made_by(line: str) -> Iterator[str]:
    known = False
    for one in _LINE.finditer(line):
        program, rest, known = one[1] or one[2], one[3], True
        words = rest.translate(_QUOTES).split()
        if _makes(program, words, rest, line[: one.start()]):
            yield f"{program} {' '.join(words)}"
    if address := launcher_files.posted(line):
        yield address
    if not known and any(map(_may_be_a_pools, _SIZED.finditer(line))):
        yield line


def _may_be_a_pools(size: re.Match[str]) -> bool:
    """Whether a size is of a command that may make machines; a name alone may be of any."""
    command = _NEXT.split(size.string[: size.start()])[-1].lstrip()
    return _HARMLESS.match(command) is None


def _makes(program: str, words: Sequence[str], rest: str, before: str) -> bool:
    said = list(_bare(words))
    if not said or "--help" in words or "--dry-run" in words or "--dry-run=client" in words:
        return False
    if program in ("kubectl", "oc"):
        return _by_kubectl(said, words, rest, before)
    if program == "helm":
        return _by_helm(said)
    return not _about_other_things(program, said) and _begins(program, said) and not _shrinks(rest)


def _bare(words: Sequence[str]) -> Iterator[str]:
    """Words that are neither options nor, as far as anybody can tell, their values."""
    value = False
    for word in words:
        if word.startswith("-"):
            value = "=" not in word and word not in (
                "-y",
                "-q",
                "-i",
                "--quiet",
                "--yes",
                "--force",
                "--debug",
                "--wait",
            )
            continue
        if not value:
            yield word
        value = False


def _about_other_things(program: str, said: Sequence[str]) -> bool:
    first = next((one for one in said if one not in ("alpha", "beta")), "")
    if program == "aws":
        return first in _AWS_ELSEWHERE or len(said) < 2 or _NOUNS.fullmatch(said[1]) is not None
    if program == "gcloud":
        return first in _GOOGLE_ELSEWHERE or any(_NOUNS.fullmatch(one) for one in said[1:4])
    if program == "az":
        return first in _AZURE_ELSEWHERE or any(_NOUNS.fullmatch(one) for one in said[1:3])
    return any(_NOUNS.fullmatch(one) for one in said[:3])


def _begins(program: str, said: Sequence[str]) -> bool:
    """Whether what it is told to do is nothing that only looks or ends, and, of programs at large, begins something."""
    verbs = said[1:2] if program == "aws" else said[:5]
    if any(_ENDS.fullmatch(one) for one in verbs):
        return False
    return any(_BEGINS.fullmatch(one) for one in verbs)


def _shrinks(rest: str) -> bool:
    """Whether it says sizes, and none but zero; or that an autoscaler is to end."""
    sizes = _SIZES.findall(rest)
    return all(map(_ZERO.fullmatch, sizes)) if sizes else "--no-enable-autoscaling" in rest or "--disable-" in rest


def _by_kubectl(said: Sequence[str], words: Sequence[str], rest: str, before: str) -> bool:
    """Whether it writes what machines come of, or applies what is not here."""
    verb = next((one for one in said if one in ("apply", "create", "replace", "patch", "edit", "scale", "set")), "")
    if not verb:
        return False
    if any(_REMOTE.match(one.partition("=")[2] if one.startswith("-") else one) for one in words):
        return True
    if any(one in ("-", "--filename=-", "-f-") for one in words) and _REMOTE.search(before):
        return True
    if not any(_POOLS.fullmatch(one) for one in said if one != verb):
        return False
    limits = _LIMITS.search(rest.rstrip("\"' ").rstrip())
    left = _VALUE.findall(limits[1]) if limits else []
    emptied = bool(left) and all(map(_ZERO.fullmatch, left))
    return not emptied and not (verb == "scale" and _shrinks(rest))


def _by_helm(said: Sequence[str]) -> bool:
    """Whether it installs a chart that lies elsewhere and is not known."""
    if said[0] not in ("install", "upgrade") or len(said) < 2:
        return False
    chart = said[2] if len(said) > 2 else said[1]
    here = chart.startswith((".", "/")) or "/" not in chart
    return not here and not terraform_resources.brings_no_pools(chart)
