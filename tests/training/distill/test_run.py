"""A distillation from table to student: what each teacher sees, what is kept, and how it continues after a stop."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tagloom.data import load_table
from tagloom.errors import DataError, RecipeError, TaggerError, TagloomError
from tagloom.models.network import load_network
from tagloom.predict.tagger import load
from tagloom.recipe import recipe_from_dict
from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import SPEC_FILE, read_spec
from tagloom.training.distill import asking as asking_module
from tagloom.training.distill import local_jobs as jobs_module
from tagloom.training.distill.asking import merge_teachers
from tagloom.training.distill.board import Board, standing_of
from tagloom.training.distill.run import distill
from tagloom.training.distill.teachers import PARTS_FILE, list_teachers
from tagloom.training.loop import fit
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train
from tagloom.training.signals import Interrupted, StopRequest
from tagloom.training.tables import load_tables

NAMES = ["co-1", "co-2", "dis-1", "dis-2"]
TINY = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "augment": {"flip": 0.5, "cutout": 0.3},
    "backbone": {"name": "test_efficientnet", "weights": "none", "frozen": False},
    "training": {"epochs": 2, "batch_size": 16, "workers": 0, "select": "last"},
}
"""A small network that is trained whole, on pictures that are augmented: teachers are asked online."""


QUICK = {
    "preprocess": {"size": 32},
    "data": {"holdout": 0.2},
    "augment": {"flip": 0.5},
    "backbone": {"name": "test_efficientnet", "weights": "none"},
    "optimiser": {"name": "adamw", "learning_rate": 0.01},
    "training": {"epochs": 4, "batch_size": 16, "select": "last"},
}
"""A linear head on cached features, in two views: teachers are asked once."""


@pytest.fixture(scope="module")
def plan(scenes) -> RunPlan:
    """Two teachers per graph, that see the images with their labels, as in the paper."""
    data, val = str(scenes / "train.csv"), str(scenes / "val.csv")
    settings = Distillation(1, k=2, images="with-labels")
    return RunPlan(data, val, recipe_from_dict(QUICK), export=False, distill=settings)


@pytest.fixture(scope="module")
def student(tmp_path_factory, plan, feature_cache) -> Path:
    """The folder of a finished student with its teachers. Copy it before changing it."""
    out = tmp_path_factory.mktemp("students") / "student"
    distill(plan, out, cache_folder=feature_cache)
    return out


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def unfinished_copy(student: Path, out: Path) -> Path:
    """The state just before the student's first step: all teachers finished."""
    shutil.copytree(student, out)
    for name in (SPEC_FILE, "model.safetensors", "README.md", "log.jsonl"):
        (out / name).unlink()
    return out


# What comes out


def test_the_student_is_a_tagger_and_so_is_every_teacher(student, scenes):
    names = {path.name for path in student.iterdir()}
    assert {"model.safetensors", SPEC_FILE, RUN_FILE, PARTS_FILE, "teachers", "log.jsonl"} <= names
    assert not names & {"checkpoint", "model.onnx"}
    assert sorted(path.name for path in (student / "teachers").iterdir()) == NAMES
    table = load_table(scenes / "train.csv")
    assert load(student).classes == table.classes
    assert read_spec(student).data["distilled_from"] == "teachers of the kinds co, dis"
    parts = json.loads((student / PARTS_FILE).read_text())["parts"]
    for name in NAMES:
        kind, number = name.split("-")
        spec = read_spec(student / "teachers" / name)
        assert list(spec.classes) == parts[kind][int(number) - 1]
        assert not (student / "teachers" / name / "model.onnx").exists()


def test_teachers_learn_only_from_images_with_their_classes_that_are_not_held_out(student, scenes, plan):
    table = load_table(scenes / "train.csv")
    held_out = load_tables(plan).held_out
    for name in NAMES:
        spec = read_spec(student / "teachers" / name)
        columns = [table.classes.index(label) for label in spec.classes]
        has = table.targets(slice(None))[:, columns].any(axis=1)
        assert spec.data["images_learned_from"] == int((has & ~held_out).sum())
        assert spec.data["images_held_aside"] == int((has & held_out).sum())
        assert spec.data["epochs"] == 1


def test_teachers_see_all_images_when_asked(plan, feature_cache, tmp_path):
    every = replace(plan, distill=Distillation(1, kinds=("co",), k=2, images="all"))
    distill(every, tmp_path / "run", cache_folder=feature_cache)
    for name in ("co-1", "co-2"):
        assert read_spec(tmp_path / "run" / "teachers" / name).data["images_learned_from"] == 48


def test_features_are_extracted_once_before_the_teachers_start(plan, tmp_path):
    distill(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    first = events(tmp_path / "run", "features")[:3]
    assert [line["computed"] for line in first] == [60, 60, 16]
    for name in NAMES:
        told = events(tmp_path / "run" / "teachers" / name, "features")
        assert len(told) == 3
        assert all(line["computed"] == 0 for line in told)
    assert all(line["computed"] == 0 for line in events(tmp_path / "run", "features")[3:])


def test_with_a_weight_of_nothing_the_student_is_the_plain_tagger_to_the_byte(plan, feature_cache, tmp_path, student):
    alone = replace(plan, distill=replace(plan.distill, weights={"co": 0.0, "dis": 0.0}))
    distill(alone, tmp_path / "distilled", cache_folder=feature_cache)
    train(replace(plan, distill=None), tmp_path / "plain", cache_folder=feature_cache)
    assert weights(tmp_path / "distilled") == weights(tmp_path / "plain")
    assert weights(student) != weights(tmp_path / "plain")


def test_both_terms_of_the_students_loss_are_logged(student):
    for line in events(student, "epoch"):
        assert line["loss"] == pytest.approx(line["supervised"] + line["distance"], rel=1e-5)
        assert line["distance"] > 0
    assert "distance" not in events(student / "teachers" / "co-1", "epoch")[0]


def test_the_tables_are_read_once_for_the_student_and_its_teachers_plans(
    student, plan, feature_cache, tmp_path, monkeypatch
):
    read: list[str] = []

    def noting(path, **options):
        read.append(str(path))
        return load_table(path, **options)

    out = unfinished_copy(student, tmp_path / "run")
    monkeypatch.setattr("tagloom.training.tables.load_table", noting)
    result = distill(plan, out, resume=True, cache_folder=feature_cache)
    assert read == [plan.data, plan.val]
    assert result.folder == out


def test_a_heavy_weight_brings_the_student_to_its_teachers(plan, feature_cache, tmp_path):
    settings = Distillation(4, kinds=("self",), images="all", weights={"self": 0.2})
    recipe = replace(plan.recipe, training=replace(plan.recipe.training, epochs=40))
    distances = {}
    for weight in (0.0, 0.2):
        out = tmp_path / str(weight)
        chosen = replace(plan, recipe=recipe, distill=replace(settings, weights={"self": weight}))
        distill(chosen, out, cache_folder=feature_cache)
        (batch,) = _plain_batches(chosen, feature_cache, tmp_path)
        ours, theirs = (
            load_network(folder, read_spec(folder)).head.classify(*batch)
            for folder in (out, out / "teachers" / "self-1")
        )
        distances[weight] = (ours - theirs).square().mean().item()
    assert distances[0.2] < distances[0.0] / 2


def _plain_batches(plan: RunPlan, cache: Path, folder: Path):
    """The cached features of all training images, as one batch."""
    from tagloom.training.context import RunContext
    from tagloom.training.features.prepare import make_batches
    from tagloom.training.log import RunLog
    from tagloom.training.network import first_network

    recipe = replace(plan.recipe, training=replace(plan.recipe.training, batch_size=64))
    tables = load_tables(plan)
    with RunLog(folder) as log, StopRequest() as stop:
        context = RunContext(folder, torch.device("cpu"), cache, stop, log)
        batches = make_batches(first_network(plan, tables.table.classes, context), tables, recipe, context)
    return [batch.inputs for batch in batches.learn.in_order()]


def test_pictures_that_are_augmented_are_shown_to_teachers_as_the_student_sees_them(scenes, tmp_path, monkeypatch):
    asked: list[tuple[int, ...]] = []
    real = asking_module.online

    def noting(merged):
        logits = real(merged)
        return lambda batch: (asked.append(tuple(batch.inputs[0].shape)), logits(batch))[1]

    monkeypatch.setattr(asking_module, "online", noting)
    plan = RunPlan(str(scenes / "train.csv"), None, recipe_from_dict(TINY), export=False, distill=Distillation(1, k=2))
    distill(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    assert len(asked) == 2 * 2 * 3, "two kinds, two epochs, three batches"
    assert all(shape[1:] == (32, 32, 3) for shape in asked)
    assert not (tmp_path / "cache").exists()


def test_teachers_give_the_same_logits_from_features_and_from_pictures(student, plan, scenes, feature_cache, tmp_path):
    tables = load_tables(plan)
    parts = json.loads((student / PARTS_FILE).read_text())["parts"]
    group = [teacher for teacher in list_teachers(plan, tables, parts, student) if teacher.kind == "dis"]
    uncached = replace(plan.recipe, training=replace(plan.recipe.training, cache_features=False))
    shown_pictures = [replace(teacher, plan=replace(teacher.plan, recipe=uncached)) for teacher in group]
    classes, device = tables.table.classes, torch.device("cpu")
    (features,) = _plain_batches(plan, feature_cache, tmp_path)
    from_features = merge_teachers(group, classes, device)(*features)
    from tagloom.data.images import open_image
    from tagloom.data.transforms import prepare

    rows = np.flatnonzero(~tables.held_out)[:6]
    pictures = np.stack([prepare(open_image(tables.table.path(row)), plan.recipe.preprocess) for row in rows])
    from_pictures = merge_teachers(shown_pictures, classes, device)(torch.from_numpy(pictures))
    torch.testing.assert_close(from_features[:6], from_pictures, rtol=1e-3, atol=1e-3)
    assert not from_pictures.requires_grad


# Going on


def untouched(student: Path, names=NAMES) -> dict[str, tuple[int, bytes]]:
    folders = [student / "teachers" / name for name in names]
    return {folder.name: ((folder / "model.safetensors").stat().st_mtime_ns, weights(folder)) for folder in folders}


def test_a_finished_student_is_never_overwritten(student, plan, feature_cache):
    before = weights(student)
    for resume in (False, True):
        with pytest.raises(TagloomError, match="holds a finished tagger"):
            distill(plan, student, resume=resume, cache_folder=feature_cache)
    assert weights(student) == before


def test_a_run_that_was_started_is_not_started_again_by_mistake(student, plan, feature_cache, tmp_path):
    out = unfinished_copy(student, tmp_path / "run")
    with pytest.raises(TagloomError, match=r"started.*--resume"):
        distill(plan, out, cache_folder=feature_cache)


def test_after_the_last_teacher_nothing_but_the_student_is_trained(student, plan, feature_cache, tmp_path, monkeypatch):
    out = unfinished_copy(student, tmp_path / "run")
    before = untouched(out)
    monkeypatch.setattr(jobs_module, "train", lambda *arguments, **options: pytest.fail("a teacher was trained again"))
    distill(plan, out, resume=True, cache_folder=feature_cache)
    assert untouched(out) == before
    assert weights(out) == weights(student)


@pytest.mark.parametrize("teachers_done", [0, 1, 3])
def test_stopped_between_or_within_teachers_it_goes_on_to_the_same_bytes(
    student, plan, feature_cache, tmp_path, monkeypatch, teachers_done
):
    out = tmp_path / "run"
    begun = []

    def stopping(module, *arguments, **options):
        begun.append(module)
        if len(begun) > teachers_done:
            options["context"].stop.signal_number = signal.SIGTERM
        return fit(module, *arguments, **options)

    monkeypatch.setattr("tagloom.training.run.fit", stopping)
    with pytest.raises(Interrupted):
        distill(plan, out, cache_folder=feature_cache)
    monkeypatch.undo()
    assert (out / "teachers" / NAMES[teachers_done] / "checkpoint" / "last.pt").exists()
    assert not (out / "teachers" / NAMES[teachers_done] / SPEC_FILE).exists()
    before = untouched(out, NAMES[:teachers_done])
    distill(plan, out, resume=True, cache_folder=feature_cache)
    assert untouched(out, NAMES[:teachers_done]) == before
    assert {name: found[1] for name, found in untouched(out).items()} == {
        name: found[1] for name, found in untouched(student).items()
    }
    assert weights(out) == weights(student)


def test_stopped_within_the_student_it_goes_on_to_the_same_bytes(student, plan, feature_cache, tmp_path, monkeypatch):
    out = unfinished_copy(student, tmp_path / "run")

    def stopping(*arguments, **options):
        options["context"].stop.signal_number = signal.SIGTERM
        return fit(*arguments, **options)

    monkeypatch.setattr("tagloom.training.run.fit", stopping)
    with pytest.raises(Interrupted):
        distill(plan, out, resume=True, cache_folder=feature_cache)
    monkeypatch.undo()
    assert (out / "checkpoint" / "last.pt").exists()
    with pytest.raises(TagloomError, match=r"run of a student.*tagloom distill --resume"):
        train(RunPlan.read(out), out, resume=True, cache_folder=feature_cache)
    distill(plan, out, resume=True, cache_folder=feature_cache)
    assert weights(out) == weights(student)


def test_a_run_is_not_resumed_with_other_teachers(student, plan, feature_cache, tmp_path):
    out = unfinished_copy(student, tmp_path / "run")
    for changed, named in (
        (replace(plan, distill=replace(plan.distill, k=3)), "distill.k was 2, not 3"),
        (replace(plan, distill=replace(plan.distill, weights={"co": 2.0})), "distill.weights was"),
        (replace(plan, distill=replace(plan.distill, teacher_epochs=7)), "distill.teacher_epochs was 1, not 7"),
        (replace(plan, distill=replace(plan.distill, baseline=True)), "distill.baseline was False, not True"),
    ):
        with pytest.raises(TagloomError, match=named):
            distill(changed, out, resume=True, cache_folder=feature_cache)


# Faults


def test_a_missing_teacher_is_named_and_trained_again_alone(student, plan, feature_cache, tmp_path):
    out = unfinished_copy(student, tmp_path / "run")
    shutil.rmtree(out / "teachers" / "dis-1")
    tables = load_tables(plan)
    group = list_teachers(plan, tables, json.loads((out / PARTS_FILE).read_text())["parts"], out)[2:]
    with pytest.raises(TaggerError, match=r"teacher dis-1 is missing.*tagloom distill --resume --out \S+run"):
        merge_teachers(group, tables.table.classes, torch.device("cpu"))
    others = ["co-1", "co-2", "dis-2"]
    before = untouched(out, others)
    distill(plan, out, resume=True, cache_folder=feature_cache)
    assert untouched(out, others) == before
    assert weights(out) == weights(student)


def test_a_folder_with_another_teacher_is_named_and_not_overwritten(student, plan, feature_cache, tmp_path):
    out = unfinished_copy(student, tmp_path / "run")
    shutil.rmtree(out / "teachers" / "co-2")
    shutil.copytree(out / "teachers" / "co-1", out / "teachers" / "co-2")
    before = untouched(out)
    with pytest.raises(
        TagloomError, match=r"co-2: is not the teacher co-2 that this run wants .*list of classes.*Delete"
    ):
        distill(plan, out, resume=True, cache_folder=feature_cache)
    assert untouched(out) == before


def test_a_teacher_whose_tagger_knows_other_classes_is_named(student, plan, feature_cache, tmp_path):
    out = unfinished_copy(student, tmp_path / "run")
    path = out / "teachers" / "co-1" / SPEC_FILE
    content = json.loads(path.read_text())
    content["classes"][0] = "dodo"
    path.write_text(json.dumps(content))
    with pytest.raises(TaggerError, match=r"co-1, co-2 cannot be merged: no teacher knows"):
        distill(plan, out, resume=True, cache_folder=feature_cache)


def test_a_teacher_that_fails_is_named_and_the_others_go_on(plan, feature_cache, tmp_path, monkeypatch):
    real = jobs_module.train

    def failing(teacher_plan, folder, **options):
        if folder.name == "co-2":
            raise RuntimeError("out of memory")
        return real(teacher_plan, folder, **options)

    monkeypatch.setattr(jobs_module, "train", failing)
    with pytest.raises(TagloomError) as caught:
        distill(plan, tmp_path / "run", cache_folder=feature_cache)
    monkeypatch.undo()
    message = str(caught.value)
    assert "1 of 4 runs before the student failed" in message
    assert "co-2: RuntimeError: out of memory" in message
    assert f"tagloom distill --resume --out {tmp_path / 'run'}" in message
    finished = [name for name in NAMES if (tmp_path / "run" / "teachers" / name / SPEC_FILE).exists()]
    assert finished == ["co-1", "dis-1", "dis-2"]
    distill(plan, tmp_path / "run", resume=True, cache_folder=feature_cache)
    assert (tmp_path / "run" / SPEC_FILE).exists()


@pytest.mark.parametrize("recipe", [QUICK, TINY | {"preprocess": {"size": 64}}], ids=["features", "pictures"])
def test_broken_images_are_judged_by_the_whole_table(scenes, tmp_path, recipe):
    photos = Path(shutil.copytree(scenes, tmp_path / "photos"))
    pictures = sorted((photos / "images").glob("train_*.jpg"))
    for picture in pictures[:2]:
        picture.write_bytes(b"no picture")
    settings = Distillation(1, kinds=("random",), k=12, images="with-labels")
    plan = RunPlan(str(photos / "train.csv"), None, recipe_from_dict(recipe), export=False, distill=settings)
    distill(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    left_out = [read_spec(folder).data for folder in (tmp_path / "run" / "teachers").iterdir()]
    shares = [
        data["unreadable_images_left_out"] / (data["images_learned_from"] + data["images_held_aside"])
        for data in left_out
    ]
    assert max(shares) > 0.05, "more than a run of its own would allow"
    for picture in pictures[2:5]:
        picture.write_bytes(b"no picture")
    with pytest.raises(DataError, match="5 of 60 images cannot be read"):
        distill(plan, tmp_path / "again", cache_folder=tmp_path / "cache")
    assert not (tmp_path / "again" / "teachers").exists(), "no teacher was begun"
    # The message's own advice works at once, in the same folder.
    more = replace(plan.recipe, data=replace(plan.recipe.data, max_broken=0.2))
    fewer = replace(plan, recipe=more, distill=replace(settings, k=1))
    distill(fewer, tmp_path / "again", cache_folder=tmp_path / "cache")


def test_labels_that_share_a_softmax_cannot_be_split(scenes, tmp_path):
    content = {"task": "single", "loss": {"name": "cross-entropy"}, "training": {"metric": "top1"}}
    plan = RunPlan(str(scenes / "train.csv"), None, recipe_from_dict(content), distill=Distillation(1))
    with pytest.raises(RecipeError, match="every label has a score of its own"):
        distill(plan, tmp_path / "run", cache_folder=tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_part_that_nobody_can_learn_is_refused_and_fewer_parts_can_be_had_at_once(scenes, tmp_path):
    photos = Path(shutil.copytree(scenes, tmp_path / "photos"))
    classes = load_table(photos / "train.csv").classes
    (photos / "classes.txt").write_text("\n".join([*classes, "dodo"]))
    recipe = recipe_from_dict(QUICK)
    plan = RunPlan(str(photos / "train.csv"), None, recipe, export=False, distill=Distillation(1, ("random",), k=25))
    with pytest.raises(DataError, match=r"has any of 'dodo'.*--k 24"):
        distill(plan, tmp_path / "run", cache_folder=tmp_path / "cache")
    assert not (tmp_path / "run").exists()
    distill(replace(plan, distill=Distillation(1, ("random",), k=2)), tmp_path / "run", cache_folder=tmp_path / "cache")
    assert "dodo" in read_spec(tmp_path / "run").classes


def test_more_parts_than_labels_are_refused(plan, tmp_path):
    with pytest.raises(RecipeError, match="choose from 1 to 24"):
        distill(replace(plan, distill=Distillation(1, k=25)), tmp_path / "run", cache_folder=tmp_path)


# The board


def test_the_board_says_what_is_new_in_lines_where_there_is_no_terminal(student, plan, capsys):
    from rich.console import Console

    tables = load_tables(plan)
    teachers = list_teachers(plan, tables, json.loads((student / PARTS_FILE).read_text())["parts"], student)
    with Board(teachers, Console(width=100)) as board:
        first = capsys.readouterr().out
        board.tell({})
        assert capsys.readouterr().out == ""
        board.tell({"co-2": "out of memory"})
        assert capsys.readouterr().out == "teacher co-2: failed\n"
    assert first.count("finished, mAP ") == 4


def test_standings_are_read_from_the_folders(student, plan, tmp_path):
    tables = load_tables(plan)
    out = tmp_path / "run"
    teacher = list_teachers(plan, tables, json.loads((student / PARTS_FILE).read_text())["parts"], out)[0]
    assert standing_of(teacher).text(5) == "waiting"
    teacher.folder.mkdir(parents=True)
    (teacher.folder / "log.jsonl").write_text('{"event": "start"}\n')
    assert standing_of(teacher).text(5) == "epoch 0/5"
    (teacher.folder / "log.jsonl").write_text('{"event": "start"}\n{"event": "epoch", "epoch": 2, "mAP": 61.25}\n')
    assert standing_of(teacher).text(5) == "epoch 2/5, mAP 61.2"
    shutil.copy(student / "teachers" / "co-1" / SPEC_FILE, teacher.folder)
    assert standing_of(teacher).state == "finished"


def test_the_board_of_a_terminal_shows_every_teacher_with_its_labels(student, plan):
    from rich.console import Console

    tables = load_tables(plan)
    teachers = list_teachers(plan, tables, json.loads((student / PARTS_FILE).read_text())["parts"], student)
    console = Console(width=80, force_terminal=True, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with Board(teachers, console):
        pass
    shown = console.export_text()
    assert all(name in shown for name in NAMES)
    assert shown.count("finished") >= 4


def test_the_head_of_a_teacher_has_its_own_classes_only(student):
    for name in NAMES:
        folder = student / "teachers" / name
        bias = load_file(folder / "model.safetensors")["head.linear.bias"]
        assert len(bias) == len(read_spec(folder).classes)
