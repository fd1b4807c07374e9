"""Plain data becomes dataclasses with every name and type checked, and strangers' YAML is read safely."""

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom.errors import RecipeError
from tagloom.recipe.filling import fill
from tagloom.recipe.yaml_text import MAX_YAML_CHARACTERS, read_yaml, write_yaml


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    pair: tuple[float, float] | None = None


@dataclass(frozen=True)
class Outer:
    name: str = ""
    count: int = 1
    on: bool = False
    kind: Literal["left", "right"] = "left"
    names: tuple[str, ...] = ()
    inner: Inner = field(default_factory=Inner)
    options: dict[str, Any] = field(default_factory=dict)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
INNERS = st.builds(Inner, rate=FINITE, pair=st.none() | st.tuples(FINITE, FINITE))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | FINITE | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OUTERS = st.builds(
    Outer,
    name=st.text(max_size=20),
    count=st.integers(-(2**40), 2**40),
    on=st.booleans(),
    kind=st.sampled_from(["left", "right"]),
    names=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    inner=INNERS,
    options=st.dictionaries(
        st.text(max_size=5), st.integers(-(2**63) + 1, 2**63 - 1) | st.text(max_size=5), max_size=3
    ),
)


@given(OUTERS)
def test_what_was_filled_can_be_taken_apart_and_filled_again(outer):
    assert fill(Outer, asdict(outer), "here") == outer


@given(OUTERS)
def test_settings_survive_the_way_through_yaml(outer):
    plain = asdict(outer) | {"names": list(outer.names)}
    plain["inner"]["pair"] = None if outer.inner.pair is None else list(outer.inner.pair)
    assert fill(Outer, read_yaml(write_yaml(plain), "here"), "here") == outer


@given(PLAIN)
def test_any_plain_data_either_fills_or_is_refused_by_our_own_error(content):
    with suppress(RecipeError):
        assert isinstance(fill(Outer, content, "here"), Outer)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_by_our_own_error(text):
    with suppress(RecipeError):
        read_yaml(text, "here")


def test_nothing_at_all_gives_the_defaults():
    assert fill(Outer, None, "here") == Outer()
    assert fill(Outer, {"inner": None}, "here") == Outer()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1], "expected a list of 'name: value' lines, found list"),
        ({"cuont": 1}, "did you mean 'count'?"),
        ({"inner": {"raet": 1}}, "inner: unknown setting 'raet': did you mean 'rate'?"),
        ({"kind": "lft"}, "did you mean 'left'?"),
        ({"kind": ["left"]}, "unknown value"),
        ({"count": 1.5}, "count: expected a whole number, found 1.5"),
        ({"count": True}, "expected a whole number, found True"),
        ({"count": "three"}, "expected a whole number, found 'three'"),
        ({"on": 1}, "expected true or false, found 1"),
        ({"name": 3}, "expected text, found 3"),
        ({"name": None}, "expected text, found None"),
        ({"inner": {"rate": "fast"}}, "inner: rate: expected a number, found 'fast'"),
        ({"inner": {"rate": True}}, "expected a number, found True"),
        ({"inner": {"rate": 10**400}}, "expected a number"),
        ({"inner": {"pair": [1]}}, "expected a list of 2 values, found [1]"),
        ({"inner": {"pair": 1}}, "expected a list of 2 values, found 1"),
        ({"names": "abc"}, "expected a list, found 'abc'"),
        ({"names": ["a", 1]}, "names: expected text, found 1"),
        ({"options": []}, "options: expected 'name: value' lines, found []"),
        ({"options": {1: 2}}, "options: every name must be text"),
        ({3: 4}, "unknown setting '3'"),
    ],
)
def test_a_wrong_name_or_type_says_where_it_is_and_what_is_right(content, message):
    with pytest.raises(RecipeError) as caught:
        fill(Outer, content, "mine.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.yaml: ")


def test_a_long_value_is_cut_short_in_the_message():
    with pytest.raises(RecipeError) as caught:
        fill(Outer, {"count": "x" * 100_000}, "here")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("text", "value"), [("1e-3", 0.001), ("-2E5", -200000.0), ("+1e2", 100.0), ("1.5e-2", 0.015)])
def test_numbers_with_an_exponent_are_numbers_even_without_a_dot(text, value):
    assert read_yaml(f"rate: {text}", "here") == {"rate": value}
    assert fill(Inner, read_yaml(f"rate: {text}", "here"), "here").rate == value


@pytest.mark.parametrize("text", ["1e", "e5", "12e3x", "1e-", "0x1e3z"])
def test_what_only_resembles_a_number_stays_text(text):
    assert read_yaml(text, "here") == text


def test_aliases_are_refused_before_they_unfold():
    layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    layers += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(RecipeError, match=r"bomb\.yaml, line 2: anchors and aliases"):
        read_yaml("\n".join(layers), "bomb.yaml")


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", "x: {a: 1, a: 2}", "1: a\n1: b"])
def test_a_key_that_is_given_twice_is_refused_with_its_line(text):
    with pytest.raises(RecipeError, match=r"here, line \d: .* is given twice"):
        read_yaml(text, "here")


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "!mine x",
        "a: [1, 2",
        "\t- x",
        "a: b: c",
        "2001-13-45",
        "9" * 5000,
        "? [1, 2]\n: 3",
        "? {a: 1}\n: 3",
        "<<: {a: 1}",
        "a\n---\nb",
        "\x00",
    ],
)
def test_yaml_that_cannot_be_plain_data_is_refused(text):
    with pytest.raises(RecipeError, match="here"):
        read_yaml(text, "here")


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 20_000, "- " * 50_000])
def test_deep_nesting_is_refused(text):
    with pytest.raises(RecipeError, match="here"):
        read_yaml(text, "here")


def test_a_huge_text_is_refused_without_being_parsed():
    started = time.monotonic()
    with pytest.raises(RecipeError, match="too many for a recipe"):
        read_yaml("a" * (MAX_YAML_CHARACTERS + 1), "here")
    assert time.monotonic() - started < 0.5


def test_many_keys_are_read_in_linear_time():
    many = read_yaml("\n".join(f"k{number}: 1" for number in range(20_000)), "here")
    assert len(many) == 20_000


@pytest.mark.parametrize(
    "text",
    [
        "!!bool x",
        "!!int ''",
        "!!float ''",
        "!!timestamp x",
        "a: 2020-01-01",
        "a: !!set {b}",
        "a: !!binary aGk=",
        "a: .nan",
        "a: [1, -.inf]",
        "a: 9223372036854775808",
        "a: 0x" + "f" * 200,
        "a: " + "1:" * 100_000 + "1",
        "a: " + "1:" * 100_000 + "1.5",
        "a: " + "[" * 40 + "]" * 40,
    ],
)
def test_what_is_no_plain_data_is_refused_at_once(text):
    started = time.monotonic()
    with pytest.raises(RecipeError, match=r"mine\.yaml"):
        read_yaml(text, "mine.yaml")
    assert time.monotonic() - started < 10


def test_what_is_missing_is_named():
    @dataclass(frozen=True)
    class Needy:
        name: str
        count: int = 1

    with pytest.raises(RecipeError, match="here: 'name' is missing"):
        fill(Needy, {"count": 2}, "here")
