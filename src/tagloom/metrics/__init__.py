"""How good scores are, over images x classes: average precision, precision, recall, F1, reliability. Numpy only.

Everywhere, `scores` are `(n, N)` of any float dtype (a memory map is read in blocks and never copied whole), `targets`
are `(n, N)` of 0 and 1, and `known` is `(n, N)` bool or None; both may be dense or scipy sparse. Unknown pairs count
nowhere.

To add a metric, write it in a file of its own and add a line to `score` (`summary.py`). If recipes may select epochs by
it, add its name to `MetricName` in `tagloom.recipe.names` too; training, reports and model cards follow from there.
"""

from tagloom.metrics.long_tail import long_tail
from tagloom.metrics.precision_recall import f1_at_k, top1_accuracy
from tagloom.metrics.ranking import average_precision
from tagloom.metrics.reliability import calibration_figures, reliability_curves
from tagloom.metrics.summary import score
from tagloom.metrics.zeroshot import zero_shot_score

__all__ = [
    "average_precision",
    "calibration_figures",
    "f1_at_k",
    "long_tail",
    "reliability_curves",
    "score",
    "top1_accuracy",
    "zero_shot_score",
]
