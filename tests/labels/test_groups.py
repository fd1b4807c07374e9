from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom.errors import RecipeError
from tagloom.labels.groups import group_classes


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    classes = draw(st.integers(1, 200))
    return classes, draw(st.integers(1, classes))


@given(sizes(), st.sampled_from(["random", "consecutive"]), st.integers(0, 5))
def test_every_class_is_in_exactly_one_group_and_no_query_is_idle(size: tuple[int, int], kind: str, seed: int) -> None:
    classes, groups = size
    parts = group_classes(classes, groups, kind, seed)
    assert len(parts) == groups
    assert sorted(member for part in parts for member in part) == list(range(classes))
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= 1


@pytest.mark.parametrize(("classes", "groups"), [(1, 1), (80, 80), (100, 100), (101, 100), (9600, 100)])
def test_there_are_at_most_a_hundred_groups_by_default(classes: int, groups: int) -> None:
    assert len(group_classes(classes)) == groups


def test_random_groups_follow_the_seed() -> None:
    assert group_classes(50, 5, "random", 1) == group_classes(50, 5, "random", 1)
    assert group_classes(50, 5, "random", 1) != group_classes(50, 5, "random", 2)
    assert group_classes(50, 5) != group_classes(50, 5, "consecutive")


def test_with_a_query_per_class_query_k_serves_class_k() -> None:
    assert group_classes(9, 9, "random") == [[number] for number in range(9)]


def test_given_groups_are_used_as_they_are() -> None:
    given_groups = [[4, 0], [2], [1, 3]]
    assert group_classes(5, grouping=given_groups) == given_groups
    assert group_classes(5, 3, tuple(map(tuple, given_groups))) == given_groups


@pytest.mark.parametrize(
    ("grouping", "says"),
    [
        ([[0, 1], [1, 2]], "class 1 is in group 0 and again in group 1"),
        ([[0, 1], []], "group 1 of grouping is empty"),
        ([[0], [2]], "1 classes are in no group of grouping: 1"),
        ([[0, 1], [3]], "group 1 of grouping contains 3"),
        ([[0, 1], [-1]], "contains -1"),
        ([[0, 1], [True]], "contains True"),
        ([[0, 1], ["cat"]], "contains 'cat'"),
        ([0, 1, 2], "list of lists"),
        ("by-colour", "Known: consecutive, random"),
    ],
)
def test_an_invalid_grouping_is_refused(grouping: str | Sequence[Sequence[int]], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        group_classes(3, grouping=grouping)


@pytest.mark.parametrize("groups", [0, 4])
def test_more_groups_than_classes_or_none_at_all_are_refused(groups: int) -> None:
    with pytest.raises(RecipeError, match="between 1 and 3"):
        group_classes(3, groups)


def test_a_count_that_contradicts_the_groups_is_refused() -> None:
    with pytest.raises(RecipeError, match="remove groups"):
        group_classes(3, 2, [[0], [1], [2]])
