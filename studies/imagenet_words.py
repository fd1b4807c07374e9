"""A thousand more words for a table: what an ImageNet classifier sees in its images, as weak labels.

    python studies/imagenet_words.py coco/train.csv --out runs/imagenet-words

Word queries need many seen labels, and COCO has 80. The bundled backbone's own classifier knows ImageNet's 1,000. It
looks at every image whole and at five crops of it. A word is positive where it is the best guess for one of these with
a probability of at least 0.5, negative where no view gives it 0.02, and unknown between. Words with few positives are
left out, and so are words that the table has as a class already. The result, words.csv, is a table of all images with
the classes of the given table and the words, for `tagloom train words.csv --recipe quick-words`.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import coo_array, csr_array
from timm.data import ImageNetInfo

from tagloom.data import load_table
from tagloom.data.images import open_image
from tagloom.errors import ImageError
from tagloom.models.backbone import create_backbone
from tagloom.models.bundled import BUNDLED_BACKBONE, PACKAGES
from tagloom.models.heads.pooled import PooledHead
from tagloom.models.network import TaggerNetwork, export_network, save_weights
from tagloom.models.weights import read_weights
from tagloom.predict.tagger import Tagger, load
from tagloom.progress import show_progress
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import ONNX_FILE, SPEC_FILE, TaggerSpec, write_spec
from tagloom.terminal import open_console

SURE, PERHAPS = 0.5, 0.02
SIZE = 224
CROP = 0.6  # side of a crop, as a share of the image's
PLACES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))
VIEWS = 1 + len(PLACES)
KEPT = 8  # probabilities per view; the others are far below PERHAPS
MIN_POSITIVES = 10


def main() -> None:
    """Write the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="label table whose images are looked at")
    arguments.add_argument("--out", type=Path, default=Path("runs/imagenet-words"))
    given = arguments.parse_args()
    table = load_table(given.data)
    tagger = imagenet_tagger(given.out / "imagenet")
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


def imagenet_tagger(folder: Path) -> Tagger:
    """Give the bundled classifier as a tagger of 1,000 labels, of which each picture has one."""
    if not (folder / SPEC_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        classes = class_names(ImageNetInfo())
        backbone = create_backbone(BUNDLED_BACKBONE, "bundled")
        head = PooledHead(backbone.out_channels, len(classes))
        weight, bias = list(read_weights(PACKAGES[BUNDLED_BACKBONE].file()).values())[-2:]
        head.linear.weight.data.copy_(weight)
        head.linear.bias.data.copy_(bias)
        network = TaggerNetwork(backbone, head).eval()
        preprocess = Preprocess(size=SIZE, fit="squeeze", interpolation="bicubic")
        save_weights(network, folder)
        export_network(network, folder / ONNX_FILE, size=SIZE)
        write_spec(TaggerSpec(classes, preprocess, backbone=BUNDLED_BACKBONE, head="gap", activation="softmax"), folder)
    return load(folder)


def class_names(info: ImageNetInfo) -> tuple[str, ...]:
    """Name ImageNet's classes by their first synonym; it has two cranes and two maillots, which get a number."""
    names: list[str] = []
    for number in range(info.num_classes()):
        name = info.index_to_description(number).split(", ")[0].lower()
        names.append(name if name not in names else f"{name} 2")
    return tuple(names)


def views(paths: list[Path]) -> Iterator[Image.Image | ImageError]:
    """Give every image whole, then its crops."""
    for path in paths:
        try:
            picture = open_image(path)
        except ImageError as error:
            yield from [error] * VIEWS
            continue
        yield picture
        width, height = picture.size
        for across, down in PLACES:
            left, top = across * width * (1 - CROP), down * height * (1 - CROP)
            yield picture.crop((int(left), int(top), int(left + width * CROP), int(top + height * CROP)))


def best_probabilities(tagger: Tagger, paths: list[Path]) -> "csr_array[np.float32, tuple[int, int]]":
    """Give the highest probability of each word over an image's views, (images, words), where it is not tiny."""
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float32]] = []
    with show_progress(open_console(), "views") as progress:
        for index, scores in tagger.stream(views(paths)):
            progress(index, len(paths) * VIEWS)
            if isinstance(scores, ImageError):
                continue
            top = np.argpartition(scores, -KEPT)[-KEPT:]
            rows.append(np.full(KEPT, index // VIEWS))
            columns.append(top)
            values.append(scores[top])
    row, column, value = (np.concatenate(parts) for parts in (rows, columns, values))
    order = np.argsort(value)  # of several views the highest probability is written last
    found = dict(zip(zip(row[order].tolist(), column[order].tolist(), strict=True), value[order].tolist(), strict=True))
    places = np.array(list(found), dtype=np.int64).T
    return csr_array(coo_array((np.array(list(found.values()), np.float32), places), (len(paths), 1000)))


if __name__ == "__main__":
    main()
