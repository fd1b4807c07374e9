"""How good teachers are: merged, on the images that nobody learned from, and next to the student without teachers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tagloom.recipe.distillation import Distillation
from tagloom.tagger.spec import read_spec
from tagloom.training.context import RunContext
from tagloom.training.features.prepare import RunBatches
from tagloom.training.tasks.supervised import Forward
from tagloom.training.validation import headline, score_part

Level: TypeAlias = dict[str, float]
"""mAP in percent by the images it was measured on: "validation" and "held_aside", the better judge first."""
PARTS = {"validation": "validation images", "held_aside": "held-out images"}
TEACHERS, BASELINE = "teachers", "baseline"
"""Where a student's metrics have the levels of its merged teachers, by kind, and of the student without teachers."""


def measure_merged(kind: str, merged: Forward, batches: RunBatches, context: RunContext) -> Level:
    """Measure the merged teachers of one kind on the validation images and on those held out.

    Args:
        kind: Of the teachers.
        merged: From inputs to their logits (B, N), in the student's order of classes.
        batches: The student's.
        context: The student's run.
    """
    level: Level = {}
    for part, images in (("validation", batches.val), ("held_aside", batches.held_out)):
        scored = score_part(images, merged, f"{PARTS[part]} by the {kind} teachers", context)
        if scored is not None:
            level[part] = headline(scored, task="multi", activation="sigmoid")["mAP"]
    return level


def level_of(folder: Path) -> Level:
    """Read the level of a finished tagger from its folder."""
    metrics = read_spec(folder).metrics
    return {part: float(metrics[part]["mAP"]) for part in PARTS if part in metrics}


def report_levels(
    levels: Mapping[str, Level], alone: Level, settings: Distillation, context: RunContext
) -> dict[str, dict[str, Any]]:
    """Log and show how good the merged teachers are, and warn of those that the student is better without.

    Args:
        levels: Of the merged teachers, by kind.
        alone: The level of the student without teachers; empty if it is not known.
        settings: How the teachers take part.
        context: The student's run.

    Returns:
        What the student's metrics have of it, by `TEACHERS` and `BASELINE`; empty where nothing was measured.
    """
    for kind, level in levels.items():
        context.log.event("merged_teachers", teachers=kind, mAP=level, baseline=alone)
        for part, found in level.items():
            beside = f" (the student alone: {alone[part]:.2f})" if part in alone else ""
            context.log.say(f"{kind} teachers, merged: mAP {found:.2f} on {PARTS[part]}{beside}")
        judge = next((part for part in level if part in alone), None)
        if judge is not None and level[judge] < alone[judge]:
            context.log.say(f"[yellow]{_too_weak(kind, level[judge], alone[judge], settings)}[/]")
    measured: dict[str, dict[str, Any]] = {}
    if any(levels.values()):
        measured[TEACHERS] = {kind: dict(level) for kind, level in levels.items()}
    if alone:
        measured[BASELINE] = dict(alone)
    return measured


def _too_weak(kind: str, level: float, alone: float, settings: Distillation) -> str:
    """Say that teachers are worse than the student alone, and what to do."""
    longer = f"train them longer (--teacher-epochs {2 * settings.teacher_epochs})"
    fix = longer if settings.images == "all" else f"show them all images (--images all), or {longer}"
    return (
        f"the {kind} teachers, merged, are worse than the student alone ({level:.2f} and {alone:.2f}), so there is "
        f"nothing to learn from them: in another --out, {fix}"
    )
