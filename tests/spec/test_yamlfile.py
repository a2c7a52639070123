"""YAML as Kubernetes reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killcheck.text import yamlfile
from killcheck.text.durations import format_duration, parse_duration
from killcheck.text.yamlfile import Document, YamlError, documents, each_document, format_path, reads_as_text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("off", False),
        ("On", True),
        ("y", True),
        ("N", False),
        ("yes", True),
        ("true", True),
        ("nO", "nO"),
        ("oN", "oN"),
        ("~", None),
        ("null", None),
        ("", None),
        ("1e3", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-12", -12),
        ("+3", 3),
        ("08", 8),
        ("03:00", "03:00"),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        ("1.2.3", "1.2.3"),
        ("0x", "0x"),
        ("'off'", "off"),
        ('"12"', "12"),
        ("!!str off", "off"),
        ("!!int '7'", 7),
        ("|-\n  off", "off"),
        ("<<", "<<"),
        ("8Gi", "8Gi"),
        ("-", [None]),
    ],
)
def test_scalars_mean_what_they_mean_to_go_yaml(written: str, read: object):
    assert documents(f"a: {written}\n" if written != "-" else "a:\n-\n", "f")[0].value == {"a": read}


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8))
def test_what_reads_as_text_does(text: str):
    if reads_as_text(text) and text.isalnum():
        assert documents(f"a: {text}", "f")[0].value == {"a": text}


TEXT = """\
# a comment
a:
  b: [1, {c: off}]
---
base: &base {x: 1, y-: 2}
m:
  <<: *base
  x: 9
"on": quoted
off: plain
m2: *base
"""


def test_every_value_knows_its_line():
    first, second = documents(TEXT, "f")
    assert (first.line, first.line_of(("a", "b", 1, "c")), second.line, second.line_of(("m", "x"))) == (2, 3, 5, 8)
    assert second.line_of(("m", "y-")) == 5  # where the merged mapping has it
    assert second.line_of(("m", "nowhere", "at", "all")) == 6
    assert second.line_of(("m2", "x")) == 5


def test_merges_and_aliases_are_followed_and_boolean_keys_noticed():
    value = documents(TEXT, "f")[1].value
    assert value["m"] == {"x": 9, "y-": 2}
    assert value["m2"] == {"x": 1, "y-": 2}
    assert documents(TEXT, "f")[1].boolean_keys == ((("false",), "off", 10),)
    again = documents("a: &x {k: 1}\nb: *x\nc: &x [3]\nd: &x 2\ne: *x\n", "f")[0]
    assert (again.value, again.line_of(("e",))) == ({"a": {"k": 1}, "b": {"k": 1}, "c": [3], "d": 2, "e": 2}, 5)


def test_the_raw_text_of_plain_scalars_only():
    doc = documents("a: off\nb: 'off'\nc: [0o17]", "f")[0]
    assert (doc.raw(("a",)), doc.raw(("b",)), doc.raw(("c", 0)), doc.raw(("d",))) == ("off", None, "0o17", None)


def test_duplicates_are_noticed_and_the_last_one_wins():
    doc = documents("a: 1\nb:\n  c: 1\n  c: 2\n", "f")[0]
    assert doc.value == {"a": 1, "b": {"c": 2}}
    assert doc.duplicates == ((("b", "c"), 4),)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: b: c", 1, "mapping values are not allowed"),
        ("a:\n\tb: 1", 2, "a tab character"),
        ("x: 1\na: {{ .Values.x }}\n", 2, "a key must be text"),
        ("x: 1\na: {{ .Values.x }} b\n", 2, "a template\\? render it first"),
        ("a: \x01", 1, "control characters are not allowed"),
        ("a: &a [*a]", 1, "an alias that contains itself"),
        ("? [a]\n: b", 1, "a key must be text"),
        ("m: {<<: 3}", 1, "map merge requires"),
    ],
)
def test_what_is_no_yaml_is_one_error_with_its_line(text: str, line: int, said: str):
    with pytest.raises(YamlError, match=said) as caught:
        documents(text, "f")
    assert caught.value.line == line


def lists(count):
    """Aliases of aliases in lists."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    return "\n".join(lines + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, count)])


def merges(count):
    """Mappings that are merged into mappings that are merged."""
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: x" for n in range(10)) + "}"]
    return "\n".join(
        lines
        + [
            f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}], own{i}: {{<<: *a{i - 1}}}}}"
            for i in range(1, count)
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        lists(9),
        merges(9),
        lists(4) + "\n---\n" + merges(4) + ("\n---\n" + lists(5)) * 9,
        "a: &a " + "x" * 2**20 + "\nb: [" + "*a, " * 40 + "]",
    ],
    ids=["lists", "merges", "documents", "text"],
)
def test_aliases_that_multiply_end_in_an_error_and_not_in_all_memory_or_time(text):
    with pytest.raises(YamlError, match="values by aliases: do they multiply"):
        documents(text, "f")
    assert isinstance(each_document(text, "f")[-1], YamlError)


def test_as_many_aliases_as_people_write_are_read():
    text = "base: &base {a: 1, b: [1, 2, 3], c: {d: e}}\n" + "\n".join(
        f"k{n}: {{<<: *base, f: *base}}" for n in range(2000)
    )
    assert documents(text, "f")[0].value["k1999"]["f"]["b"] == [1, 2, 3]


def test_more_values_than_any_text_has_are_not_read():
    with pytest.raises(YamlError, match="more than 4000000 values"):
        documents("[" + "0," * 4_000_001 + "]", "f")


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 200_000, "{a: " * 200_000, "- " * 200_000 + "x", "[" * 90_000 + "]" * 90_000]
)
def test_what_is_nested_deeper_than_a_stack_is_ends_in_an_error_and_not_in_a_crash(text: str):
    with pytest.raises(YamlError, match="nested more than 100 deep"):
        documents(text, "f")


def test_brackets_in_a_script_are_no_nesting():
    script = "[" * 2000
    assert documents(f"a: '{script}'", "f")[0].value == {"a": script}


def test_paths_read_as_people_write_them():
    assert format_path(("spec", "containers", 0, "env")) == "spec.containers[0].env"
    assert format_path(("metadata", "labels", "app.kubernetes.io/name")) == "metadata.labels['app.kubernetes.io/name']"


@given(st.integers(0, 10**9))
def test_durations_are_written_exactly(millis: int):
    assert parse_duration(format_duration(millis / 1000)) == millis / 1000


@pytest.mark.parametrize("text", ["", "5", "5 m", "m", "-5m", "5m1h", "1.m", "5min"])
def test_what_is_no_duration_says_what_was_expected(text: str):
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


def test_numbers_stay_numbers_where_pyyaml_was_loaded_anew(monkeypatch: pytest.MonkeyPatch):
    import importlib
    import sys

    assert documents("a: 1", "x")[0].value == {"a": 1}
    for name in [name for name in sys.modules if name == "yaml" or name.startswith("yaml.")]:
        if name != "yaml._yaml":
            monkeypatch.delitem(sys.modules, name)
    importlib.import_module("yaml")
    assert documents("a: 1\nb: [x, 2.5, 'y']", "x")[0].value == {"a": 1, "b": ["x", 2.5, "y"]}


#: Lines that documents of one text are made of, or spoilt by.
LINES = (
    "---",
    "--- # next",
    "--- x",
    "...",
    "",
    "# c",
    "%YAML 1.1",
    "a: 1",
    "b: |",
    "  - x",
    "  k: 'it",
    "it'",
    "c: [1,",
    "2]",
)
MORE = ("on: y", "a: 2", "d: &x {e: 1}", "f: *x", "\tg: 1", "? h", ": i", "\ufeff")


def _all_of(read):
    """What can be asked of the documents of a text, or why it has none."""
    try:
        return [(*_asked(doc), doc.duplicates, doc.boolean_keys) for doc in read()]
    except YamlError as error:
        return str(error)


def _asked(doc):
    paths = [(), *(((key,) for key in doc.value) if isinstance(doc.value, dict) else ())]
    return doc.value, doc.file, [(doc.line_of(path), doc.raw(path)) for path in paths]


@given(st.lists(st.lists(st.sampled_from((*LINES, *MORE)), max_size=5), min_size=1, max_size=6))
def test_a_document_that_was_read_before_is_as_if_it_were_read_anew(parts):
    """Bundles of manifests repeat each other: what is read once is told with the places of each."""
    text = "".join(f"{line}\n" for part in (*parts, *parts[::-1]) for line in ("---", *part))
    kept = documents("a: 1\n", "first")
    whole = _all_of(lambda: yamlfile._documents(text, "f", yamlfile._Repeated()))
    assert _all_of(lambda: documents(text, "f")) == whole
    assert kept[0].file == "first"


def test_what_one_reader_changes_the_next_does_not_see():
    (one,) = documents("a: {b: [1]}\n", "one")
    one.value["a"]["b"].append(2)
    (two,) = documents("a: {b: [1]}\n", "two")
    two.value["a"]["c"] = 3
    assert (one.value, two.value, two.file) == ({"a": {"b": [1, 2]}}, {"a": {"b": [1], "c": 3}}, "two")


def test_lines_are_those_of_the_file_where_some_of_it_was_left_out():
    gaps = ((1, 10), (2, 100))  # line 1 is the file's, line 2 its 12th, line 3 its 113th
    read, wrong = each_document("a: {b: 1}\nc: 2\nc: {yes: 3}\n---\nd: [\n", "f.yaml", gaps)
    assert isinstance(read, Document)
    assert [read.line_of(("a", "b")), read.line_of(("c", "true"))] == [1, 113]
    assert read.duplicates == ((("c",), 113),)
    assert read.boolean_keys == ((("c", "true"), "yes", 113),)
    assert isinstance(wrong, YamlError)
    assert wrong.line > 113
