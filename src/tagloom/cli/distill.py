"""Verbs of distillation: partition (how labels would be parted), distill (teachers of the parts, then a student)."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tagloom.cli.arguments import Data, DataOptions, Device, needs_train, read_pairs, read_table, write_json
from tagloom.cli.train import show_figures
from tagloom.errors import TagloomError
from tagloom.terminal import open_console, warn

if TYPE_CHECKING:
    from tagloom.recipe import Recipe
    from tagloom.recipe.distillation import Distillation

Parts = Annotated[int | None, typer.Option("--k", help="Parts, and so teachers, per kind; 5 by default.", min=1)]


def partition(
    data: Data,
    kind: Annotated[
        Literal["co", "dis"], typer.Option(help="co: labels that appear together; dis: labels that do not.")
    ] = "co",
    k: Annotated[int, typer.Option("--k", help="How many parts.", min=1)] = 5,
    tau: Annotated[float, typer.Option(help="Larger values lift rare company.")] = 3.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same parts.", min=0)] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the affinity of all labels, ordered by part: .png, .svg or .pdf.")
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the parts to this file.")] = None,
    data_option: DataOptions = None,
) -> None:
    """Part the labels of a table by the company they keep, as `tagloom distill` would.

    Prints for each part its labels, and how near they are to each other and to the labels of other parts.
    """
    from tagloom.labels.graph import affinity
    from tagloom.labels.graph import partition as part_labels
    from tagloom.report.drawing import check_drawable
    from tagloom.report.partition import PartitionReport, draw_partition, render_partition

    if plot:
        check_drawable(plot)
    console = open_console()
    table = read_table(data, data_option)
    parts = part_labels(table.positive, k, kind, tau, seed)
    report = PartitionReport(kind, table.classes, parts, affinity(table.positive, kind, tau))
    render_partition(report, console)
    if json_path:
        write_json(json_path, {"data": data, "k": k, "tau": tau, "seed": seed, **report.to_dict()})
    if plot:
        console.print(f"Drawn in {draw_partition(report, plot)}", markup=False)


def distill(
    data: Annotated[str | None, typer.Argument(help="A label table; may be left out with --resume.")] = None,
    val: Annotated[str | None, typer.Option(help="Validation table, for the figures that are reported.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Recipe of student and teachers: a name or a .yaml file; quick by default.")
    ] = None,
    k: Parts = None,
    kinds: Annotated[
        str | None,
        typer.Option(help="How labels are parted: co,dis by default; random (a control); self (one teacher of all)."),
    ] = None,
    tau: Annotated[float | None, typer.Option(help="Smoothing of the label graphs; 3 by default.")] = None,
    teacher_epochs: Annotated[
        int | None, typer.Option(help="Epochs of each teacher; by default a quarter of the student's.", min=1)
    ] = None,
    images: Annotated[
        Literal["with-labels", "all"] | None,
        typer.Option(help="What teachers see: images with-labels of theirs (default), or all."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="How much teachers count beside labels: 0.1, or by kind co=0.1. Repeatable; 0.02 each (the paper: 1)."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Teachers that train side by side, each with its share of threads.")] = 1,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="ray trains teachers on the cluster of RAY_ADDRESS, or on one that it starts here."),
    ] = "local",
    out: Annotated[Path, typer.Option(help="The student's tagger folder; teachers go into teachers/ below it.")] = Path(
        "runs/student"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out stopped.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe of student and teachers: training.epochs=5.")
    ] = None,
    device: Device = "auto",
    cache: Annotated[Path | None, typer.Option(help="Where features of frozen backbones are kept.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    data_option: DataOptions = None,
) -> None:
    """Train a tagger that is better than its recipe alone: small teachers of parts of the labels, then one student.

    The labels are parted twice, into k groups that appear together (co) and k that do not (dis). Each group gets a
    teacher, and the student learns from the labels and from all teachers at once (CPSD). It is as large and as quick as
    a tagger of `tagloom train`.

    Stop it at any time with Ctrl-C and go on with --resume; teachers that are finished are kept.
    """
    with needs_train("distilling"):
        from tagloom.training.distill.run import distill as run_distillation
    from tagloom.cache_folder import default_cache_folder
    from tagloom.recipe import load_recipe, override
    from tagloom.training.plan import RunPlan
    from tagloom.training.signals import Interrupted

    console = open_console()
    begun = RunPlan.read(out) if resume else None
    if begun is None and data is None:
        raise TagloomError("name a label table to train on: tagloom distill photos/train.csv --out runs/student")
    before = begun or RunPlan("", None, load_recipe(recipe or "quick"))
    chosen = override(load_recipe(recipe) if recipe else before.recipe, settings or [])
    given = {"k": k, "tau": tau, "kinds": _split(kinds), "teacher_epochs": teacher_epochs, "images": images}
    plan = replace(
        before,
        data=data or before.data,
        val=val or before.val,
        recipe=chosen,
        data_options=read_pairs(data_option) or before.data_options,
        distill=_teachers(before.distill, chosen, given, weight or []),
    )
    try:
        result = run_distillation(
            plan,
            out,
            resume=resume,
            device=device,
            cache_folder=cache or default_cache_folder(),
            jobs=jobs,
            engine=engine,
            console=console,
            tensorboard=tensorboard,
        )
    except Interrupted:
        warn(f"stopped on request. Go on with: tagloom distill --resume --out {out}")
        raise
    show_figures(result, console)
    console.print(f"\nThe student is in [bold]{out}[/]. Try: tagloom predict {out} photo.jpg")


def _teachers(
    begun: "Distillation | None", recipe: "Recipe", given: dict[str, Any], weights: list[str]
) -> "Distillation":
    """Join what was given with what the run was begun with, or else with the recipe's choices, or the defaults."""
    from tagloom.recipe.distillation import Distillation
    from tagloom.training.distill.teachers import teacher_epochs

    wanted = {name: value for name, value in given.items() if value is not None}
    base = (
        begun or recipe.distill or Distillation(wanted.get("teacher_epochs") or teacher_epochs(recipe.training.epochs))
    )
    kinds = wanted.get("kinds", base.kinds)
    kept = {kind: value for kind, value in base.weights.items() if kind in kinds}
    return replace(base, **wanted, weights=kept | _read_weights(weights, kinds))


def _read_weights(texts: list[str], kinds: tuple[str, ...]) -> dict[str, float]:
    """Read --weight values: a number for every kind, or kind=number for one."""
    weights: dict[str, float] = {}
    for text in texts:
        kind, equals, value = text.rpartition("=")
        try:
            weights.update(dict.fromkeys([kind.strip()] if equals else kinds, float(value)))
        except ValueError:
            raise TagloomError(f"--weight {text}: write a number, or kind=number, for example co=0.5.") from None
    return weights


def _split(kinds: str | None) -> tuple[str, ...] | None:
    return None if kinds is None else tuple(kind.strip() for kind in kinds.split(",") if kind.strip())
