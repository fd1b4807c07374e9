"""Multiply-adds of heads against the tables of the ML-Decoder paper (Tables 1, 2, 9 and 10).

    python bench/multiply_adds.py

Counted on shapes alone, so it needs no weights. TResNet-XL of Table 10 is TResNet-L v2 with the depths of the released
code, (3, 8, 34, 5): timm's `tresnet_xl`, an older and wider network, would take 123.8 G at 640 pixels without any head.
"""

from functools import cache

import timm
import torch

from tagloom.models.cost import count_cost
from tagloom.models.heads import create_head

XL = {"layers": [3, 8, 34, 5]}
ROWS = [
    # table, network, its changes, pixels, labels, head, its options, the paper's figure
    ("1", "tresnet_m", {}, 448, 80, "gap", {}, 23.0),
    ("1", "tresnet_m", {}, 448, 80, "transformer-decoder", {}, 24.1),
    ("1", "tresnet_m", {}, 448, 80, "ml-decoder", {"readout": {"groups": 20}}, 23.6),
    ("1", "tresnet_m", {}, 448, 80, "ml-decoder", {"readout": {"groups": 80}}, 23.9),
    ("2", "tresnet_m", {}, 224, 9600, "gap", {}, 5.8),
    ("2", "tresnet_m", {}, 224, 9600, "transformer-decoder", {}, 178.6),
    ("2", "tresnet_m", {}, 224, 9600, "ml-decoder", {"readout": {"groups": 100}}, 6.3),
    ("2", "tresnet_m", {}, 224, 9600, "ml-decoder", {"readout": {"groups": 200}}, 6.7),
    ("2", "tresnet_m", {}, 224, 9600, "ml-decoder", {"readout": {"groups": 400}}, 7.6),
    ("9", "tresnet_m", {}, 224, 100, "transformer-decoder", {}, 6.6),
    ("9", "tresnet_m", {}, 224, 1000, "transformer-decoder", {}, 14.2),
    ("9", "tresnet_m", {}, 224, 5000, "transformer-decoder", {}, 61.1),
    ("9", "tresnet_m", {}, 224, 1000, "ml-decoder", {"readout": {"groups": 100}}, 6.3),
    ("9", "tresnet_m", {}, 224, 5000, "ml-decoder", {"readout": {"groups": 100}}, 6.4),
    ("10", "tresnet_v2_l", {}, 224, 80, "ml-decoder", {"readout": {"groups": 80}}, 9.3),
    ("10", "tresnet_v2_l", {}, 448, 80, "ml-decoder", {"readout": {"groups": 80}}, 36.2),
    ("10", "tresnet_v2_l", {}, 640, 80, "ml-decoder", {"readout": {"groups": 80}}, 73.5),
    ("10", "tresnet_v2_l", XL, 640, 80, "ml-decoder", {"readout": {"groups": 80}}, 103.8),
]


@cache
def backbone_cost(name: str, layers: tuple[int, ...], size: int) -> tuple[int, int, int]:
    """Give a network's multiply-adds, and the channels and side of its feature map."""
    options = {"layers": list(layers)} if layers else {}
    with torch.device("meta"):
        net = timm.create_model(name, num_classes=0, **options).eval()
        pictures = torch.zeros(1, 3, size, size)
        features = net.forward_features(pictures)
    net.forward = net.forward_features
    return count_cost(net, pictures).multiply_adds, features.shape[1], features.shape[-1]


def main() -> None:
    """Print the table in Markdown."""
    print("| table | backbone | pixels | labels | head | paper, G | ours, G | difference |")
    print("| --- " * 8 + "|")
    for table, name, changes, size, classes, head_name, options, paper in ROWS:
        below, channels, side = backbone_cost(name, tuple(changes.get("layers", ())), size)
        with torch.device("meta"):
            head = create_head(head_name, in_channels=channels, classes=classes, **options)
            cost = count_cost(head, torch.zeros(1, channels, side, side)).multiply_adds
        ours = (below + cost) / 1e9
        network = name + (" (3, 8, 34, 5)" if changes else "")
        shown = head_name + (f", {options['readout']['groups']} queries" if options else "")
        print(
            f"| {table} | {network} | {size} | {classes} | {shown} | {paper} | {ours:.2f} | {ours / paper - 1:+.1%} |"
        )


if __name__ == "__main__":
    main()
