"""`tagloom.train` and `tagloom.distill`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tagloom.api.planning import StrPath, plan_run, plan_teachers, progress_of, run_folder
from tagloom.api.result import TrainedTagger
from tagloom.api.scoring import compare
from tagloom.cache_folder import default_cache_folder
from tagloom.extras import needs_train
from tagloom.recipe import Recipe
from tagloom.tagger.spec import read_spec
from tagloom.terminal import open_console, print_line
from tagloom.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from tagloom.evaluation.compare import Comparison
    from tagloom.training.plan import RunPlan


def train(
    data: StrPath | None = None,
    *,
    val: StrPath | None = None,
    recipe: StrPath | Recipe | None = None,
    out: StrPath | None = None,
    epochs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    task: str | None = None,
    start_from: StrPath | None = None,
    split: StrPath | None = None,
    resume: bool = False,
    device: str = "auto",
    cache: StrPath | None = None,
    tensorboard: bool = False,
    engine: Literal["local", "ray"] = "local",
    data_options: Mapping[str, str] | None = None,
    show_progress: bool = True,
) -> TrainedTagger:
    """Train a tagger from a label table and write its folder.

    Under torchrun, all processes train one tagger together, and each returns it.

    Args:
        data: The training table, in any form that `tagloom.load_table` reads. May be left out with `resume`.
        val: The validation table. The reported metrics are measured on it; without one, on images held out from
            training.
        recipe: All choices of the training: the name of a recipe (`tagloom recipes list`), a .yaml file or a
            `Recipe`. "quick" by default.
        out: The tagger folder to write. By default the first of runs/tagger, runs/tagger-2, … that does not exist; with
            `resume`, the one of them that was stopped. No two runs can work in one folder at the same time.
        epochs: Number of epochs; short for `settings={"training.epochs": epochs}`.
        settings: Changes to the recipe by dotted names, for example `{"training.batch_size": 32}`.
        task: "multi", or "single" for exactly one label per image (softmax, top-1). By default as the recipe says.
        start_from: A tagger folder whose weights to start with, for example to fine-tune after a linear probe.
        split: Labels to leave out of training: a file that lists them, a .json with "test class", or
            "random:COUNT:SEED".
        resume: Continue the run in `out` where it stopped, bit for bit on the CPU. Other arguments may be left out;
            they cannot change, except `data` and `val`, which say where the same data is now.
        device: "auto", "cpu", "cuda" or "mps".
        cache: Folder for the features of frozen backbones; by default `$TAGLOOM_CACHE` or the user's cache folder.
        tensorboard: Also write TensorBoard events.
        engine: "local", or "ray" to extract the features of a frozen backbone on a Ray cluster.
        data_options: How to read the tables, as `tagloom.load_table` takes it, for example `{"split": "trainval"}`.
        show_progress: Show progress: a bar on a terminal, plain lines elsewhere.

    Returns:
        The folder, classes and metrics of the tagger, and the tagger itself.

    Raises:
        TagloomError: Saying what is wrong, where, and what to do; `MissingExtraError` if torch is not installed.

    Examples:
        >>> import tagloom
        >>> result = tagloom.train("train.csv", val="val.csv", out="runs/first", epochs=5)  # doctest: +SKIP
        >>> result.metrics["validation"]["mAP"]  # doctest: +SKIP
        71.2
        >>> result.tagger.predict("photo.jpg")  # doctest: +SKIP
        [[Tag(label='dog', score=0.93), Tag(label='sofa', score=0.61)]]
    """
    with needs_train("training"):
        from tagloom.training.ranks import join_world
        from tagloom.training.run import train as run_training

    with join_world(device) as world, run_folder(out, "runs/tagger", resume=resume) as folder:
        if world.restarts:  # one of the processes was lost
            progress = world.from_first(lambda: progress_of(folder))
            if progress == "finished":
                spec = read_spec(folder)
                return TrainedTagger(folder, spec.classes, spec.metrics, device)
            resume = progress == "started"
        plan = plan_run(
            "train",
            data,
            folder,
            val=val,
            recipe=recipe,
            epochs=epochs,
            settings=settings,
            data_options=data_options,
            resume=resume,
            task=task,
            start_from=start_from,
            split=split,
        )
        result = run_training(
            plan,
            folder,
            resume=resume,
            device=device,
            cache_folder=_cache_folder(cache),
            console=_announced(plan, folder, resume) if show_progress and world.is_first else None,
            tensorboard=tensorboard,
            world=world,
            engine=engine,
        )
        return TrainedTagger(folder, result.classes, result.metrics, device)


def distill(
    data: StrPath | None = None,
    *,
    val: StrPath | None = None,
    recipe: StrPath | Recipe | None = None,
    out: StrPath | None = None,
    kinds: str | Sequence[str] | None = None,
    k: int | None = None,
    tau: float | None = None,
    random_sizes: Literal["even", "random"] | None = None,
    teacher_epochs: int | None = None,
    images: Literal["all", "with-labels"] | None = None,
    weights: float | Mapping[str, float] | None = None,
    epochs: int | None = None,
    baseline: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: Literal["local", "ray"] = "local",
    resume: bool = False,
    device: str = "auto",
    cache: StrPath | None = None,
    tensorboard: bool = False,
    data_options: Mapping[str, str] | None = None,
    show_progress: bool = True,
) -> TrainedTagger:
    """Train small teachers on parts of the labels, then one student that learns from the labels and from all teachers.

    The labels are split once per kind into k parts, and every part gets a teacher (CPSD, Xu et al., 2022). The student
    is as large and as fast as a tagger of `tagloom.train` with the same recipe. Training it costs many times as much;
    how many is printed before it starts. Choices that are left out come from the recipe's `distill` section, if it has
    one.

    Args:
        data: The training table. May be left out with `resume`.
        val: The validation table, for the reported metrics.
        recipe: The recipe of student and teachers: a name, a .yaml file or a `Recipe`. "quick" by default.
        out: The student's tagger folder; the teachers are written to `teachers/` below it. By default the first of
            runs/student, runs/student-2, … that does not exist; with `resume`, the one of them that was stopped.
        kinds: How to split the labels: "co" (labels that appear together), "dis" (labels that do not), "random" (a
            control) or "self" (one teacher with all labels). ("co", "dis") by default.
        k: Parts, and so teachers, per kind; 5 by default.
        tau: Smoothing of the label graphs; 3 by default.
        random_sizes: Whether the parts of the kind "random" are "even" (default) or cut at "random" places.
        teacher_epochs: Epochs of each teacher; by default the recipe's.
        images: The images that teachers see: "all" (default) or those "with-labels" of theirs.
        weights: How much the teachers count next to the labels: one number, or a number by kind, where "all" stands
            for every kind. 0.5 by default; the paper has 1.
        epochs: Number of epochs of the student; by default 2.5 times the recipe's.
        baseline: Also train the student without teachers, as long as with them, to `baseline/` below `out`, and
            compare the two. Off by default.
        settings: Changes to the recipe of student and teachers by dotted names.
        jobs: How many teachers (and the baseline) train at the same time, each with its share of the threads.
        engine: "local", or "ray" to extract features and train the teachers on a Ray cluster.
        resume: Continue the run in `out` where it stopped; finished teachers are kept.
        device: "auto", "cpu", "cuda" or "mps".
        cache: Folder for the features of frozen backbones, which teachers and student share.
        tensorboard: Also write TensorBoard events of the student.
        data_options: How to read the tables, as `tagloom.load_table` takes it.
        show_progress: Show progress: a bar on a terminal, plain lines elsewhere.

    Returns:
        The student: its folder, classes and metrics, and the tagger itself. `metrics["teachers"]` has the mAP of the
        merged teachers of each kind on the same images. With `baseline`, `comparison` says what teachers were worth.

    Raises:
        TagloomError: Saying what is wrong, where, and what to do; `MissingExtraError` if torch is not installed.

    Examples:
        >>> import tagloom
        >>> student = tagloom.distill("train.csv", val="val.csv", out="runs/student", k=5)  # doctest: +SKIP
        >>> student.tagger.predict("photo.jpg")  # doctest: +SKIP
        [[Tag(label='dog', score=0.95)]]
    """
    with needs_train("distilling"):
        from tagloom.training.distill.run import distill as run_distillation

    with run_folder(out, "runs/student", resume=resume) as folder:
        plan = plan_run(
            "distill",
            data,
            folder,
            val=val,
            recipe=recipe,
            epochs=None,
            settings=settings,
            data_options=data_options,
            resume=resume,
        )
        choices = {
            "k": k,
            "tau": tau,
            "random_sizes": random_sizes,
            "teacher_epochs": teacher_epochs,
            "student_epochs": epochs,
            "images": images,
            "baseline": baseline,
        }
        teachers = plan_teachers(plan.distill, plan.recipe, kinds=kinds, weights=weights, **choices)
        plan = replace(plan, distill=teachers)
        result = run_distillation(
            plan,
            folder,
            resume=resume,
            device=device,
            cache_folder=_cache_folder(cache),
            jobs=jobs,
            engine=engine,
            console=_announced(plan, folder, resume) if show_progress else None,
            tensorboard=tensorboard,
        )
        student = TrainedTagger(folder, result.classes, result.metrics, device)
        if not teachers.baseline:
            return student
        return replace(student, comparison=_compared(student, plan, show_progress=show_progress))


def _compared(student: TrainedTagger, plan: "RunPlan", *, show_progress: bool) -> "Comparison | None":
    """Compare a student with its baseline on the validation table or, without one, on the images held out."""
    from tagloom.training.distill.teachers import BASELINE_FOLDER
    from tagloom.training.tables import load_tables

    tables = load_tables(plan)
    table = tables.table.select(tables.held_out) if tables.val is None else tables.val
    if not table.positive.nnz:
        return None
    baseline = student.folder / BASELINE_FOLDER
    return compare(baseline, student, table, device=student.device, show_progress=show_progress)


def _cache_folder(given: StrPath | None) -> Path:
    return default_cache_folder() if given is None else Path(given)


def _announced(plan: "RunPlan", folder: Path, resume: bool) -> "Console":
    """Open a console and print what is about to be trained, so that a log file starts with it."""
    console, recipe = open_console(), plan.recipe
    network = f"{recipe.backbone.name} + {recipe.head.name}"
    if plan.distill is None:  # a distillation says it itself, of teachers and student
        network += f", {counted(recipe.training.epochs, 'epoch')}"
    doing = "Resuming" if resume else "Training"
    print_line(console, f"{doing} {folder}: {plan.data}, recipe {recipe.name} ({network})")
    return console
