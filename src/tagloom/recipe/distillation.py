"""How teachers take part in a distillation, as plain data: a recipe may hold it, and a student's run does."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tagloom.errors import RecipeError, unknown_name

Images: TypeAlias = Literal["all", "with-labels"]
TEACHER_KINDS = ("co", "dis", "random", "self")
# The paper's is 1, under which a student of few epochs hardly hears its labels: docs/results.md.
TEACHER_WEIGHT = 0.02


@dataclass(frozen=True)
class Distillation:
    """How a student learns from teachers of parts of its labels (CPSD, Xu et al., 2022).

    Attributes:
        kinds: How the labels are parted, once for each kind: "co" and "dis" by their label graphs, "random" by chance,
            "self" not at all (one teacher with every label: plain self-distillation).
        k: Parts, and so teachers, per kind; "self" has one.
        tau: Smoothing of the label graphs, as `labelgraph.affinity` takes it.
        weights: How much the squared distance to the teachers of each kind counts; 0.02 where it is not said.
        teacher_epochs: Epochs of each teacher.
        images: Whether teachers see only images "with-labels" of theirs (the paper) or "all"; a teacher is heard only
            on images like those that it saw.
    """

    teacher_epochs: int
    kinds: tuple[str, ...] = ("co", "dis")
    k: int = 5
    tau: float = 3.0
    weights: dict[str, float] = field(default_factory=dict)
    images: Images = "with-labels"

    def __post_init__(self) -> None:
        for kind in (*self.kinds, *self.weights):
            if kind not in TEACHER_KINDS:
                raise RecipeError(unknown_name("kind of teachers", kind, TEACHER_KINDS))
        if not self.kinds or len(set(self.kinds)) != len(self.kinds):
            raise RecipeError(f"--kinds {','.join(self.kinds)}: name at least one kind of teachers, and none twice.")
        if strange := [kind for kind in self.weights if kind not in self.kinds]:
            raise RecipeError(f"--weight {strange[0]}: there are no such teachers; --kinds is {','.join(self.kinds)}.")
        weights = {kind: float(self.weights.get(kind, TEACHER_WEIGHT)) for kind in self.kinds}
        object.__setattr__(self, "weights", weights)
        if not all(0 <= weight < float("inf") for weight in self.weights.values()):
            raise RecipeError(f"--weight: weights are numbers from 0 on, found {self.weights}.")
        if self.k < 1 or self.teacher_epochs < 1 or not self.tau > 0:
            raise RecipeError(
                f"k ({self.k}) and teacher epochs ({self.teacher_epochs}) are whole numbers from 1 on, and tau "
                f"({self.tau}) is greater than 0."
            )
