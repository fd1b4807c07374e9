"""The demonstration: everything from drawing pictures to looking at tags, in one go."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tagloom.cache_folder import default_cache_folder
from tagloom.data import load_table
from tagloom.data.scenes import SceneSettings, write_scenes
from tagloom.evaluation.evaluate import Evaluation, evaluate
from tagloom.predict.tagger import Tagger, load
from tagloom.recipe import load_recipe
from tagloom.report.contact_sheet import contact_sheet
from tagloom.report.metrics import render_metrics
from tagloom.tagger.spec import RUN_FILE

SHOWN_PICTURES = 16
_PHOTOGRAPHS = {
    "sklearn": ("datasets/images/china.jpg", "datasets/images/flower.jpg"),
    "matplotlib": ("mpl-data/sample_data/grace_hopper.jpg",),
}
SETTINGS = SceneSettings(object_size=(0.15, 0.6), things_per_picture=(1, 4))  # without the smallest things


def run_demo(out: Path, *, images: int, console: Console) -> float:
    """Show the ready tagger; then draw the embedded data set, train on it, score, and show its tags.

    Args:
        out: Folder for everything; running it again starts again with the same pictures.
        images: Training pictures to draw.
        console: Where it tells what it does.

    Returns:
        mAP on the test part, in percent.
    """
    from tagloom.training.plan import RunPlan
    from tagloom.training.run import train

    _show_ready(out / "ready.png", console)
    scenes, run, sheet = out / "scenes", out / "tagger", out / "tags.png"
    console.print("[bold]1. Drawing pictures[/] of 24 kinds of things, up to four in each, with their labels")
    part = max(images // 4, 10)
    write_scenes(scenes, train=images, val=part, test=part, settings=SETTINGS)

    console.print(f"\n[bold]2. Training[/]: tagloom train {scenes}/train.csv --val {scenes}/val.csv --out {run}")
    if (run / RUN_FILE).exists():
        shutil.rmtree(run)
    plan = RunPlan(str(scenes / "train.csv"), str(scenes / "val.csv"), load_recipe("quick"))
    train(plan, run, cache_folder=default_cache_folder(), console=console)

    console.print(f"\n[bold]3. Evaluating it[/]: tagloom evaluate {run} {scenes}/test.csv")
    tagger = load(run)
    tested = evaluate(tagger, load_table(scenes / "test.csv"))
    render_metrics(tested.metrics, tagger.classes, console)
    broken = evaluate(tagger, load_table(scenes / "test_broken.csv")).metrics
    test_map = float(tested.metrics["mAP"])
    console.print(
        f"mAP on the test part: [bold]{test_map:.1f}[/]. Where things no longer keep their usual company: "
        f"{broken['mAP']:.1f}."
    )

    console.print("\n[bold]4. Looking at its tags[/]")
    _draw_sheet(tagger, tested, scenes, sheet)
    console.print(f"The first {SHOWN_PICTURES} test pictures with their tags: [bold]{sheet}[/]")
    command = "tagloom" if shutil.which("tagloom") else sys.argv[0]
    console.print(
        f"\nNow try:\n  {command} check {scenes}/train.csv\n"
        f"  {command} predict {run} {scenes}/images --top-k 3 --out {out}/tags.csv\n"
        f"  {command} train YOUR.csv --recipe quick --out runs/first"
    )
    return test_map


def _show_ready(sheet: Path, console: Console) -> None:
    """Tag the photographs that other packages bring along."""
    photographs = installed_photographs()
    if not photographs:
        return
    console.print("[bold]The ready tagger[/], which needs no training: tagloom predict photo.jpg")
    tags = load().predict(photographs)
    for path, found in zip(photographs, tags, strict=True):
        shown = "  ".join(f"[bold]{escape(tag.label)}[/] [dim]{tag.score:.2f}[/]" for tag in found)
        console.print(f"{path.name}  {shown or '[dim]no label over its threshold[/]'}")
    contact_sheet([(path, found, None) for path, found in zip(photographs, tags, strict=True)], sheet)
    console.print(f"The same as a picture: [bold]{sheet}[/]\n")


def installed_photographs() -> list[Path]:
    """List the photographs in packages that training or drawing needs anyway: none of our own need be shipped."""
    places: list[Path] = []
    for package, names in _PHOTOGRAPHS.items():
        found = find_spec(package)
        if found is not None and found.origin is not None:
            places.extend(Path(found.origin).parent / name for name in names)
    return [place for place in places if place.is_file()]


def _draw_sheet(tagger: Tagger, tested: Evaluation, scenes: Path, sheet: Path) -> None:
    table = load_table(scenes / "test.csv")
    pictures = []
    for row, scores in zip(tested.rows[:SHOWN_PICTURES].tolist(), tested.scores[:SHOWN_PICTURES], strict=True):
        truth = [table.classes[place] for place in table.targets([row])[0].nonzero()[0]]
        pictures.append((table.path(row), [(tag.label, tag.score) for tag in tagger.tags(scores)], truth))
    contact_sheet(pictures, sheet)
