"""Silence taken for absence, and answers: against the same on dense arrays."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from tagloom.data import load_table
from tagloom.data.absent import columns_with_few_negatives, columns_without_negatives, presume_negative
from tagloom.data.audit import audit
from tagloom.data.corrections import Answer, correct, pair_fields, read_answers
from tagloom.data.table import LabelTable
from tagloom.errors import DataError


def table_of(state: np.ndarray, unlisted: str) -> LabelTable:
    """Make a table of an array of 1 (positive), 0 (negative) and -1 (unknown)."""
    other = state == (-1 if unlisted == "negative" else 0)
    names = tuple(f"c{column}" for column in range(state.shape[1]))
    images = [f"{row}.jpg" for row in range(len(state))]
    return LabelTable(
        Path(), images, names, csr_array(state == 1), csr_array(other) if other.any() else None, unlisted, source="t"
    )


def state_of(table: LabelTable) -> np.ndarray:
    every = np.arange(len(table))
    return np.where(table.known(every), table.targets(every).astype(int), -1)


def random_state(seed: int) -> np.ndarray:
    state = np.random.default_rng(seed).integers(-1, 2, (12, 5))
    state[:, 0] = np.where(state[:, 0] == 0, -1, state[:, 0])  # no negative
    state[:, 1] = 1
    return state


@pytest.mark.parametrize("unlisted", ["negative", "unknown"])
@pytest.mark.parametrize("seed", range(6))
def test_unknown_pairs_of_chosen_classes_become_negative_and_nothing_else_changes(unlisted, seed):
    state = random_state(seed)
    columns = np.random.default_rng(seed).random(5) < [1, 0.5, 0.5, 0.5, seed % 2]
    expected = np.where((state == -1) & columns, 0, state)
    assert (state_of(presume_negative(table_of(state, unlisted), columns)) == expected).all()


@pytest.mark.parametrize("unlisted", ["negative", "unknown"])
def test_all_classes_together(unlisted):
    state = np.where(random_state(9) == 1, 1, -1)
    table = presume_negative(table_of(state, unlisted), np.ones(5, bool))
    assert (state_of(table) == (state == 1)).all()
    assert table.exceptions is None or table.exceptions.nnz == 0


@pytest.mark.parametrize("unlisted", ["negative", "unknown"])
def test_classes_that_state_few_negatives_are_found(unlisted):
    state = np.array([[1, 1, 1, 1, -1], [1, 0, 1, 1, -1], [-1, -1, 0, 1, -1], [-1, 1, 0, 1, -1]])
    table = table_of(state, unlisted)
    assert columns_without_negatives(table).tolist() == [True, False, False, False, False]
    assert columns_with_few_negatives(table).tolist() == [True, True, False, False, False]


def test_an_audit_names_them(scenes):
    table = load_table(scenes / "train.csv")
    assert audit(table.select(range(4))).classes_with_few_negatives == []
    silent = table_of(np.where(table.targets(range(4)) == 1, 1, -1), "unknown")
    silent = LabelTable(table.root, table.images[:4], table.classes, silent.positive, None, "unknown")
    found = audit(silent).classes_with_few_negatives
    assert found == [name for name, any_ in zip(table.classes, table.targets(range(4)).any(0), strict=True) if any_]


@pytest.mark.parametrize("unlisted", ["negative", "unknown"])
@pytest.mark.parametrize("seed", range(4))
def test_answers_correct_a_table(unlisted, seed):
    state = random_state(seed)
    generator = np.random.default_rng(seed)
    cells = [(int(row), int(column)) for row, column in generator.integers(0, [12, 5], (20, 2))]
    answers = [Answer(f"{row}.jpg", f"c{column}", bool(generator.random() < 0.5)) for row, column in cells]
    expected = state.copy()
    for answer, (row, column) in zip(answers, cells, strict=True):
        expected[row, column] = answer.present
    result = correct(table_of(state, unlisted), answers, "answers.csv")
    assert (state_of(result.table) == expected).all()
    assert result.added == ((expected == 1) & (state != 1)).sum()
    assert result.removed == ((expected != 1) & (state == 1)).sum()
    assert result.added + result.removed + result.confirmed == len(set(cells))


def test_answers_are_read_back_whatever_image_and_label_are_called(tmp_path):
    image, label = pair_fields("=1+1.jpg", 'cat, "tabby"|x')
    path = tmp_path / "answers.csv"
    quoted = label.replace('"', '""')
    path.write_text(f'image,label,said,answer\n{image},"{quoted}",yes,No\nb.jpg,dog,no,\n', encoding="utf-8")
    assert read_answers(path) == [Answer("./=1+1.jpg", 'cat, "tabby"|x', False)]
    table = LabelTable(Path(), ["=1+1.jpg"], ('cat, "tabby"|x',), csr_array(np.ones((1, 1), bool)))
    assert correct(table, read_answers(path), "a").removed == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,label\na.jpg,cat\n", "no column 'answer'"),
        ("image,label,answer\na.jpg,cat,perhaps\n", "line 2: the answer is 'perhaps'. Write yes, no"),
        ("image,label,answer\na.jpg,cat|dog,yes\n", "found 2 labels"),
    ],
)
def test_a_file_of_answers_that_cannot_be_meant_is_refused(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_answers(tmp_path / "a.csv")


def test_answers_about_something_else_are_refused():
    table = table_of(random_state(0), "negative")
    with pytest.raises(DataError, match=r"z\.jpg is not an image"):
        correct(table, [Answer("z.jpg", "c0", True)], "a.csv")
    with pytest.raises(DataError, match="'c9' is not one of the 5 classes"):
        correct(table, [Answer("1.jpg", "c9", True)], "a.csv")
