"""What a training gives back: where the tagger is, how good it is, and the tagger itself."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tagloom.notebook import headline, html_table, metrics_html

if TYPE_CHECKING:
    from tagloom.evaluation.compare import Comparison
    from tagloom.predict.tagger import Tagger

_SCORED_ON = {"validation": "validation data", "held_aside": "images held out from training"}


@dataclass(frozen=True, repr=False)
class TrainedTagger:
    """The result of `tagloom.train` and `tagloom.distill`. In a notebook it shows its metrics.

    Attributes:
        folder: The tagger folder, for `tagloom.load` and the command.
        classes: Label names, in the order of the scores.
        metrics: `tagloom.metrics.score` by the images it was measured on: "validation", if there was a validation
            table, and "held_aside", the images held out from training. A student also has "teachers", the mAP of the
            merged teachers of each kind on these images, and "baseline", that of the student without teachers.
        device: Where `tagger` runs.
        comparison: The student without teachers against this one, if `tagloom.distill` trained it (`baseline=True`).
    """

    folder: Path
    classes: tuple[str, ...]
    metrics: dict[str, dict[str, Any]]
    device: str = "auto"
    comparison: "Comparison | None" = None

    @cached_property
    def tagger(self) -> "Tagger":
        """The tagger, loaded on first use."""
        from tagloom.predict.tagger import load

        return load(self.folder, device=self.device)

    @property
    def scored_on(self) -> str:
        """The images behind `headline_metrics`, in words; empty if nothing was measured."""
        return next((words for part, words in _SCORED_ON.items() if part in self.metrics), "")

    @property
    def headline_metrics(self) -> dict[str, Any]:
        """The metrics on validation data, or else on the images held out; empty if nothing was measured."""
        return next((self.metrics[part] for part in _SCORED_ON if part in self.metrics), {})

    def __repr__(self) -> str:
        about = f"TrainedTagger({str(self.folder)!r}, {len(self.classes)} classes"
        return f"{about}: {headline(self.headline_metrics)} on {self.scored_on})" if self.metrics else f"{about})"

    def _repr_html_(self) -> str:
        about = html_table("", ["tagger", "classes"], [[self.folder, f"{len(self.classes):,}"]])
        if not self.metrics:
            return about
        return about + metrics_html(f"On {self.scored_on}", self.headline_metrics, self.classes)
