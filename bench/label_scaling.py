"""What more labels cost: time and memory of heads for 100 to 10,000 classes (the shape of ML-Decoder's Table 9).

    python bench/label_scaling.py --plot docs/images/label-scaling.png

Each measurement runs in a process of its own, so that its peak memory is its own. 2048-channel 7 x 7 maps, a batch of
8; the transformer decoder is left out where its self-attention would not fit.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from ratio import Ratio, of_seconds

CLASSES = (100, 1000, 5000, 10_000)
TRANSFORMER, ML = "transformer-decoder", "ml-decoder"
HEADS = ("gap", TRANSFORMER, ML)
BATCH = 8


def measure(head_name: str, classes: int) -> dict[str, float]:
    """Time inference and a training step of one head in this process, and give its peak memory above the start."""
    import torch

    from tagloom.losses import asymmetric_loss
    from tagloom.models.heads import create_head
    from timing import best_seconds

    torch.manual_seed(0)
    features = torch.randn(BATCH, 2048, 7, 7).to(memory_format=torch.channels_last)
    targets = (torch.rand(BATCH, classes) < 0.001).float()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = {"readout": {"groups": 100}} if head_name == "ml-decoder" else {}
    head = create_head(head_name, in_channels=2048, classes=classes, **options)

    def infer() -> None:
        with torch.no_grad():
            head(features)

    def step() -> None:
        head.zero_grad(set_to_none=True)
        asymmetric_loss(head(features), targets).backward()

    head.eval()
    rounds = 3 if head_name == "transformer-decoder" and classes > 1000 else 15
    inference = best_seconds({"head": infer}, rounds=rounds)["head"]
    head.train()
    training = best_seconds({"head": step}, rounds=max(2, rounds // 3))["head"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"inference_ms": inference * 1e3, "training_ms": training * 1e3, "peak_mb": peak / 1024}


def measure_apart(head: str, classes: int) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--one", head, str(classes)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def run(brief: bool = False) -> list[Ratio]:
    """Compare ML-Decoder at many labels with a transformer decoder of as many, and with itself at few."""
    few, many = (100, 1000) if brief else (100, 5000)
    rows = {case: measure_apart(*case) for case in ((ML, few), (ML, many), (TRANSFORMER, many))}
    ours, rival, small = rows[ML, many], rows[TRANSFORMER, many], rows[ML, few]
    found = []
    for what, key in (("inference", "inference_ms"), ("a training step", "training_ms")):
        shown = f"{ML}, {many:,} labels, {what}"
        found.append(of_seconds(shown, f"{TRANSFORMER}, {many:,} labels", ours[key] / 1e3, rival[key] / 1e3))
        found.append(of_seconds(shown, f"{ML}, {few:,} labels", ours[key] / 1e3, small[key] / 1e3))
    return found


def main() -> None:
    """Measure every head at every number of classes; print the table and draw the plot."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--one", nargs=2, metavar=("HEAD", "CLASSES"), help="measure one and print JSON")
    arguments.add_argument("--plot", type=Path, help="draw the figures to this PNG")
    arguments.add_argument("--most", type=int, default=5000, help="most classes for the transformer decoder")
    given = arguments.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]))))
        return
    results: dict[tuple[str, int], dict[str, float]] = {}
    print("| head | classes | inference, ms | training step, ms | peak memory of both, MB |")
    print("| --- " * 5 + "|")
    for head in HEADS:
        for classes in CLASSES:
            if head == "transformer-decoder" and classes > given.most:
                continue
            row = results[head, classes] = measure_apart(head, classes)
            cells = [f"{row['inference_ms']:.1f}", f"{row['training_ms']:.1f}", f"{row['peak_mb']:.0f}"]
            print(f"| {head} | {classes:,} | {' | '.join(cells)} |")
    few, many = results["ml-decoder", 100], results["ml-decoder", 5000]
    print(f"\nml-decoder, 100 to 5,000 classes: inference {many['inference_ms'] / few['inference_ms'] - 1:+.1%}")
    if given.plot:
        draw(results, given.plot)


def draw(results: dict[tuple[str, int], dict[str, float]], path: Path) -> None:
    """Plot time and memory against the number of classes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    panels = (("inference_ms", "inference, ms"), ("training_ms", "training step, ms"), ("peak_mb", "peak memory, MB"))
    for axis, (key, title) in zip(axes, panels, strict=True):
        for head, marker in zip(HEADS, "os^", strict=True):
            known = [classes for classes in CLASSES if (head, classes) in results]
            axis.plot(known, [results[head, classes][key] for classes in known], marker=marker, label=head)
        axis.set(xscale="log", yscale="log", xlabel="classes", title=title)
        axis.grid(alpha=0.3)
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
