"""Rules of custom resources in CEL: when they are asked, what they may call, and those that nobody here can read."""

import pytest

from killcheck.embedded.api import celrules

pytest.importorskip("celpy")


def of(rule, **more):
    return {
        "type": "object",
        "x-kubernetes-validations": [{"rule": rule} | more],
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string"}},
            "x": {"type": "number"},
            "for": {"type": "string"},
            "a-b": {"type": "string"},
            "age": {"type": "string", "format": "duration"},
            "m": {
                "type": "object",
                "additionalProperties": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'no'"}]},
            },
        },
    }


def said(schema, value, old=None):
    return [f"{cause['field']}: {cause['message']}" for cause in celrules.check(schema, value, old)]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.s.find('^[^/]+').endsWith('example.com')", {"s": "a.example.com/x"}),
        ("self.s.split('/')[1] == 'x' && self.s.indexOf('/') == 1", {"s": "a/x"}),
        ("self.s.lowerAscii() == 'ab' && self.s.replace('A', 'b') == 'bB'", {"s": "AB"}),
        ("self.l.join('-') == 'a-b' && self.l.isSorted() && size(self.l) == 2", {"l": ["a", "b"]}),
        ("self.l.all(e, e in ['a', 'b']) && self.l.exists_one(e, e == 'a')", {"l": ["a", "b"]}),
        ("quantity(self.s).compareTo(quantity('1Gi')) == 0 && isQuantity(self.s)", {"s": "1024Mi"}),
        ("quantity(self.s).add(quantity('500m')).isGreaterThan(quantity('1'))", {"s": "600m"}),
        ("self.age >= duration('30s') && self.age < duration('1h')", {"age": "5m"}),
        ("self.x > 1.0", {"x": 2}),
        ("self.__for__ == 'a' && self.a__dash__b == 'b'", {"for": "a", "a-b": "b"}),
        ("!has(self.n) || self.n > 0", {}),
        ("'k' in self.m", {"m": {"k": "yes"}}),
        ("self.?s.orValue('none') == 'none' && !self.?s.hasValue()", {}),
        ("self.?m.k.orValue('') == '.?s.orValue(' && self.?m.k.hasValue()", {"m": {"k": ".?s.orValue("}}),
        ("self.l.map(e, e != 'b', e + '!') == ['a!', 'c!']", {"l": ["a", "b", "c"]}),
        (
            "sets.contains(self.l, ['a']) && !sets.intersects(self.l, ['z']) && sets.equivalent(['b', 'a'], self.l)",
            {"l": ["a", "b"]},
        ),
        ("math.greatest(self.n, 3) == 5 && math.least([self.n, 3]) == 3", {"n": 5}),
        (
            "'%s is %d, %.2f and 100%%'.format([self.s, self.n, self.x]) == 'a is 2, 0.50 and 100%'",
            {"s": "a", "n": 2, "x": 0.5},
        ),
        ("isIP(self.s) && ip(self.s).family() == 4 && cidr('10.0.0.0/8').containsIP(self.s)", {"s": "10.1.2.3"}),
        (
            "cidr(self.s).prefixLength() == 24 && cidr(self.s) != cidr(self.s).masked() && !isIP(self.s)",
            {"s": "10.1.2.3/24"},
        ),
        (
            "url(self.s).getScheme() == 'https' && url(self.s).getHost() == 'a.b:1' && url(self.s).getHostname() == 'a.b'",
            {"s": "https://a.b:1/c?d=e"},
        ),
        (
            "isURL(self.s) && url(self.s).getQuery()['d'] == ['e'] && url(self.s).getEscapedPath() == '/c'",
            {"s": "https://a.b:1/c?d=e"},
        ),
    ],
)
def test_what_a_rule_may_say(rule, value):
    assert said(of(rule), value) == []
    assert said(of(f"!({rule})"), value) == [f"<nil>: Invalid value: failed rule: !({rule})"]


def test_a_transition_is_asked_only_of_an_update_that_changes_something():
    schema = of("self.n >= oldSelf.n")
    assert said(schema, {"n": 1}) == []
    assert said(schema, {"n": 1}, {"n": 2}) == ["<nil>: Invalid value: failed rule: self.n >= oldSelf.n"]
    assert said(of("self.n > 5"), {"n": 1}, {"n": 1}) == []


def test_an_optional_old_value_is_there_or_not():
    schema = of("!oldSelf.hasValue() || oldSelf.value().n == self.n", optionalOldSelf=True)
    assert said(schema, {"n": 1}) == []
    assert len(said(schema, {"n": 1}, {"n": 2})) == 1
    schema = of("oldSelf.?n.orValue(7) == self.n || oldSelf.?n.hasValue()", optionalOldSelf=True)
    assert len(said(schema, {"n": 1})) == 1
    assert said(schema, {"n": 7}) == []
    assert said(schema, {"n": 1}, {"n": 2}) == []


def test_the_message_the_reason_and_the_place_are_the_rules_own():
    schema = of("false", reason="FieldValueDuplicate", fieldPath=".s", messageExpression="'n is ' + string(self.n)")
    assert said(schema, {"n": 3}) == ["s: Duplicate value: n is 3"]
    assert said(of("false"), {"m": {"k": "no"}}) == [
        "<nil>: Invalid value: failed rule: false",
        "m[k]: Invalid value: \"no\": failed rule: self != 'no'",
    ]


def test_what_cannot_be_evaluated_is_refused_and_says_why():
    assert "IP" in said(of("ip(self.s).family() == 4"), {"s": "x"})[0]
    assert said(of("self.n > 1"), {}) == ['<nil>: Invalid value: "object": no such key: n evaluating rule: self.n > 1']


def test_a_rule_that_nobody_here_can_read_is_named_and_holds_nothing_up():
    schema = of("semver(self.s).major() == 4")
    assert said(schema, {"s": "x"}) == []
    (words,) = celrules.unread(schema)
    assert words.startswith('rule "semver(self.s).major() == 4" is not evaluated here: it calls major, semver')
    assert celrules.unread(of("self.l[?0].orValue('') == ''"))[0].startswith('rule "self.l[?0].orValue')
