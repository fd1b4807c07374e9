"""How the settings of `quick` and `quick-gap` were chosen: candidates on a fifth of the training images held aside.

    python studies/heads_tuning.py coco-mini/train.csv --out runs/studies/heads-tuning

The validation table plays no part in it. The winner of each head goes into its recipe and into studies/heads.py.
"""

from command import tuning
from tagloom.studies.variants import Variant

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
        "head.options.readout.groups=20",
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


if __name__ == "__main__":
    tuning(__doc__, VARIANTS, "runs/studies/heads-tuning")
