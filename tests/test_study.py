"""`tagloom.study`: real runs of a tiny network, kept, resumed and shared."""

import json
from pathlib import Path

import pytest

import tagloom
from tagloom.errors import RecipeError, TagloomError
from tagloom.studies.variants import Variant

pytest.importorskip("torch")

SMALL = {
    "backbone.name": "test_efficientnet",
    "backbone.weights": "none",
    "preprocess.size": 32,
    "data.holdout": 0.25,
    "training.epochs": 1,
    "training.batch_size": 16,
}


@pytest.fixture
def run(scenes, feature_cache, tmp_path):
    """Run a study on the shared scenes."""

    def run(rows, **options):
        given = {"val": scenes / "val.csv", "out": tmp_path / "out", "seeds": 1, **options}
        settings = {**SMALL, **given.pop("settings", {})}
        return tagloom.study(
            rows, scenes / "train.csv", cache=feature_cache, show_progress=False, settings=settings, **given
        )

    return run


def written(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("tagger.json")}


def test_recipes_over_seeds_give_means_and_finished_runs_are_kept(run, tmp_path):
    result = run(["quick-gap"], seeds=2)
    assert [(row.name, len(row.runs)) for row in result.outcomes] == [("quick-gap", 2)]
    first = written(tmp_path / "out")
    assert set(first) == {"quick-gap-seed0/tagger.json", "quick-gap-seed1/tagger.json"}
    specs = [json.loads((tmp_path / "out" / name).read_text()) for name in first]
    assert sorted(spec["recipe"]["training"]["seed"] for spec in specs) == [0, 1]
    assert result.outcomes[0].values("mAP") == pytest.approx(
        [spec["metrics"]["validation"]["mAP"] for spec in sorted(specs, key=lambda s: s["recipe"]["training"]["seed"])]
    )
    again = run(["quick-gap", Variant("drop", "quick-gap", ("head.options.dropout=0.5",))], seeds=[1])
    assert {name: time for name, time in written(tmp_path / "out").items() if name in first} == first
    assert [(row.name, len(row.runs)) for row in again.outcomes] == [("quick-gap", 1), ("drop", 1)]


def test_a_folder_with_another_run_is_refused_before_anything_runs(run, tmp_path):
    run(["quick-gap"])
    with pytest.raises(TagloomError, match=r"quick-gap-seed0: holds another run .*optimiser\.learning_rate was"):
        run(["quick", "quick-gap"], settings={"optimiser.learning_rate": 0.5})
    assert not (tmp_path / "out" / "quick-seed0").exists()


def test_figures_of_another_validation_table_are_not_taken_for_this_one(run, scenes):
    run(["quick-gap"])
    with pytest.raises(TagloomError, match="was trained and measured on"):
        run(["quick-gap"], val=scenes / "test.csv")


def test_a_wrong_setting_of_the_last_row_is_found_before_the_first_runs(run, tmp_path):
    for rows, match in [
        (["quick-gap", Variant("b", "quick-gap", ("head.options.widht=3",))], "widht"),
        (["quick-gap", Variant("b", "quick-gap", ("distill.kk=3",))], "did you mean 'k'"),
        (["quick-gap", "quik"], "did you mean 'quick'"),
        (["quick-gap", "quick-gap"], "two rows"),
    ]:
        with pytest.raises(RecipeError, match=match):
            run(rows)
    assert not (tmp_path / "out").exists()


def test_a_sweep_is_placed_on_its_axis_and_can_be_drawn_from_finished_runs(run, tmp_path):
    result = run(["quick-gap"], sweeps={"preprocess.size": [32, 64]})
    assert [(row.line, row.place) for row in result.outcomes] == [("quick-gap", 32), ("quick-gap", 64)]
    folders = [run.folder for row in result.outcomes for run in row.runs]
    finished = tagloom.study(folders, against="preprocess.size")
    assert [row.place for row in finished.outcomes] == [32, 64]
    assert [row.mean("mAP") for row in finished.outcomes] == [row.mean("mAP") for row in result.outcomes]


def test_rows_with_and_without_teachers_train_equally_long():
    from tagloom.api.study_runs import choices

    def chosen(recipe, *settings):
        found, distill = choices(Variant("a", recipe, settings), seed=0)
        return found.training.epochs, distill

    for settings in ((), ("distill.student_epochs=7",)):
        for recipe in ("quick", "cpsd-coco-resnet101-448"):
            alone, none = chosen(recipe, "distill.k=0", *settings)
            epochs, taught = chosen(recipe, "distill.k=2", *settings)
            assert none is None
            assert alone == (taught.student_epochs or epochs) == (7 if settings else epochs)
    _, paper = chosen("cpsd-coco-resnet101-448", "distill.kinds=[random]", "distill.random_sizes=random")
    assert (paper.kinds, paper.weights, paper.random_sizes) == (("random",), {"random": 1.0}, "random")
    _, one = chosen("cpsd-coco-resnet101-448", "distill.k=1", "distill.random_sizes=random")
    assert (one.kinds, one.weights) == (("self",), {"self": 1.0})


@pytest.mark.slow
def test_no_parts_are_the_baseline_and_teachers_are_trained_once_for_all_rows(run, tmp_path):
    teachers = {"distill.teacher_epochs": 1, "distill.weights": 0.1}
    sweeps = {"distill.k": [0, 2], "distill.kinds": [["co"], ["co", "dis"]]}
    result = run(["quick-gap"], settings=teachers, sweeps=sweeps)
    out = tmp_path / "out"
    alone, also_alone, one, both = (row.runs[0].folder for row in result.outcomes)
    assert alone == also_alone
    assert not (alone / "teachers").exists()
    assert sorted(path.name for path in (one / "teachers").iterdir()) == ["co-1", "co-2"]
    assert sorted(path.name for path in (both / "teachers").iterdir()) == ["co-1", "co-2", "dis-1", "dis-2"]
    same = [(folder / "teachers" / "co-1" / "model.safetensors").read_bytes() for folder in (one, both)]
    starts = [(folder / "teachers" / "co-1" / "log.jsonl").read_text() for folder in (one, both)]
    assert same[0] == same[1]
    assert starts[0] == starts[1]  # copied, not trained again
    plan = json.loads((both / "run.json").read_text())
    assert plan["distill"]["weights"] == {"co": 0.1, "dis": 0.1}
    assert len(written(out)) == 3 + 6


def test_a_run_that_another_process_works_at_is_left_to_it(run, tmp_path):
    from tagloom.training.lock import locked

    busy = tmp_path / "out" / "quick-gap-seed0"
    busy.mkdir(parents=True)
    with locked(busy):
        result = run(["quick-gap"], seeds=2)
    assert [done.folder.name for done in result.outcomes[0].runs] == ["quick-gap-seed1"]
    later = run(["quick-gap"], seeds=2)
    assert [done.folder.name for done in later.outcomes[0].runs] == ["quick-gap-seed0", "quick-gap-seed1"]


def test_a_run_that_another_process_has_finished_in_the_meantime_counts(run, tmp_path, monkeypatch):
    import tagloom.training.run as training

    first = run(["quick-gap"])
    spec = tmp_path / "out" / "quick-gap-seed0" / "tagger.json"
    kept, real = spec.read_text(), training.train
    spec.unlink()

    def late(*given, **options):
        spec.write_text(kept)  # as if the other process had just written it
        return real(*given, **options)

    monkeypatch.setattr(training, "train", late)
    assert run(["quick-gap"]).outcomes[0].values("mAP") == first.outcomes[0].values("mAP")


def test_a_stop_that_comes_while_a_run_ends_stops_the_study(run, tmp_path, monkeypatch):
    import os
    import signal

    import tagloom.training.run as training
    from tagloom.training.signals import Interrupted

    real = training.finish

    def stopped(*given, **options):
        os.kill(os.getpid(), signal.SIGTERM)  # too late for this run to stop
        return real(*given, **options)

    monkeypatch.setattr(training, "finish", stopped)
    with pytest.raises(Interrupted):
        run(["quick-gap"], seeds=2)
    assert set(written(tmp_path / "out")) == {"quick-gap-seed0/tagger.json"}
