"""JSON read and written by the quick library is what the standard one makes of it."""

import json

import pytest

from killcheck.text.jsontext import from_text, loads, packed, sifted

READ = [
    b' {"a": [1, -0, 1.0, 1e5, 0.1, true, null], "a": {}} ',
    b"123456789012345678901234567890",
    b"-9223372036854775809",
    b"1E400",
    b"NaN",
    b'"\\ud83d\\ude00 \\ud800 \\u0000 \xc3\xa9"',
    b"\xef\xbb\xbf[1]",
    '"\ud800"',
]


@pytest.mark.parametrize("text", READ)
def test_what_is_read_is_what_the_standard_library_reads(text):
    assert repr(loads(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", [b"[1,]", b"", b'"a\tb"', b"{'a': 1}", b"[1] 2", b'"\xff"'])
def test_what_is_no_json_is_refused_in_its_words(text):
    def said(read):
        try:
            read(text)
        except ValueError as error:
            return type(error), str(error)
        return None

    assert said(loads) == said(json.loads) is not None


def test_what_a_person_is_told_is_where():
    with pytest.raises(ValueError, match="no JSON from line 2, column 1"):
        from_text('{"a":\n}')
    with pytest.raises(ValueError, match="no text from byte 1"):
        from_text(b"{\xff}")


def test_what_is_nested_without_end_is_an_error_and_no_crash():
    with pytest.raises(RecursionError):
        loads("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deep"):
        from_text("[" * 100_000)


@pytest.mark.parametrize("indent", [0, 2])
@pytest.mark.parametrize(
    "value", [{"a": [], "b": {}, "c": [1, {"x": 'é\x1b"\\/'}], "d": None}, [True, 2**70, 1.5], {None: 1}]
)
def test_what_is_written_is_what_it_writes(value, indent):
    how = {"indent": 2} if indent else {"separators": (",", ":")}
    assert packed(value, indent=indent) == json.dumps(value, ensure_ascii=False, **how).encode()


def test_half_a_surrogate_pair_is_no_text_to_write():
    with pytest.raises(UnicodeEncodeError):
        packed({"a": "\ud800"})


@pytest.mark.parametrize(
    "text",
    [
        '{"items": [{"a": 1}, {"b": NaN}, null], "n": {"m": 1}}',
        '{"items": null}',
        '{"a": 1}',
        "[1]",
        '{"items": [1, ]}',
        "",
    ],
)
def test_a_list_is_sifted_as_it_is_read(text):
    def read(how, **more):
        try:
            return repr(how(text, **more))
        except ValueError as error:
            return str(error)

    assert read(sifted, worth=lambda item: True) == read(loads)


def test_what_is_not_worth_it_is_left_out():
    assert sifted('{"n": 1, "items": [{"a": 1}, {"b": 2}]}', lambda item: b"b" in item) == {"n": 1, "items": [{"b": 2}]}
