"""Patterns that are compiled when they are first asked."""

import copy
import importlib
import pkgutil
import re

import pytest

import killcheck
from killcheck.text import lazy_re


def test_it_answers_as_a_compiled_pattern_does():
    lazy, now = (one.compile(r"(?P<a>x+)|y", re.IGNORECASE) for one in (lazy_re, re))
    assert [lazy.sub("-", "aXXby"), lazy.pattern, lazy.groups] == [now.sub("-", "aXXby"), now.pattern, now.groups]
    assert lazy.match("XX")["a"] == "XX"
    assert lazy.fullmatch("z") is None
    assert copy.deepcopy(lazy).search("by")


def test_what_is_wrong_is_said_when_it_is_first_asked(monkeypatch):
    monkeypatch.setattr(lazy_re, "_made", [])
    wrong = lazy_re.compile("(")
    with pytest.raises(re.error, match="unterminated"):
        wrong.search("x")


def test_every_pattern_at_the_top_of_a_module_compiles():
    for found in pkgutil.walk_packages(killcheck.__path__, "killcheck."):
        if not found.name.startswith("killcheck.embedded.nodes."):  # some of which run inside containers
            importlib.import_module(found.name)
    assert lazy_re.compile_all() > 300
