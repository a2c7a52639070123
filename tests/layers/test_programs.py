"""Programs as processes of this machine: limits, environment, output, and what an answer is."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from killcheck.capabilities.errors import UndoProblem
from killcheck.capabilities.programs import Ran
from killcheck.clock import WallLoop, wall_now, wall_seconds
from killcheck.machine.counting import CountUnknown, counted
from killcheck.machine.programs import Files, LocalPrograms, again, put_back
from killcheck.spec.killpath import Command


@pytest.fixture
def programs(tmp_path):
    made = LocalPrograms(
        WallLoop(), str(tmp_path), {"PATH": os.environ["PATH"], "HOME": "/home/x", "AWS_PROFILE": "dev", "TOKEN": "s"}
    )
    yield made
    made.close()


def sh(text: str, timeout_s: float = 120.0, **more) -> Command:
    return Command(("/bin/sh", "-c", text), timeout_s, **more)


def runs(pid: int) -> bool:
    """Whether a process runs; one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(programs: LocalPrograms, file: Path) -> bool:
    """Whether the process whose id is in a file ends: a signal that was sent takes a moment to arrive."""
    pid = int(file.read_text())
    until = wall_seconds() + 120
    while runs(pid) and wall_seconds() < until:
        programs.loop.sleep(0.01)
    return not runs(pid)


def test_exit_code_and_both_streams_are_kept_apart(programs):
    ran = programs.run(sh("echo out; echo err >&2; exit 3"))
    assert (ran.code, ran.output, ran.errors, ran.ok) == (3, "out\n", "err\n", False)
    assert ran.told == "/bin/sh -c 'echo out; echo err >&2; exit 3': exit code 3: err"
    assert ran.begun <= ran.ended


def test_there_is_no_shell_unless_it_is_asked_for(programs):
    assert programs.run(Command(("echo", "$HOME", ";", "id"))).output == "$HOME ; id\n"


def test_only_the_named_variables_are_passed_on(programs):
    ran = programs.run(Command(("env",), env={"OWN": "1"}, pass_env=("AWS_PROFILE", "NOT_SET")))
    names = {line.partition("=")[0] for line in ran.output.splitlines()}
    assert names == {"PATH", "HOME", "OWN", "AWS_PROFILE"}


def test_it_runs_in_the_specs_folder_and_finds_what_lies_there(programs, tmp_path):
    script = tmp_path / "here.sh"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    assert programs.run(Command(("./here.sh",))).output.strip() == str(tmp_path)


@pytest.mark.parametrize(
    ("argv", "why"),
    [(("no-such-program-anywhere",), "no such file"), (("./nothing.sh",), "no such file"), (("/etc",), "denied")],
)
def test_what_cannot_be_started_says_why(programs, argv, why):
    ran = programs.run(Command(argv))
    assert ran.code is None
    assert "could not be started" in ran.why
    assert why in ran.why


def test_what_takes_too_long_is_stopped_with_all_its_children(programs, tmp_path, monkeypatch):
    begun, child = wall_seconds(), tmp_path / "child"

    def once_it_has_a_child() -> float:
        """The clock that its limit is counted on stands still until then, however busy this host."""
        return wall_seconds() if child.exists() and child.read_text() else begun

    monkeypatch.setattr("killcheck.machine.programs.wall_seconds", once_it_has_a_child)
    ran = programs.run(sh("sleep 300 & echo $! > child; wait", timeout_s=0.3))
    assert ran.code is None
    assert "took longer than 0.3 s" in ran.why
    assert wall_seconds() - begun < 120
    assert gone(programs, tmp_path / "child")


def test_what_shuts_its_ears_to_sigterm_is_killed(programs):
    ran = programs.run(sh("trap '' TERM; sleep 300 & wait; sleep 300", timeout_s=0.2))
    assert ran.code is None
    assert "was stopped" in ran.why


def test_children_left_behind_are_ended_and_not_waited_for(programs, tmp_path):
    begun = wall_seconds()
    ran = programs.run(sh("sleep 300 & echo $! > child"))
    assert ran.ok
    assert wall_seconds() - begun < 120
    assert gone(programs, tmp_path / "child")


def test_a_signal_is_no_exit_code(programs):
    ran = programs.run(sh("kill -9 $$"))
    assert (ran.code, ran.why) == (None, f"ended by signal {signal.Signals.SIGKILL.name}")


def test_a_signal_without_a_name_is_none_either(programs):
    ran = programs.run(sh("kill -40 $$", 5.0))
    assert (ran.code, ran.why) == (None, "ended by signal 40")


def test_output_is_bounded_and_the_program_goes_on(programs):
    ran = programs.run(sh("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2"))
    assert len(ran.output) == 64 * 1024
    assert ran.cut
    assert ran.errors == "done\n"


def test_secrets_do_not_come_out_of_it(programs):
    ran = programs.run(sh("echo 'Authorization: Bearer abcdefghijkl'; echo aws_secret_access_key=hunter22 >&2"))
    assert "abcdefghijkl" not in ran.output
    assert "hunter22" not in ran.errors


# -- counting ----------------------------------------------------------------------------------------------
def answer(text: str, code: int | None = 0, *, cut: bool = False) -> Ran:
    return Ran(Command(("count",)), wall_now(), wall_now(), code, text, cut=cut)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0\n", 0), (" 2 ", 2), ("[]", 0), ('["i-1", "i-2"]', 2), ('{"count": 3}', 3), ('[{"id": "a"}]', 1)],
)
def test_an_answer_is_a_count(text, number):
    assert counted(answer(text)) == number


@pytest.mark.parametrize(
    "text",
    ["", "none", "zero", "-1", "1.5", "true", "null", "{}", '{"count": "0"}', '{"count": null}', "0 instances", "[0"],
)
def test_anything_else_is_unknown_and_never_zero(text):
    with pytest.raises(CountUnknown, match="expected a count"):
        counted(answer(text))


@pytest.mark.parametrize("ran", [answer("0", 1), answer("0", None), answer("0", cut=True)])
def test_the_answer_of_a_program_that_failed_is_none(ran):
    with pytest.raises(CountUnknown):
        counted(ran)


# -- undoing -----------------------------------------------------------------------------------------------
def test_putting_back_starts_only_what_is_off(programs, tmp_path):
    count, start = again(sh("cat on")), again(sh("echo 1 > on; echo started >> log"))
    (tmp_path / "on").write_text("1\n")
    put_back(programs, count, 1, start)
    assert not (tmp_path / "log").exists()
    (tmp_path / "on").write_text("0\n")
    put_back(programs, count, 1, start)
    put_back(programs, count, 1, start)
    assert (tmp_path / "log").read_text() == "started\n"


def test_what_cannot_be_counted_or_started_is_a_problem(programs, tmp_path):
    with pytest.raises(UndoProblem, match="whether it is on is not known"):
        put_back(programs, again(sh("exit 1")), 1, again(sh("true")))
    with pytest.raises(UndoProblem, match="no capacity"):
        put_back(programs, again(sh("echo 0")), 1, again(sh("echo no capacity >&2; exit 1")))


def test_a_file_that_is_somebody_elses_stays(tmp_path):
    files, path = Files(), str(tmp_path / "hold")
    files.put(path, "ours\n")
    assert files.there(path)
    files.take_away(path, "ours\n")
    files.take_away(path, "ours\n")
    assert not files.there(path)
    (tmp_path / "hold").write_text("theirs\n")
    with pytest.raises(FileExistsError):
        files.put(path, "ours\n")
    with pytest.raises(UndoProblem, match="somebody else's"):
        files.take_away(path, "ours\n")
    assert (tmp_path / "hold").read_text() == "theirs\n"


def test_a_file_that_could_not_be_written_whole_is_not_there(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            Files().put(str(tmp_path / "hold"), "mine\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_keeps_no_secrets_and_says_so_where_it_needs_them(programs, tmp_path):
    (tmp_path / "on").write_text("0\n")
    count, start = sh("cat on"), sh("test $API_KEY = hunter22 && echo 1 > on", env={"API_KEY": "hunter22"})
    kept = again(start)
    assert "hunter22" not in str(kept)
    with pytest.raises(UndoProblem, match="has secrets, which no journal keeps"):
        put_back(programs, again(count), 1, kept)
    put_back(programs, again(count), 1, kept, [count, start])
    assert (tmp_path / "on").read_text() == "1\n"


def test_a_command_is_shown_without_its_secrets():
    assert "hunter22" not in str(Command(("stop", "--password=hunter22")))
