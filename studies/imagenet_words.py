"""A thousand more words for a table: what an ImageNet classifier sees in its images, as weak labels.

    apt-get install wordnet-base
    python studies/imagenet_words.py coco/train.csv --out runs/imagenet-words

Word queries need many seen labels, and COCO has 80. The bundled EfficientNet-Lite2's own classifier knows ImageNet's
1,000, and WordNet what these are kinds of: a Labrador retriever is a retriever, a dog and an animal, and the
probability of "dog" is the sum over its breeds. The classifier looks at the whole image and at nine windows of its last
map. A word is positive where the whole image gives it a probability of at least 0.5, or where a window gives it 0.8 and
the whole image does not rule it out (0.03): windows alone see prisons in tennis nets. It is negative where neither
comes near, and unknown between. Words with few positives are left out, and so are words that the table has as a class
already. The result, words.csv, is a table of all images with the classes of the given table and the words, for
`tagloom train words.csv --recipe quick-words`.
"""

import argparse
import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from timm.data import ImageNetInfo
from torch import Tensor, nn

from tagloom.data import load_table
from tagloom.errors import ImageError
from tagloom.models.backbone import create_backbone
from tagloom.models.bundled import PACKAGES
from tagloom.models.heads.head import Head
from tagloom.models.heads.scale import FeatureScale
from tagloom.models.network import TaggerNetwork, export_network, save_weights
from tagloom.models.weights import read_weights
from tagloom.predict.tagger import Tagger, load
from tagloom.progress import show_progress
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import ONNX_FILE, SPEC_FILE, TaggerSpec, write_spec
from tagloom.terminal import open_console
from wordnet import KINDS, WordNet, frequent_words

BACKBONE, SIZE = "tf_efficientnet_lite2", 288
SURE, PERHAPS = 0.5, 0.05
MIN_POSITIVES = 20
WINDOW = 0.5  # side of a window, as a share of the map's
PLAUSIBLE = 0.03  # of the whole image, before a window counts
DISTRUST = 0.3  # taken off a window's probability
MOST_USUAL = 20_000  # a kind is only of use if its name is among so many of the most frequent words
VAGUE = {  # kinds that say nothing of a picture, or too much
    *("alcohol", "area", "article", "artifact", "attachment", "barrier", "brace", "commodity", "container"),
    *("contestant", "conveyance", "covering", "creation", "device", "drug", "dwelling", "equipment", "establishment"),
    *("facility", "firearm", "fluid", "garment", "gun", "housing", "implement", "instrument", "liquid", "machine"),
    *("material", "matter", "mechanism", "module", "nipple", "obstruction", "part", "peripheral", "point", "produce"),
    *(
        "product",
        "region",
        "section",
        "solid",
        "structure",
        "substance",
        "support",
        "surface",
        "system",
        "unit",
        "ware",
    ),
    *("way", "weapon", "workplace"),
}


def main() -> None:
    """Write the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="label table whose images are looked at")
    arguments.add_argument("--out", type=Path, default=Path("runs/imagenet-words"))
    given = arguments.parse_args()
    table = load_table(given.data)
    tagger = word_tagger(given.out / "imagenet")
    best = best_probabilities(tagger, [table.path(row) for row in range(len(table))])
    taken = {name.lower() for name in table.classes}
    counts = np.asarray((best >= SURE).sum(axis=0)).ravel()
    words = [
        column for column, name in enumerate(tagger.classes) if counts[column] >= MIN_POSITIVES and name not in taken
    ]
    with (given.out / "words.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", *table.classes, *(tagger.classes[column] for column in words)])
        for row in range(len(table)):
            found = best[[row]].toarray()[0, words]
            weak = np.where(found >= SURE, 1, np.where(found >= PERHAPS, -1, 0))
            rows.writerow([table.path(row).resolve(), *table.targets([row])[0], *weak])
    print(f"{given.out / 'words.csv'}: {len(table):,} images, {len(table.classes)} classes and {len(words)} words")


def imagenet_words(wordnet: WordNet) -> dict[str, set[int]]:
    """Give words with the numbers of the ImageNet classes that they are names or kinds of.

    A word stands for its most usual meaning, since that is what its vector stands for. So a class is called by the
    first of its names that usually means it, and a kind is left out unless its name does: "craft" is no vehicle to most
    people. Two classes with one name, such as the two cranes, are one word.
    """
    info = ImageNetInfo()
    usual, frequent = wordnet.usual_places, set(frequent_words(MOST_USUAL))
    words: dict[str, set[int]] = {}
    for number in range(info.num_classes()):
        place = int(info.index_to_label_name(number)[1:])
        names = wordnet.meanings[place].names
        words.setdefault(next((name for name in names if usual[name] == place), names[0]), set()).add(number)
        for above in wordnet.above(place):
            name = wordnet.meanings[above].names[0]
            if wordnet.meanings[above].kind in KINDS and usual[name] == above and name in frequent - VAGUE:
                words.setdefault(name, set()).add(number)
    return words


class WordsInWindows(Head):
    """How sure the classifier is of each word, in the whole image or in a window of it, as a logit.

    Args:
        linear: ImageNet's classifier, from C channels to 1,000 logits.
        members: (1000, words), 1 where a class counts for a word.
    """

    summary = ("map",)

    def __init__(self, linear: nn.Linear, members: Tensor) -> None:
        super().__init__()
        self.linear = linear
        self.scales = nn.ModuleList([FeatureScale(linear.in_features)])
        self.register_buffer("members", members)

    def summarise(self, features: Tensor, *stages: Tensor) -> tuple[Tensor, ...]:
        """Take the map (B, C, H, W) as it is."""
        return (features,)

    def classify(self, features: Tensor, *stages: Tensor, words: Tensor | None = None) -> Tensor:
        """Map features (B, C, H, W) to logits (B, words)."""
        self.refuse_words(words)
        _, _, height, width = features.shape
        tall, wide = max(1, round(height * WINDOW)), max(1, round(width * WINDOW))
        windows = [
            features[:, :, top : top + tall, left : left + wide]
            for top in (0, (height - tall) // 2, height - tall)
            for left in (0, (width - wide) // 2, width - wide)
        ]
        pooled = torch.stack([part.mean(dim=(2, 3)) for part in (features, *windows)], dim=1)  # (B, 1 + windows, C)
        words_in = self.linear(pooled).softmax(dim=2) @ self.members  # (B, 1 + windows, words)
        whole, window = words_in[:, 0], words_in[:, 1:].amax(dim=1) - DISTRUST
        best = torch.where(whole >= PLAUSIBLE, torch.maximum(whole, window), whole).clamp(1e-6, 1 - 1e-6)
        return torch.log(best) - torch.log1p(-best)


def word_tagger(folder: Path) -> Tagger:
    """Give the bundled classifier as a tagger that scores words by their highest probability in any window."""
    if not (folder / SPEC_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = imagenet_words(WordNet())
        backbone = create_backbone(BACKBONE, "bundled")
        weight, bias = list(read_weights(PACKAGES[BACKBONE].file()).values())[-2:]
        linear = nn.Linear(backbone.out_channels, len(weight))
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(bias)
        network = TaggerNetwork(backbone, WordsInWindows(linear, member_matrix(words, len(weight)))).eval()
        save_weights(network, folder)
        export_network(network, folder / ONNX_FILE, size=SIZE)
        preprocess = Preprocess(size=SIZE, fit="squeeze", interpolation="bicubic")
        write_spec(TaggerSpec(tuple(words), preprocess, backbone=BACKBONE, head="gap"), folder)
    return load(folder)


def member_matrix(words: Mapping[str, set[int]], classes: int) -> Tensor:
    """Say which classes count for which words: (classes, words) of 0 and 1."""
    members = torch.zeros(classes, len(words))
    for column, numbers in enumerate(words.values()):
        members[sorted(numbers), column] = 1
    return members


def best_probabilities(tagger: Tagger, paths: list[Path]) -> "csr_array[np.float32, tuple[int, int]]":
    """Give the probability of each word in each image, (images, words), where it is at least `PERHAPS`."""
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float32]] = []
    with show_progress(open_console(), "images") as progress:
        for index, scores in tagger.stream(paths):
            progress(index, len(paths))
            if isinstance(scores, ImageError):
                continue
            found = np.flatnonzero(scores >= PERHAPS)
            rows.append(np.full(len(found), index))
            columns.append(found)
            values.append(scores[found])
    row, column, value = (np.concatenate(parts) for parts in (rows, columns, values))
    return csr_array(coo_array((value, (row, column)), (len(paths), len(tagger.classes))))


if __name__ == "__main__":
    main()
