"""The look around every test sees what a test leaves behind."""

import os
import subprocess
import threading

import leaks
import pytest


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(leaks, "ENDS_S", 0.05)


def test_nothing_is_left_of_nothing():
    assert leaks.look().left() == []


def test_a_thread_that_runs_on_is_seen_until_it_ends(at_once):
    before, over = leaks.look(), threading.Event()
    thread = threading.Thread(target=over.wait, name="somebody")
    thread.start()
    try:
        assert before.left() == ["thread somebody runs on"]
    finally:
        over.set()
        thread.join()
    assert before.left() == []


def test_a_child_that_runs_on_is_seen_until_it_ends(at_once):
    before = leaks.look()
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            assert before.left() == [f"child {child.pid} runs on: sleep 600"]
        finally:
            child.kill()
    assert before.left() == []


def test_another_folder_and_another_variable_are_seen(monkeypatch, tmp_path):
    before = leaks.look()
    with monkeypatch.context() as changed:
        changed.chdir(tmp_path)
        changed.setenv("KILLCHECK_SOMETHING", "x")
        said = before.left()
    assert said[0] == f"the working directory is {os.path.realpath(tmp_path)}, and was {before.folder}"
    assert said[1:] == ["variable KILLCHECK_SOMETHING is not what it was"]
    assert before.left() == []


def test_what_is_excused_says_why_and_until_when():
    assert all(leaks.SERVE_ALL.values())
    assert all(why and last for why, last in leaks.UNTIL.values())
