"""Values that a user wrote are refused with their name, what was found and what is allowed."""

from math import inf, nan

import pytest

from tagloom.checks import check_choice, check_number, check_positive, check_whole
from tagloom.errors import RecipeError


@pytest.mark.parametrize("value", [0, 6, 2.0, True, "3", None])
def test_a_whole_number_outside_its_range_is_refused(value):
    with pytest.raises(RecipeError, match=r"size is .*; it must be a whole number from 1 to 5"):
        check_whole("size", value, 1, 5)


def test_a_whole_number_may_have_no_upper_end():
    check_whole("size", 10**12, 1)
    with pytest.raises(RecipeError, match="of at least 1"):
        check_whole("size", 0, 1)


@pytest.mark.parametrize("value", [-0.1, 1.1, inf, nan, True, "1"])
def test_a_number_outside_its_range_is_refused(value):
    with pytest.raises(RecipeError, match=r"share is .*; it must be a number from 0 to 1"):
        check_number("share", value, 0, 1)


def test_the_ends_of_a_range_belong_to_it_unless_it_ends_below():
    for value in (0, 1.0):
        check_number("share", value, 0, 1)
    with pytest.raises(RecipeError, match="up to, but not including, 1"):
        check_number("share", 1.0, 0, 1, below=True)


@pytest.mark.parametrize("value", [-1, inf, nan])
def test_a_number_without_upper_end_must_still_be_finite(value):
    check_number("weight", 1e300, 0)
    with pytest.raises(RecipeError, match=r"weight is .*; it must be a number of at least 0"):
        check_number("weight", value, 0)


@pytest.mark.parametrize("value", [0, -1.0, inf, nan, True, "1"])
def test_what_must_be_positive_is_neither_zero_nor_infinite(value):
    check_positive("tau", 1e-9)
    with pytest.raises(RecipeError, match=r"tau is .*; it must be a number greater than 0"):
        check_positive("tau", value)


def test_a_choice_outside_its_table_is_refused_with_the_nearest():
    check_choice("fit", "crop", ["squeeze", "crop"])
    with pytest.raises(RecipeError, match="unknown fit 'crp': did you mean 'crop'"):
        check_choice("fit", "crp", ["squeeze", "crop"])
