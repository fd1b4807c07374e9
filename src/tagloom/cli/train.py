"""Verbs that train, or look at what would be trained: train, demo, heads."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from tagloom.cli.arguments import DataOptions, Device, Split, needs_train, read_pairs
from tagloom.errors import RecipeError, TagloomError
from tagloom.terminal import open_console, warn

if TYPE_CHECKING:
    from rich.console import Console

    from tagloom.training.run import TrainingResult


def train(
    data: Annotated[str | None, typer.Argument(help="A label table; may be left out with --resume.")] = None,
    val: Annotated[str | None, typer.Option(help="Validation table, for the figures that are reported.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe's name (tagloom recipes list) or a .yaml file; quick by default.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="multi, or single for exactly one label per picture (softmax, top-1).")
    ] = None,
    out: Annotated[Path, typer.Option(help="The tagger folder to make.")] = Path("runs/tagger"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in --out stopped.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change the recipe: training.epochs=5. All fields: tagloom recipes show quick --all"
        ),
    ] = None,
    start_from: Annotated[
        str | None,
        typer.Option(help="Begin with the weights of this tagger folder, e.g. fine-tune after a probe (two stages)."),
    ] = None,
    split: Split = None,
    device: Device = "auto",
    cache: Annotated[Path | None, typer.Option(help="Where features of frozen backbones are kept.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    data_option: DataOptions = None,
) -> None:
    """Train a tagger from a label table.

    Stop it at any time with Ctrl-C and go on with --resume: it continues bit for bit.
    """
    with needs_train("training"):
        from tagloom.training.run import train as run_training
    from tagloom.cache_folder import default_cache_folder
    from tagloom.recipe import for_task, load_recipe, override
    from tagloom.training.plan import RunPlan
    from tagloom.training.signals import Interrupted

    console = open_console()
    begun = RunPlan.read(out) if resume else None
    if begun is None and data is None:
        raise TagloomError("name a label table to train on: tagloom train photos/train.csv --out runs/first")
    base = begun.recipe if begun and recipe is None else load_recipe(recipe or "quick")
    before = begun or RunPlan("", None, base)
    plan = replace(
        before,
        data=data or before.data,
        val=val or before.val,
        recipe=override(for_task(base, task), settings or []),
        data_options=read_pairs(data_option) or before.data_options,
        start=start_from or before.start,
    )
    if split:
        from tagloom.data import load_table
        from tagloom.labels.split import read_split

        every = load_table(plan.data, **plan.data_options).classes
        plan = replace(plan, classes=read_split(split, every).seen)
    if begun:
        begun.check_same(plan)
    try:
        result = run_training(
            plan,
            out,
            resume=resume,
            device=device,
            cache_folder=cache or default_cache_folder(),
            console=console,
            tensorboard=tensorboard,
        )
    except Interrupted:
        warn(f"stopped on request. Go on with: tagloom train --resume --out {out}")
        raise
    show_figures(result, console)
    console.print(f"\nThe tagger is in [bold]{out}[/]. Try: tagloom predict {out} photo.jpg")


def show_figures(result: "TrainingResult", console: "Console") -> None:
    """Print what a training came to, on validation data or else on the images held aside."""
    from tagloom.report.metrics import render_metrics

    for part, metrics in list(result.metrics.items())[:1]:
        console.print(f"\n[bold]{'Validation data' if part == 'validation' else 'Images held aside from training'}[/]")
        render_metrics(metrics, result.classes, console)


def demo(
    out: Annotated[Path, typer.Option(help="Where the demonstration puts its files.")] = Path("demo"),
    images: Annotated[int, typer.Option(help="Training pictures to draw.", min=40)] = 1600,
) -> None:
    """See it work: the ready tagger on photographs; then draw pictures, train on them, evaluate, and look at tags."""
    with needs_train("the demonstration"):
        import torch  # noqa: F401 - asked for here, so that the message comes before any work
    from tagloom.demo import run_demo

    run_demo(out, images=images, console=open_console())


def heads(
    backbone: Annotated[str, typer.Option(help="Any timm model.")] = "tf_efficientnet_lite0",
    classes: Annotated[int, typer.Option(help="Number of labels.", min=1)] = 80,
    size: Annotated[int, typer.Option(help="Side of the pictures in pixels.", min=32)] = 224,
) -> None:
    """List the heads with their parameters and multiply-adds on a given backbone."""
    with needs_train("counting"):
        from tagloom.models.cost import tagger_cost
        from tagloom.models.heads import head_class
    from rich.table import Table

    from tagloom.recipe.names import HEADS

    console = open_console()
    table = Table("head", title=f"{backbone}, {classes} labels, {size} x {size} pixels", title_justify="left")
    for column in ("parameters, M", "multiply-adds, G", "with backbone, G"):
        table.add_column(column, justify="right")
    for name in HEADS:
        try:
            whole, head = tagger_cost(backbone, name, classes=classes, size=size)
        except RecipeError:  # it reads stages, and this backbone names none
            table.add_row(name, "–", "–", "–")
            continue
        figures = [
            f"{head.parameters / 1e6:.2f}",
            f"{head.multiply_adds / 1e9:.3f}",
            f"{whole.multiply_adds / 1e9:.2f}",
        ]
        table.add_row(name, *figures)
    console.print(table)
    for name in HEADS:
        console.print(f"[bold]{name}[/]  {escape(head_class(name).purpose())}")
