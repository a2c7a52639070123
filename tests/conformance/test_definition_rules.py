"""Rules in CEL of definitions, each written to a real v1.36.2 server, and what was said of it: ``definition_rules.json``.

Where it was taken nothing is said. What is refused here is refused there; what is taken here alone is named.
"""

import json
import re
from pathlib import Path

import pytest

from killcheck.embedded.api import celdefinitions
from killcheck.kube.objects import copy

RECORDED = json.loads(Path(__file__).with_name("definition_rules.json").read_text())
#: A real server refuses them: for what they cost, or for types that are not followed this far.
TAKEN_HERE = {
    "'%s'.format(self.n) == 'a'",
    "optional.of(self.n) == 1",
    "quantity(self.s) > 1",
    "self.?n == 1",
    "self.du.getFullYear() > 1",
    "self.e.all(x, x == 1)",
    "self.l.filter(x, x).size() > 1",
    "self.l.indexOf(1) > 0",
    "self.l.map(x)",
    "self.ll.flatten() == self.l",
    "self.lo.map(x, x.name).join() == 'a'",
    "self.s.matches('(?!a)')",
    "sets.contains(self.l, [1])",
    "sets.intersects(self.l, self.s)",
    "type(self.n) == 'int'",
    "type(self.n) == type(1)",
    "{'a': 1, 'b': 'c'} == {}",
    "{'a': 1}['b'] == 'x'",
}
#: Refused on both, in other words: how ANTLR fails, places in what ``celpy`` reads in other words, what nobody declared.
_OTHER_WORDS = re.compile(r"Syntax error|\.\?|cel\.bind|math\.|x, y, z")


def plain(cause):
    """A cause without the rule that it shows, and without its picture."""
    where, what = cause["field"].rpartition(".")[2], cause["message"]
    told = re.findall(r"ERROR: <input>:(.*)", what) or [re.sub(r"^Invalid value: \{.*\}: ", "", what)]
    return f"{where}: " + " & ".join(re.sub(r"selfType\d+", "selfType", one) for one in told)


def _said(path, rule):
    schema = copy(RECORDED["schema"])
    top = {"type": "object", "properties": {"spec": schema}}
    place = top if path is None else schema
    for step in (path or "").split("/") if path else ():
        place = place[step]
    place["x-kubernetes-validations"] = [rule if isinstance(rule, dict) else {"rule": rule}]
    return "; ".join(plain(cause) for cause in celdefinitions.broken(top, "spec.validation.openAPIV3Schema"))


@pytest.fixture(scope="module")
def told():
    """(rule, what is said of it here, what a real server said of it)"""
    return [(str(rule), _said(path, rule), theirs) for path, rule, theirs in RECORDED["rules"]]


def test_each_is_taken_or_refused_as_on_a_real_server(told):
    unlike = {rule: (said, theirs) for rule, said, theirs in told if bool(said) != bool(theirs)}
    assert not [rule for rule, (said, _) in unlike.items() if said]
    assert set(unlike) == TAKEN_HERE


def test_refusals_are_in_a_real_servers_words(told):
    unlike = [
        (rule, said, theirs)
        for rule, said, theirs in told
        if said and said != theirs and not _OTHER_WORDS.search(f"{theirs} {rule}")
    ]
    assert unlike == []
