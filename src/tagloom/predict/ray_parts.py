"""Tagging many images on many machines: Ray tasks tag parts of them, and the files are written from all parts.

Each part has a journal next to the file of tags, as a prediction in one process has. So nothing is done twice: a task
whose worker was lost is started again and continues its journal, and a stopped prediction continues all of them. Parts
are made of whole batches, dealt out in turn, so that every picture is computed in the batch in which one process would
compute it, and the files are the same byte for byte.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tagloom.cluster import Outcomes, Stop, ray_cluster, run_tasks
from tagloom.data.packed.places import Place
from tagloom.errors import DataError, TagloomError
from tagloom.predict.files import Job, Tagged
from tagloom.predict.inputs import Shard
from tagloom.predict.journal import Sharing, delete_journal, in_turn, journal_path, read_entries, refuse_others
from tagloom.predict.tagger import Tagger, load
from tagloom.scoring.tags import TagRule
from tagloom.wording import listed_lines

MOST_ERRORS = 100  # that a task reports of images it cannot read


@dataclass(frozen=True)
class TaggerSource:
    """What a worker needs to open the tagger itself: the arguments of `load`, and labels to choose among."""

    run: str | None
    device: str = "auto"
    words: str | None = None
    labels: tuple[str, ...] | None = None

    def open(self) -> Tagger:
        """Open the tagger."""
        tagger = load(self.run, device=self.device, words=self.words)
        return tagger if self.labels is None else tagger.with_labels(self.labels)


class PartDone(NamedTuple):
    """How many images of a part were tagged, how many cannot be read, and what was found of these."""

    tagged: int
    failed: int
    errors: list[str]


def tag_part(
    source: TaggerSource, places: Sequence[Place], out: Path | None, scores: Path | None, rule: TagRule, shard: Shard
) -> PartDone:
    """Tag one part into its journal, or continue it: what a Ray task does."""
    job = Job(source.open(), places, out, scores, rule, shard)
    errors: list[str] = []
    with job.filled(
        part_file(job.check(), shard), resume=True, on_error=lambda error: errors.append(str(error))
    ) as journal:
        return PartDone(journal.done - journal.failed, journal.failed, errors[:MOST_ERRORS])


def part_file(main: Path, shard: Shard) -> Path:
    """Name a part of a file: its journal stands next to that name."""
    return main.with_name(f"{main.name}.part-{shard.index + 1}-of-{shard.count}")


def run_on_ray(
    job: Job,
    source: TaggerSource,
    parts: int,
    *,
    resume: bool,
    stop: Stop,
    interrupted: type[BaseException],
    on_error: Callable[[str], None] = lambda error: None,
    on_part: Callable[[int], None] = lambda done: None,
) -> Tagged:
    """Tag the images of a job as Ray tasks, one core each, and write its files.

    Args:
        job: What to tag; not a shard of it.
        source: Gives the same tagger on another machine.
        parts: Into how many parts the images are shared out. A stopped prediction continues with as many.
        resume: Continue the journals of a prediction that was stopped.
        stop: When requested, tasks are cancelled; what they did is kept.
        interrupted: What a task raises when its worker is asked to stop; it is then started again.
        on_error: Called with what is found of each image that cannot be read.
        on_part: Called with the number of parts done.
    """
    main = job.check()
    block = job.tagger.pictures_at_once
    shards = [Shard(index, parts, block) for index in range(parts)]
    refuse_others(main, Sharing(parts, on_ray=True))
    begun = [path for path in (journal_path(part_file(main, shard)) for shard in shards) if path.exists()]
    if begun and not resume:
        raise DataError(
            f"{begun[0]}: is of a prediction that was stopped. Continue it with --resume, or delete its "
            f"{main.name}.part-* files to start over."
        )
    rule = job.rule or job.tagger.rule()
    places = [place if isinstance(place, str) else place.absolute() for place in job.places]
    out, scores = (None if path is None else path.absolute() for path in (job.out, job.scores))
    calls = {str(shard): (source, places, out, scores, rule, shard) for shard in shards}

    def tell(outcomes: Outcomes) -> None:
        on_part(len(outcomes.results))

    with ray_cluster(stop) as ray:
        outcomes = run_tasks(
            ray,
            tag_part,
            calls,
            cores=1,
            gpus=0 if source.device == "cpu" else 1,
            again_after=interrupted,
            stop=stop,
            tell=tell,
        )
    if outcomes.errors:
        said = listed_lines(f"part {name}: {error}" for name, error in outcomes.errors.items())
        raise TagloomError(
            f"{len(outcomes.errors)} of {parts} parts failed; what the others did is kept. Fix what follows, and "
            f"continue with the same command and --resume:\n{said}"
        )
    files = [part_file(main, shard) for shard in shards]
    _check_journals({part_file(main, shard): outcomes.results[str(shard)] for shard in shards})
    for done in outcomes.results.values():
        for error in done.errors:
            on_error(error)
    job.write(lambda: in_turn([read_entries(file, job.kept_scores) for file in files], block))
    for file in files:
        delete_journal(file)
    finished = outcomes.results.values()
    return Tagged(sum(done.tagged for done in finished), sum(done.failed for done in finished))


def _check_journals(parts: Mapping[Path, PartDone]) -> None:
    """Refuse to write files without what the workers found: their journals must have come to this machine's disk."""
    for file, done in parts.items():
        found, written = sum(1 for _ in read_entries(file)), done.tagged + done.failed
        if found != written:
            raise TagloomError(
                f"{journal_path(file)}: a worker of the Ray cluster has written {written:,} images to it, and "
                f"{found:,} are here. Name an --out in a folder that all machines share, under the same path."
            )
