"""The settings of a distillation, as plain data. A recipe may contain them; the plan of a student does."""

from dataclasses import dataclass, field
from math import ceil
from typing import Literal, TypeAlias

from tagloom.checks import check_choice, check_number, check_positive, check_whole
from tagloom.errors import RecipeError

Images: TypeAlias = Literal["all", "with-labels"]
Sizes: TypeAlias = Literal["even", "random"]
TEACHER_KINDS = ("co", "dis", "random", "self")
TEACHER_WEIGHT = 0.5  # the released code's; the paper's formula has 1
STUDENT_LENGTH = 2.5
"""How many times longer a student trains than a tagger alone, unless it is told otherwise: docs/distilling.md."""


@dataclass(frozen=True)
class Distillation:
    """How a student learns from teachers that each know a part of its classes (CPSD, Xu et al., 2022).

    Attributes:
        teacher_epochs: Epochs of each teacher.
        teacher_learning_rate: Highest learning rate of the teachers; None for the student's.
        student_epochs: Epochs of the student; None for the recipe's.
        kinds: How the classes are split, once for each kind: "co" and "dis" by their label graphs, "random" at random,
            "self" not at all (one teacher with every class: plain self-distillation).
        k: Number of parts, and so of teachers, per kind; "self" has one.
        tau: Smoothing of the label graphs, see `tagloom.labels.graph.affinity`.
        weights: Weight of the squared distance to the teachers of each kind; 0.5 by default.
        images: Whether teachers train on "all" images (as in the released code) or only on those "with-labels" of their
            part (as in the paper). A teacher's output is used only for images like those that it was trained on.
        random_sizes: Whether the parts of the kind "random" are of "even" or of "random" size.
        baseline: Whether the student is also trained without teachers, as long as with them, to compare.
    """

    teacher_epochs: int
    kinds: tuple[str, ...] = ("co", "dis")
    k: int = 5
    tau: float = 3.0
    weights: dict[str, float] = field(default_factory=dict)
    images: Images = "all"
    random_sizes: Sizes = "even"
    student_epochs: int | None = None
    baseline: bool = False
    teacher_learning_rate: float | None = None

    def __post_init__(self) -> None:
        # A recipe takes the weight of its base away by setting it to null.
        object.__setattr__(self, "weights", {kind: w for kind, w in self.weights.items() if w is not None})
        for kind in (*self.kinds, *self.weights):
            check_choice("kind of teachers", kind, TEACHER_KINDS)
        if not self.kinds or len(set(self.kinds)) != len(self.kinds):
            raise RecipeError(f"--kinds {','.join(self.kinds)}: name at least one kind of teachers, each only once.")
        if strange := [kind for kind in self.weights if kind not in self.kinds]:
            raise RecipeError(f"--weight {strange[0]}: there are no such teachers; --kinds is {','.join(self.kinds)}.")
        for kind, weight in self.weights.items():
            check_number(f"the weight of {kind}", weight, 0)
        check_whole("k", self.k, 1)
        check_whole("teacher_epochs", self.teacher_epochs, 1)
        if self.teacher_learning_rate is not None:
            check_number("teacher_learning_rate", self.teacher_learning_rate, 1e-9, 1e3)
        if self.student_epochs is not None:
            check_whole("student_epochs", self.student_epochs, 1, 100_000)
        if self.random_sizes != "even" and "random" not in self.kinds:
            raise RecipeError(
                f"--random-sizes {self.random_sizes}: is about --kinds random, and there are no such teachers."
            )
        check_positive("tau", self.tau)
        weights = {kind: float(self.weights.get(kind, TEACHER_WEIGHT)) for kind in self.kinds}
        object.__setattr__(self, "weights", weights)


def default_distillation(epochs: int) -> Distillation:
    """Choose how teachers take part for a recipe that does not say it: they train as long as a tagger alone would.

    Merged, they are then about as good as that tagger, and there is something to learn from them for a student that
    trains longer than it would alone (docs/distilling.md).

    Args:
        epochs: The recipe's.

    >>> default_distillation(10).teacher_epochs, default_distillation(10).student_epochs
    (10, 25)
    """
    return Distillation(teacher_epochs=epochs, student_epochs=ceil(STUDENT_LENGTH * epochs))
