"""The settings of a distillation, as plain data. A recipe may contain them; the plan of a student does."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tagloom.checks import check_choice, check_number, check_positive, check_whole
from tagloom.errors import RecipeError

Images: TypeAlias = Literal["all", "with-labels"]
TEACHER_KINDS = ("co", "dis", "random", "self")
# The paper uses 1, with which a student of few epochs hardly learns from its labels: docs/results.md.
TEACHER_WEIGHT = 0.02


@dataclass(frozen=True)
class Distillation:
    """How a student learns from teachers that each know a part of its classes (CPSD, Xu et al., 2022).

    Attributes:
        teacher_epochs: Epochs of each teacher.
        kinds: How the classes are split, once for each kind: "co" and "dis" by their label graphs, "random" at random,
            "self" not at all (one teacher with every class: plain self-distillation).
        k: Number of parts, and so of teachers, per kind; "self" has one.
        tau: Smoothing of the label graphs, see `tagloom.labels.graph.affinity`.
        weights: Weight of the squared distance to the teachers of each kind; 0.02 by default.
        images: Whether teachers train only on images "with-labels" of their part (as in the paper) or on "all". A
            teacher's output is used only for images like those that it was trained on.
    """

    teacher_epochs: int
    kinds: tuple[str, ...] = ("co", "dis")
    k: int = 5
    tau: float = 3.0
    weights: dict[str, float] = field(default_factory=dict)
    images: Images = "with-labels"

    def __post_init__(self) -> None:
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
        check_positive("tau", self.tau)
        weights = {kind: float(self.weights.get(kind, TEACHER_WEIGHT)) for kind in self.kinds}
        object.__setattr__(self, "weights", weights)
