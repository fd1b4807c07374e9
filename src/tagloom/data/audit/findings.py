"""What an audit can find, as plain dataclasses."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tagloom.errors import ImageFault
from tagloom.recipe.parts import MAX_BROKEN_SHARE

MIN_IMAGES = 2
"""One to learn from and one to hold out."""
FEW_POSITIVES = 5
"""A class with fewer positives is rare."""


@dataclass(frozen=True)
class LabelsPerImage:
    """How many labels images have: `histogram[k]` images have k labels."""

    mean: float
    least: int
    most: int
    without: int
    histogram: list[int]


@dataclass(frozen=True)
class LabelPair:
    """Two classes that co-occur in `together` images: a share of the first's images, and of the second's."""

    first: str
    second: str
    together: int
    share_of_first: float
    share_of_second: float


@dataclass(frozen=True)
class LikelySlip:
    """A rare class whose name may be a typo of one that is much more frequent."""

    name: str
    positives: int
    meant: str
    meant_positives: int


@dataclass(frozen=True)
class ImageProblem:
    """An image that cannot be used (missing, broken, oversized or of an unknown format), and what was found."""

    image: str
    kind: ImageFault
    finding: str


@dataclass(frozen=True)
class DuplicateGroup:
    """Images with the same bytes, and whether the table labels them differently."""

    images: list[str]
    labels_differ: bool


@dataclass(frozen=True)
class Leak:
    """An image of the other table that is also in this one: at the same path, or with the same bytes."""

    image: str
    other_image: str
    by: Literal["path", "content"]


@dataclass(frozen=True)
class Audit:
    """Everything an audit found. Lists are empty where there is nothing to fix."""

    source: str
    images: int
    classes: list[str]
    positives: list[int]
    """Per class, the number of images that have it."""
    unknown: list[int]
    """Per class, the number of images for which it is unknown."""
    labels_per_image: LabelsPerImage
    strongest_pairs: list[LabelPair]
    """Ordered by the share of images with either class that have both, strongest first."""
    classes_without_positive: list[str]
    classes_with_few_negatives: list[str]
    """Classes with unknown pairs and fewer known negatives than positives: that an image lacks them says nothing."""
    rare_classes: list[str]
    """Classes with at least one positive, but fewer than `FEW_POSITIVES`."""
    likely_slips: list[LikelySlip]
    """Rare classes that may be misspelt. Empty if the classes were given, which vouches for their spelling."""
    class_name_clashes: list[list[str]]
    """Groups of names that differ only in case, spaces, hyphens, underscores or Unicode normalisation."""
    class_names_with_outer_spaces: list[str]
    repeated_rows: int
    """Number of rows that repeated an earlier one and were merged into it."""
    ignored_columns: list[str]
    """Columns of the table that hold neither images nor labels."""
    understood: list[str]
    """What the reader understood the source to mean, and why."""
    absolute_paths: list[str]
    """Images that the table names by an absolute path: the table works on this machine only."""
    paths_outside: list[str]
    """Images that the table names by a relative path that leaves the folder of the images, by way of `..`."""
    problems: list[ImageProblem]
    duplicates: list[DuplicateGroup]
    other: str | None
    """The table that was searched for leaks."""
    leaks: list[Leak]

    @property
    def obstacles(self) -> list[str]:
        """The reasons why training would refuse the table."""
        unreadable = len(self.problems)
        reasons: list[str] = []
        if self.images < MIN_IMAGES:
            reasons.append(f"at least {MIN_IMAGES} images are needed, found {self.images}")
        if not any(self.positives):
            reasons.append("no image has any label")
        if unreadable > MAX_BROKEN_SHARE * self.images:
            reasons.append(f"{unreadable:,} of {self.images:,} images cannot be read, over {MAX_BROKEN_SHARE:.0%}")
        return reasons

    @property
    def trainable(self) -> bool:
        """Whether training would accept the table: enough images, nearly all readable, and at least one label."""
        return not self.obstacles

    def to_dict(self) -> dict[str, Any]:
        """Give plain lists, numbers and text, for JSON."""
        return {**asdict(self), "obstacles": self.obstacles}
