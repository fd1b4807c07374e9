"""What cached maps in 8 bits cost a trained tagger: its mAP on a table, and the space, against maps in float16.

    python bench/eight_bit_maps.py runs/quick coco-mini/val.csv --cache ~/.cache/tagloom

The tagger must have a frozen backbone and a head that reads maps, such as that of `quick`.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from tagloom.cache_folder import default_cache_folder
from tagloom.data import load_table
from tagloom.metrics import score
from tagloom.models.network import load_network
from tagloom.tagger.spec import read_spec
from tagloom.training.features.extract import extract_features
from tagloom.training.features.stored import as_read, as_stored
from tagloom.training.signals import StopRequest

BLOCK = 250


def main() -> None:
    """Score a table from maps of both kinds and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tagger", type=Path)
    arguments.add_argument("table")
    arguments.add_argument("--cache", type=Path, default=default_cache_folder())
    given = arguments.parse_args()
    spec, table = read_spec(given.tagger), load_table(given.table)
    network = load_network(given.tagger, spec)
    paths = [table.path(row) for row in range(len(table))]
    with StopRequest() as stop:
        found = extract_features(
            network, paths, spec.preprocess, cache_folder=given.cache, device=torch.device("cpu"), stop=stop
        )
    logits: dict[str, list[np.ndarray]] = {"float16": [], "uint8": []}
    space = dict.fromkeys(logits, 0)
    for first in range(0, len(found.rows), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(found.rows)))
        half = found.features.gather(rows)
        eight = as_stored([tensor.astype(np.float32) for tensor in half], "uint8")
        for name, stored in (("float16", half), ("uint8", eight)):
            space[name] += sum(array.nbytes for array in stored)
            summary = [torch.from_numpy(tensor).float() for tensor in as_read(stored)]
            with torch.no_grad():
                logits[name].append(network.head.classify(*summary).numpy())
    columns = [table.classes.index(name) for name in spec.classes]
    targets = table.targets(found.rows)[:, columns]
    print("| maps | mAP | KB per image |\n| --- | --- | --- |")
    for name, blocks in logits.items():
        scores = 1 / (1 + np.exp(-np.concatenate(blocks)))
        print(f"| {name} | {score(scores, targets)['mAP']:.3f} | {space[name] / len(found.rows) / 1000:.0f} |")


if __name__ == "__main__":
    main()
