"""Does a vocabulary of weakly taught words help labels that were never trained?

    python studies/imagenet_words.py coco/train.csv --out runs/imagenet-words
    python studies/caption_words.py runs/imagenet-words/words.csv captions.csv --out runs/all-words
    python studies/any_words.py runs/all-words/words.csv coco/val.csv --out runs/studies/any-words

As `studies/words.py`: the 15 labels of studies/coco_unseen.txt are never trained, and then asked for. Here a head also
learns the words that an ImageNet classifier sees in the images (`studies/imagenet_words.py`) and, if the table has
them, those that captions name (`studies/caption_words.py`). Many name an unseen label or a kind of it, so there are two
rows: with every word, and without those that `names_unseen`, which is the honest one. The rows to beat are the head
that learns the other 65 labels alone, and copying the nearest seen label. With --large, the table has as many
photographs as COCO: four epochs, no mirrored features, and maps in 8 bits.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from imagenet_words import imagenet_words
from tagloom.cache_folder import default_cache_folder
from tagloom.data import load_table
from tagloom.labels.split import read_split
from tagloom.recipe import load_recipe, override
from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.plan import RUN_FILE, RunPlan
from tagloom.training.run import train
from wordnet import WordNet
from words import LARGE, SMALL, THREE, UNSEEN_FILE, Row, Study

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
NAMED = {  # words that captions have for them or always with them; in doubt one too many
    *("bus", "school bus", "boat", "canoe", "sailboat", "ship", "dog", "puppy", "pug", "bag", "purse", "racquet"),
    *("tennis racquet", "sandwich", "hamburger", "cake", "cupcake", "birthday cake", "chocolate cake", "couch", "sofa"),
    *("keyboard", "computer keyboard", "oven", "stove", "kitchen stove", "microwave oven", "vase", "hydrant"),
    *("snowboarder", "snowboarding", "boarder", "fork", "zebra", "fire", "tennis", "tennis player", "dessert"),
    *("streetcar", "luggage"),
}
MANY = ("words.labels_per_step=300", "unknown.learn_as=nothing", "loss.options.unknown_weight=0.3")  # as in any-word


@dataclass(frozen=True)
class Words(Row):
    """A row that learns words as well as the seen labels.

    Attributes:
        words: Which: "none", "other" for those that name no unseen label, or "all".
    """

    words: str = "none"


ROWS = [
    Words("seen labels alone", seeds=THREE),
    Words("and words that name no unseen label", MANY, THREE, words="other"),
    Words("and all words", MANY, THREE, words="all"),
]


class AnyWords(Study):
    """The study of `studies/words.py`, with words in its training table."""

    def trained(self, row: Row, seed: int) -> Path:
        """Train a row, or go on with a run that was stopped, and give its folder."""
        if not isinstance(row, Words):
            return super().trained(row, seed)
        folder = self.folder(row, seed)
        if not (folder / SPEC_FILE).exists():
            settings = [*row.settings, *SMALL, *self.settings, f"training.seed={seed}"]
            recipe = override(load_recipe(row.recipe), settings)
            plan = RunPlan(self.data, None, recipe, classes=(*self.split.seen, *self.words(row.words)))
            resume = (folder / RUN_FILE).exists()
            train(plan, folder, resume=resume, cache_folder=default_cache_folder(), console=self.console)
        return folder

    def words(self, which: str) -> list[str]:
        """Give the words of the table that a row learns."""
        labels = {*self.split.seen, *self.split.unseen}
        found = [name for name in load_table(self.data).classes if name not in labels]
        classes_of = imagenet_words(WordNet())
        other = [name for name in found if not names_unseen(name, classes_of.get(name, set()))]
        return {"none": [], "other": other, "all": found}[which]


def names_unseen(word: str, classes: set[int]) -> bool:
    """Whether a word names an unseen label or a kind of it, or what at least half of its ImageNet classes are."""
    most = max(len(classes & set(numbers)) for numbers in NAMING.values())
    return word in NAMED or (len(classes) > 0 and 2 * most >= len(classes))


def main() -> None:
    """Run the rows."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="words.csv of studies/imagenet_words.py")
    arguments.add_argument("val", help="validation table with the 80 labels of COCO")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/any-words"))
    arguments.add_argument("--seed", type=int, help="run only this seed, to share the work among processes")
    arguments.add_argument("--large", action="store_true", help="the table has all of COCO's photographs")
    arguments.add_argument("--only", action="append", help="run only the row of this name; may be repeated")
    given = arguments.parse_args()
    val = load_table(given.val)
    study = AnyWords(
        given.data, val, read_split(str(UNSEEN_FILE), val.classes), given.out, LARGE if given.large else ()
    )
    for row in ROWS:
        if not given.only or row.name in given.only:
            study.run(row, [seed for seed in row.seeds if given.seed in (None, seed)])
    if not given.only:
        study.add_baselines()


if __name__ == "__main__":
    main()
