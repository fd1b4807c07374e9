"""What came out of runs: means and spreads, places on an axis, and the files of the table."""

import csv
import json
import statistics
from pathlib import Path

import pytest

from tagloom.errors import TagloomError
from tagloom.recipe.pictures import Preprocess
from tagloom.report.study import as_csv, as_markdown, write_tables
from tagloom.studies.outcomes import Outcome, collect, finished_runs
from tagloom.tagger.spec import TaggerSpec, write_spec


def run_folder(folder: Path, value: float, size: int = 64, recipe: str = "quick", **metrics) -> Path:
    """A folder as a finished run leaves it, without the network."""
    folder.mkdir(parents=True)
    found = {"validation": {"mAP": value, "CF1": value - 1, "OF1": value - 2, "AP": [value]}, **metrics}
    spec = TaggerSpec(
        ("cat", "dog"),
        Preprocess(size=size),
        "test_efficientnet",
        "gap",
        recipe={"name": recipe, "preprocess": {"size": size}},
        metrics=found,
        data={"parameters": 2_000_000},
    )
    write_spec(spec, folder)
    (folder / "log.jsonl").write_text('{"seconds": 2.5}\n{"event": "x"}\nnot ours\n{"seconds": 1.5}\n')
    return folder


@pytest.fixture
def outcomes(tmp_path) -> list[Outcome]:
    values = {"a-seed0": 50.0, "a-seed1": 53.0, "a-seed2": 59.0, "b": 40.0}
    return finished_runs(
        [run_folder(tmp_path / name, value, 64 if name == "b" else 96) for name, value in values.items()]
    )


def test_folders_that_differ_in_their_seed_make_a_row(outcomes):
    assert [(row.name, len(row.runs)) for row in outcomes] == [("a", 3), ("b", 1)]
    assert outcomes[0].mean("mAP") == pytest.approx(54.0)
    assert outcomes[0].spread("mAP") == pytest.approx(statistics.stdev([50, 53, 59]))
    assert outcomes[1].spread("mAP") is None
    assert outcomes[0].seconds == pytest.approx(4.0)


def test_the_tables_say_the_same(outcomes, tmp_path):
    result = write_tables(collect(outcomes, ["mAP", "CF1"]), tmp_path / "new" / "out")
    lines = (tmp_path / "new" / "out" / "table.md").read_text().splitlines()
    assert lines[0] == "| variant | seeds | mAP | CF1 | seconds of training |"
    assert lines[2] == "| a | 3 | 54.00 ± 4.58 | 53.00 ± 4.58 | 4 |"
    assert lines[3] == "| b | 1 | 40.00 | 39.00 | 4 |"
    rows = list(csv.DictReader((tmp_path / "new" / "out" / "table.csv").open()))
    assert [float(row["mAP"]) for row in rows] == [54.0, 40.0]
    assert [row["mAP spread"] for row in rows] == ["4.5826", ""]
    content = json.loads((tmp_path / "new" / "out" / "results.json").read_text())
    assert [run["mAP"] for run in content["rows"][0]["runs"]] == [50.0, 53.0, 59.0]
    assert "54.00 ± 4.58" in repr(result)
    assert "54.00 ± 4.58" in result._repr_html_()


def test_rows_are_placed_by_a_setting_or_by_what_they_cost(outcomes):
    by_size = collect(outcomes, against="preprocess.size")
    assert [row.place for row in by_size.outcomes] == [96, 64]
    assert [row.place for row in collect(outcomes, against="parameters").outcomes] == [2.0, 2.0]
    assert [row.place for row in collect(outcomes, against="seconds").outcomes] == [4.0, 4.0]
    with pytest.raises(TagloomError, match=r"preprocess\.sise: no run has such a setting"):
        collect(outcomes, against="preprocess.sise")


def test_multiply_adds_grow_with_the_pictures(outcomes):
    pytest.importorskip("torch")
    wide, narrow = (row.place for row in collect(outcomes, against="multiply-adds").outcomes)
    assert wide == pytest.approx(narrow * (96 / 64) ** 2, rel=0.1)
    assert "multiply-adds, G" in as_markdown(collect(outcomes, against="multiply-adds"))
    assert "multiply-adds, G" in as_csv(collect(outcomes, against="multiply-adds"))


def test_a_metric_that_runs_do_not_have_is_named_with_those_they_have(outcomes):
    with pytest.raises(TagloomError, match="did you mean 'mAP'"):
        collect(outcomes, ["map"])


def test_merged_teachers_have_a_column_of_their_own(tmp_path):
    teachers = {"co": {"validation": 44.0}, "dis": {"validation": 45.0}}
    rows = finished_runs(
        [run_folder(tmp_path / "alone", 50.0), run_folder(tmp_path / "taught", 51.0, teachers=teachers)]
    )
    lines = as_markdown(collect(rows, ["mAP"])).splitlines()
    assert lines[0] == "| variant | seeds | mAP | teachers, mAP | seconds of training |"
    assert lines[2:] == ["| alone | 1 | 50.00 | – | 4 |", "| taught | 1 | 51.00 | co 44.00, dis 45.00 | 4 |"]


def test_a_tagger_that_was_never_measured_is_refused(tmp_path):
    folder = run_folder(tmp_path / "a", 1.0)
    spec = json.loads((folder / "tagger.json").read_text())
    (folder / "tagger.json").write_text(json.dumps({**spec, "metrics": {}}))
    with pytest.raises(TagloomError, match="never measured"):
        finished_runs([folder])
