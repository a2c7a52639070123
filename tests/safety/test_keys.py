"""The key of the journals: made once, this user's alone, and never of the checkout."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from killcheck.safety import keys
from killcheck.safety.written import read, signed

HEADER = {"run": "r", "context": "here"}
ENTRIES = [
    {
        "run": "r",
        "number": n,
        "what": f"change {n}",
        "expires": "2026-01-15T00:00:00Z",
        "undo": {"action": "delete", "path": f"/api/v1/nodes/n{n}"},
    }
    for n in range(3)
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    keys._own.cache_clear()
    return tmp_path / "state"


def test_it_is_made_when_it_is_first_needed_and_is_its_users_alone(home):
    assert keys.known_keys() == []
    assert not home.exists()  # who only reads makes none
    key = keys.signing_key()
    assert (len(key), keys.known_keys()) == (keys.BYTES, [key])
    assert keys.key_path().stat().st_mode & 0o777 == 0o600
    assert keys.key_path().parent.stat().st_mode & 0o777 == 0o700


def test_however_many_begin_at_once_there_is_one(home):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: keys._own.__wrapped__(str(keys.key_path())), range(8)))
    assert len(found) == 1
    assert [file.name for file in keys.key_path().parent.iterdir()] == ["key"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.chmod(0o640),
        lambda file: file.write_text(""),
        lambda file: file.write_text("00"),
        lambda file: file.write_bytes(b"\xff" * 64),
    ],
)
def test_what_cannot_be_relied_on_proves_nothing(home, spoil):
    keys.signing_key()
    spoil(keys.key_path())
    keys._own.cache_clear()
    assert keys.known_keys() == []
    with pytest.raises(keys.KeyProblem, match="delete it"):
        keys.signing_key()


def test_a_shared_one_counts_and_a_short_one_is_refused(home, monkeypatch):
    monkeypatch.setenv(keys.VARIABLE, "a key of a whole team")
    assert keys.known_keys() == [keys.signing_key()]
    monkeypatch.setenv(keys.VARIABLE, "short")
    with pytest.raises(keys.KeyProblem, match="give it 16 or more"):
        keys.signing_key()


def test_a_folder_that_may_not_be_written_is_said(home):
    home.write_text("a file")
    with pytest.raises(keys.KeyProblem, match="set XDG_STATE_HOME"):
        keys.signing_key()


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("how", ["changed", "gone", "another's", "cut"])
def test_a_line_that_was_touched_proves_nothing_nor_does_what_follows(at, how):
    key, lines = b"k" * 32, signed(HEADER, ENTRIES, b"k" * 32).splitlines()
    if how == "changed":
        lines[at] = lines[at].replace("change", "chance").replace("here", "there")
    elif how == "gone":
        del lines[at]
    elif how == "another's":
        lines[at] = signed(HEADER, ENTRIES, b"x" * 32).splitlines()[at]
    else:
        lines[at:] = [lines[at][:20]]
    said = read("\n".join(lines), [key])
    assert [entry.number for entry in said.own] == list(range(max(0, at - 1)))
    assert (said.signed, said.whole) == (at > 0, False)


def test_what_is_signed_is_believed_whole():
    said = read(signed(HEADER, ENTRIES, b"k" * 32), [b"other" * 8, b"k" * 32])
    assert (said.whole, [entry.number for entry in said.own], said.told) == (True, [0, 1, 2], [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "[]",
        "{}",
        "{" * 100_000,
        '{"journal": []}',
        "[" * 5000 + "]" * 5000,
        json.dumps({"journal": {"run": "r"}}) + '\n{"a":' * 9000,
        "x" * (9 * 2**20),
    ],
)
def test_whatever_it_is_it_is_read(text):
    said = read(text, [b"k" * 32])
    assert (said.own, said.told, said.signed) == ([], [], False)
    assert said.problems
