"""Do heat maps point at the thing? Boxes of drawn scenes, and photographs with their hottest part blanked.

    python studies/heat_maps.py boxes --out runs/studies/heat-maps
    python studies/heat_maps.py deletion src/tagloom/ready coco-mini/val.csv

`boxes` trains a tagger per head on drawn scenes and gives, by head and method, how much of a map lies in the boxes of
its label, as a multiple of what an even map would have there. `deletion` blanks a fifth of each photograph with
its mean colour, and gives how far the score of a true tag falls: for the hottest fifth, for the same shape somewhere
else, and for cells of the map drawn at random.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import tagloom
from tagloom.data import load_table
from tagloom.data.images import open_image
from tagloom.data.scenes import write_scenes
from tagloom.demo import SETTINGS
from tagloom.predict.heat_maps import METHODS, default_method
from tagloom.predict.tagger import Tagger, load
from tagloom.tagger.spec import SPEC_FILE

SMALL = {"head.options.width": 256}
HEADS: dict[str, tuple[str, dict[str, object]]] = {
    "gap": ("quick-gap", {}),
    "layover": ("quick-layover", {}),
    "ml-decoder-small": ("quick", {}),
    "ml-decoder-small, 6 groups": ("quick-ml-decoder", {"head.options.readout.groups": 6}),
    "ml-decoder-words": ("quick-words", {}),
    "ml-decoder-words-grouped": (
        "quick-words",
        {"head.name": "ml-decoder-words-grouped", "head.options.readout.groups": 8},
    ),
    "transformer-decoder": (
        "quick",
        {"head.name": "transformer-decoder", **SMALL, "head.options.decoder.feed_forward": 512},
    ),
    "query2label": ("quick", {"head.name": "query2label", **SMALL}),
    "hsq": ("quick", {"head.name": "hsq", **SMALL}),
    "tf": (
        "quick",
        {"head.name": "tf", **SMALL, "head.options.decoder.head_width": 64, "head.options.decoder.feed_forward": 512},
    ),
}
Boxes = dict[str, dict[str, list[tuple[float, float, float, float]]]]


def read_boxes(scenes: Path) -> Boxes:
    """Give the boxes of each label in each image."""
    boxes: Boxes = defaultdict(lambda: defaultdict(list))
    for line in (scenes / "boxes.jsonl").read_text(encoding="utf-8").splitlines():
        thing = json.loads(line)
        boxes[thing["image"]][thing["thing"]].append(thing["box"])
    return boxes


def share_in_boxes(heat: NDArray[np.float32], boxes: list[tuple[float, float, float, float]]) -> float:
    """Give the share of heat (H, W) in boxes, divided by their share of the area; 1 for a map of nothing."""
    inside = np.zeros(heat.shape, bool)
    for left, top, right, bottom in boxes:
        inside[round(top) : round(bottom), round(left) : round(right)] = True
    return float(heat[inside].sum() / heat.sum() / inside.mean()) if heat.sum() > 0 and inside.any() else 1.0


def pointing(tagger: Tagger, scenes: Path, method: str, images: int) -> list[float]:
    """Measure the maps of the right tags of test images."""
    boxes = read_boxes(scenes)
    table = load_table(scenes / "test.csv")
    shares = []
    for row in range(min(images, len(table))):
        here = boxes[table.images[row]]
        found = tagger.explain(table.path(row), method=method)
        shares += [
            share_in_boxes(heat, here[label])
            for label, heat in zip(found.labels, found.maps, strict=True)
            if label in here
        ]
    return shares


def deletion_falls(
    tagger: Tagger, data: Path, images: int, share: float = 0.2, seed: int = 0
) -> tuple[list[float], list[float], list[float]]:
    """Blank parts of photographs, and give how far true tags fall: hottest part, same shape elsewhere, loose cells."""
    rng = np.random.default_rng(seed)
    table = load_table(data)
    falls: tuple[list[float], list[float], list[float]] = ([], [], [])
    for row in range(min(images, len(table))):
        picture = np.asarray(open_image(table.path(row)))
        found = tagger.explain(picture)
        true = {table.classes[column] for column in np.flatnonzero(table.targets([row])[0])}
        for label, score, heat in zip(found.labels, found.scores, found.maps, strict=True):
            if label not in true:
                continue
            hottest = largest_part(heat, share, rng)
            shifts = [int(rng.integers(size // 4, size - size // 4 + 1)) for size in heat.shape]
            cells = rng.random(found.grid.shape[1:]).repeat(-(-heat.shape[0] // 7), 0).repeat(-(-heat.shape[1] // 7), 1)
            loose = largest_part(cells[: heat.shape[0], : heat.shape[1]], share, rng)
            blanked = []
            for part in (hottest, np.roll(hottest, shifts, axis=(0, 1)), loose):
                copy = picture.copy()
                copy[part] = picture.mean(axis=(0, 1)).astype(np.uint8)
                blanked.append(copy)
            column = tagger.classes.index(label)
            for fall, after in zip(falls, tagger.scores(blanked)[:, column], strict=True):
                fall.append(float(score - after))
    return falls


def largest_part(values: NDArray[np.floating], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark the places with the largest values, exactly this share of all; equal ones are drawn."""
    flat = values.ravel()
    order = np.lexsort((rng.random(flat.size), -flat))
    marked = np.zeros(flat.size, bool)
    marked[order[: round(share * flat.size)]] = True
    return marked.reshape(values.shape)


def run_boxes(out: Path, images: int, console: Console) -> None:
    """Train the heads and print the table."""
    scenes = write_scenes(out / "scenes", train=2000, val=300, test=300, settings=SETTINGS)
    lines = ["| head | default | " + " | ".join(METHODS) + " |", "| --- " * (len(METHODS) + 2) + "|"]
    for name, (recipe, changes) in HEADS.items():
        folder = out / name.replace(", ", "-").replace(" ", "-")
        if not (folder / SPEC_FILE).is_file():
            tagloom.train(scenes / "train.csv", val=scenes / "val.csv", recipe=recipe, out=folder, settings=changes)
        tagger = load(folder)
        own = default_method(tagger.spec)
        cells = []
        for method in METHODS:
            fits = method == own or method not in ("attention", "cam")
            cells.append(f"{np.mean(pointing(tagger, scenes, method, images)):.2f}" if fits else "–")
        lines.append(f"| {name} | {own} | " + " | ".join(cells) + " |")
        console.print(lines[-1], markup=False)
    (out / "boxes.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    console.print("\n".join(lines), markup=False)


def main() -> None:
    """Run one of the two measurements."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["boxes", "deletion"])
    arguments.add_argument("tagger", nargs="?", help="deletion: a tagger folder")
    arguments.add_argument("data", nargs="?", type=Path, help="deletion: a label table")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/heat-maps"))
    arguments.add_argument("--images", type=int, default=150, help="images to measure on")
    given = arguments.parse_args()
    console = Console()
    if given.what == "boxes":
        run_boxes(given.out, given.images, console)
        return
    hottest, elsewhere, loose = deletion_falls(load(given.tagger), given.data, given.images)
    means = [float(np.mean(falls)) for falls in (hottest, elsewhere, loose)]
    console.print(
        f"{len(hottest)} true tags; their scores fall by {means[0]:.3f} without the hottest fifth, by {means[1]:.3f} "
        f"without the same shape elsewhere ({means[0] / means[1]:.1f} times), by {means[2]:.3f} without a fifth in "
        f"loose cells ({means[0] / means[2]:.1f} times)",
        markup=False,
    )


if __name__ == "__main__":
    main()
