"""More words for a table: the things that captions of its images name.

    apt-get install wordnet-base
    python studies/caption_words.py runs/imagenet-words/words.csv captions_train2014.json --out runs/all-words

Captions are COCO's own JSON, or a CSV with the columns image_id and caption. Whatever noun of WordNet a caption names
is in the image, if its most usual meaning can be seen ("beach", "kitchen", "woman"); plurals count as singulars, and
two words in a row as one name where WordNet has it ("living room"). A caption says nothing about the rest, so words
that it does not name are unknown, and `tagloom train` takes them for weak negatives. Classes of the table without an
unknown pair, as COCO's own, stay as they are; any other becomes positive where a caption names it. Words with few
images are left out.
"""

import argparse
import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from imagenet_words import MIN_POSITIVES, VAGUE
from tagloom.data import load_table
from tagloom.data.pair_counts import pairs_per_class, unknown_per_class
from tagloom.data.table import LabelTable
from tagloom.words.spelling import forms_of
from wordnet import KINDS, WordNet

AS_THEY_ARE = {  # plurals that mean something else than their singular, or have none
    *("binoculars", "chips", "clothes", "fries", "glasses", "greens", "headphones", "jeans", "pants", "scissors"),
    *("shorts", "sprinkles", "stairs", "sunglasses"),
}
NOT_SEEN = {  # words whose usual meaning can be seen, to WordNet, but is rarely what a caption means
    *(
        "accessory",
        "air",
        "art",
        "asian",
        "blonde",
        "back",
        "background",
        "bit",
        "block",
        "board",
        "boards",
        "body",
        "bottom",
    ),
    *("bunch", "bunche", "cell"),
    *("center", "close", "closeup", "coke", "color", "colour", "corner", "couple", "cut", "decker", "decor", "depot"),
    *("direction", "eat", "edge", "end", "facing", "fed", "fixture", "foreground", "front", "giant", "graffito"),
    *("habitat", "half", "hanging", "head", "helping", "hole", "inside", "layer", "left", "line", "load", "loading"),
    *("look", "middle", "mini", "miniature", "motor", "number", "one", "opening", "outside", "pair", "photo"),
    *(
        "photograph",
        "picture",
        "red fire",
        "piece",
        "place",
        "plaid",
        "position",
        "rest",
        "round",
        "scene",
        "serving",
        "setting",
    ),
    *("shin", "side", "small", "spot", "stainless", "strip", "stuff", "thing", "top", "transit", "twin", "type"),
    *(
        "disc",
        "foil",
        "metal",
        "plastic",
        "steel",
        "upside",
        "use",
        "view",
        "vintage",
        "colors",
        "crosse",
        "eats",
        "flies",
        "graz",
        "kit",
        "lin",
        "shad",
    ),
}
ALSO_SEEN = {  # what WordNet counts as groups, acts, events and times, and a picture shows
    *("baseball", "birthday", "branch", "church", "construction", "cooking", "court", "crowd", "dusk", "family"),
    *("fire", "fishing", "flock", "forest", "herd", "market", "night", "outfit", "parade", "party", "path", "picnic"),
    *("racing", "sailing", "school", "skateboarding", "skating", "skiing", "snowboarding", "soccer", "sport"),
    *("sunset", "surf", "surfing", "swimming", "table", "team", "tennis", "traffic", "van", "vegetation"),
    *("video game", "village", "wave", "wedding", "winter"),
}
NOT_FIRST = {  # words that make no name of two, whatever WordNet has
    *("american", "beach", "car", "cheese", "drinking", "game", "large", "little", "old", "riding", "river", "salad"),
    *("sitting", "small", "standing", "the", "tv", "water", "white", "young"),
}


def main() -> None:
    """Write the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="label table whose images are called by the number of a caption's image")
    arguments.add_argument("captions", type=Path, help="COCO's JSON, or a CSV with image_id and caption")
    arguments.add_argument("--out", type=Path, default=Path("runs/all-words"))
    given = arguments.parse_args()
    table = load_table(given.data)
    row_of = {int(table.path(row).stem): row for row in range(len(table))}
    rows_of = named_things(read_captions(given.captions), row_of, WordNet())
    known = {name.lower() for name in table.classes}
    fresh = sorted(word for word, rows in rows_of.items() if word not in known and len(rows) >= MIN_POSITIVES)
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "words.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["image", *table.classes, *fresh])
        lines.writerows(marked_rows(table, rows_of, fresh))
    captioned = len(set().union(*rows_of.values()))
    print(
        f"{given.out / 'words.csv'}: {captioned:,} of {len(table):,} images are captioned, with {len(fresh)} new words"
    )


def read_captions(path: Path) -> Iterator[tuple[int, str]]:
    """Give the number of each caption's image, and the caption."""
    if path.suffix == ".json":
        records = json.loads(path.read_text(encoding="utf-8"))["annotations"]
    else:
        with path.open(encoding="utf-8", newline="") as file:
            records = list(csv.DictReader(file))
    for record in records:
        yield int(record["image_id"]), str(record["caption"])


def named_things(
    captions: Iterable[tuple[int, str]], row_of: Mapping[int, int], wordnet: WordNet
) -> dict[str, set[int]]:
    """Give what can be seen according to captions, with the rows of the images whose captions name it."""
    found: dict[str, set[int]] = defaultdict(set)
    for image, caption in captions:
        if image in row_of:
            for thing in things_in(caption, wordnet):
                found[thing].add(row_of[image])
    return found


def things_in(caption: str, wordnet: WordNet) -> set[str]:
    """Give the things that a caption names, in the singular."""
    words = re.findall(r"[a-z]+", caption.lower())
    single = [singular(word, wordnet) for word in words]
    found = {word for word in single if word is not None}
    for first, second in zip(words, single[1:], strict=False):
        if second is not None and first not in NOT_FIRST and is_visible(f"{first} {second}", wordnet):
            found.add(f"{first} {second}")
    return found


def singular(word: str, wordnet: WordNet) -> str | None:
    """Give the singular of a noun whose usual meaning can be seen; None for any other word."""
    candidates = [word] if word in AS_THEY_ARE else [*forms_of(word)[1:], word]
    candidates = [wordnet.irregular[word]] if word in wordnet.irregular else candidates
    return next((candidate for candidate in candidates if is_visible(candidate, wordnet)), None)


def is_visible(word: str, wordnet: WordNet) -> bool:
    """Whether the usual meaning of a word is a noun that can be seen."""
    if word in ALSO_SEEN:
        return True
    place = wordnet.usual_places.get(word)
    if place is None or len(word) < 3 or word in NOT_SEEN or word in VAGUE or word in wordnet.seldom_nouns:
        return False
    return wordnet.meanings[place].plain and wordnet.meanings[place].kind in KINDS


def marked_rows(table: LabelTable, rows_of: Mapping[str, set[int]], fresh: list[str]) -> Iterator[list[str]]:
    """Give the rows of the new table: an image, its marks of old, and those of the new words."""
    unsure = unknown_per_class(table, pairs_per_class(table.positive)) > 0
    captioned = {name: rows_of[name] for name in np.array(table.classes)[unsure].tolist() if name in rows_of}
    for row in range(len(table)):
        targets, known = table.targets([row])[0], table.known([row])[0]
        old = [
            "1" if row in captioned.get(name, ()) else str(int(target)) if is_known else ""
            for name, target, is_known in zip(table.classes, targets, known, strict=True)
        ]
        yield [str(table.path(row).resolve()), *old, *("1" if row in rows_of[word] else "" for word in fresh)]


if __name__ == "__main__":
    main()
