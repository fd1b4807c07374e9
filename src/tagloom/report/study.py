"""The table of a study: in the terminal, and as Markdown, CSV and JSON."""

import csv
import io
import json
from pathlib import Path

from rich.console import Console

from tagloom.errors import TagloomError
from tagloom.files import whole_file
from tagloom.report.table import as_text, make_table
from tagloom.studies.outcomes import AXES, StudyResult
from tagloom.studies.variants import as_word


def render_study(result: StudyResult, console: Console) -> None:
    """Print a row per variant: mean and standard deviation over its seeds."""
    heading, rows = result.table()
    several = any(len(outcome.runs) > 1 for outcome in result.outcomes)
    caption = "percent; mean ± standard deviation over seeds" if several else "percent"
    table = make_table("Study", heading[0], *(f">{name}" for name in heading[1:]), caption=caption)
    for row in rows:
        table.add_row(*map(as_text, row))
    console.print(table)


def write_tables(result: StudyResult, out: Path) -> StudyResult:
    """Write table.md, table.csv and results.json to a folder, and give the result back."""
    files = {
        "table.md": as_markdown(result),
        "table.csv": as_csv(result),
        "results.json": json.dumps(result.to_dict(), indent=1, ensure_ascii=False),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with whole_file(out / name) as partial:
                partial.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise TagloomError(f"{out}: cannot be written ({error}). Name another --out.") from error
    return result


def as_markdown(result: StudyResult) -> str:
    """Write the table as Markdown."""
    heading, rows = result.table()
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def as_csv(result: StudyResult) -> str:
    """Write the table as CSV: a column for each swept setting, and means and spreads apart."""
    settings = list(dict.fromkeys(name for outcome in result.outcomes for name in outcome.swept))
    placed = [result.against] if result.against and result.against not in settings else []
    figures = [column for metric in result.metrics for column in (metric, f"{metric} spread")]
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(
        ["variant", "line", *settings, *(AXES.get(name, name) for name in placed), "seeds", *figures, "seconds"]
    )
    for outcome in result.outcomes:
        swept = [as_word(outcome.swept[name]) if name in outcome.swept else "" for name in settings]
        means = [value for name in result.metrics for value in (outcome.mean(name), outcome.spread(name))]
        place = ["" if outcome.place is None else outcome.place for _ in placed]
        rounded = ["" if value is None else round(value, 4) for value in means]
        writer.writerow(
            [outcome.name, outcome.line, *swept, *place, len(outcome.runs), *rounded, round(outcome.seconds)]
        )
    return content.getvalue()
