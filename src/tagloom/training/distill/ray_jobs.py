"""Training planned runs as Ray tasks; see `tagloom.cluster`.

If a worker is lost, so is what it did since its last checkpoint: its task is started again and continues from there.
"""

from collections.abc import Sequence

from tagloom.cluster import most_cores, ray_cluster, run_tasks
from tagloom.training.distill.local_jobs import Errors, JobContext, threads_each, train_planned
from tagloom.training.distill.teachers import PlannedRun
from tagloom.training.signals import Interrupted


def train_on_ray(runs: Sequence[PlannedRun], context: JobContext) -> Errors:
    """Train planned runs as Ray tasks; if one fails, the others still train.

    Each task asks for its share of the cores of a machine like this one, but not for more than a machine of the cluster
    has, and for its share of one GPU where the cluster has any.

    Args:
        runs: What to train; their plans are in their folders.
        context: How to train them.

    Returns:
        What went wrong, by run; empty when all are finished.
    """
    threads, cache = threads_each(context.jobs), str(context.cache_folder.resolve())
    with ray_cluster(context.stop) as ray:
        threads = min(threads, most_cores(ray) or threads)
        outcomes = run_tasks(
            ray,
            train_planned,
            {run.name: (str(run.folder.resolve()), context.device, cache, threads) for run in runs},
            cores=threads,
            gpus=0 if context.device == "cpu" else 1 / context.jobs,
            again_after=Interrupted,
            stop=context.stop,
            tell=lambda outcomes: context.tell(outcomes.errors),
        )
    return outcomes.errors
