"""A folder with a machine's timers and crontabs alone: no Kubernetes object, and a kill path all the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from killcheck.cli import main
from killcheck.clock import VirtualLoop
from killcheck.cluster import equipment
from killcheck.executor.cloud_machines import asked, lacks_place
from killcheck.kube import schedule
from killcheck.layers.unnamed_timers import entries
from killcheck.machine.calendar import as_cron
from killcheck.machine.scheduled import find
from killcheck.machine.timers import Kept, Timers
from killcheck.run.session import Session
from killcheck.spec import specfile

STOP = "/usr/bin/gcloud compute instances stop {} --zone europe-west4-a --quiet"
START = STOP.replace("stop", "start")


def _units(folder: Path, name: str, started: str, when: str = "*-*-* 22:00:00") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.timer").write_text(f"[Timer]\nOnCalendar={when}\n")
    (folder / f"{name}.service").write_text(f"[Service]\nType=oneshot\nExecStart={started}\n")


def _pair(folder: Path, *, stops: str = "gpu-1", when: str = "*-*-* 22:00:00") -> Path:
    _units(folder, "gpu-off", STOP.format(stops), when)
    _units(folder, "gpu-on", START.format("gpu-1"), "*-*-* 07:00:00")
    return folder


def _linted(folder: Path, *more: str) -> tuple[int, list[tuple[str, str, str]], list[dict[str, object]]]:
    ended = CliRunner().invoke(main, ["lint", "--manifests", str(folder), "--json", *more])
    assert ended.exit_code in (0, 1), ended.output
    findings = json.loads(ended.stdout)["findings"]
    return (
        ended.exit_code,
        [(f["probe"], f["object"], f["message"]) for f in findings if not f.get("unproven")],
        [f for f in findings if f.get("unproven")],
    )


@pytest.mark.parametrize(
    ("line", "names", "stops"),
    [
        ("gcloud compute instances stop a b --zone=z", ["a", "b"], True),
        ("gcloud beta compute instances start a --zone z --quiet", ["a"], False),
        ("/usr/bin/gcloud compute instances stop a", ["a"], True),
        ("gcloud compute --project p instances list", [], None),
        ("gcloud compute tpus tpu-vm stop v4 --zone z", ["v4"], True),
        ("aws ec2 stop-instances --region r --instance-ids i-1 i-2", ["i-1", "i-2"], True),
        ("aws ec2 stop-instances --instance-ids", [], None),
        ("aws autoscaling update-auto-scaling-group --auto-scaling-group-name g --max-size 0", ["g"], True),
        ("aws autoscaling set-desired-capacity --auto-scaling-group-name g --desired-capacity ٣", [], None),
        ("aws eks update-nodegroup-config --nodegroup-name g --scaling-config minSize=0,desiredSize=2", ["g"], False),
        ("gcloud container clusters resize c --node-pool g --num-nodes 0 --quiet", ["g"], True),
        ("gcloud beta compute instance-groups managed resize g --size=0", ["g"], True),
        ("az aks nodepool scale --cluster-name c -g r -n g -c 0", ["g"], True),
        ("az vmss start -g r -n g", ["g"], False),
        ("az vm deallocate -g rg -n vm --no-wait", ["vm"], True),
        ("kubectl scale deploy/a --replicas=0", [], None),
    ],
)
def test_machines_are_read_off_command_lines(line: str, names: list[str], stops: bool | None):
    found = asked(line.split())
    assert [one.name for one in found] == names
    assert {one.stops for one in found} == ({stops} if names else set())


def test_a_machine_is_counted_and_started_where_it_is():
    (one,) = asked("aws ec2 stop-instances --region eu-west-1 --profile p --instance-ids i-1".split())
    assert one.count[:5] == ("aws", "ec2", "describe-instances", "--instance-ids", "i-1")
    assert one.count[-4:] == one.start[-4:] == ("--region", "eu-west-1", "--profile", "p")
    (one,) = asked("gcloud compute instances stop a --zone z --project p".split())
    assert "--zone" not in one.count  # a list takes a filter
    assert one.count[-2:] == ("--project", "p")
    assert one.start == tuple("gcloud compute instances start a --quiet --zone z --project p".split())
    (one,) = asked("gcloud container clusters resize c --zone z --project p --node-pool g --num-nodes 0".split())
    assert one.count[-2:] == ("--project", "p")
    assert "labels.goog-k8s-node-pool-name=g AND labels.goog-k8s-cluster-name=c" in one.count[4]
    assert one.start[-5:] == ("--quiet", "--zone", "z", "--project", "p")


def test_a_region_comes_from_an_option_or_the_environment():
    calls = ["aws ec2 stop-instances --instance-ids i-1".split()]
    assert lacks_place(calls, "")
    assert not lacks_place(calls, "AWS_DEFAULT_REGION=eu-west-1")
    assert not lacks_place(["aws ec2 stop-instances --region=r".split()], "")


def test_a_pair_of_timers_is_a_kill_path(tmp_path):
    code, told, open_ = _linted(_pair(tmp_path / "units"))
    assert (code, told) == (0, [])
    assert {f["object"] for f in open_} == {"Timer/gpu-off", "Timer/gpu-on"}  # nobody fired them


def test_what_is_started_and_never_stopped_is_told(tmp_path):
    code, told, _ = _linted(_pair(tmp_path, stops="gpu-2"))
    assert code == 1
    assert ("coverage-gap", "Machine/gpu-1", "is started here, and no layer turns it off") in told


def test_a_start_that_no_stop_of_that_day_follows_is_told(tmp_path):
    code, told, _ = _linted(_pair(tmp_path, when="Mon..Fri *-*-* 22:00:00"))
    assert (code, [one[:2] for one in told]) == (1, [("second-starter", "Timer/gpu-on")])


TERRAFORM = """\
provider "aws" {
  region = "eu-west-1"
}
resource "aws_autoscaling_group" "pool" {
  name             = "gpu"
  desired_capacity = 2
  min_size         = 0
}
resource "aws_launch_template" "gpu" {
  instance_type = "p4d.24xlarge"
}
resource "aws_autoscaling_schedule" "night" {
  autoscaling_group_name = aws_autoscaling_group.pool.name
  recurrence             = "0 20 * * *"  # in the evening
  time_zone              = "Europe/Berlin"
  min_size               = 0
  desired_capacity       = %d
}
"""


@pytest.mark.parametrize(
    ("size", "covers", "told"),
    [(0, ("gpu",), set()), (1, (), {"coverage-gap"}), (-1, (), {"coverage-gap", "machine-timer"})],
)
def test_what_terraform_has_a_group_do_by_the_clock_is_read_as_a_timers_command(size, covers, told, tmp_path):
    (tmp_path / "main.tf").write_text(TERRAFORM % size)
    path = Session(manifests=[tmp_path]).kill_path
    assert [(layer.covers, layer.schedule, layer.time_zone) for layer in path.layers] == (
        [(covers, "0 20 * * *", "Europe/Berlin")] if covers else []
    )
    assert path.targets[0].count.argv[-2:] == ("--region", "eu-west-1")
    assert {probe for probe, _, _ in _linted(tmp_path)[1]} - {"second-starter"} == told


def test_a_timer_that_may_be_hours_late_is_told(tmp_path):
    _units(tmp_path, "gpu-off", STOP.format("gpu-1"), "*-*-* 22:00:00\nRandomizedDelaySec=10h")
    assert "RandomizedDelaySec=10h: it fires up to so much after its time" in _linted(tmp_path)[1][0][2]


@pytest.mark.parametrize("slot", ["0 12 * * *", "0 22 * * *"], ids=["its own slot", "another moment"])
def test_a_timer_that_may_be_late_comes_at_its_latest_and_has_so_much_longer(slot, tmp_path):
    """systemd.timer(5): a time between nothing and RandomizedDelaySec= is added; a drill plays the latest, once."""
    _units(tmp_path, "gpu-off", STOP.format("gpu-1"), "*-*-* 22:00:00\nRandomizedDelaySec=20min")
    path = Session(manifests=[tmp_path]).kill_path
    (layer,) = path.layers
    assert (path.deadlines.instance_gone_s + 1200, equipment.late(path, tmp_path)) == (
        path.deadlines_for(layer).instance_gone_s,
        {"gpu-off": 1200.0},
    )
    loop, fired = VirtualLoop(datetime(2026, 5, 4, 12, tzinfo=UTC) - timedelta(seconds=1)), []
    timers = Timers(loop)
    timers.keep(Kept("gpu-off", schedule.parse(slot), None, lambda over: fired.append(loop.now()), 1200.0))
    loop.sleep(1)
    assert "up to 20m after its slot" in str(timers.slot("gpu-off"))
    loop.sleep(3600)
    assert fired == [datetime(2026, 5, 4, 12, 20, tzinfo=UTC)]


def test_a_unit_starts_no_shell(tmp_path):
    _units(tmp_path, "gpu-off", "/usr/bin/logger off && " + STOP.format("gpu-1"))
    code, told, _ = _linted(tmp_path)
    assert code == 1
    assert ("machine-timer", "Timer/gpu-off", "systemd starts no shell: '&&' is an argument of logger") in told
    ended = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path), "-o", "-"])
    assert "gpu-off turns off gpu-1" in ended.output  # what its writer meant


@pytest.mark.parametrize(
    ("line", "text", "odd"),
    [
        ("/opt/off.sh > /tmp/$(date +%F).log", "/opt/off.sh > /tmp/$(date +", True),
        (r"/opt/off.sh > /tmp/$(date +\%F).log", "/opt/off.sh > /tmp/$(date +%F).log", False),
    ],
)
def test_cron_ends_a_command_at_a_percent_sign(tmp_path, line, text, odd):
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt" / "off.sh").write_text("#!/bin/bash\naws ec2 stop-instances --instance-ids i-1\n")
    (tmp_path / "opt" / "off.sh").chmod(0o755)
    (tmp_path / "etc" / "cron.d").mkdir(parents=True)
    (tmp_path / "etc" / "cron.d" / "gpu").write_text(f"0 22 * * * root {line}\n")
    (one,) = find([tmp_path])
    assert one.command.argv[-1] == text.replace("/opt/off.sh", "./opt/off.sh")
    assert bool(one.odd) is odd


def test_a_program_that_its_machines_tree_lacks_is_told_of(tmp_path):
    _units(tmp_path / "etc/systemd/system", "gpu-off", "/opt/gpu/gpu-off.sh")
    (tmp_path / "opt/gpu").mkdir(parents=True)
    (tmp_path / "opt/gpu/off.sh").write_text("#!/bin/sh\n")
    (one,) = find([tmp_path])
    _, told, _ = _linted(tmp_path)
    assert ("machine-timer", "Timer/gpu-off", f"it never starts: {one.broken}") in told
    assert one.broken == "it starts /opt/gpu/gpu-off.sh, which is not in its machine's tree (off.sh is there)"


def test_a_misspelt_script_and_a_misspelt_time_are_told_of(tmp_path):
    """Where a host has its own programs not all of them lie in a repository: a name that is nearly there is told."""
    for file, text in {
        "etc/cron.d/gpu": "0 21 * * * root /usr/local/bin/gpu_off.sh\n0 22 * * * root /usr/local/bin/other-off.sh\n"
        "0 23 * * * root /usr/local/bin/kubectl scale deployment/a --replicas=0\n",
        "usr/local/bin/gpu-off.sh": "#!/bin/sh\n",
        "usr/local/bin/kubectl-ns": "#!/bin/sh\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    _units(tmp_path / "etc/systemd/system", "gpu-off", STOP.format("gpu-1"))
    timer = tmp_path / "etc/systemd/system/gpu-off.timer"
    timer.write_text(timer.read_text().replace("OnCalendar", "OnCalender"))
    assert [one.broken for one in find([tmp_path])] == [
        "it starts /usr/local/bin/gpu_off.sh, which is not in its machine's tree (gpu-off.sh is there)",
        None,
        "systemd refuses a timer that says no time (OnCalendar=): OnCalender= is no key; did you mean OnCalendar?",
    ]
    (timer.parent / "gpu-off.timer.d").mkdir()  # what says its time may be there
    assert find([tmp_path])[-1].broken is None


@pytest.mark.parametrize(
    ("expression", "cron"),
    [
        ("*-*-* 22:00:30", "0 22 * * *"),
        ("quarterly", "0 0 1 1,4,7,10 *"),
        ("*-*~01 22:00:00", None),
        ("2020-01-01 22:00:00", None),
    ],
)
def test_calendar_expressions_in_crons_words(expression, cron):
    found = as_cron(expression)
    assert (found and found[0]) == cron


@pytest.mark.parametrize(
    ("said", "cron", "refused"),
    [("0 22 * * 1-7", "0 22 * * 1-6,0", False), ("5 4 * * 6,7", "5 4 * * 6,0", False), ("0 25 * * *", None, True)],
)
def test_a_crontabs_own_days_and_hours(said, cron, refused, tmp_path):
    (tmp_path / "crontab").write_text(f"{said} {STOP.format('gpu-1')}\n")
    (one,) = find([tmp_path])
    assert (one.schedule, "cron refuses" in (one.broken or "")) == (cron, refused)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("2020-01-01 22:00:00", "its day has passed"),
        ("Mon 2019,2020-*-* 22:00", "its day has passed"),
        ("2020/1-01-01 22:00", ""),
        ("2020..2040-*-* 22:00", ""),
        ("*-*-* 22:00", ""),
        ("*-*-* 24:00:00", "there is no hour 24"),
        ("*:0/90", ""),
    ],
)
def test_timer_that_never_elapses_turns_nothing_off(expression, why, tmp_path):
    _units(tmp_path, "gpu-off", STOP.format("gpu-1"), expression)
    (one,) = find([tmp_path])
    assert why in (one.broken or "")
    assert bool(one.broken) is bool(why)
    if why:
        _, told, _ = _linted(tmp_path)
        assert ("machine-timer", "Timer/gpu-off", f"it never starts: {one.broken}") in told
        assert not discovered(tmp_path).layers


def discovered(folder: Path):
    """The kill path of a folder."""
    return Session(manifests=[folder]).kill_path


@pytest.mark.parametrize(
    ("file", "line", "first", "broken"),
    [
        ("crontab", "0 22 * * * aws ec2 stop-instances --instance-ids i-1", "aws", False),
        ("crontab", "0 22 * * * root aws ec2 stop-instances --instance-ids i-1", "aws", False),
        ("cron.d/gpu", "0 22 * * * root aws ec2 stop-instances --instance-ids i-1", "aws", False),
        ("cron.d/gpu", "0 22 * * * aws ec2 stop-instances --instance-ids i-1", "aws", True),
        ("etc/crontab", "0 22 * * * /usr/bin/aws ec2 stop-instances --instance-ids i-1", "aws", True),
    ],
)
def test_a_system_crontab_has_users_and_a_persons_own_has_none(file, line, first, broken, tmp_path):
    """crontab(5): what ``crontab -l`` printed has no sixth field; a word that begins a command is no user."""
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(f"{line}\n")
    (one,) = find([tmp_path])
    assert Path(one.command.argv[-1].split()[0]).name == first
    assert ("for a user" in (one.broken or "")) is broken


def _kept(folder: Path) -> list[tuple[str, str]]:
    return [(entry.status.value, entry.object) for entry in entries(discovered(folder))]


def test_the_mornings_start_beside_machines_is_assumed_and_any_other_open(tmp_path):
    _units(tmp_path, "gpu-off", STOP.format("gpu-1"))
    _units(tmp_path, "gpu-on", START.format("gpu-1"), "*-*-* 07:00:00")
    assert _kept(tmp_path) == [("assumed", "Timer/gpu-on.timer")]
    _units(tmp_path, "gpu-on", START.format("gpu-1"), "*-*-* 23:00:00")
    assert _kept(tmp_path) == [("not modelled", "Timer/gpu-on.timer")]


def test_a_start_at_boot_is_seen_where_no_timer_lies_beside_it(tmp_path):
    (tmp_path / "crontab").write_text(f"0 22 * * * {STOP.format('gpu-1')}\n")
    (tmp_path / "units").mkdir()
    service = f"[Service]\nExecStart={START.format('gpu-1')}\n[Install]\nWantedBy=multi-user.target\n"
    (tmp_path / "units/wake.service").write_text(service)
    assert _kept(tmp_path) == [("not modelled", "Timer/wake.service")]


@pytest.mark.parametrize(
    ("program", "kept", "status"),
    [
        ("/usr/bin/terraform apply -auto-approve", "echo", "not modelled"),  # a machine that its files want on
        ("/opt/ops/wake.sh", START.format("gpu-1"), "not modelled"),
        ("/opt/other/wake.sh", START.format("gpu-1"), "assumed"),  # not the one that is kept: nobody can read it
    ],
)
def test_a_program_is_found_where_the_repository_keeps_it(program, kept, status, tmp_path):
    _units(tmp_path, "gpu-off", STOP.format("gpu-1"))
    _units(tmp_path, "wake", program, "*-*-* 23:00:00")
    (tmp_path / "deploy/ops").mkdir(parents=True)
    (tmp_path / "deploy/ops/wake.sh").write_text(f"#!/bin/sh\n{kept}\n")
    assert _kept(tmp_path) == [(status, "Timer/wake.timer")]


def test_a_timer_whose_day_nobody_here_knows_proves_nothing(tmp_path):
    _units(tmp_path, "gpu-off", STOP.format("gpu-1"), "*-*~01 22:00:00")
    assert _kept(tmp_path) == [("not modelled", "Timer/gpu-off")]


def _tree(root: Path) -> Path:
    _units(root / "etc/systemd/system", "gpu-off", "/opt/gpu/off.sh")
    (root / "opt/gpu").mkdir(parents=True)
    (root / "opt/gpu/off.sh").write_text("#!/bin/sh\nset -e\n" + STOP.format("gpu-1").replace("/usr/bin/", "") + "\n")
    (root / "opt/gpu/off.sh").chmod(0o755)
    return root


def test_init_writes_the_folder_that_its_programs_run_in(tmp_path):
    _tree(tmp_path / "machines/berlin")
    _tree(tmp_path / "machines/oslo")
    spec = tmp_path / "killcheck.yaml"
    ended = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "machines"), "-o", str(spec)])
    assert ended.exit_code == 0, ended.output
    assert "act from outside Kubernetes" not in ended.output  # they are what it was made of
    path = specfile.load(spec)
    assert [target.name for target in path.targets] == ["gpu-1"]
    assert [layer.command.folder for layer in path.layers if layer.command] == ["machines/berlin", "machines/oslo"]
    assert [layer.command.argv for layer in path.layers if layer.command] == [("./opt/gpu/off.sh",)] * 2


def test_a_spec_that_could_not_find_its_programs_is_not_written(tmp_path):
    _tree(tmp_path / "berlin")
    (tmp_path / "elsewhere").mkdir()
    spec = tmp_path / "elsewhere" / "killcheck.yaml"
    ended = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path / "berlin"), "-o", str(spec)])
    assert ended.exit_code == 2
    assert f"-o {tmp_path / 'berlin' / 'killcheck.yaml'}" in ended.output
    assert not spec.exists()


def test_timers_that_name_no_machine_are_told_what_to_do_and_one_that_firing_finds_is_drilled(tmp_path):
    stops = f"/bin/sh -ec '{STOP.format('$BOX')}'\nEnvironmentFile=/etc/boxes"
    _units(tmp_path / "etc/systemd/system", "gpu-off", stops)
    (tmp_path / "etc/boxes").write_text("BOX=gpu-1\n")
    seen = Session(manifests=[tmp_path], exec_mode="host")
    assert [layer.covers for layer in seen.kill_path.layers] == [("gpu-1",)]
    _units(tmp_path / "etc/systemd/system", "gpu-off", "/usr/bin/true")
    ended = CliRunner().invoke(main, ["init", "--manifests", str(tmp_path), "-o", "-"])
    assert ended.exit_code == 2
    assert "gpu-off.timer: not read: a systemd timer" in ended.output
    assert "--example single-controller" in ended.output
