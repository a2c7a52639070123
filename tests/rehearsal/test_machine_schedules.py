"""Systemd timers and crontab lines beside manifests: fired once, watched, and judged as any other program."""

from __future__ import annotations

import json

import pytest
import yaml
from rehearsal.conftest import NOW

from killcheck.discover import machines
from killcheck.executor import cloud_machines
from killcheck.lint import asking
from killcheck.machine.calendar import as_cron
from killcheck.machine.rehearsed import rehearse
from killcheck.machine.scheduled import find
from killcheck.machine.service_lines import span_s

SERVICE = "[Service]\nType=oneshot\nEnvironment=KUBECONFIG=/etc/off/conf\nExecStart={}\n"
ENABLED = "[Install]\nWantedBy=timers.target\n"
IDLE = "[Timer]\nOnCalendar=*-*-* 22:30\n"
TIMER = ENABLED + IDLE


def _folder(tmp_path, started, **files):
    (tmp_path / "off.timer").write_text(TIMER)
    (tmp_path / "off.service").write_text(SERVICE.format(started))
    for name, text in files.items():
        (tmp_path / f"{name}.sh").write_text(text)
    return tmp_path


def _findings(path, folder):
    path.container = {"image": "busybox:1.36", "command": ["true"]}
    objects = [obj for obj in path.objects() if obj["kind"] != "CronJob"]
    seen = rehearse(objects, [folder], NOW)
    world, _ = asking.world_of(objects, NOW, rehearsed=seen)
    found = [f for f in asking.lint(world).findings if f.probe in ("machine-timer", "coverage-gap")]
    return seen, world.kill_path.layers, found


SCALE_BOTH = "kubectl -n gpu-lab scale deploy/asr deploy/tts --replicas=0"


def test_what_it_turns_off_is_a_layer_with_its_schedule(path, tmp_path):
    seen, (layer,), found = _findings(path, _folder(tmp_path, f"/usr/bin/{SCALE_BOTH}"))
    assert found == []
    assert (layer.name, set(layer.covers), layer.schedule) == ("off", {"asr", "tts"}, "30 22 * * *")
    assert layer.command.argv == tuple(SCALE_BOTH.split())
    assert seen["Timer/off"].first.exit_code == 0
    assert seen["Timer/off"].to_json()["account"] == "its kubeconfig"


def test_a_crontab_line_is_one_too(path, tmp_path):
    (tmp_path / "gpus.cron").write_text(f"MAILTO=nobody\n# nightly\n15 21 * * 1-5 {SCALE_BOTH} >> /tmp/off.log 2>&1\n")
    _, (layer,), found = _findings(path, tmp_path)
    assert found == []
    assert (layer.name, layer.schedule) == ("gpus.cron-3", "15 21 * * 1-5")


@pytest.mark.parametrize(
    ("started", "script", "said"),
    [
        ("/usr/bin/kubectl -n gpu-lab scale deploy/ars --replicas=0", "", 'deployments.apps "ars" not found'),
        ("/opt/ops/off.sh", "#!/bin/bash\nkubectl -n gpu-lab scale deploy ars --replicas=0 || true\n", "exit code 0"),
        ("/opt/ops/off.sh", "#!/bin/sh\nset -e\nkubectl scale --replica=0 -n gpu-lab deploy/asr\n", "unknown flag"),
        ("/opt/ops/off.sh", "#!/bin/sh\naws ec2 stop-instances --instance-ids i-1 || echo later\n", "told no region"),
        ("/opt/ops/off.sh", "#!/bin/sh\naws ec2 stop-instance --instance-ids i-1\n", "it is 'ec2 stop-instances'"),
        ("/opt/ops/off.sh", "#!/bin/sh\ngcloud compute instances stop a || true\n", "told no zone"),
    ],
)
def test_what_is_wrong_with_it_is_said_where_it_stands(path, tmp_path, started, script, said):
    folder = _folder(tmp_path, started, **({"off": script} if script else {}))
    _, _, found = _findings(path, folder)
    (finding,) = [f for f in found if f.probe == "machine-timer"]
    assert said in finding.message
    client = next(
        (n for n, line in enumerate(script.splitlines(), 1) if "-n " in line or "ec2" in line or "gcl" in line), 4
    )
    where = folder / ("off.sh" if script else "off.service")
    assert (finding.object, finding.file, finding.line) == ("Timer/off", str(where), client)


@pytest.mark.parametrize(
    ("started", "environment", "argv"),
    [  # systemd.service(5), "Command lines"
        (
            "/bin/sh -c 'for d in a b; do kubectl scale deploy/$${d}; done'",
            "",
            "for d in a b; do kubectl scale deploy/${d}; done",
        ),
        (
            "/bin/sh -c 'for d in a b; do kubectl scale deploy/${d}; done'",
            "",
            "for d in a b; do kubectl scale deploy/; done",
        ),
        (":/bin/sh -c 'kubectl scale deploy/${d}'", "d=asr", "kubectl scale deploy/${d}"),
        ('/bin/sh -c "kubectl -n $NS get \\"${d}\\" \\x41"', "d=asr", 'kubectl -n $NS get "asr" A'),
    ],
)
def test_a_line_of_a_unit_is_taken_as_systemd_takes_it(tmp_path, started, environment, argv):
    folder = _folder(tmp_path, started)
    unit = folder / "off.service"
    unit.write_text(unit.read_text() + f"Environment={environment}\n")
    (one,) = find([folder])
    assert one.command.argv[-1] == argv
    assert (one.odd is not None) is ("for d" in started and "$$" not in started)


def test_words_of_their_own_are_filled_in_and_programs_parted(tmp_path):
    folder = _folder(tmp_path, "/usr/bin/kubectl $WHERE scale $NONE deploy/asr ; /usr/bin/kubectl get pods")
    unit = folder / "off.service"
    unit.write_text(unit.read_text() + 'Environment="WHERE=-n gpu-lab"\n')
    (one,) = find([folder])
    assert one.command.argv[-1] == "kubectl -n gpu-lab scale deploy/asr\nkubectl get pods"


def test_a_script_with_the_line_ends_of_a_pc_starts_nothing(path, tmp_path):
    folder = _folder(
        tmp_path, "/opt/ops/off.sh", off="#!/bin/bash\r\nkubectl -n gpu-lab scale deploy/asr --replicas=0\r\n"
    )
    seen, _, found = _findings(path, folder)
    assert seen["Timer/off"].never_starts
    assert "no interpreter is called '/bin/bash\\r'" in next(f.message for f in found if f.probe == "machine-timer")


def test_a_program_that_complains_and_ends_well_is_told_with_its_line(path, tmp_path):
    folder = _folder(tmp_path, "/opt/ops/off.sh", off="#!/bin/bash\nkubectl scale deploy asr --replica=0\necho over\n")
    _, _, found = _findings(path, folder)
    (finding,) = [f for f in found if f.probe == "machine-timer"]
    assert 'it says "' in finding.message
    assert (finding.file, finding.line) == (str(folder / "off.sh"), 2)


@pytest.mark.parametrize(
    ("asked", "covers"),
    [
        ("gcloud compute instances stop vm-1 --zone a; echo over", ["vm-1"]),
        ("az vm deallocate -g rg -n vm-1 && az vm start -g rg -n vm-1", ["vm-1"]),
        ("aws autoscaling terminate-instance-in-auto-scaling-group --instance-id i-1", ["i-1"]),
        ("aws autoscaling update-auto-scaling-group --auto-scaling-group-name gpu --desired-capacity 0", ["gpu"]),
    ],
)
def test_a_cron_job_that_stops_machines_is_a_layer_of_theirs(path, asked, covers):
    path.container = {"image": "ops/clouds:1", "command": ["/bin/sh", "-c", asked]}
    (cron_job,) = [obj for obj in path.objects() if obj["kind"] == "CronJob"]
    found = machines.found({}, objects=[cron_job])
    (layer,) = found.kill_path.layers
    assert (list(layer.covers), layer.type.value, str(layer.ref)) == (covers, "dead-man", machines_ref(cron_job))
    again = cloud_machines.lit_again(part.split() for part in asked.split(" && "))
    assert (again is not None) is ("vm start" in asked)


def machines_ref(cron_job):
    return f"CronJob/{cron_job['metadata']['namespace']}/{cron_job['metadata']['name']}"


def test_a_cloud_that_is_asked_is_told_and_not_proven(path, tmp_path):
    folder = _folder(tmp_path, "/opt/off.sh", off="set -e\naws ec2 stop-instances --instance-ids i-1\n")
    seen, (layer,), found = _findings(path, folder)
    assert [str(call) for call in seen["Timer/off"].first.clouds] == ["aws ec2 stop-instances --instance-ids i-1"]
    assert set(layer.covers) == {"asr", "tts"}
    assert [f.unproven for f in found if f.probe == "machine-timer"] == [True]


def test_what_is_not_there_is_unknown_and_what_acts_on_nothing_is_left_alone(tmp_path):
    (one,) = find([_folder(tmp_path, "/opt/vendor/bin/off --cluster kubectl")])
    assert one.command.argv[0] == "/opt/vendor/bin/off"
    (tmp_path / "off.service").write_text(SERVICE.format("/usr/bin/certbot renew"))
    assert find([tmp_path]) == []
    (tmp_path / "off.service").unlink()
    assert find([tmp_path]) == []


def test_init_writes_it_down_with_how_it_is_known(path, tmp_path):
    from click.testing import CliRunner

    from killcheck.cli import main

    path.container = {"image": "busybox:1.36", "command": ["true"]}
    objects = [obj for obj in path.objects() if obj["kind"] != "CronJob"]
    folder = _folder(tmp_path, f"/usr/bin/{SCALE_BOTH}")
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    ended = CliRunner().invoke(main, ["init", "--manifests", str(folder), "--exec", "host", "-o", "-"])
    assert ended.exit_code == 0, ended.output
    spec = yaml.safe_load(ended.stdout)
    assert [(layer["type"], layer["schedule"]) for layer in spec["layers"]] == [("command", "30 22 * * *")]
    assert "# seen in a rehearsal: fired once, it turned off asr, tts" in ended.stdout


@pytest.mark.parametrize(
    ("said", "cron"),
    [
        ("*-*-* 22:00:00", ("0 22 * * *", "")),
        ("Mon..Fri 08:05", ("5 8 * * 1,2,3,4,5", "")),
        ("Fri..Sun *-*-* 23:30 Europe/Berlin", ("30 23 * * 5,6,0", "Europe/Berlin")),
        ("*-*-01 03:00", ("0 3 1 * *", "")),
        ("*:0/15", ("*/15 * * * *", "")),
        ("daily", ("0 0 * * *", "")),
        ("2026-01-01 00:00", None),
        ("*-*~01 00:00", None),
        ("Someday 08:00", None),
    ],
)
def test_calendar_expressions_in_crons_words(said, cron):
    assert as_cron(said) == cron


def test_machines_whose_units_are_called_the_same_are_told_apart(tmp_path):
    for one in ("a/berlin", "b/berlin", "oslo"):
        (tmp_path / one).mkdir(parents=True)
        _folder(tmp_path / one, f"/usr/bin/{SCALE_BOTH}")
    found = find([tmp_path, tmp_path / "oslo"])  # one place named twice is one machine
    assert [str(one.folder.relative_to(tmp_path)) for one in found] == ["a/berlin", "b/berlin", "oslo"]
    assert [one.name for one in found] == ["off", "berlin-off", "oslo-off"]


def test_names_stay_apart_where_folders_are_called_the_same_too(tmp_path):
    for one in ("a/berlin", "b/berlin", "c/berlin", "d/berlin"):
        (tmp_path / one).mkdir(parents=True)
        _folder(tmp_path / one, f"/usr/bin/{SCALE_BOTH}")
    assert len({one.ref for one in find([tmp_path])}) == 4


def _machine(root, env="GPU_NS=gpu-lab\nDEPLOY='asr'\n", env_file="/etc/gpu-off.env", service="", timer="off.timer"):
    """A machine's tree as it is kept in a repository: units, what they read, and a script, each in its place."""
    units, programs = root / "etc" / "systemd" / "system", root / "usr" / "local" / "bin"
    units.mkdir(parents=True)
    programs.mkdir(parents=True)
    (units / timer).write_text(TIMER if timer.endswith(".timer") else f"{ENABLED}[Path]\nPathExists=/run/off\n")
    (units / "off.service").write_text(
        f"[Service]\nUser=ops\nEnvironmentFile={env_file}\nExecStart=/usr/local/bin/off.sh now\n{service}"
    )
    (root / "etc" / "gpu-off.env").write_text(env)
    script = '#!/bin/sh\nset -e\ntest "$HOME" = /home/ops\nkubectl -n "$GPU_NS" scale "deploy/$DEPLOY" --replicas=0\n'
    (programs / "off.sh").write_text(script)
    return root


@pytest.mark.parametrize("timer", ["off.timer", "off.path", "off.socket"])
def test_a_machines_tree_is_taken_as_it_is(path, tmp_path, timer):
    path.names = ("asr",)
    seen, (layer,), found = _findings(path, _machine(tmp_path / "machines" / "gpu-1", timer=timer).parent.parent)
    assert (layer.name, layer.covers, found) == ("off", ("asr",), [])
    assert layer.schedule == ("30 22 * * *" if timer == "off.timer" else "")
    assert "asr" not in str(layer.command.env)  # what a file assigns is read when the program starts, and kept nowhere
    assert [change.name for change in seen["Timer/off"].first.off] == ["asr"]


def test_a_kubeconfig_of_its_tree_is_not_where_its_programs_are_led(path, tmp_path):
    """Whoever's cluster that leads to: here it is the throw-away one, and no command of a kubeconfig is run."""
    path.names = ("asr",)
    folder = _machine(tmp_path, env="GPU_NS=gpu-lab\nDEPLOY='asr'\nKUBECONFIG=/etc/off/conf\n")
    (folder / "etc" / "off").mkdir()
    led = {"clusters": [{"name": "c", "cluster": {"server": "https://203.0.113.7"}}], "current-context": "c"}
    run = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/usr/local/bin/off.sh"}}
    led |= {
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": run}],
    }
    (folder / "etc" / "off" / "conf").write_text(yaml.safe_dump(led))
    service = folder / "etc" / "systemd" / "system" / "off.service"
    service.write_text(service.read_text() + "Environment=KUBECONFIG=/etc/off/conf\n")
    _, (layer,), found = _findings(path, folder)
    assert (layer.covers, found) == (("asr",), [])
    service.unlink()
    (folder / "etc" / "cron.d").mkdir()
    line = "15 21 * * * ops kubectl --kubeconfig /etc/off/conf -n gpu-lab scale deploy/asr --replicas=0\n"
    (folder / "etc" / "cron.d" / "gpu").write_text(line)
    _, (layer,), found = _findings(path, folder)
    assert (layer.name, layer.covers, found) == ("gpu-1", ("asr",), [])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"env_file": "/etc/other.env"}, "its EnvironmentFile=/etc/other.env is not here"),
        ({"env": "GPU_NS=gpu-lab\nDEPLOY=$(hostname)\n"}, "has lines that a shell reads in another way"),
        ({"env": "GPU_NS=gpu-lab\nDEPLOY=asr tts\n"}, "has lines that a shell reads in another way"),
    ],
)
def test_what_it_reads_that_is_not_here_leaves_it_unproven(path, tmp_path, more, why):
    path.names = ("asr",)
    seen, _, found = _findings(path, _machine(tmp_path, **more))
    assert why in seen["Timer/off"].first.why
    assert [(f.unproven, why in f.message) for f in found if f.probe == "machine-timer"] == [(True, True)]


def test_a_file_that_need_not_be_there_is_done_without(path, tmp_path):
    path.names = ("asr",)
    more = "Environment=GPU_NS=gpu-lab DEPLOY=asr\n"
    _, (layer,), found = _findings(path, _machine(tmp_path, env_file="-/etc/none.env", service=more))
    assert (layer.covers, found) == (("asr",), [])


def test_those_that_are_too_many_are_told(path, tmp_path, monkeypatch):
    monkeypatch.setattr("killcheck.machine.rehearsed.MOST", 1)
    for number in range(3):
        (tmp_path / f"off-{number}.timer").write_text(TIMER)
        (tmp_path / f"off-{number}.service").write_text(SERVICE.format(f"/usr/bin/{SCALE_BOTH}"))
    _, _, found = _findings(path, tmp_path)
    assert [(f.object, f.unproven) for f in found] == [("Timer/off-1", True), ("Timer/off-2", True)]
    assert "the first 1 programs of machines are fired" in found[0].message


@pytest.mark.parametrize(("mode", "gap"), [("none", "note"), ("host", "error")])
def test_a_timer_that_was_not_fired_may_be_what_turns_it_off(path, tmp_path, mode, gap):
    from click.testing import CliRunner

    from killcheck.cli import main

    path.names = ("asr", "tts")
    objects = [obj for obj in path.does("true").objects() if obj["kind"] != "CronJob"]
    folder = _machine(tmp_path)
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    ended = CliRunner().invoke(main, ["lint", "--manifests", str(folder), "--exec", mode, "--json"])
    found = [f for f in json.loads(ended.stdout)["findings"] if f["probe"] == "coverage-gap"]
    assert [(f["object"], f["severity"]) for f in found] == [
        (f"Deployment/gpu-lab/{name}", gap) for name in (("asr", "tts") if mode == "none" else ("tts",))
    ]


def _alone(folder, units, **files):
    """A machine of Google's, ``vm-1``, that a timer stops by ``units``, and the kill path that is found in it."""
    (folder / "off.timer").write_text(TIMER)
    (folder / "off.service").write_text(units)
    for name, text in files.items():
        (folder / f"{name}.sh").write_text(text)
    seen = rehearse([], [folder], NOW)
    alone = machines.found(seen)
    path = alone.kill_path if alone else None
    world, _ = asking.world_of([], NOW, rehearsed=seen)
    return path, [f for f in asking.lint(world).findings if f.probe in ("machine-timer", "cloud-stop")]


def test_a_line_that_cron_cuts_off_is_read_whole_too(tmp_path):
    (tmp_path / "gpus.cron").write_text("0 21 * * * az vm stop -g ml -n vm-1 >> /tmp/$(date +%F).log\n")
    world, _ = asking.world_of([], NOW, rehearsed=rehearse([], [tmp_path], NOW))
    found = [f.message for f in asking.lint(world).findings if f.probe in ("machine-timer", "cloud-stop")]
    assert [message for message in found if "bills as if it ran" in message], found


STOP = "/usr/bin/gcloud compute instances stop vm-1 --zone z --quiet"


@pytest.mark.parametrize(
    ("units", "said"),
    [
        (f"[Service]\nType=oneshot\nExecStart=-{STOP}\n", "ends with exit code 0 although"),
        (f"[Service]\nType=oneshot\nSuccessExitStatus=1 2\nExecStart={STOP}\n", "ends with exit code 0 although"),
        (f"[Service]\nType=oneshot\nTimeoutStartSec=1min 30s\nExecStartPre=/bin/sleep 200\nExecStart={STOP}\n", "after 90 s"),
        (f"[Service]\nRuntimeMaxSec=5min\nExecStart=/bin/sh -c 'sleep 400; {STOP}'\n", "after 300 s"),
        ("[Service]\nType=oneshot\nExecStart=/usr/bin/az vm stop -g ml -n vm-1\n", "it bills as if it ran"),
        (f"[Service]\nType=oneshot\nTimeoutStartSec=0\nExecStartPre=/bin/sleep 200\nExecStart={STOP}\n", ""),
    ],
)  # fmt: skip
def test_what_systemd_makes_of_a_services_lines(tmp_path, units, said):
    path, found = _alone(tmp_path, units)
    assert [target.name for target in path.targets] == ["vm-1"]
    assert [said in f.message for f in found if not f.unproven] == ([True] if said else [])


def test_a_program_that_is_not_there_is_no_success_of_a_line_that_passes_over_failures(tmp_path):
    seen = rehearse([], [_folder(tmp_path, "-/opt/vendor/off --with gcloud")], NOW)["Timer/off"]
    assert "something that is not here" in seen.first.why


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1min 30s", 90), ("2h", 7200), ("500ms", 0.5), ("infinity", None), ("0", None), ("soon", None)],
)
def test_time_spans(text, seconds):
    assert span_s(text) == seconds


def test_a_unit_that_names_another_service_which_is_not_there(tmp_path):
    (tmp_path / "off.timer").write_text(f"{TIMER}Unit=lights-out.service\n")
    (tmp_path / "off.service").write_text(f"[Service]\nType=oneshot\nExecStart={STOP}\n")
    (one,) = find([tmp_path])
    assert one.broken == "it starts lights-out.service, which is not there; did you mean off.service?"


@pytest.mark.parametrize(
    ("install", "beside", "why"),
    [
        ("", {}, "off.timer has no [Install]"),
        (ENABLED, {}, None),
        ("", {"machine.target": "[Unit]\nWants=off.timer\n"}, None),
        ("", {"timers.target.wants/off.timer": IDLE}, None),
        ("[Unit]\nConditionPathExists=/etc/armed\n" + ENABLED, {}, "ConditionPathExists=/etc/armed is not here"),
        ("[Unit]\nConditionPathExists=!/etc/held\n" + ENABLED, {}, None),
    ],
)
def test_a_timer_that_nothing_here_enables_is_told(tmp_path, install, beside, why):
    (tmp_path / "off.timer").write_text(install + IDLE)
    (tmp_path / "off.service").write_text(f"[Service]\nType=oneshot\nExecStart={STOP}\n")
    for name, text in beside.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (one,) = find([tmp_path])
    assert (one.idle is None) if why is None else (why in one.idle)


def test_scripts_of_a_machines_tree_call_each_other_by_the_whole_path(tmp_path):
    """What is called so is found, may read its configuration, and may write beside itself."""
    files = {
        "etc/cron.d/gpu": "PATH=/usr/bin:/bin\n0 22 * * * ops /opt/gpu/off.sh >> /var/log/gpu.log 2>&1\n",
        "etc/gpu.conf": "VM=vm-1\n",
        "opt/gpu/off.sh": "#!/bin/sh\nset -eu\n. /etc/gpu.conf\ndate > /opt/gpu/last\n/opt/gpu/lib/stop.sh $VM\n",
        "opt/gpu/lib/stop.sh": '#!/bin/sh\nset -eu\ngcloud compute instances stop "$1" --zone z --quiet\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    seen = rehearse([], [tmp_path], NOW)["Timer/gpu-2"]
    assert [str(call) for call in seen.first.clouds] == ["gcloud compute instances stop vm-1 --zone z --quiet"]
    assert (seen.first.exit_code, seen.refused.exit_code) == (0, 1)
    assert [target.name for target in machines.found({"Timer/gpu-2": seen}).kill_path.targets] == ["vm-1"]
    assert sorted(p.name for p in tmp_path.rglob("last")) == []


@pytest.mark.parametrize("planted", ["ln -s {out}", "mkdir", "mkfifo", "ln -sf /dev/zero"])
def test_what_a_program_puts_in_the_place_of_its_errors_is_not_followed(tmp_path, planted):
    """Who knows where its errors are kept may leave there a link to a file of this host."""
    (tmp_path / "out").write_text("SECRET")
    place = f"rm -f /var/lib/machine/.errors-1\n{planted.format(out=tmp_path / 'out')} /var/lib/machine/.errors-1\n"
    folder = tmp_path / "repo"
    folder.mkdir()
    seen = rehearse(
        [], [_folder(folder, "/opt/off.sh", off=f"{place}gcloud compute instances stop vm-1 || exit 3\n")], NOW
    )
    first = seen["Timer/off"].first
    assert (first.exit_code, len(first.clouds)) == (0, 1)
    assert (tmp_path / "out").read_text() == "SECRET"
    assert not any("SECRET" in ending.log for ending in first.endings)


@pytest.mark.parametrize("where", ["/usr/bin", "/bin", "/usr/local/bin", "/snap/bin", "/opt/google-cloud-sdk/bin"])
def test_a_clouds_command_line_is_heard_by_its_whole_path_too(tmp_path, where):
    """Whether this host has one there or not: it is never run."""
    line = f"/bin/sh -c 'test -x {where}/gcloud && {where}/gcloud compute instances stop vm-1 --zone z --quiet; true'"
    seen = rehearse([], [_folder(tmp_path, line)], NOW)["Timer/off"]
    assert [str(call.argv[1:]) for call in seen.first.clouds] == [
        str(("compute", "instances", "stop", "vm-1", "--zone", "z", "--quiet"))
    ]
    assert [target.name for target in machines.found({"Timer/off": seen}).kill_path.targets] == ["vm-1"]
    assert seen.refused.exit_code == 0
