"""What Python users call: train, distill, study, evaluate and compare. `import tagloom` offers the same names.

The command calls these functions too, so both give the same results. Torch is imported inside them, on first use.
"""

from tagloom.api.result import TrainedTagger
from tagloom.api.scoring import compare, evaluate
from tagloom.api.studying import study
from tagloom.api.training import distill, train

__all__ = ["TrainedTagger", "compare", "distill", "evaluate", "study", "train"]
