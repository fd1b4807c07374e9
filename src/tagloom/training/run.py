"""A training from plan to tagger folder: plan, tables, network, features, task, fit, finish."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from tagloom.data.formats import is_there
from tagloom.errors import DataError, RecipeError, TagloomError
from tagloom.losses import Loss
from tagloom.models.network import pick_device
from tagloom.training.checkpoint import CheckpointError, CheckpointStore, run_identity
from tagloom.training.contents import compare_contents
from tagloom.training.context import RunContext
from tagloom.training.features.broken import note_broken
from tagloom.training.features.prepare import make_batches
from tagloom.training.features.ray_workers import Engine, workers_of
from tagloom.training.finish import finish
from tagloom.training.folder import check_folder, open_folder
from tagloom.training.log import RunLog
from tagloom.training.loop import fit
from tagloom.training.network import first_network, trained_part
from tagloom.training.optimiser import create_optimiser
from tagloom.training.plan import RunPlan, check_options, read_identity
from tagloom.training.ranks import ALONE, World
from tagloom.training.signals import StopRequest
from tagloom.training.tables import Tables, load_tables, report_tables
from tagloom.training.tasks.choose import AskTeachers, choose_task
from tagloom.training.unknown import after_first_round, loss_with_unknown
from tagloom.training.validation import choose_watched, watch


class TrainingResult(NamedTuple):
    """What came out.

    Attributes:
        classes: Label names, in the order of the metrics.
        metrics: `tagloom.metrics.score` on validation images ("validation") and on those held out ("held_aside"); of a
            student also the mAP of its merged teachers by kind ("teachers") and of the student without teachers
            ("baseline"), each on the same images.
        folder: The tagger folder.
    """

    classes: tuple[str, ...]
    metrics: dict[str, dict[str, Any]]
    folder: Path


def train(
    plan: RunPlan,
    out: Path,
    *,
    resume: bool = False,
    device: str = "auto",
    cache_folder: Path,
    console: Console | None = None,
    tensorboard: bool = False,
    world: World = ALONE,
    engine: Engine = "local",
) -> TrainingResult:
    """Train a tagger and write its folder.

    Args:
        plan: Data, validation data and recipe.
        out: The tagger folder to write. A run that was stopped there continues with `resume`.
        resume: Continue where the run in `out` stopped.
        device: "auto", "cpu", "cuda" or "mps".
        cache_folder: Where features of frozen backbones are kept.
        console: Where to show progress; None for silence.
        tensorboard: Also write TensorBoard events.
        world: The processes that train it together. The first of them writes.
        engine: "local", or "ray" to have the workers of a Ray cluster extract the features.

    Returns:
        The classes, and the metrics on validation images and on those held out.
    """
    if plan.distill:
        raise TagloomError(f"{out}: is the run of a student. Continue with: tagloom distill --resume --out {out}")
    if engine == "ray":
        _check_shareable(plan, world)
    check_folder(out, resume=resume)
    loss = check_options(plan.recipe)
    if resume:
        check_present(plan, out)
    tables = load_tables(plan)
    chosen_device = pick_device(world.device_name(device))
    with ExitStack() as stack:
        world.from_first(lambda: stack.enter_context(open_folder(out, resume=resume)))
        world.from_first(lambda: write_plan(plan, tables, out, resume=resume))
        stop = stack.enter_context(StopRequest())
        log = stack.enter_context(RunLog(out if world.is_first else None, console, tensorboard))
        workers = workers_of(engine, device, stop)
        return run_plan(plan, tables, loss, RunContext(out, chosen_device, cache_folder, stop, log, world, workers))


def _check_shareable(plan: RunPlan, world: World) -> None:
    """Refuse a cluster that would have nothing to do, or two ways to share the work at once."""
    if world.size > 1:
        raise TagloomError(
            "--engine ray extracts features on a cluster for one process that trains: leave out --processes and "
            "torchrun, or extract first and train in many processes afterwards, from the same --cache."
        )
    if not plan.recipe.from_cache:
        raise RecipeError(
            "--engine ray extracts the features of a frozen backbone on a cluster, and this recipe trains from "
            "pictures. Share the training out with --processes or torchrun instead."
        )


def check_present(plan: RunPlan, out: Path) -> None:
    """Say how to name tables that have moved since the run in `out` was started."""
    for path, named in ((plan.data, "NEW/train.csv"), (plan.val, "--val NEW/val.csv")):
        if path is not None and not is_there(path):
            verb = "distill" if plan.distill else "train"
            raise DataError(
                f"{path}: no such file, but this run was started with it. If it has moved, say where to: "
                f"tagloom {verb} {named} --resume --out {out}"
            )


def write_plan(plan: RunPlan, tables: Tables, out: Path, *, resume: bool) -> None:
    """Write a plan to its folder, with where its data is now; refuse to resume a run with other data."""
    identity = run_identity(plan, tables)
    if resume and read_identity(out) not in (None, identity):
        raise CheckpointError(
            f"{out}: this run was started with another recipe, other data or another seed. If only the data was named, "
            f"classes, labels or the order of the images differ in {tables.table.source} or the validation table. "
            "Restore them, or start another run with another --out."
        )
    plan.write(out, identity)


def run_plan(
    plan: RunPlan, tables: Tables, loss: Loss, context: RunContext, ask_teachers: AskTeachers | None = None
) -> TrainingResult:
    """Train what a plan says on tables that are loaded, and write the tagger folder.

    Args:
        plan: Written to the run's folder.
        tables: What `load_tables` gives for the plan.
        loss: The recipe's.
        context: The run's.
        ask_teachers: Brings in a student's teachers; None for plain training.
    """
    recipe = plan.recipe
    report_tables(tables, recipe, context)
    loss = loss_with_unknown(recipe, loss, tables)
    network = first_network(plan, tables.table.classes, context)
    batches = make_batches(network, tables, recipe, context)
    note_broken(batches.broken, context)
    network.to(context.device)
    module, forward = trained_part(network, recipe)
    teaching = ask_teachers(batches, context) if ask_teachers else None
    task = choose_task(recipe, forward, loss, network.head, teaching and teaching.groups)
    store = CheckpointStore(context.out, run_identity(plan, tables))
    if recipe.unknown.learn_as == "pseudo-labels" and tables.silent.any():
        after_first_round(module, forward, task, batches, tables, recipe, store, context)
    changed = compare_contents(batches, tables, store, recipe.data.max_broken, context)
    watched = choose_watched(batches, recipe.training.seed, context)
    history = fit(
        module,
        task,
        batches.learn,
        create_optimiser(module, recipe.optimiser),
        recipe.training,
        recipe.optimiser,
        validate=lambda: watch(watched, forward, recipe, context),
        store=store,
        context=context,
    )
    beside = teaching.metrics if teaching else {}
    metrics = finish(network, forward, plan, tables, batches, len(history), changed, beside, context)
    context.world.from_first(store.remove)
    context.log.event("finish", **{part: found["mAP"] for part, found in metrics.items() if part not in beside})
    return TrainingResult(tables.table.classes, metrics, context.out)
