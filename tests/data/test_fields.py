import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom.data.parsing.fields import (
    SEPARATORS,
    join_labels,
    separator_by_classes,
    separator_by_look,
    split_labels,
)
from tagloom.errors import DataError

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
awkward_names = names | st.text("ab |;,\"\t[]'é", min_size=1, max_size=8)
JOINING = [separator for separator in SEPARATORS if separator]


@pytest.mark.parametrize(
    ("field", "separator", "expected"),
    [
        ("dog|dining table", "|", ["dog", "dining table"]),
        (" dog | cat |", "|", ["dog", "cat"]),
        ("dog||cat", "|", ["dog", "cat"]),
        ('"a|b"|c', "|", ["a|b", "c"]),
        ('"say ""hi""",x', ",", ['say "hi"', "x"]),
        ('5" nail|bolt', "|", ['5" nail', "bolt"]),
        ('"dining table" dog', " ", ["dining table", "dog"]),
        ("dog   cat", " ", ["dog", "cat"]),
        ("dining table, round", "", ["dining table, round"]),
        ('["dog", "dining table"]', "list", ["dog", "dining table"]),
        ("['dog', \"cat's eye\"]", "list", ["dog", "cat's eye"]),
        ("[147, 616 ]", "list", ["147", "616"]),
        ("[]", "list", []),
        ("", "|", []),
        ("", "list", []),
        ("  ", "", []),
    ],
)
def test_a_field_splits_into_its_names(field, separator, expected):
    assert split_labels(field, separator) == expected


@pytest.mark.parametrize("field", ["['a' 'b']", "[1, [2]]", "[1.5]", "dog", "[dog]", "[__import__('os')]"])
def test_a_field_that_is_not_a_list_is_refused_as_a_list(field):
    with pytest.raises(DataError, match="not a list of names"):
        split_labels(field, "list")


@given(st.lists(awkward_names, unique=True, max_size=5), st.sampled_from(JOINING))
def test_joined_names_split_into_themselves(labels, separator):
    assert split_labels(join_labels(labels, separator), separator) == labels


@given(st.lists(st.lists(awkward_names, unique=True, max_size=4), min_size=1), st.sampled_from(JOINING))
def test_a_column_is_read_back_without_being_told_its_separator(column, separator):
    fields = [join_labels(labels, separator) for labels in column]
    found = separator_by_look(fields)
    assert [split_labels(field, found) for field in fields] == column


@given(st.lists(st.lists(awkward_names, unique=True, max_size=4), min_size=1), st.sampled_from(JOINING))
def test_known_classes_never_make_a_column_unreadable(column, separator):
    classes = {name for labels in column for name in labels}
    fields = [join_labels(labels, separator) for labels in column]
    found = separator_by_classes(fields, classes)
    assert found is not None
    assert all(name in classes for field in fields for name in split_labels(field, found))


@given(st.lists(st.from_regex(r"[a-z]{1,6}( [a-z]{1,6}){0,2}", fullmatch=True), min_size=1))
def test_names_with_spaces_are_never_broken_by_guessing(column):
    assert separator_by_look(column) == ""
    assert separator_by_classes(column, set(column)) in ("|", ";", ",", "")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["dog", "a, b", "x|y"], "|"),
        (["dog", "a, b; c"], ";"),
        (["a, b", "", "c"], ","),
        (['"a|b"', "c;d"], ";"),
        (['"dining table" dog', "cat"], " "),
        (['"dining table"', "cat"], ""),
        (['["a", "b"]', "", "['c']"], "list"),
        (['["a", "b"]', "c|d"], "|"),
        (["", " "], ""),
        ([], ""),
    ],
)
def test_the_whole_column_decides_on_the_separator(fields, expected):
    assert separator_by_look(fields) == expected


@pytest.mark.parametrize(
    ("field", "classes", "expected"),
    [
        ("haze primary", {"haze", "primary", "clear"}, ["haze", "primary"]),
        ("great white shark, shark", {"great white shark, shark", "cat"}, ["great white shark, shark"]),
        ("a,b;c", {"a,b", "c"}, ["a,b", "c"]),
        ("dining table", {"dining", "table", "dining table"}, ["dining table"]),
    ],
)
def test_known_classes_decide_where_marks_cannot(field, classes, expected):
    assert split_labels(field, separator_by_classes([field, ""], classes)) == expected


def test_no_separator_fits_labels_that_are_not_classes():
    assert separator_by_classes(["a|b", "a|z"], {"a", "b"}) is None


def test_two_names_do_not_fit_into_a_field_for_one():
    with pytest.raises(DataError, match="2 names"):
        join_labels(["a", "b"], "")


@given(st.lists(names, max_size=4))
def test_json_lists_are_read_as_json_reads_them(labels):
    assert split_labels(json.dumps(labels), "list") == labels
