"""What a distillation costs, in passes over the images, before anything of it is trained."""

from collections.abc import Sequence

from tagloom.training.distill.teachers import PlannedRun, Teacher, student_plan
from tagloom.training.features.views import views_to_learn_from
from tagloom.training.plan import RunPlan
from tagloom.training.tables import Tables, focus
from tagloom.wording import counted

ASKING = 1 / 3
"""What a pass without gradients costs next to one with: forward, but neither backward nor weights."""


def describe_cost(plan: RunPlan, tables: Tables, before: Sequence[PlannedRun]) -> str:
    """Say how long all of a distillation train, and what it costs next to `tagloom train` with the same recipe.

    Args:
        plan: The distillation's.
        tables: The student's.
        before: What is trained before the student: teachers and baseline.
    """
    alone, student = plan.recipe.training.epochs, student_plan(plan).recipe.training.epochs
    teachers = [run for run in before if isinstance(run, Teacher)]
    longer = "" if student == alone else f", {student / alone:.3g} times the recipe's {alone}"
    baseline = ", and so does the baseline" if len(teachers) < len(before) else ""
    images = "all images" if teachers[0].plan.images == "all" else "images with a label of theirs"
    return (
        f"Teachers: {len(teachers)}, of {counted(teachers[0].plan.recipe.training.epochs, 'epoch')} each, on {images}. "
        f"The student trains {counted(student, 'epoch')}{longer}{baseline}. Altogether about "
        f"{count_cost(plan, tables, before):.2g} times the training of tagloom train with this recipe."
    )


def count_cost(plan: RunPlan, tables: Tables, before: Sequence[PlannedRun]) -> float:
    """Estimate the cost of a distillation as a multiple of training by its recipe without teachers.

    Counted are passes over the images to learn from. A teacher's pass counts as much as the student's. Where features
    are cached, each teacher is asked once about every image in every view; else, it is asked in every pass.

    Args:
        plan: The distillation's.
        tables: The student's.
        before: What is trained before the student: teachers and baseline.
    """
    recipe, learned = plan.recipe, ~tables.held_out
    student = student_plan(plan).recipe.training.epochs
    asked = len(views_to_learn_from(recipe.augment, recipe.training.cached_views)) if recipe.from_cache else student
    passes = float(student)
    for run in before:
        _, rows = focus(tables.table, run.plan.classes, run.plan.images)
        passes += run.plan.recipe.training.epochs * learned[rows].sum() / learned.sum()
        if isinstance(run, Teacher):
            passes += ASKING * asked
    return passes / recipe.training.epochs
