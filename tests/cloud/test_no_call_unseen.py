"""No way to AWS goes past the table of calls: no client of one's own, no other name for it, no helper, no waiter."""

from __future__ import annotations

import ast
from pathlib import Path

import boto3
import pytest

import killcheck
from killcheck.cloud.session import CALLS

ROOT = Path(killcheck.__file__).parents[1]
#: The one place that makes clients; the stand-in, which is AWS itself here, and who fills it.
OWN = {"killcheck/cloud/session.py", "killcheck/standins/aws.py", "killcheck/cluster/cloudword.py"}
#: Where securesystemslib's own signer asks KMS: whether its library is there, and the errors that it ends with.
SIGNER = (
    "killcheck/proof/signing.py",
    {"from botocore.exceptions import BotoCoreError, ClientError", "the name 'boto3'"},
)
#: What else of botocore may be imported, and where: the names of profiles ask nobody, nor do the models of operations.
MAY = {
    "killcheck/cloud/account_undo.py": {"botocore.session"},
    "killcheck/standins/aws.py": {"botocore.exceptions"},
    "killcheck/executor/cloud_lines.py": {"botocore.exceptions", "botocore.loaders", "botocore.xform_name"},
}
#: Operations that come in pages and are asked for one: it has one result for one question.
ONE_PAGE = {("iam", "simulate_principal_policy")}
SESSION, ASKING, MAKES = "killcheck.cloud.session", ("call", "pages"), ("client", "resource")
SERVICES = frozenset(boto3.Session("a", "b", region_name="us-east-1").get_available_services())
#: Without one of these words a file cannot come to AWS: it need not be parsed.
WORDS = ("boto", "s3fs", "cloud", *(f".{name}(" for name in (*MAKES, "get_waiter", "get_paginator")))


@pytest.fixture(scope="module")
def clients():
    """clients(service): a client that never asks anybody."""
    session = boto3.Session("a", "b", region_name="us-east-1")
    made = {service: session.client(service) for service, _ in CALLS}
    return made.__getitem__


def sources():
    for folder in ("killcheck", "probes", "suites", "fixtures", "ci", "docs", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if any(word in text for word in WORDS):
                yield str(path.relative_to(ROOT)), text


def detours(where: str, text: str):
    """Everything in a source that could come to AWS without being seen by the table's test."""
    tree = ast.parse(text)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    ours = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] in ("boto3", "botocore", "aioboto3", "s3fs", "moto") or one.name == SESSION:
                    yield f"import {one.name}"
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [one.name for one in node.names]
            may = MAY.get(where, set())
            known = module in may or {f"{module}.{name}" for name in names} <= may
            if module.split(".")[0] in ("boto3", "botocore", "aioboto3", "s3fs") and not known:
                yield f"from {module} import {', '.join(names)}"
            if module == "killcheck.cloud" and "session" in names:
                yield "from killcheck.cloud import session"
            if module == SESSION:
                ours |= {one.name for one in node.names} & set(ASKING)
                yield from (f"{one.name} as {one.asname}" for one in node.names if one.name in ASKING and one.asname)
        elif isinstance(node, ast.Attribute) and node.attr in (*MAKES, "get_waiter", "get_paginator"):
            used = parents.get(node)
            asked = (
                isinstance(used, ast.Call)
                and used.func is node
                and used.args
                and (
                    used.args[0].value in SERVICES
                    if isinstance(used.args[0], ast.Constant) and node.attr in MAKES
                    else node.attr not in MAKES or ast.unparse(node.value).endswith("aws")
                )
            )
            after = parents.get(used)
            if asked and not (isinstance(after, ast.Attribute) and after.attr == "meta"):
                yield ast.unparse(used)
        elif isinstance(node, ast.Constant) and node.value in ("boto3", "botocore"):
            yield f"the name {node.value!r}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ours and isinstance(node.ctx, ast.Load):
            used = parents[node]
            named = (
                isinstance(used, ast.Call)
                and used.func is node
                and len(used.args) >= 3
                and all(isinstance(one, ast.Constant) for one in used.args[1:3])
            )
            if not named:
                yield ast.unparse(used)


def test_nothing_goes_past_the_table():
    found = [(where, what) for where, text in sources() if where not in OWN for what in detours(where, text)]
    assert {what for where, what in found if where == SIGNER[0]} == SIGNER[1]
    assert [one for one in found if one[0] != SIGNER[0]] == []


@pytest.mark.parametrize(
    "text",
    [
        "import boto3\nboto3.client('ec2').stop_instances()",
        "def f():\n    from botocore.session import get_session\n    return get_session().create_client('ec2')",
        "import botocore.session as b",
        "from importlib import import_module\nimport_module('boto3').client('s3')",
        "def f(aws):\n    aws.client('ec2').stop_instances(InstanceIds=[])",
        "def f(aws):\n    client = aws.client('ec2')\n    client.delete_vpc()",
        "def f(self, what):\n    return self.aws.client(what).delete_vpc()",
        "def f(aws):\n    aws.client('ec2').get_waiter('instance_terminated').wait()",
        "def f(client):\n    client.get_waiter('instance_terminated').wait()",
        "from killcheck.cloud import session\nsession.call(None, 'ec2', 'delete_vpc')",
        "import killcheck.cloud.session as s\ns.call(None, 'ec2', 'delete_vpc')",
        "from killcheck.cloud.session import call as ask\nask(None, 'ec2', 'delete_vpc')",
        "from killcheck.cloud.session import call\nfrom functools import partial\nask = partial(call, None, 'ec2')",
        "from killcheck.cloud.session import pages\nit = pages\nit(None, 'ec2', 'describe_vpcs')",
        "from killcheck.cloud.session import call\ndef f(aws, op):\n    return call(aws, 'ec2', op)",
        "from killcheck.cloud.session import call\ndef f(*what):\n    return call(*what)",
    ],
)
def test_and_each_way_past_it_would_be_found(text):
    assert list(detours("killcheck/cloud/sneaky.py", text))


def made():
    """(function, service, operation) of every call there is."""
    for where, text in sources():
        if where in OWN or SESSION not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING:
                yield node.func.id, node.args[1].value, node.args[2].value


def test_what_comes_in_pages_is_read_to_the_last(clients):
    for how, service, operation in made():
        if clients(service).can_paginate(operation):
            assert how == "pages" or (service, operation) in ONE_PAGE, f"{service}:{operation} asks for one page"
        else:
            assert how == "call", f"{service}:{operation} has no pages"


def test_every_call_needs_a_permission_of_its_own_service():
    for (service, operation), one in CALLS.items():
        prefix = {"cloudwatch": "cloudwatch:"}.get(service, f"{service}:")
        assert one.needs, operation
        assert any(need.startswith(prefix) for need in one.needs), (service, operation, one.needs)
        verb = operation.partition("_")[0]
        reads = verb in ("get", "describe", "list", "head", "simulate") or operation == "run_instances"  # a dry run
        assert one.changes is not reads, f"{service}:{operation}: changes={one.changes}"
