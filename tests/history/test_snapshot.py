"""What a record keeps of what was around its drills: enough to tell what changed, nothing that is a secret."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from killcheck.run.snapshot import MOST, snapshot


def config(name, data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ml"}, "data": data}


@given(st.sampled_from(["hunter2", "0000", "correct-horse"]), st.text("ab ", min_size=80, max_size=120))
def test_a_digest_tells_nobody_whether_a_guess_was_right(password, padding):
    """A value that is kept as a digest loses its secrets first: a weak one could be tried until it fits."""
    text = f"{padding}\nPASSWORD={password}\n"
    kept = json.dumps(snapshot([config("c", {"run.sh": text})]))
    guess = json.dumps({"run.sh": text}, sort_keys=True)
    assert hashlib.sha256(guess.encode()).hexdigest()[:12] not in kept
    assert kept == json.dumps(snapshot([config("c", {"run.sh": text.replace(password, "another1")})]))


def test_an_edit_shows_all_the_same():
    was, now = (snapshot([config("c", {"run.sh": f"{'a' * 90} replicas={count}"})]) for count in (0, 1))
    assert was is not None
    assert was != now


def test_more_than_a_kill_path_is_kept_whole_or_not_at_all():
    many = [config(f"c{number}", {}) for number in range(MOST)]
    assert snapshot(many) is None
    assert len(snapshot(many[:-1])) == MOST
