"""The command line that all studies share, and the split that settings are chosen on."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import tagloom
from tagloom.data import load_table
from tagloom.data.writing import write_table
from tagloom.report.study import as_markdown
from tagloom.studies.outcomes import StudyResult
from tagloom.studies.variants import Variant


def study(
    description: str | None,
    variants: Callable[[str], Sequence[Variant]],
    out: str,
    metrics: Sequence[str] = ("mAP", "CF1", "OF1"),
) -> tuple[StudyResult, str]:
    """Run a study on a training and a validation table from the command line.

    Args:
        description: What --help says.
        variants: Makes the rows of the study for a training table.
        out: Where the runs go by default.
        metrics: Columns of the table.

    Returns:
        What came out, and the validation table.
    """
    arguments = _arguments(description, out)
    arguments.add_argument("data", help="training table")
    arguments.add_argument("val", help="validation table")
    arguments.add_argument("--seed", type=int, help="run only this seed, to share the work among processes")
    given = arguments.parse_args()
    chosen = _chosen(variants(given.data), given.only)
    if given.seed is not None:
        chosen = [replace(variant, seeds=(given.seed,)) for variant in chosen if given.seed in variant.seeds]
    return run_study(chosen, given.data, given.val, given.out, metrics), given.val


def tuning(description: str | None, variants: Sequence[Variant], out: str) -> None:
    """Run candidates on a fifth of a training table that is held aside from the rest."""
    arguments = _arguments(description, out)
    arguments.add_argument("data", help="training table")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    learn, aside = load_table(given.data).split(0.2, seed=7)
    data, val = write_table(learn, given.out / "train.csv"), write_table(aside, given.out / "aside.csv")
    run_study(_chosen(variants, given.only), str(data), str(val), given.out)


def run_study(
    variants: Sequence[Variant], data: str, val: str, out: Path, metrics: Sequence[str] = ("mAP", "CF1", "OF1")
) -> StudyResult:
    """Run a study, and print its table as docs/results.md has it."""
    result = tagloom.study(variants, data, val=val, out=out, metrics=metrics)
    Console().print(as_markdown(result), markup=False, soft_wrap=True)
    return result


def _arguments(description: str | None, out: str) -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path(out))
    arguments.add_argument(
        "--only", action="append", help="run only the variant of this name, to share the work; may be repeated"
    )
    return arguments


def _chosen(variants: Sequence[Variant], only: list[str] | None) -> list[Variant]:
    return [variant for variant in variants if not only or variant.name in only]
