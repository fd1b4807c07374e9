"""The taggers of a distillation side by side: the student and, of each kind of teachers, the one that knows a label."""

from pathlib import Path

from tagloom.errors import TaggerError
from tagloom.predict.tagger import Tagger, load
from tagloom.tagger.spec import SPEC_FILE, read_spec
from tagloom.wording import shown

TEACHERS_FOLDER = "teachers"


def teachers_of(run: Path, label: str, *, device: str = "auto") -> dict[str, Tagger]:
    """Load the teachers of a run that know a label, one of each kind, by their names ("co-2", "dis-1").

    Args:
        run: The folder of a `tagloom distill`.
        label: A class of the student.
        device: Where to compute.
    """
    folders = sorted(path.parent for path in (run / TEACHERS_FOLDER).glob(f"*/{SPEC_FILE}"))
    if not folders:
        raise TaggerError(f"{run}: has no teachers. Name the --out of a 'tagloom distill'.")
    found: dict[str, Tagger] = {}
    kinds: set[str] = set()
    for folder in folders:
        kind = folder.name.rpartition("-")[0]
        if kind not in kinds and label in read_spec(folder).classes:
            kinds.add(kind)
            found[folder.name] = load(folder, device=device)
    if not found:
        raise TaggerError(f"{run}: none of its teachers knows {shown(label)}.")
    return found
