"""An audit as a page in the terminal: the numbers, what is wrong, and what to fix first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tagloom.data.audit import FEW_POSITIVES, Audit
from tagloom.report.table import as_text, make_table
from tagloom.wording import and_more, printable

_LONGEST = 10  # lines of a list
_ALL = "(all of them with --json)"


@dataclass(frozen=True)
class _Finding:
    """One kind of thing to fix or to know about: every case of it, and what to do."""

    title: str
    lines: list[str]
    advice: str


def render_audit(audit: Audit, console: Console) -> None:
    """Print an audit; long lists are cut. The last line says whether training would accept it, and what to fix."""
    console.print(_overview(audit))
    console.print(_classes(audit))
    if audit.strongest_pairs:
        console.print(_pairs(audit))
    findings = _findings(audit)
    for finding in [*findings, *_remarks(audit)]:
        console.print()
        console.print(Text(f"{printable(finding.title)} ({len(finding.lines):,})", style="bold"))
        for line in finding.lines[:_LONGEST]:
            console.print(Text(f"  {printable(line)}"))
        if len(finding.lines) > _LONGEST:
            console.print(Text(f"  …{and_more(finding.lines, _LONGEST)} {_ALL}", style="dim"))
        console.print(Text(f"  → {finding.advice}", style="italic"))
    console.print()
    console.print(_verdict(audit, findings))


def _overview(audit: Audit) -> Table:
    labels = audit.labels_per_image
    known = audit.images * len(audit.classes)
    unknown = sum(audit.unknown)
    page = Table(title=as_text(audit.source or "label table"), title_justify="left", show_header=False, box=None)
    page.add_row("images", f"{audit.images:,}")
    page.add_row("classes", f"{len(audit.classes):,}")
    page.add_row("labels per image", f"{labels.mean:.2f} on average, {labels.least} to {labels.most}")
    page.add_row("images without labels", f"{labels.without:,}")
    page.add_row("unknown pairs", f"{unknown:,}" + (f" ({unknown / known:.1%})" if unknown else ""))
    if audit.repeated_rows:
        page.add_row("repeated rows", f"{audit.repeated_rows:,}, merged with the rows they repeat")
    if audit.ignored_columns:
        page.add_row("ignored columns", as_text(_joined(map(repr, audit.ignored_columns), ", ")))
    for number, line in enumerate(audit.understood):
        page.add_row("" if number else "understood", as_text(line))
    page.add_row("", _histogram(labels.histogram))
    return page


def _histogram(counts: Sequence[int]) -> Text:
    """Draw images by number of labels as bars; the tail is one bar."""
    shown = [*counts[:_LONGEST], *([sum(counts[_LONGEST:])] if len(counts) > _LONGEST else [])]
    top = max(shown, default=0)
    names = [f"{number}{'+' if number == _LONGEST else ''}" for number in range(len(shown))]
    bars = ["━" * max(round(24 * count / max(top, 1)), int(count > 0)) for count in shown]
    lines = [f"{name:>3} {bar} {count:,}" for name, bar, count in zip(names, bars, shown, strict=True)]
    return Text("\n".join(lines), style="cyan")


def _classes(audit: Audit) -> Table:
    """List the most and least frequent classes, with a gap between them if not all are shown."""
    page = make_table("Classes by frequency", ">positives", ">share", ">unknown", "class")
    order = sorted(range(len(audit.classes)), key=lambda column: (-audit.positives[column], column))
    cut = len(order) > 2 * _LONGEST
    for number, column in enumerate([*order[:_LONGEST], *order[-_LONGEST:]] if cut else order):
        if cut and number == _LONGEST:
            page.add_row("", "", "", Text(f"…{and_more(order, 2 * _LONGEST)} {_ALL}", style="dim"))
        share = audit.positives[column] / max(audit.images, 1)
        page.add_row(
            f"{audit.positives[column]:,}", f"{share:.1%}", f"{audit.unknown[column]:,}", as_text(audit.classes[column])
        )
    return page


def _pairs(audit: Audit) -> Table:
    page = make_table("Classes that co-occur most", "first", "second", ">images", ">of first", ">of second")
    for pair in audit.strongest_pairs[:_LONGEST]:
        shares = (f"{pair.share_of_first:.0%}", f"{pair.share_of_second:.0%}")
        page.add_row(as_text(pair.first), as_text(pair.second), f"{pair.together:,}", *shares)
    return page


def _findings(audit: Audit) -> list[_Finding]:
    """List what to fix, the most serious first."""
    problems = {
        kind: [f"{problem.image}: {problem.finding}" for problem in audit.problems if problem.kind == kind]
        for kind in ("missing", "broken", "oversized", "format")
    }
    leaks = [f"{leak.other_image} is {leak.image} (same {leak.by})" for leak in audit.leaks]
    contradictions = [_joined(group.images) for group in audit.duplicates if group.labels_differ]
    repetitions = [_joined(group.images) for group in audit.duplicates if not group.labels_differ]
    clashes = [_joined(map(repr, names)) for names in audit.class_name_clashes]
    spaces = list(map(repr, audit.class_names_with_outer_spaces))
    slips = [
        f"{slip.name!r} ({slip.positives:,} positive) next to {slip.meant!r} ({slip.meant_positives:,})"
        for slip in audit.likely_slips
    ]
    found = [
        _Finding(
            f"Images also in {audit.other or 'the other table'}",
            leaks,
            "remove the shared images from one of the two tables, or scores will be too high",
        ),
        _Finding("Missing images", problems["missing"], "add the missing images, or remove their rows"),
        _Finding("Broken images", problems["broken"], "replace the broken images, or remove their rows"),
        _Finding("Oversized images", problems["oversized"], "make the oversized images smaller, or raise the cap"),
        _Finding("Unsupported files", problems["format"], "convert the unsupported files to JPEG or PNG"),
        _Finding(
            "Duplicate images with different labels",
            contradictions,
            "decide on the labels of the duplicates that contradict each other",
        ),
        _Finding("Class names that look alike", clashes, "give each class one spelling"),
        _Finding("Class names with outer spaces", spaces, "trim the class names"),
        _Finding(
            "Classes that may be misspelt",
            slips,
            "correct the misspelt labels, or list the classes in a classes.txt next to the table if all are meant",
        ),
        _Finding(
            "Classes without a positive",
            audit.classes_without_positive,
            "find positives for these classes, or drop them",
        ),
        _Finding("Duplicate images", repetitions, "drop the repeated images, unless they should count more"),
    ]
    return [finding for finding in found if finding.lines]


def _remarks(audit: Audit) -> list[_Finding]:
    """List what is not wrong with the table, but good to know."""
    count_of = dict(zip(audit.classes, audit.positives, strict=True))
    misspelt = {slip.name for slip in audit.likely_slips}  # already listed above
    rare = sorted((name for name in audit.rare_classes if name not in misspelt), key=lambda name: count_of[name])
    remarks = [
        _Finding(
            f"Rare classes, with fewer than {FEW_POSITIVES} positives",
            [f"{name!r} ({count_of[name]})" for name in rare],
            "expect low scores for these classes; more examples would help",
        ),
        _Finding(
            "Classes with fewer known negatives than positives",
            list(map(repr, audit.classes_with_few_negatives)),
            "training takes their unknown pairs for weak negatives (unknown.weight of the recipe); if your images have "
            "all labels that apply, state the others as negatives, for a photo library with absent=negative",
        ),
        _Finding(
            "Absolute image paths",
            audit.absolute_paths,
            "fine if you wrote them; on another machine they lead nowhere, and a stranger's table can name any file",
        ),
        _Finding(
            "Image paths that leave the folder of the images",
            audit.paths_outside,
            "fine if you wrote them; a stranger's table can name any file of yours this way",
        ),
    ]
    return [remark for remark in remarks if remark.lines]


def _verdict(audit: Audit, findings: Sequence[_Finding]) -> Text:
    refusal = f" training would refuse this table: {'; '.join(audit.obstacles)}." if audit.obstacles else ""
    if not findings:
        style = "bold red" if refusal else "bold green"
        return Text(f"Verdict:{refusal or ' nothing to fix.'}", style=style)
    first = f" {'First' if refusal else 'first'}, {findings[0].advice}."
    rest = f" Then see the other findings above ({len(findings) - 1})." if len(findings) > 1 else ""
    return Text(f"Verdict:{refusal}{first}{rest}", style="bold red" if refusal else "bold yellow")


def _joined(names: Iterable[str], between: str = " = ") -> str:
    """Join the first few names, and count the others."""
    every = list(names)
    return between.join(every[:4]) + and_more(every, 4)
