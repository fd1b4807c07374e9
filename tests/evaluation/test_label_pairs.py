"""Labels in pairs: which improved together, and how far apart two labels are."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagloom.errors import TagloomError
from tagloom.evaluation.compare import Change, Comparison
from tagloom.evaluation.label_pairs import Gap, count_pairs, cross_label_gaps, improved_pairs, read_pair

gains = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9)


def comparison_of(differences: list[float]) -> Comparison:
    labels = [Change(f"label-{number}", 20, 50.0, 50.0 + gain) for number, gain in enumerate(differences)]
    labels.sort(key=lambda change: -change.difference)
    return Comparison(10, Change("mAP", 20, 50.0, 50.0), tuple(labels))


@given(gains, st.sampled_from([0.0, 1.0]))
def test_pairs_are_counted_as_a_loop_over_them_counts(differences, least):
    moves = [0 if abs(gain) <= least else int(np.sign(gain)) for gain in differences]
    pairs = list(itertools.combinations(moves, 2))
    counts = count_pairs(comparison_of(differences), least)
    assert counts.improved == sum(pair == (1, 1) for pair in pairs)
    assert counts.worsened == sum(pair == (-1, -1) for pair in pairs)
    assert counts.apart == sum(set(pair) == {1, -1} for pair in pairs)
    assert counts.unmoved == sum(0 in pair for pair in pairs)


@given(gains, st.integers(0, 12))
def test_pairs_that_improved_most_come_first(differences, count):
    pairs = improved_pairs(comparison_of(differences), count)
    every = sorted((min(pair) for pair in itertools.combinations(differences, 2) if min(pair) > 0), reverse=True)
    assert [min(one.difference, two.difference) for one, two in pairs] == every[:count]
    names = [frozenset((one.name, two.name)) for one, two in pairs]
    assert all(len(pair) == 2 for pair in names)
    assert len(set(names)) == len(names)


def test_gaps_are_absolute_and_skip_labels_that_were_not_measured():
    labels = Change("cow", 20, 60.0, 80.0), Change("horse", 20, 90.0, 75.0)
    result = Comparison(10, Change("mAP", 40, 75.0, 77.5), labels, without_positive=("sheep",))
    (gap,) = cross_label_gaps(result, [("cow", "horse"), ("cow", "sheep")])
    assert gap == Gap(("cow", "horse"), first=(60.0, 90.0), second=(80.0, 75.0))
    assert gap.widths == (30.0, 5.0)


def test_a_pair_is_read_with_spaces_and_with_commas_inside_labels():
    classes = ["cow", "horse", "table, round"]
    assert read_pair(" cow , horse", classes) == ("cow", "horse")
    assert read_pair("table, round,cow", classes) == ("table, round", "cow")
    assert read_pair("cow,table, round", classes) == ("cow", "table, round")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cow", "separated by a comma"),
        ("cow,", "separated by a comma"),
        ("cow,hors", "unknown label 'hors': did you mean 'horse'?"),
        ("cow,cow", "one label twice"),
    ],
)
def test_a_wrong_pair_says_what_is_wrong(text, message):
    with pytest.raises(TagloomError) as caught:
        read_pair(text, ["cow", "horse"])
    assert message in str(caught.value)
    assert f"--gap {text}" in str(caught.value)
