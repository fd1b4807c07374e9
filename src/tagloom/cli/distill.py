"""`tagloom distill`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tagloom.cli.arguments import (
    Cache,
    DataOptions,
    Device,
    RecipeName,
    Resume,
    Settings,
    TensorBoard,
    TrainingData,
    Val,
    read_pairs,
)
from tagloom.cli.outcome import show_trained, told_how_to_resume
from tagloom.errors import TagloomError
from tagloom.terminal import open_console, print_line

if TYPE_CHECKING:
    from tagloom.api import TrainedTagger


def distill(
    data: TrainingData = None,
    val: Val = None,
    recipe: RecipeName = None,
    epochs: Annotated[
        int | None, typer.Option(help="Number of epochs for the student (default: 2.5 times the recipe's).", min=1)
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", help="Number of teachers per kind, one for each part of the labels (default: 5).", min=1),
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Split the labels by co, dis, random (a control) or self (one teacher with all) (default: co,dis)."
        ),
    ] = None,
    random_sizes: Annotated[
        Literal["even", "random"] | None,
        typer.Option(help="Make the parts of --kinds random even, or cut them at random places (default: even)."),
    ] = None,
    tau: Annotated[float | None, typer.Option(help="Smooth the label graphs by this much (default: 3).")] = None,
    teacher_epochs: Annotated[
        int | None,
        typer.Option(help="Number of epochs for each teacher (default: the recipe's).", min=1),
    ] = None,
    images: Annotated[
        Literal["all", "with-labels"] | None,
        typer.Option(help="Show teachers all images, or only those with labels of theirs (default: all)."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="Weight the teachers against the labels: 0.1, or by kind co=0.1. Repeatable (default: 0.5; the paper "
            "has 1)."
        ),
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Train the student without teachers as well, and compare the two.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Number of teachers to train at once, each with its share of threads.")] = 1,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            help="Extract features and train teachers here, or on a Ray cluster: that of RAY_ADDRESS, or one on this "
            "machine."
        ),
    ] = "local",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the student to this folder, and its teachers to teachers/ below it (default: runs/student, or "
            "the next free runs/student-2, …)."
        ),
    ] = None,
    resume: Resume = False,
    settings: Settings = None,
    device: Device = "auto",
    cache: Cache = None,
    tensorboard: TensorBoard = False,
    data_option: DataOptions = None,
) -> None:
    """Train a tagger under small teachers, at no extra cost when you use it.

    Example: tagloom distill photos/train.csv --val photos/val.csv --out runs/student

    The labels are split twice, into k parts that appear together (co) and k that do not (dis). Each part gets a
    teacher, and one student learns from the labels and from all teachers (CPSD). It is as large and as fast as a tagger
    of tagloom train. Training takes many times longer: how many is printed before it starts. With --baseline it ends
    with what the teachers were worth.

    Stop at any time with Ctrl-C and continue with --resume; finished teachers are kept.
    """
    from tagloom.api import distill as distill_tagger
    from tagloom.recipe import read_settings

    with told_how_to_resume("distill", engine, cache):
        result = distill_tagger(
            data,
            val=val,
            recipe=recipe,
            out=out,
            kinds=None if kinds is None else [kind.strip() for kind in kinds.split(",") if kind.strip()],
            k=k,
            tau=tau,
            random_sizes=random_sizes,
            teacher_epochs=teacher_epochs,
            images=images,
            weights=read_weights(weight),
            epochs=epochs,
            baseline=baseline or None,
            settings=read_settings(settings or []),
            jobs=jobs,
            engine=engine,
            resume=resume,
            device=device,
            cache=cache,
            tensorboard=tensorboard,
            data_options=read_pairs(data_option),
        )
    show_levels(result)
    show_trained(result, "The student")


def show_levels(result: "TrainedTagger") -> None:
    """Print how good the teachers were, and what they were worth if the student was trained without them as well."""
    from tagloom.report.comparison import render_overview

    console = open_console()
    part = "validation" if "validation" in result.metrics else "held_aside"
    teachers = result.metrics.get("teachers", {})
    if found := [f"{kind} {level[part]:.2f}" for kind, level in teachers.items() if part in level]:
        console.print()
        print_line(console, f"Teachers, merged: mAP {', '.join(found)} on {result.scored_on}")
    if result.comparison is not None:
        render_overview(result.comparison, ("without teachers", "with teachers"), console)
        print_line(console, f"Label by label: tagloom compare {result.folder / 'baseline'} {result.folder} TABLE")


def read_weights(texts: list[str] | None) -> dict[str, float]:
    """Read --weight values: a number for every kind, or kind=number for one.

    >>> read_weights(["0.5", "co=0.1"])
    {'all': 0.5, 'co': 0.1}
    """
    weights: dict[str, float] = {}
    for text in texts or []:
        kind, equals, value = text.rpartition("=")
        name = kind.strip() if equals else "all"
        try:
            weights.pop(name, None)  # of two weights for one kind the later counts, also over one for all
            weights[name] = float(value)
        except ValueError:
            raise TagloomError(f"--weight {text}: write a number, or kind=number, for example co=0.5.") from None
    return weights
