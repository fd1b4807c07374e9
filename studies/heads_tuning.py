"""How the settings of `quick` and `quick-gap` were chosen: candidates on a fifth of the training images held aside.

    python studies/heads_tuning.py coco-mini/train.csv --out runs/studies/heads-tuning

The validation table plays no part in it. The winner of each head goes into its recipe and into studies/heads.py.
"""

import argparse
import csv
from pathlib import Path

from runner import Variant, run_study
from tagloom.data import load_table
from tagloom.data.formats.fields import join_labels
from tagloom.data.table import LabelTable

COMMON = ("data.holdout=0.05", "training.batch_size=64", "loss.name=asymmetric")
FLIP = "augment.flip=0.5"


def gap(name: str, *settings: str) -> Variant:
    """A candidate for the linear head."""
    return Variant(f"GAP {name}", "quick-gap", (*COMMON, *settings), seeds=(0,))


def decoder(
    name: str, rate: str, epochs: int, feature_dropout: float, *settings: str, base: tuple[str, ...] = (FLIP,)
) -> Variant:
    """A candidate for ML-Decoder with 20 queries."""
    own = (
        f"optimiser.learning_rate={rate}",
        f"training.epochs={epochs}",
        f"head.options.feature_dropout={feature_dropout}",
        "head.options.groups=20",
    )
    return Variant(f"ML-Decoder {name}", "quick", (*COMMON, "augment.flip=0", *base, *own, *settings), seeds=(0,))


VARIANTS = [
    gap("0.003, 8 epochs"),
    gap("0.003, 8 epochs, flip", FLIP),
    gap("0.003, 16 epochs, flip", FLIP, "training.epochs=16"),
    gap("0.0015, 10 epochs, flip", FLIP, "optimiser.learning_rate=0.0015", "training.epochs=10"),
    gap("0.003, 10 epochs, flip, dropout 0.5", FLIP, "training.epochs=10", "head.options.dropout=0.5"),
    gap("0.003, 30 epochs, flip, dropout 0.5", FLIP, "training.epochs=30", "head.options.dropout=0.5"),
    gap("0.003, 10 epochs, flip, decay 0.01", FLIP, "training.epochs=10", "optimiser.weight_decay=0.01"),
    decoder("raw features, 2e-3, 5 epochs, 0.2", "2e-3", 5, 0.2, "training.standardise=false", base=()),
    decoder("2e-3, 5 epochs, 0.2", "2e-3", 5, 0.2, base=()),
    decoder("1e-3, 5 epochs, 0.2", "1e-3", 5, 0.2, base=()),
    decoder("1e-3, 5 epochs, 0.4", "1e-3", 5, 0.4, base=()),
    decoder("1e-3, 5 epochs, 0.4, flip", "1e-3", 5, 0.4),
    decoder("5e-4, 5 epochs, 0.4, flip, decay 0.1", "5e-4", 5, 0.4, "optimiser.weight_decay=0.1"),
    decoder("1e-3, 6 epochs, 0.6, flip, decay 0.1", "1e-3", 6, 0.6, "optimiser.weight_decay=0.1"),
    decoder("1e-3, 10 epochs, 0.5, flip", "1e-3", 10, 0.5),
]


def write_table(table: LabelTable, path: Path) -> str:
    """Write a table as a CSV with absolute paths, and its classes beside it."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "labels"])
        for row in range(len(table)):
            names = [table.classes[place] for place in table.targets([row])[0].nonzero()[0]]
            writer.writerow([table.path(row).resolve(), join_labels(names)])
    (path.parent / "classes.txt").write_text("\n".join(table.classes) + "\n", encoding="utf-8")
    return str(path)


def main() -> None:
    """Run the candidates."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("data", help="training table")
    arguments.add_argument("--out", type=Path, default=Path("runs/studies/heads-tuning"))
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    learn, aside = load_table(given.data).split(0.2, seed=7)
    data, val = write_table(learn, given.out / "train.csv"), write_table(aside, given.out / "aside.csv")
    run_study(VARIANTS, data=data, val=val, out=given.out)


if __name__ == "__main__":
    main()
