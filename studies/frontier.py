"""What a backbone and a picture size gain and cost: the frontier that the ready tagger was chosen on.

    python studies/frontier.py coco-mini/train.csv coco-mini/val.csv --out runs/studies/frontier
    python bench/exports.py coco-mini/calibrate.txt --run runs/studies/frontier/Lite2-at-288-seed0

`quick` as it is, a frozen backbone under a small ML-Decoder, with the two bundled backbones at two sizes each. The
photographs of `coco-mini` have 256 pixels, so the larger sizes enlarge them.
"""

from command import study
from tagloom.studies.variants import Variant

SIZES = {"Lite0": ("tf_efficientnet_lite0", (224, 288)), "Lite2": ("tf_efficientnet_lite2", (260, 288))}
VARIANTS = [
    Variant(f"{called} at {size}", "quick", (f"backbone.name={name}", f"preprocess.size={size}"), (0,))
    for called, (name, sizes) in SIZES.items()
    for size in sizes
]


if __name__ == "__main__":
    study(__doc__, lambda data: VARIANTS, "runs/studies/frontier")
