"""Mistakes in what a spec says of programs, sentinels, spot handlers, idle monitors: one clear error, with its line."""

from __future__ import annotations

import pytest

from killcheck.spec import specfile
from killcheck.spec.specfile import SpecError

HEAD = """\
apiVersion: killcheck/v1
name: vm
targets:
  - {name: box, count: {argv: [./count.sh]}}
layers:
"""
STOP = "  - {name: nightly-stop, type: command, covers: [box], command: {argv: [./stop.sh]}}\n"


def layer(kind: str, rest: str) -> str:
    return f"{HEAD}  - {{name: x, type: {kind}, covers: [box], {rest}}}\n"


def sentinel(rest: str) -> str:
    return layer("sentinel", f"sentinel: {{{rest}}}")


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        specfile.loads(text)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            layer("command", "command: {timeout: 5s}"),
            ":6: layers[0].command: expected argv (a list, no shell) or shell",
        ),
        (layer("command", "command: {argv: [a], shell: a}"), "(a line for /bin/sh), found both"),
        (
            layer("command", "command: {argv: ./stop.sh}"),
            ":6: layers[0].command.argv: expected a list, found './stop.sh'",
        ),
        (layer("command", "command: {argv: []}"), ":6: layers[0].command.argv: expected at least one entry"),
        (layer("command", "command: {argv: [a], passEnv: [A B]}"), ":6: layers[0].command.passEnv[0]: expected a name"),
        (layer("command", "command: {argv: [a], enviroment: {}}"), "layers[0].command.enviroment: unknown field"),
        (layer("command", "command: {argv: [a], timeout: 5}"), "layers[0].command.timeout: expected a duration"),
        (layer("command", "schedule: '0 3 * * *'"), ":6: layers[0]: a command layer needs command, found none"),
        (layer("command", "command: {argv: [a]}, timeZone: Etc/UTC"), "a timeZone without a schedule says nothing"),
        (layer("dead-man", "container: {name: cron}"), ":6: layers[0]: no container tells when it is fired"),
        (layer("command", "command: {argv: [a]}, schedule: nightly"), "layers[0].schedule: expected a cron schedule"),
        (layer("command", "command: {argv: [a]}, idle: 5m"), ":6: layers[0].idle: a command layer has no idle"),
        (
            sentinel("starters: [{argv: [a]}]"),
            ":6: layers[0].sentinel: expected exactly one of path (a file), configMap",
        ),
        (sentinel("path: /hold, configMap: {namespace: n, name: c, key: k}, units: [.]"), "found path and configMap"),
        (sentinel("path: hold, units: [.]"), ":6: layers[0].sentinel.path: expected an absolute path, found 'hold'"),
        (sentinel("path: /hold"), ":6: layers[0].sentinel: nobody is named who must refuse"),
        (
            sentinel("path: /hold, value: x, units: [.]"),
            "layers[0].sentinel.value: a file is a sentinel by being there",
        ),
        (sentinel("path: /hold, starters: [{timeout: 5s}]"), "layers[0].sentinel.starters[0]: expected argv"),
        (sentinel("annotation: {namespace: n, name: d}, units: [.]"), "layers[0].sentinel.annotation.key: missing"),
        (layer("sentinel", "command: {argv: [a]}"), ":6: layers[0]: a sentinel layer needs sentinel, found none"),
        (layer("spot-handler", "checkpoint: {}"), ":6: layers[0].checkpoint: expected exactly one of command and"),
        (layer("spot-handler", "notice: 120"), ":6: layers[0].notice: expected a duration with its unit, such as 120s"),
        (layer("spot-handler", "cronJob: {namespace: n, name: c}"), "layers[0].cronJob: a spot-handler layer has no"),
        (layer("idle-monitor", "command: {argv: [a]}"), ":6: layers[0]: an idle-monitor that is no CronJob needs idle"),
        (layer("idle-monitor", "cronJob: {namespace: n, name: c}, schedule: '* * * * *'"), "is read from the CronJob"),
        (layer("idle-monitor", "command: {argv: [a]}, idle: 5m, busy: {}"), ":6: layers[0].busy: expected argv"),
        (HEAD.replace("count: {argv: [./count.sh]}", "count: {}") + STOP, ":4: targets[0].count: expected argv"),
        (
            HEAD.replace("count: {argv: [./count.sh]}", "kind: Deployment, namespace: n, object: d, start: {argv: [a]}")
            + STOP,
            ":4: targets[0].start: a target in Kubernetes is put back by the API",
        ),
        (HEAD + STOP + "consent: {commands: ./stop.sh}\n", ":7: consent.commands: expected a list, found './stop.sh'"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_was_expected(text: str, said: str):
    found = problems(text)
    assert any(said in line for line in found), found


def test_a_shells_line_is_run_by_a_shell_and_nothing_else_is():
    path = specfile.loads(HEAD + STOP.replace("{argv: [./stop.sh]}", "{shell: 'a | b', passEnv: [AWS_PROFILE]}"))
    command = path.layers[0].command
    assert command.argv == ("/bin/sh", "-c", "a | b")
    assert command.pass_env == ("AWS_PROFILE",)
    assert specfile.loads(specfile.dump(path)) == path


def test_consent_is_by_the_whole_command_line():
    path = specfile.loads(HEAD + STOP + "consent: {commands: ['./stop.sh', 'gcloud compute instances stop *']}\n")
    from killcheck.spec.killpath import Command

    assert path.consent.allows_command(Command(("./stop.sh",)))
    assert not path.consent.allows_command(Command(("./stop.sh", "--all")))
    assert path.consent.allows_command(Command(("gcloud", "compute", "instances", "stop", "vm")))
    assert not path.consent.allows_command(Command(("gcloud", "compute", "instances", "delete", "vm")))


def test_the_deadlines_of_a_spot_handler_are_never_later_than_its_notice():
    path = specfile.loads(layer("spot-handler", "notice: 30s, deadlines: {nodeDrained: 10m}"))
    own = path.deadlines_for(path.layers[0])
    assert (own.pods_gone_s, own.node_drained_s) == (30, 30)
    assert own.node_gone_s >= 600
