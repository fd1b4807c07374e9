"""Tagging in several processes: each tags every so manieth image, and the first writes what all have found."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tagloom.errors import ImageError
from tagloom.predict.files import Job, Tagged
from tagloom.predict.inputs import Shard
from tagloom.predict.journal import Sharing, delete_journal, in_turn, part_of, read_entries, refuse_others

if TYPE_CHECKING:
    from tagloom.training.ranks import World
    from tagloom.training.signals import StopRequest

WHOLE = Shard(0, 1)


def run_together(
    job: Job,
    world: "World",
    stop: "StopRequest",
    *,
    resume: bool = False,
    on_error: Callable[[str], None] = lambda error: None,
    on_image: Callable[[int], None] = lambda done: None,
) -> Tagged:
    """Do a job in several processes; the files are those of one.

    Each process has a journal of its own, so a prediction that was stopped, or that lost a process, continues.

    Args:
        job: What to tag; the same in every process.
        world: The processes.
        stop: If one of them is asked to stop, all stop when they are done or are asked as well.
        resume: As for `Job.run`. It takes as many processes as before.
        on_error: Called in the first process with what is wrong with each image that cannot be read, at the end.
        on_image: As for `Job.run`, in every process with the images of its own share.
    """
    main = job.check()
    world.from_first(lambda: refuse_others(main, Sharing(world.size)))
    parts = [part_of(main, number, of=world.size) for number in range(1, world.size + 1)]
    mine = share_of(job, world)
    problems: list[str] = []
    found = Tagged(0, 0)

    def note(error: ImageError) -> None:
        problems.append(str(error))

    with (
        world.leaving_together(stop),
        mine.filled(parts[world.rank], resume=resume, on_error=note, on_image=on_image) as journal,
    ):
        found = Tagged(journal.done - journal.failed, journal.failed)
    for problem in (problem for share in world.gather(problems) for problem in share):
        on_error(problem)
    world.from_first(lambda: job.write(lambda: in_turn([read_entries(part, job.kept_scores) for part in parts])))
    delete_journal(parts[world.rank])
    return Tagged(world.total(found.tagged), world.total(found.failed))


def share_of(job: Job, world: "World") -> Job:
    """Give the part of a job that is this process's."""
    return replace(job, shard=(job.shard or WHOLE).part(world.rank, world.size))
