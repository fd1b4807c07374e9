"""How the settings of `quick-tail` were chosen: candidates on a fifth of the training images held aside.

    python studies/tail_tuning.py coco-mini/train.csv --out runs/studies/tail-tuning

The validation table plays no part in it.
"""

from command import tuning
from tagloom.studies.variants import Variant

CROPS = ("augment.crop_scale=[0.35,1.0]",)


def tail(name: str, after: int | str, views: int, epochs: int, *settings: str, rate: str = "1e-3") -> Variant:
    """A candidate: `quick` with a trained tail."""
    own = (
        f"backbone.train_from={after}",
        f"training.epochs={epochs}",
        f"optimiser.learning_rate={rate}",
        "data.holdout=0.05",
        *((f"training.cached_views={views}", *CROPS) if views else ()),
    )
    return Variant(name, "quick", (*own, *settings), seeds=(0,))


FACTOR = "optimiser.backbone_factor"
STATISTICS = "backbone.tail_statistics=trained"
VARIANTS = [
    Variant("quick", "quick", ("data.holdout=0.05",), seeds=(0,)),
    tail("stage 4, 2 views, 6 epochs, 0.3", 4, 2, 6, f"{FACTOR}=0.3"),
    tail("stage 4, 4 views, 8 epochs, 0.3", 4, 4, 8, f"{FACTOR}=0.3"),
    tail("stage 4, 4 views, 8 epochs, 0.3, statistics", 4, 4, 8, f"{FACTOR}=0.3", STATISTICS),
    tail("stage 4, 4 views, 8 epochs, 0.1", 4, 4, 8, f"{FACTOR}=0.1"),
    tail("stage 4, 4 views, 8 epochs, 1", 4, 4, 8, f"{FACTOR}=1"),
    tail("stage 4, 4 views, 12 epochs, 0.3", 4, 4, 12, f"{FACTOR}=0.3"),
    tail("stage 4, 4 views, 12 epochs, 0.3, decay 0.1", 4, 4, 12, f"{FACTOR}=0.3", "optimiser.weight_decay=0.1"),
    tail("blocks.5, mirrors, 8 epochs, 0.1", "blocks.5", 0, 8, f"{FACTOR}=0.1"),
    tail("blocks.5, 4 views, 12 epochs, 0.3", "blocks.5", 4, 12, f"{FACTOR}=0.3"),
    tail("blocks.5, 4 views, 12 epochs, 1", "blocks.5", 4, 12, f"{FACTOR}=1"),
]


if __name__ == "__main__":
    tuning(__doc__, VARIANTS, "runs/studies/tail-tuning")
