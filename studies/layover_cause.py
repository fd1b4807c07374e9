"""What sets layover apart from its probe in the paper: the stages, or how far the linear layer is trained?

    python studies/layover_cause.py coco/train.csv coco/val.csv --out runs/studies/layover-cause

The paper's amounts α are about 1e-9, so its mixed feature *is* the pooled one, and its layover computes what its probe
computes. With α fixed at 0 the two are the same function with the same gradients; only the way there can differ. Its
loss averages over the classes, so that a rate of 0.1 moves each class by 1/80 of it: the probe may simply not have
arrived after 30 epochs, which would also explain its low recall at 0.5. So the probe is run at the paper's rate and at
higher ones, and layover at the same rates, with α started as a new linear layer starts it (0.5) and near 0 (0.02).
Features are raw, as in the paper; in the last rows they are standardised. The last epoch counts. At the end the amounts
α are printed, over 500 images of the validation table.
"""

from collections.abc import Iterator

from command import study
from layover import METRICS, PAPER, print_amounts
from tagloom.studies.variants import Variant

RAW = (*PAPER, "training.standardise=false", "optimiser.nesterov=false", "optimiser.schedule=one-cycle-torch")
RATES = (0.1, 1.0, 10.0)


def arms(rate: float, *settings: str) -> Iterator[Variant]:
    """The probe and layover of stage 1 at one rate."""
    shared = (*settings, f"optimiser.learning_rate={rate}")
    ending = f"rate {rate:g}" + ("" if settings == RAW else ", standardised")
    yield Variant(f"probe, {ending}", "probe", shared, (0,))
    for start in (0.5, 0.02):
        own = (*shared, f"head.options.mixing_start={start}")
        yield Variant(f"layover @1 from {start:g}, {ending}", "layover", own, (0,))


VARIANTS = [variant for rate in RATES for variant in arms(rate, *RAW)]
VARIANTS += arms(0.1, *RAW[:-3], *RAW[-2:])


if __name__ == "__main__":
    print_amounts(*study(__doc__, lambda data: VARIANTS, "runs/studies/layover-cause", METRICS))
