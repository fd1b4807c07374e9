"""The demonstration, from drawing images to looking at tags. It doubles as an example of the public functions."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

import tagloom
from tagloom.data.scenes import SceneSettings, write_scenes
from tagloom.progress import show_progress
from tagloom.ready import ANY_WORD
from tagloom.report.contact_sheet import contact_sheet
from tagloom.report.metrics import render_metrics
from tagloom.report.page import write_report
from tagloom.tagger.spec import RUN_FILE

if TYPE_CHECKING:
    from tagloom.evaluation.evaluate import Evaluation
    from tagloom.predict.predictions import Predictions

SHOWN_IMAGES = 16
TYPED = ("temple", "lake", "flower", "bee", "uniform", "flag")  # labels that somebody might type
_PHOTOGRAPHS = {
    "sklearn": ("datasets/images/china.jpg", "datasets/images/flower.jpg"),
    "matplotlib": ("mpl-data/sample_data/grace_hopper.jpg",),
}
SETTINGS = SceneSettings(object_size=(0.15, 0.6), things_per_picture=(1, 4))  # without the smallest things


def run_demo(out: Path, *, images: int, console: Console) -> float:
    """Show the ready tagger; then draw the embedded data set, train on it, evaluate, show tags, and write a report.

    Args:
        out: Folder for everything; running it again starts over with the same images.
        images: Training images to draw.
        console: Where to print what happens.

    Returns:
        mAP on the test split, in percent.
    """
    _show_ready(out / "ready.png", console)
    scenes, run, sheet = out / "scenes", out / "tagger", out / "tags.png"
    console.print("[bold]1. Draw images[/] of 24 kinds of things, up to four in each, with their labels", markup=True)
    part = max(images // 4, 10)
    with show_progress(console, "drawing images") as progress:
        write_scenes(scenes, train=images, val=part, test=part, settings=SETTINGS, progress=progress)

    _print_step(console, "2. Train", f"tagloom train {scenes}/train.csv --val {scenes}/val.csv --out {run}")
    if (run / RUN_FILE).exists():
        shutil.rmtree(run)
    result = tagloom.train(scenes / "train.csv", val=scenes / "val.csv", recipe="quick", out=run)

    _print_step(console, "3. Evaluate", f"tagloom evaluate {run} {scenes}/test.csv")
    tested = tagloom.evaluate(result, scenes / "test.csv")
    render_metrics(tested.metrics, tested.classes, console)
    broken = tagloom.evaluate(result, scenes / "test_broken.csv")
    test_map = float(tested.metrics["mAP"])
    console.print(
        f"mAP on the test split: [bold]{test_map:.1f}[/]. Where things appear without those they usually co-occur "
        f"with: {broken.metrics['mAP']:.1f}.",
        markup=True,
    )

    console.print("\n[bold]4. Look at its tags[/]", markup=True)
    _draw_sheet(result.tagger, tested, scenes / "test.csv", sheet)
    console.print(f"The first {SHOWN_IMAGES} test images with their tags: [bold]{escape(str(sheet))}[/]", markup=True)
    page = out / "report.html"
    _print_step(console, "5. Read the report", f"tagloom report {run} {scenes}/test.csv --out {page}")
    write_report(result.tagger, tagloom.load_table(scenes / "test.csv"), run, page)
    console.print(f"Figures, charts and the hardest images with heat maps: [bold]{escape(str(page))}[/]", markup=True)
    command = "tagloom" if shutil.which("tagloom") else f"{sys.executable} -m tagloom"
    console.print(
        f"\nNow try:\n  {command} check {scenes}/train.csv\n"
        f"  {command} predict {run} {scenes}/images --top-k 3 --out {out}/tags.csv\n"
        f"  {command} serve {run}\n"
        f"  {command} train YOUR.csv --recipe quick --out runs/first",
        markup=False,
        soft_wrap=True,
    )
    return test_map


def _print_step(console: Console, step: str, command: str) -> None:
    """Print what is done next, and the command that does the same."""
    console.print(f"\n[bold]{step}[/]: {escape(command)}", markup=True, soft_wrap=True)


def _show_ready(sheet: Path, console: Console) -> None:
    """Tag photographs that other packages bring along."""
    photographs = installed_photographs()
    if not photographs:
        return
    console.print("[bold]The ready tagger[/], which needs no training: tagloom predict photo.jpg", markup=True)
    tags = tagloom.load().predict(photographs)
    _print_tags(photographs, tags, console)
    contact_sheet([(path, found, None) for path, found in zip(photographs, tags, strict=True)], sheet)
    console.print(f"The same as an image: [bold]{escape(str(sheet))}[/]\n", markup=True)
    any_word = tagloom.load(ANY_WORD)
    console.print(f"[bold]Everyday words[/]: tagloom predict {ANY_WORD} photo.jpg", markup=True)
    _print_tags(photographs, any_word.predict(photographs), console)
    typed = f"tagloom predict photo.jpg --labels '{', '.join(TYPED)}' --top-k 2"
    console.print(f"\n[bold]Labels of your own[/], the two best of six: {typed}", markup=True, soft_wrap=True)
    _print_tags(photographs, any_word.predict(photographs, labels=TYPED, top_k=2), console)
    console.print()


def _print_tags(photographs: list[Path], tags: "Predictions", console: Console) -> None:
    """Print photographs with their tags, a line for each."""
    for path, found in zip(photographs, tags, strict=True):
        shown = "  ".join(f"[bold]{escape(tag.label)}[/] [dim]{tag.score:.2f}[/]" for tag in found)
        console.print(f"{escape(path.name)}  {shown or '[dim]no label above its threshold[/]'}", markup=True)


def installed_photographs() -> list[Path]:
    """List the photographs in packages that training or drawing needs anyway, so that Tagloom need not ship any."""
    paths: list[Path] = []
    for package, names in _PHOTOGRAPHS.items():
        found = find_spec(package)
        if found is not None and found.origin is not None:
            paths.extend(Path(found.origin).parent / name for name in names)
    return [path for path in paths if path.is_file()]


def _draw_sheet(tagger: "tagloom.Tagger", tested: "Evaluation", data: Path, sheet: Path) -> None:
    """Draw the first test images with their tags and their true labels."""
    table = tagloom.load_table(data)
    images = []
    for row, scores in zip(tested.rows[:SHOWN_IMAGES].tolist(), tested.scores[:SHOWN_IMAGES], strict=True):
        truth = [table.classes[column] for column in table.targets([row])[0].nonzero()[0]]
        images.append((table.image(row), [(tag.label, tag.score) for tag in tagger.tags(scores)], truth))
    contact_sheet(images, sheet)
