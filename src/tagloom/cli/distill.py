"""`tagloom distill`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tagloom.cli.arguments import (
    Cache,
    DataOptions,
    Device,
    Epochs,
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


def distill(
    data: TrainingData = None,
    val: Val = None,
    recipe: RecipeName = None,
    epochs: Epochs = None,
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
    tau: Annotated[float | None, typer.Option(help="Smooth the label graphs by this much (default: 3).")] = None,
    teacher_epochs: Annotated[
        int | None,
        typer.Option(help="Number of epochs for each teacher (default: a quarter of the student's).", min=1),
    ] = None,
    images: Annotated[
        Literal["with-labels", "all"] | None,
        typer.Option(help="Show teachers only images with labels of theirs, or all (default: with-labels)."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            help="Weight the teachers against the labels: 0.1, or by kind co=0.1. Repeatable (default: 0.02; the paper "
            "has 1)."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of teachers to train at once, each with its share of threads.")] = 1,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Train teachers here, or on the Ray cluster of RAY_ADDRESS (or one started here)."),
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
    """Train a better tagger with the help of small teachers, at no extra cost when you use it.

    Example: tagloom distill photos/train.csv --val photos/val.csv --out runs/student

    The labels are split twice, into k parts that appear together (co) and k that do not (dis). Each part gets a
    teacher, and one student learns from the labels and from all teachers (CPSD). It is as large and as fast as a tagger
    of tagloom train.

    Stop at any time with Ctrl-C and continue with --resume; finished teachers are kept.
    """
    from tagloom.api import distill as distill_tagger
    from tagloom.recipe import read_settings

    with told_how_to_resume("distill"):
        result = distill_tagger(
            data,
            val=val,
            recipe=recipe,
            out=out,
            kinds=None if kinds is None else [kind.strip() for kind in kinds.split(",") if kind.strip()],
            k=k,
            tau=tau,
            teacher_epochs=teacher_epochs,
            images=images,
            weights=read_weights(weight),
            epochs=epochs,
            settings=read_settings(settings or []),
            jobs=jobs,
            engine=engine,
            resume=resume,
            device=device,
            cache=cache,
            tensorboard=tensorboard,
            data_options=read_pairs(data_option),
        )
    show_trained(result, "The student")


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
