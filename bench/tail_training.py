"""How much cheaper a training step is when only the tail of the backbone is trained, against training all of it.

    python bench/tail_training.py

Each row is a step of the `quick` head on bundled EfficientNet-Lite0 at 224 pixels, forward and backward, 32 images, one
thread. Rows take turns, and the best of several rounds counts, in seconds of the processor, so that other work disturbs
little. Decoding pictures, which training the whole network also needs in every epoch, is not counted.
"""

import argparse
import time
from collections.abc import Callable

import torch

from ratio import Ratio, as_table, of_rates
from tagloom.models.network import TaggerNetwork, build_network

IMAGES, SIZE, CLASSES = 32, 224, 80
WHOLE = "the whole network trained"


def network(after: int | str | None = None) -> TaggerNetwork:
    """Build `quick`'s network, trained whole or after a place in its backbone."""
    found = build_network(
        backbone="tf_efficientnet_lite0",
        weights="bundled",
        head="ml-decoder-small",
        head_options={"feature_dropout": 0.5},
        classes=CLASSES,
        size=SIZE,
        frozen=False,
    )
    if after is not None:
        found.backbone.train_from(after, size=SIZE)
    return found.train()


def whole_step(pictures: torch.Tensor) -> Callable[[], None]:
    """Train everything, from pictures."""
    trained = network()
    return lambda: trained(pictures).mean().backward()


def tail_step(pictures: torch.Tensor, after: int | str) -> Callable[[], None]:
    """Train the tail and the head, from what a cache would keep."""
    trained = network(after)
    kept = [value.contiguous() for value in trained.kept(pictures)]
    return lambda: trained.classify_kept(*kept).mean().backward()


def head_step(pictures: torch.Tensor) -> Callable[[], None]:
    """Train the head, from maps."""
    trained = network()
    with torch.no_grad():
        summary = [value.contiguous() for value in trained.summarise(pictures)]
    return lambda: trained.head.classify(*summary).mean().backward()


def compare(rounds: int) -> list[Ratio]:
    """Time all steps in turn."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pictures = torch.randint(0, 256, (IMAGES, SIZE, SIZE, 3), dtype=torch.uint8)
    steps = {
        "the tail from stage 4": tail_step(pictures, 4),
        "the tail from blocks.5": tail_step(pictures, "blocks.5"),
        "the head alone": head_step(pictures),
        WHOLE: whole_step(pictures),
    }
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for name, step in steps.items():
            started = time.process_time()
            step()
            best[name] = min(best[name], time.process_time() - started)
    speed = {name: IMAGES / seconds for name, seconds in best.items()}
    return [of_rates(f"a training step of {name}", WHOLE, speed[name], speed[WHOLE]) for name in speed if name != WHOLE]


def run(brief: bool = False) -> list[Ratio]:
    """Compare tails and head with the whole network."""
    return compare(rounds=1 if brief else 5)


def main() -> None:
    """Compare and print the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    print(as_table(compare(arguments.parse_args().rounds)))


if __name__ == "__main__":
    main()
