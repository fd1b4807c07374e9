"""The `tagloom` command: one typed function per verb. Torch and other slow imports happen inside the verbs."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from tagloom import __version__
from tagloom.errors import MissingExtraError, TagloomError
from tagloom.terminal import counted, open_console, show_progress, warn

if TYPE_CHECKING:
    from tagloom.data import LabelTable

app = typer.Typer(
    name="tagloom",
    help="Put every label on an image: check a table, train a tagger, evaluate it, predict with it.",
    epilog="Start with: tagloom demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
recipes_app = typer.Typer(help="List, show, copy and validate recipes.", no_args_is_help=True)
app.add_typer(recipes_app, name="recipes")

Data = Annotated[str, typer.Argument(help="A label table: .csv, .parquet, .jsonl, COCO .json, VOC or class folders.")]
Run = Annotated[str, typer.Argument(help="A tagger folder (the --out of a training), or hf-hub:owner/name.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", help="How a format is read, as name=value, e.g. split=trainval, difficult=unknown."),
]


@app.command()
def check(
    data: Data,
    val: Annotated[str | None, typer.Option(help="Validation table: also look for images that are in both.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the whole audit to this file.")] = None,
    data_option: DataOptions = None,
) -> None:
    """Audit a label table: classes, labels per image, broken, missing and duplicate images, leaks into validation data.

    Exits with 1 when training on it would not be possible.
    """
    from tagloom.data.audit import audit
    from tagloom.report.audit import render_audit

    console = open_console()
    table = _table(data, data_option)
    other = _table(val, data_option) if val else None
    with show_progress(console, "reading images") as progress:
        result = audit(table, other, progress=progress)
    render_audit(result, console)
    if json_path:
        _write_json(json_path, result.to_dict())
    if not result.trainable:
        raise typer.Exit(1)


@app.command()
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
    device: Device = "auto",
    cache: Annotated[Path | None, typer.Option(help="Where features of frozen backbones are kept.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    data_option: DataOptions = None,
) -> None:
    """Train a tagger from a label table.

    Stop it at any time with Ctrl-C and go on with --resume: it continues bit for bit.
    """
    with _needs_train("training"):
        from tagloom.training.run import train as run_training
    from tagloom.recipe import for_task, load_recipe, override
    from tagloom.report.metrics import render_metrics
    from tagloom.training.cache import default_cache_folder
    from tagloom.training.plan import RunPlan
    from tagloom.training.signals import Interrupted

    console = open_console()
    begun = RunPlan.read(out) if resume else None
    if begun is None and data is None:
        raise TagloomError("name a label table to train on: tagloom train photos/train.csv --out runs/first")
    base = begun.recipe if begun and recipe is None else load_recipe(recipe or "quick")
    plan = RunPlan(
        data=data or (begun.data if begun else ""),
        val=val or (begun.val if begun else None),
        recipe=override(for_task(base, task), settings or []),
        data_options=_pairs(data_option) or (begun.data_options if begun else {}),
    )
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
    part, metrics = next(iter(result.metrics.items()), (None, None))
    if metrics:
        console.print(f"\n[bold]{'Validation data' if part == 'validation' else 'Images held aside from training'}[/]")
        render_metrics(metrics, result.classes, console)
    console.print(f"\nThe tagger is in [bold]{out}[/]. Try: tagloom predict {out} photo.jpg")


@app.command()
def evaluate(
    run: Run,
    data: Data,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the metrics to this file.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="One threshold for all classes; by default the tagger's own.", min=0, max=1)
    ] = None,
    ignore_other_labels: Annotated[
        bool, typer.Option("--ignore-other-labels", help="Leave out labels that the tagger does not know.")
    ] = False,
    device: Device = "auto",
    data_option: DataOptions = None,
) -> None:
    """Score a tagger on a labelled table: mAP, precision, recall and F1, per class and over all."""
    from tagloom.inference.evaluation import evaluate as evaluate_tagger
    from tagloom.inference.predictor import load
    from tagloom.report.metrics import render_metrics

    console = open_console()
    tagger = load(run, device=device)
    table = _table(data, data_option)
    with show_progress(console, f"scoring ({tagger.engine})") as progress:
        result = evaluate_tagger(
            tagger, table, threshold=threshold, ignore_other_labels=ignore_other_labels, progress=progress
        )
    render_metrics(result.metrics, tagger.classes, console)
    for error in result.broken:
        warn(f"left out: {error}")
    if json_path:
        _write_json(json_path, result.metrics)


@app.command()
def predict(
    run: Run,
    pictures: Annotated[list[Path], typer.Argument(help="Image files, and folders to search.")],
    out: Annotated[Path | None, typer.Option(help="Write tags to this .csv or .jsonl file.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Score from which a label counts; by default chosen per class.", min=0, max=1)
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="At most so many labels per picture.", min=1)] = None,
    device: Device = "auto",
) -> None:
    """Put labels on pictures. A picture that cannot be read is named and passed over.

    Exits with 1 when no picture could be read.
    """
    from tagloom.inference.predictor import load
    from tagloom.inference.tagging import collect_images, tag_files, write_tags

    paths = collect_images(pictures)
    tagger = load(run, device=device)
    console = open_console()
    failed = 0

    def readable() -> Iterator[tuple[Path, Any]]:
        nonlocal failed
        for path, tags in tag_files(tagger, paths, threshold=threshold, top_k=top_k):
            if isinstance(tags, list):
                yield path, tags
            else:
                failed += 1
                warn(str(tags))

    if out:
        with show_progress(console, "tagging") as progress:
            done = write_tags(counted(readable(), len(paths), progress), out)
        console.print(f"{done} of {len(paths)} pictures tagged, in {out}")
    else:
        for path, tags in readable():
            shown = "  ".join(f"[bold]{escape(tag.label)}[/] [dim]{tag.score:.2f}[/]" for tag in tags)
            console.print(f"{escape(str(path))}  {shown or '[dim]no label over its threshold[/]'}", soft_wrap=True)
    if failed == len(paths):
        raise typer.Exit(1)


@app.command()
def scenes(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")],
    images: Annotated[
        int, typer.Option(help="Training pictures; a quarter as many for each other part.", min=8)
    ] = 1200,
    seed: Annotated[int, typer.Option(help="Other seeds give other pictures.")] = 0,
) -> None:
    """Write the embedded data set: pictures drawn by code, with labels, to try everything on."""
    from tagloom.data.scenes import write_scenes

    console = open_console()
    part = max(images // 4, 2)
    with show_progress(console, "drawing") as progress:
        write_scenes(folder, train=images, val=part, test=part, seed=seed, progress=progress)
    console.print(f"Written to {folder}. Try: tagloom check {folder}/train.csv")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the demonstration puts its files.")] = Path("demo"),
    images: Annotated[int, typer.Option(help="Training pictures to draw.", min=40)] = 1600,
) -> None:
    """See it work: draw pictures, train a tagger on them, evaluate it, and look at its tags."""
    with _needs_train("the demonstration"):
        import torch  # noqa: F401 - asked for here, so that the message comes before any work
    from tagloom.demo import run_demo

    run_demo(out, images=images, console=open_console())


@app.command()
def heads(
    backbone: Annotated[str, typer.Option(help="Any timm model.")] = "tf_efficientnet_lite0",
    classes: Annotated[int, typer.Option(help="Number of labels.", min=1)] = 80,
    size: Annotated[int, typer.Option(help="Side of the pictures in pixels.", min=32)] = 224,
) -> None:
    """List the heads with their parameters and multiply-adds on a given backbone."""
    with _needs_train("counting"):
        from tagloom.models.cost import tagger_cost
        from tagloom.models.heads import HEADS, head_purpose
    from rich.table import Table

    console = open_console()
    table = Table("head", title=f"{backbone}, {classes} labels, {size} x {size} pixels", title_justify="left")
    for column in ("parameters, M", "multiply-adds, G", "with backbone, G"):
        table.add_column(column, justify="right")
    for name in HEADS:
        whole, head = tagger_cost(backbone, name, classes=classes, size=size)
        figures = [
            f"{head.parameters / 1e6:.2f}",
            f"{head.multiply_adds / 1e9:.3f}",
            f"{whole.multiply_adds / 1e9:.2f}",
        ]
        table.add_row(name, *figures)
    console.print(table)
    for name in HEADS:
        console.print(f"[bold]{name}[/]  {escape(head_purpose(name))}")


@recipes_app.command("list")
def recipes_list() -> None:
    """List the recipes that ship with Tagloom."""
    from rich.table import Table

    from tagloom.recipe import load_recipe, recipe_names

    table = Table("recipe", "backbone", "head", "for")
    for name in recipe_names():
        recipe = load_recipe(name)
        table.add_row(name, recipe.backbone.name, recipe.head.name, recipe.purpose)
    open_console().print(table)


@recipes_app.command("show")
def recipes_show(
    name: str,
    every: Annotated[bool, typer.Option("--all", help="Print every field, defaults included.")] = False,
) -> None:
    """Print a recipe with its comments."""
    from tagloom.recipe import load_recipe, recipe_text

    sys.stdout.write(load_recipe(name).to_yaml() if every else recipe_text(name))


@recipes_app.command("copy")
def recipes_copy(name: str, path: Path) -> None:
    """Copy a recipe to a file of yours, to change it there."""
    from tagloom.recipe import recipe_text

    text = recipe_text(name)
    if path.exists():
        raise TagloomError(f"{path}: is there already; name another file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    open_console().print(f"Written to {path}. Change it, then: tagloom train DATA --recipe {path}")


@recipes_app.command("validate")
def recipes_validate(path: str) -> None:
    """Check a recipe: every name, type and range in it."""
    from tagloom.recipe import load_recipe

    recipe = load_recipe(path)
    console = open_console()
    try:
        from tagloom.training.plan import check_options
    except ModuleNotFoundError:
        console.print("[yellow]The options of head and loss are not checked: that needs 'tagloom\\[train]'.[/]")
    else:
        check_options(recipe)
    console.print(f"[green]{path} is a valid recipe[/] ({recipe.backbone.name} + {recipe.head.name}).")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tagloom {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; errors of ours are printed without a traceback."""
    try:
        app()
    except TagloomError as error:
        code = getattr(error, "exit_code", 2)  # a run that was stopped has a code of its own, and is no error
        warn(str(error) if code != 2 else f"error: {error}")
        raise SystemExit(code) from None
    except KeyboardInterrupt:
        warn("stopped.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output left; there is nobody to complain to
        raise SystemExit(1) from None


def _table(path: str, options: list[str] | None) -> "LabelTable":
    from tagloom.data import load_table

    return load_table(path, **_pairs(options))


def _pairs(options: list[str] | None) -> dict[str, str]:
    """Read name=value options."""
    pairs = {}
    for option in options or []:
        name, equals, value = option.partition("=")
        if not equals:
            raise TagloomError(f"--data-option {option}: write it as name=value, for example split=trainval")
        pairs[name.strip()] = value.strip()
    return pairs


def _write_json(path: Path, content: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise TagloomError(f"{path}: cannot be written ({error}).") from error


@contextmanager
def _needs_train(what: str) -> Iterator[None]:
    """Turn a missing torch into a message that names the install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "timm", "safetensors", "onnx", "onnxscript"):
            raise
        raise MissingExtraError(what, "train") from error


if __name__ == "__main__":
    main()
