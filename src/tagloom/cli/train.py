"""`tagloom train`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tagloom.cli.arguments import (
    SPLIT_FORMS,
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
from tagloom.cli.processes import Processes, share_work


def train(
    data: TrainingData = None,
    val: Val = None,
    recipe: RecipeName = None,
    epochs: Epochs = None,
    task: Annotated[
        str | None,
        typer.Option(help="Set the task: multi, or single for exactly one label per image (softmax, top-1)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the tagger to this folder (default: runs/tagger, or the next free runs/tagger-2, …)."),
    ] = None,
    resume: Resume = False,
    settings: Settings = None,
    start_from: Annotated[
        str | None,
        typer.Option(help="Start with the weights of this tagger folder, for example to fine-tune after a probe."),
    ] = None,
    split: Annotated[str | None, typer.Option(help=f"Labels not to train: {SPLIT_FORMS}")] = None,
    processes: Processes = 1,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            help="Extract the features of a frozen backbone here, or on a Ray cluster: that of RAY_ADDRESS, or one on "
            "this machine."
        ),
    ] = "local",
    device: Device = "auto",
    cache: Cache = None,
    tensorboard: TensorBoard = False,
    data_option: DataOptions = None,
) -> None:
    """Train a tagger from a label table.

    Example: tagloom train photos/train.csv --val photos/val.csv --out runs/first

    Stop at any time with Ctrl-C and continue with --resume: on the CPU the result is the same, bit for bit.

    With --processes, or under torchrun, each process works on its share of every batch, and the result is that of one
    process. If one dies, all start again from the last checkpoint.

    With --engine ray, many machines read the images and run them through a frozen backbone, into a --cache that all of
    them see. The work of lost ones is done by others. The training itself, which is short then, runs here.
    """
    share_work(processes)
    from tagloom.api import train as train_tagger
    from tagloom.recipe import read_settings

    with told_how_to_resume("train", engine, cache):
        result = train_tagger(
            data,
            val=val,
            recipe=recipe,
            out=out,
            epochs=epochs,
            settings=read_settings(settings or []),
            task=task,
            start_from=start_from,
            split=split,
            resume=resume,
            device=device,
            cache=cache,
            tensorboard=tensorboard,
            engine=engine,
            data_options=read_pairs(data_option),
        )
    show_trained(result, "The tagger")
