"""A call that is on no list is told, wherever it is made: a list of what starts machines is never whole."""

import shutil
from datetime import UTC, datetime

import pytest

from killcheck import fixtures
from killcheck.layers import unnamed_timers
from killcheck.lint import asking
from killcheck.machine import units
from killcheck.machine.starting import started_by, unread_in
from killcheck.spec import specfile

SPEC = "single-controller"
FUNCTION = 'vm() { gcloud compute instances "$1" "$2" --zone z; }\nvm start box\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gcloud beta compute reservations create r --vm-count 4", "gcloud beta compute reservations create r"),
        ("timeout 5m aws ec2 modify-fleet --fleet-id f", "aws ec2 modify-fleet"),
        ('gcloud compute instances "$VERB" box', "gcloud compute instances ..."),
        ("eksctl scale nodegroup --cluster c --nodes 3 ng", "eksctl scale nodegroup"),
        (
            "python3 - <<'X'\nfrom google.cloud import compute_v1 as c\nc.InstancesClient().start(instance='b')\nX",
            "start()",
        ),
        ("import boto3\nboto3.client('ec2').modify_fleet(FleetId='f')", "modify_fleet() of a cloud's SDK"),
    ],
)
def test_what_nobody_knows_is_told(text, told):
    assert told in " ".join(unread_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "status=$(gcloud compute instances describe box --format='value(status)')",
        "aws ec2 stop-instances --instance-ids i-1",
        "aws s3 cp /tmp/x s3://b/x",
        "az vm deallocate -n box -g r --no-wait",
        "gcloud compute instance-groups managed resize g --size 0",
        "TOKEN=$(gcloud auth print-access-token)",
        "command -v gcloud >/dev/null || exit 1",
        'echo "gcloud said no"; log "aws is down"',
        "docker compose --project-name x down",
        "import boto3\nboto3.client('ec2').stop_instances(InstanceIds=['i'])",
        "import threading\nthreading.Thread().start()",
        "python3 -c 'print(1)'",
    ],
)
def test_what_is_known_to_start_nothing_is_not_told(text):
    assert list(unread_in(text)) == []


def test_a_function_is_followed_with_its_arguments():
    assert started_by(FUNCTION) == "gcloud compute instances start"
    assert started_by(FUNCTION.replace("vm start", "vm stop")) is None


@pytest.mark.parametrize(
    ("script", "starts", "unread"),
    [
        (FUNCTION, True, ""),
        ("/opt/other/wake.sh\n", False, "warm.sh calls /opt/other/wake.sh, which is not here"),
        ("gcloud alpha compute instances simulate-maintenance-event b\n", False, "is not known to start nothing"),
        ("gcloud compute instances start box\n/opt/work/enrich\n", True, ""),
        ("sleep 5; /usr/bin/logger done\n", False, ""),
    ],
)
def test_a_second_timer_beside_a_sentinel(script, starts, unread, tmp_path):
    (tmp_path / "warm.timer").write_text("[Timer]\nOnCalendar=*-*-* 05:40\n")
    (tmp_path / "warm.service").write_text("[Service]\nExecStart=/srv/x/warm.sh\n")
    (tmp_path / "warm.sh").write_text(f"#!/bin/bash\nset -eu\n{script}")
    found = units.read([tmp_path], beside=tmp_path)
    assert [one.name for one in found.starters] == (["warm.timer -> warm.service"] if starts else [])
    assert unread in " ".join(found.unread)
    assert bool(found.unread) is bool(unread)


@pytest.mark.parametrize(
    ("script", "severity", "unproven", "open_"),
    [
        ("gcloud compute instances start yoyo-batch --zone z", "error", False, True),
        ("[ -e /srv/foundry/data/yoyo-disabled ] && exit 0\n" + FUNCTION, "warning", False, True),
        ("gcloud compute instances simulate-maintenance-event yoyo-batch", "", True, True),
        ("/opt/other/wake.sh", "", True, False),
        ("gcloud compute instances list", "", False, False),
        ("", "", False, False),
    ],
)
def test_a_second_timer_is_seen_by_reading(script, severity, unproven, open_, tmp_path):
    folder = tmp_path / "path"
    shutil.copytree(fixtures.path(SPEC), folder)
    if script:
        (folder / "dawn.timer").write_text("[Timer]\nOnCalendar=*-*-* 05:40\n")
        (folder / "dawn.service").write_text("[Service]\nExecStart=/srv/foundry/bin/dawn.sh\n")
        (folder / "dawn.sh").write_text(f"#!/bin/bash\nset -eu\n{script}\n")
    path = specfile.load(folder / "killcheck.yaml")
    world, _ = asking.world_of([], datetime(2026, 5, 4, tzinfo=UTC), kill_path=path)
    found = [one for one in asking.lint(world).findings if one.probe == "start-authority"]
    assert [one.severity for one in found if not one.unproven] == ([severity] if severity else [])
    assert any(one.unproven for one in found) is unproven
    alone = specfile.load(folder / "killcheck.yaml")
    kept = [layer for layer in alone.layers if not layer.sentinel]
    entries = unnamed_timers.entries(type(alone)(alone.name, alone.targets, tuple(kept), folder=alone.folder))
    assert any("not modelled" in str(one.status) for one in entries) is open_
