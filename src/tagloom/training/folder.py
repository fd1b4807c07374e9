"""The folder of a run: what it may hold when a run starts."""

from pathlib import Path

from tagloom.errors import TagloomError
from tagloom.tagger.spec import SPEC_FILE
from tagloom.training.checkpoint import CHECKPOINT_FOLDER


def check_folder(out: Path, *, resume: bool, started: tuple[str, ...] = (CHECKPOINT_FOLDER,)) -> None:
    """Refuse to overwrite a finished tagger, or a run that was started and is not resumed.

    Args:
        out: The run's folder.
        resume: Whether the run is resumed.
        started: Files and folders whose presence says that a run was started.
    """
    if (out / SPEC_FILE).exists():
        raise TagloomError(f"{out}: holds a finished tagger. Name another --out, or delete it first.")
    if not resume and any((out / name).exists() for name in started):
        raise TagloomError(f"{out}: holds a run that was started. Continue with --resume, or name another --out.")


def make_folder(out: Path) -> None:
    """Make the run's folder, unless it exists."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TagloomError(f"{out}: cannot be created ({error}). Name another --out.") from error
