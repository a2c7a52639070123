"""Label and field selectors: what they match, and what the API server says where they do not parse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killcheck.kube.selectors import (
    NOTHING,
    SelectorError,
    format_selector,
    from_match_labels,
    parse_fields,
    parse_labels,
)

LABELS = {"app": "vllm", "tier": "gpu", "count": "8", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("app=vllm", True),
        ("app==vllm", True),
        ("app!=vllm", False),
        ("nope!=x", True),
        ("app in (a,vllm)", True),
        ("app notin (a,vllm)", False),
        ("nope notin (a)", True),
        ("nope in (a)", False),
        ("app=vllm,tier=cpu", False),
        ("app=vllm,tier", True),
        ("count>7", True),
        ("count<8", False),
        ("app>7", False),
        ("empty=", True),
        ("empty", True),
        ("empty in ()", True),
        ("in in (in,notin)", False),
        (" app = vllm , !nope ", True),
        ("app in (,vllm)", True),
        ("app in (vllm,)", True),
    ],
)
def test_matching(selector, matches):
    assert parse_labels(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("app=", None),
        ("app,,tier", "found ',', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be "
            "an integer",
        ),
        ("-a", 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of alphanumeric'),
        (
            "a=-b",
            'unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label must be an empty string',
        ),
        ("a=" + "b" * 64, "unable to parse requirement: values[0][a]: Invalid value"),
    ],
)
def test_what_does_not_parse(selector, message):
    if message is None:
        parse_labels(selector)
        return
    with pytest.raises(SelectorError) as caught:
        parse_labels(selector)
    assert str(caught.value).startswith(message)


def test_selectors_as_objects():
    assert from_match_labels(None) == NOTHING
    assert not NOTHING.matches({})
    assert from_match_labels({}).empty
    expressions = [
        {"key": "app", "operator": "In", "values": ["vllm"]},
        {"key": "nope", "operator": "DoesNotExist"},
        {"key": "tier", "operator": "Exists"},
        {"key": "app", "operator": "NotIn", "values": ["x"]},
    ]
    selector = {"matchLabels": {"tier": "gpu"}, "matchExpressions": expressions}
    assert from_match_labels(selector).matches(LABELS)
    assert not from_match_labels(selector).matches(LABELS | {"nope": ""})
    with pytest.raises(SelectorError, match='"Gt" is not a valid label selector operator'):
        from_match_labels({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})


def test_the_string_of_a_scale():
    assert format_selector({"matchLabels": {"b": "2", "a": "1"}}) == "a=1,b=2"
    assert format_selector({"app": "vllm"}) == "app=vllm"
    assert format_selector({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}) == "a in (x,y)"


KEYS = st.sampled_from(["a", "b", "k8s.io/c"])
VALUES = st.sampled_from(["", "x", "y", "1", "20"])
TERMS = st.one_of(
    KEYS,
    KEYS.map("!{}".format),
    st.builds("{}={}".format, KEYS, VALUES),
    st.builds("{}!={}".format, KEYS, VALUES),
    st.builds("{} in ({},{})".format, KEYS, VALUES, VALUES),
    st.builds("{} notin ({})".format, KEYS, VALUES),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TERMS, max_size=4), st.dictionaries(KEYS, VALUES))
def test_what_is_printed_selects_the_same(terms, labels):
    selector = parse_labels(",".join(terms))
    assert parse_labels(str(selector)).matches(labels) == selector.matches(labels)
    assert selector.matches(labels) == all(parse_labels(term).matches(labels) for term in terms)


def test_field_selectors():
    pod = {"metadata.name": "p", "spec.nodeName": "gpu-1", "status.phase": "Running"}
    assert parse_fields("spec.nodeName=gpu-1,status.phase!=Failed").matches(pod.__getitem__)
    assert not parse_fields("spec.nodeName=").matches(pod.__getitem__)
    assert parse_fields("metadata.name==p").exact("metadata.name") == "p"
    assert parse_fields(r"metadata.name=a\,b").exact("metadata.name") == "a,b"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
    ],
)
def test_field_selectors_that_do_not_parse(selector, message):
    with pytest.raises(SelectorError) as caught:
        parse_fields(selector)
    assert str(caught.value) == message
