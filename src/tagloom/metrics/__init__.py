"""How good scores are: average precision, precision, recall and F1 over images x classes. Numpy only.

Everywhere, `scores` are `(n, N)` of any float dtype (a memory map is read in blocks and never copied whole), `targets`
are `(n, N)` of 0 and 1, dense or scipy sparse, and `known` is `(n, N)` bool or None: pairs that are not known count
nowhere.
"""

from tagloom.metrics.decisions import f1_at_k, top1_accuracy
from tagloom.metrics.ranking import average_precision
from tagloom.metrics.summary import score
from tagloom.metrics.zeroshot import zero_shot_score

__all__ = ["average_precision", "f1_at_k", "score", "top1_accuracy", "zero_shot_score"]
