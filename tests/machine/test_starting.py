"""A line that starts a machine is seen however it is written; what cannot be read is told, and stops are none."""

import pytest

from killcheck.machine import units
from killcheck.machine.starting import assignments, expanded, start_in, unread_in


@pytest.mark.parametrize(
    "text",
    [
        "gcloud compute instances start box --zone z",
        "gcloud --quiet compute instances start box",
        "gcloud --project p --quiet compute instances start box",
        "gcloud compute --project=p instances start box",
        "gcloud -q compute instances --zone europe-west1-b start box",
        "/usr/bin/gcloud beta compute instances start box",
        "gcloud beta compute instances resume box",
        'subprocess.run(["gcloud", "compute", "instances", "start", name])',
        "aws --profile ml ec2 start-instances --instance-ids i-1",
        "aws --region eu-west-1 --output text ec2 run-instances --count 1",
        "az vm --subscription s start -n box",
        "oci compute instance action --instance-id x --action START",
        "aws autoscaling set-desired-capacity --desired-capacity 2",
        "vastai create instance 123 --image x",
        "curl -fsS -X POST https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances/box/start",
        "curl -X POST https://management.azure.com/subscriptions/s/providers/Microsoft.Compute/virtualMachines/box/start",
        "curl 'https://ec2.eu-west-1.amazonaws.com/?Action=StartInstances&InstanceId.1=i-1'",
        "kubectl -n x scale deploy/a --replicas=2",
    ],
)
def test_a_start_is_seen_however_it_is_written(text):
    assert start_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "gcloud compute instances stop box",
        "gcloud --quiet compute instances stop box --zone start",
        "gcloud compute instances list --filter start",
        "gcloud compute instances describe start",
        "aws autoscaling set-desired-capacity --desired-capacity 0",
        "aws ec2 stop-instances --instance-ids i-1; echo start-instances",
        "curl -X POST https://compute.googleapis.com/compute/v1/projects/p/zones/z/instances/box/stop",
        "curl -X POST https://hooks.example.com/services/start",
        "echo gcloud; echo compute instances start",
        "kubectl scale deploy/a --replicas=0",
    ],
)
def test_what_stops_or_only_looks_starts_nothing(text):
    assert start_in(text) is None


def test_variables_are_filled_in_where_the_text_says_what_they_are():
    script = 'ZONE=z\nexport GC="gcloud --quiet compute instances"\nVM=\'box\'\n$GC start "$VM" --zone ${ZONE}\n'
    assert start_in(script) is None
    assert start_in(expanded(script, assignments(script))) == "gcloud compute instances start"
    assert list(unread_in(expanded(script, assignments(script)))) == []


def test_what_is_computed_is_not_filled_in():
    assert assignments("A=$(whoami)\nB=`date`\nC=\n") == {"C": ""}


def test_a_variable_of_itself_ends():
    assert "$A" in expanded("$A start", {"A": "$A $A"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$STARTER box", "runs what $STARTER is"),
        ("if true; then ${CMD} start; fi", "runs what $CMD is"),
        ("terraform -chdir=infra apply -auto-approve", "apply makes what its files say"),
        ("terraform -chdir=infra \\\n  apply", "terraform -chdir=infra \\ apply makes"),
        ("pulumi up --yes", "pulumi up makes"),
        ("ssh ops@bastion ./wake.sh", "another machine"),
    ],
)
def test_what_cannot_be_followed_is_told(text, told):
    assert told in " ".join(unread_in(text))


@pytest.mark.parametrize(
    "text",
    [
        'echo "$NAME"',
        'case "$1" in',
        'exec "$@"',
        "ssh-keygen -t ed25519",
        "X=$Y",
        "test -n $A",
        "terraform output -json > o\nkubectl apply -f o",
        "terraform init && kubectl apply -f o",
    ],
)
def test_what_runs_nothing_is_not_told(text):
    assert list(unread_in(text)) == []


def test_a_unit_is_followed_through_its_own_variables_and_told_where_it_cannot_be(tmp_path):
    for name, service in {
        "wake": 'Environment="GC=gcloud -q compute"\nExecStart=/bin/sh -c "$GC instances start box"',
        "infra": 'Environment="CMD=terraform apply"\nExecStart=/bin/sh -c "${CMD} -auto-approve"',
        "stop": "ExecStart=/bin/sh -c 'gcloud --quiet compute instances stop box'",
    }.items():
        (tmp_path / f"{name}.timer").write_text("[Timer]\nOnCalendar=daily\n")
        (tmp_path / f"{name}.service").write_text(f"[Service]\n{service}\n")
    found = units.read([tmp_path], beside=tmp_path)
    assert [one.name for one in found.starters] == ["wake.timer -> wake.service"]
    assert [told for told in found.unread if "terraform apply makes what its files say" in told] == list(found.unread)
