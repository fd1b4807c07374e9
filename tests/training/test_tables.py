"""What a plan selects from its tables, and which images are held out."""

from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable
from tagloom.errors import DataError
from tagloom.recipe import recipe_from_dict
from tagloom.training import tables
from tagloom.training.log import RunLog
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables, focus, hold_out, load_tables, report_tables

RECIPE = recipe_from_dict({"data": {"holdout": 0.25}})


@pytest.fixture
def table() -> LabelTable:
    positive = np.random.default_rng(0).random((40, 4)) < 0.3
    return LabelTable(Path("photos"), [f"{row}.jpg" for row in range(40)], tuple("abcd"), csr_array(positive))


def test_focus_keeps_classes_in_the_order_asked_and_all_images(table):
    left, rows = focus(table, ("d", "b"), "all")
    assert left.classes == ("d", "b")
    assert rows.tolist() == list(range(40))
    np.testing.assert_array_equal(left.targets(slice(None)), table.targets(slice(None))[:, [3, 1]])


def test_focus_on_images_with_labels_keeps_exactly_those_that_have_one_of_the_classes(table):
    left, rows = focus(table, ("d", "b"), "with-labels")
    has = table.targets(slice(None))[:, [1, 3]].any(axis=1)
    assert rows.tolist() == np.flatnonzero(has).tolist()
    assert left.images == [table.images[row] for row in rows]
    assert 0 < len(rows) < 40


def test_unknown_labels_stay_unknown_in_focus(table):
    unknown = csr_array(~table.positive.toarray() & (np.arange(4) == 3))
    half = LabelTable(Path("photos"), table.images, table.classes, table.positive, exceptions=unknown)
    left, rows = focus(half, ("d", "a"), "with-labels")
    np.testing.assert_array_equal(left.known(slice(None)), half.known(rows)[:, [3, 0]])


def test_a_teacher_holds_out_what_its_student_holds_out(scenes):
    student = RunPlan(str(scenes / "train.csv"), str(scenes / "val.csv"), RECIPE)
    whole = load_tables(student)
    student_rows = {whole.table.images[row] for row in np.flatnonzero(whole.held_out)}
    assert len(student_rows) == 15
    for classes in (whole.table.classes[:8], whole.table.classes[8:]):
        for images in ("all", "with-labels"):
            part = load_tables(RunPlan(student.data, student.val, RECIPE, classes=classes, images=images))
            held = {part.table.images[row] for row in np.flatnonzero(part.held_out)}
            assert held == student_rows & set(part.table.images)
            assert part.table.classes == part.val.classes == classes


def test_no_more_images_are_held_out_than_thresholds_need(table, monkeypatch):
    assert hold_out(table, RECIPE).sum() == 10
    monkeypatch.setattr(tables, "MOST_HELD_OUT", 6)
    assert hold_out(table, RECIPE).sum() == 6


def test_nothing_is_held_out_where_it_would_have_no_label(table):
    assert hold_out(table, RECIPE).sum() == 10
    rare = LabelTable(Path("photos"), table.images, ("a",), csr_array(np.arange(40)[:, None] == 7))
    assert not hold_out(rare, RECIPE).any()
    assert not hold_out(table, recipe_from_dict({"data": {"holdout": 0.0}})).any()


def test_classes_without_an_image_to_learn_from_are_named(tmp_path):
    rows = "\n".join(f"{row}.jpg,cat" for row in range(8))
    (tmp_path / "train.csv").write_text(f"image,labels\n{rows}\n")
    (tmp_path / "classes.txt").write_text("cat\ndodo\nmoa\n")
    plan = RunPlan(str(tmp_path / "train.csv"), None, RECIPE, classes=("dodo", "moa"))
    with pytest.raises(DataError, match=r"train\.csv: no image to learn from has any of 'dodo', 'moa'"):
        load_tables(plan)


def test_a_validation_table_without_any_of_the_classes_measures_nothing(tmp_path):
    rows = "\n".join(f"{row}.jpg,cat|dog" for row in range(8))
    (tmp_path / "train.csv").write_text(f"image,labels\n{rows}\n")
    (tmp_path / "val.csv").write_text("image,labels\n9.jpg,dog\n")
    plan = RunPlan(str(tmp_path / "train.csv"), str(tmp_path / "val.csv"), RECIPE, classes=("cat",))
    assert load_tables(plan).val is None
    assert load_tables(RunPlan(plan.data, plan.val, RECIPE, classes=("dog",))).val is not None


def reported(classes: tuple[str, ...], folder: Path) -> str:
    """What a run on a table of these classes says when it starts."""
    positive = csr_array(np.ones((4, len(classes)), np.bool_))
    table = LabelTable(Path("photos"), [f"{row}.jpg" for row in range(4)], classes, positive)
    stream = StringIO()
    log = RunLog(folder, Console(file=stream, width=400, color_system=None))
    report_tables(Tables(table, np.zeros(4, np.bool_), None), RECIPE, SimpleNamespace(log=log, device="cpu"))
    return stream.getvalue()


def test_classes_that_differ_only_by_case_blanks_or_unicode_form_are_pointed_out(tmp_path):
    text = reported(
        ("cat", "Cat", "dining table", "dining  table", "caf\u00e9", "cafe\u0301", "dog", "[x]", "[X]"), tmp_path
    )
    for pair in ("'cat' and 'Cat'", "'dining table' and 'dining  table'", "'[x]' and '[X]'"):
        assert pair in text
    assert "dog" not in text
    assert '"event": "alike"' in (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    assert reported(("cat", "dog"), tmp_path) == ""
