"""Does a vocabulary of weakly taught words help labels that were never trained?

    python studies/imagenet_words.py coco/train.csv --out runs/imagenet-words
    python studies/any_words.py runs/imagenet-words/words.csv coco/val.csv --out runs/studies/any-words

As `studies/words.py`: the 15 labels of studies/coco_unseen.txt are never trained, and then asked for. Here a head also
learns the words that an ImageNet classifier sees in the images (`studies/imagenet_words.py`). Many of these name an
unseen label or a kind of it, so there are two rows: with every word, and without those in `NAMING`, which is the honest
one. The rows to beat are the head that learns the other 65 labels alone, and copying the nearest seen label.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from timm.data import ImageNetInfo

from imagenet_words import class_names
from tagloom.cache_folder import default_cache_folder
from tagloom.data import load_table
from tagloom.labels.split import read_split
from tagloom.recipe import load_recipe, override
from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train
from words import SMALL, THREE, UNSEEN_FILE, Row, Study

# Numbers of ImageNet's classes that name an unseen label or a kind of it, in doubt one too many. It has no fire
# hydrant, snowboard or fork.
NAMING = {
    "bus": (654, 779, 874),
    "boat": (449, 472, 484, 510, 554, 576, 625, 628, 693, 724, 780, 814, 833, 871, 914),
    "dog": (*range(151, 276), 537),
    "zebra": (340,),
    "handbag": (636, 728, 748),
    "tennis racket": (752, 852),
    "sandwich": (933, 934),
    "cake": (415, 927),
    "couch": (831,),
    "keyboard": (508, 810, 878),
    "oven": (544, 651, 827),
    "vase": (725, 738, 883),
}
LABELS_PER_STEP = "words.labels_per_step=150"


@dataclass(frozen=True)
class Words(Row):
    """A row that learns words as well as the seen labels.

    Attributes:
        words: Which: "none", "other" for those that name no unseen label, or "all".
    """

    words: str = "none"


ROWS = [
    Words("seen labels alone", seeds=THREE),
    Words("and words that name no unseen label", (LABELS_PER_STEP,), THREE, words="other"),
    Words("and all words", (LABELS_PER_STEP,), THREE, words="all"),
]


class AnyWords(Study):
    """The study of `studies/words.py`, with words in its training table."""

    def trained(self, row: Row, seed: int) -> Path:
        """Train a row, or go on with a run that was stopped, and give its folder."""
        if not isinstance(row, Words):
            return super().trained(row, seed)
        folder = self.folder(row, seed)
        if not (folder / SPEC_FILE).exists():
            recipe = override(load_recipe(row.recipe), [*row.settings, *SMALL, f"training.seed={seed}"])
            plan = RunPlan(self.data, None, recipe, classes=(*self.split.seen, *self.words(row.words)))
            resume = (folder / RUN_FILE).exists()
            train(plan, folder, resume=resume, cache_folder=default_cache_folder(), console=self.console)
        return folder

    def words(self, which: str) -> list[str]:
        """Give the words of the table that a row learns."""
        names = class_names(ImageNetInfo())
        naming = {names[number] for numbers in NAMING.values() for number in numbers}
        labels = {*self.split.seen, *self.split.unseen}
        found = [name for name in load_table(self.data).classes if name not in labels]
        return {"none": [], "other": [name for name in found if name not in naming], "all": found}[which]


def main() -> None:
    """Run the rows."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="words.csv of studies/imagenet_words.py")
    arguments.add_argument("val", help="validation table with the 80 labels of COCO")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/any-words"))
    arguments.add_argument("--seed", type=int, help="run only this seed, to share the work among processes")
    given = arguments.parse_args()
    val = load_table(given.val)
    study = AnyWords(given.data, val, read_split(str(UNSEEN_FILE), val.classes), given.out)
    for row in ROWS:
        study.run(row, [seed for seed in row.seeds if given.seed in (None, seed)])
    study.add_baselines()


if __name__ == "__main__":
    main()
