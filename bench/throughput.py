"""ML-Decoder's Table 9: images per second and the largest training batch against the number of labels.

    python bench/throughput.py --plot throughput.png
    python bench/throughput.py --backbone tresnet_m --device cuda --memory 16

A backbone is in front, and is trained too. Every measurement runs in a process of its own, so that its peak memory is
its own. Peak memory grows with the batch along a line, which is measured at two batches; the largest batch is where it
reaches --memory (gigabytes). Heads take turns, --rounds times, and the best round of each counts; the last two columns
compare speeds with the pooled head's.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

CLASSES = (100, 1000, 5000)
HEADS = ("gap", "transformer-decoder", "ml-decoder")
FIGURES = {"training": "training, images/s", "inference": "inference, images/s", "largest": "largest training batch"}


def measure(
    head: str, classes: int, backbone: str, size: int, batch: int, device: str, timed: bool
) -> dict[str, float]:
    """Run a training step and inference of one network in this process."""
    import torch

    from tagloom.losses import asymmetric_loss
    from tagloom.models.network import build_network
    from timing import best_seconds

    torch.manual_seed(0)
    before = _peak(torch, device)
    options = {"readout": {"groups": 100}} if head == "ml-decoder" else {}
    network = build_network(
        backbone=backbone, weights="none", head=head, head_options=options, classes=classes, size=size, frozen=False
    ).to(device)
    pictures = torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8, device=device)
    targets = (torch.rand(batch, classes, device=device) < 0.001).float()

    def step() -> None:
        network.zero_grad(set_to_none=True)
        asymmetric_loss(network(pictures), targets).backward()
        _wait(torch, device)

    def infer() -> None:
        with torch.no_grad():
            network(pictures)
        _wait(torch, device)

    network.train()
    training = best_seconds({"step": step}, rounds=2 if timed else 1, warm_up=1)["step"]
    peak = _peak(torch, device) - before
    if not timed:
        return {"peak": peak}
    network.eval()
    inference = best_seconds({"infer": infer}, rounds=4)["infer"]
    return {"peak": peak, "training": batch / training, "inference": batch / inference}


def _peak(torch: object, device: str) -> float:
    """Give the peak memory of this process so far, on the device, in bytes."""
    if device == "cuda":
        return float(torch.cuda.max_memory_allocated())  # type: ignore[attr-defined]
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _wait(torch: object, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()  # type: ignore[attr-defined]


def main() -> None:
    """Measure every head at every number of classes; print the table and draw the plot."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backbone", default="tf_efficientnet_lite0", help="any timm model (the paper: tresnet_m)")
    arguments.add_argument("--size", type=int, default=224, help="side of the pictures")
    arguments.add_argument("--batch", type=int, default=4, help="pictures, at least 2, in the batch that is timed")
    arguments.add_argument("--memory", type=float, default=16.0, help="gigabytes that the largest batch may take")
    arguments.add_argument("--rounds", type=int, default=1, help="how often the heads take turns")
    arguments.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments.add_argument("--most", type=int, default=1000, help="most classes for the transformer decoder")
    arguments.add_argument("--plot", type=Path, help="draw the figures to this file")
    arguments.add_argument("--one", nargs=4, help=argparse.SUPPRESS)  # head, classes, batch, timed
    given = arguments.parse_args()
    if given.one:
        head, classes, batch, timed = given.one
        found = measure(head, int(classes), given.backbone, given.size, int(batch), given.device, timed == "timed")
        print(json.dumps(found))
        return
    shared = ["--backbone", given.backbone, "--size", str(given.size), "--device", given.device]
    results: dict[tuple[str, int], dict[str, float]] = {}
    print(f"{given.backbone} at {given.size} pixels, {given.device}, batch {given.batch}, {given.memory:g} GB\n")
    columns = ["head", "classes", *FIGURES.values(), "training, of gap's", "inference, of gap's"]
    print(f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    for classes in CLASSES:
        heads = [head for head in HEADS if head != "transformer-decoder" or classes <= given.most]
        for _ in range(given.rounds):
            for head in heads:
                row = results.setdefault((head, classes), {})
                for name, value in _run(shared, head, classes, given.batch, "timed").items():
                    row[name] = max(value, row.get(name, 0.0))
        for head in heads:
            row, small = results[head, classes], max(1, given.batch // 2)
            half = _run(shared, head, classes, small, "once")
            slope = (row["peak"] - half["peak"]) / (given.batch - small)
            row["largest"] = given.batch + (1e9 * given.memory - row["peak"]) / max(slope, 1.0)
            cells = [f"{row['training']:.1f}", f"{row['inference']:.1f}", f"{row['largest']:.0f}"]
            ratios = [f"{row[name] / results['gap', classes][name]:.0%}" for name in ("training", "inference")]
            print(f"| {head} | {classes:,} | {' | '.join([*cells, *ratios])} |", flush=True)
    if given.plot:
        draw(results, f"{given.backbone} at {given.size} pixels", given.plot)


def _run(shared: list[str], head: str, classes: int, batch: int, timed: str) -> dict[str, float]:
    command = [sys.executable, __file__, *shared, "--one", head, str(classes), str(batch), timed]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def draw(results: dict[tuple[str, int], dict[str, float]], title: str, path: Path) -> None:
    """Plot speeds and the largest batch against the number of classes."""
    from matplotlib.ticker import LogLocator

    from tagloom.report.drawing import EMPTY, INK, LARGE, MARKERS, PALETTE, SMALL, make_figure, plain_axes, save

    figure = make_figure(11.0, 3.6)
    figure.suptitle(f"More labels behind {title}", fontsize=LARGE, color=INK, x=0.01, ha="left")
    panels = figure.subplots(1, 3)
    for axes, (key, name) in zip(panels, FIGURES.items(), strict=True):
        for head, marker, colour in zip(HEADS, MARKERS, PALETTE, strict=False):
            known = [classes for classes in CLASSES if (head, classes) in results]
            values = [results[head, classes][key] for classes in known]
            axes.plot(known, values, marker=marker, color=colour, label=head)
        axes.set(xscale="log", yscale="log", xlabel="labels")
        axes.set_xticks(CLASSES, [f"{classes:,}" for classes in CLASSES])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.grid(color=EMPTY, lw=0.6)
        plain_axes(axes, name)
    panels[0].legend(fontsize=SMALL, frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
