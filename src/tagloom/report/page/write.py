"""Putting a report together and writing it."""

import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import tagloom
from tagloom.data.table import LabelTable
from tagloom.errors import TagloomError
from tagloom.files import whole_file
from tagloom.predict.tagger import Tagger
from tagloom.progress import Progress, no_progress
from tagloom.recipe.parts import MAX_BROKEN_SHARE
from tagloom.report.page import pictures, sections
from tagloom.report.page.facts import Facts, gather
from tagloom.report.page.sections import text

# Nothing from outside is loaded, and nothing is sent anywhere.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write_report(
    tagger: Tagger,
    table: LabelTable,
    folder: Path,
    out: str | os.PathLike[str],
    *,
    max_broken: float = MAX_BROKEN_SHARE,
    ignore_other_labels: bool = False,
    progress: Progress = no_progress,
    note: Callable[[str], None] = lambda sentence: None,
) -> Facts:
    """Measure a tagger on a table and write one HTML file that opens offline.

    Args:
        tagger: The tagger.
        table: Images with labels.
        folder: The tagger's folder, for its log and the sizes of its files.
        out: The .html file to write; missing folders are made.
        max_broken: The largest share of unreadable images to accept.
        ignore_other_labels: Leave out labels that the tagger does not know, instead of refusing them.
        progress: Called with images done and images to do.
        note: Called with a sentence about what the report lacks.

    Returns:
        What was measured; its `result` is that of `tagloom evaluate`.
    """
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise TagloomError(f"{target}: a report is an .html file; end the name in .html.")
    facts = gather(
        tagger, table, folder, max_broken=max_broken, ignore_other_labels=ignore_other_labels, progress=progress
    )
    page = render(facts, table.source, note)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            partial.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise TagloomError(f"{target}: cannot be written ({error}). Name another --out.") from error
    return facts


def render(facts: Facts, source: str, note: Callable[[str], None] = lambda sentence: None) -> str:
    """Give the whole page."""
    parts = {
        "Classes": sections.class_table(facts),
        "Precision and recall": sections.curves(facts),
        "Scores": sections.histograms(facts),
        "Thresholds": sections.thresholds(facts),
        "Wrong tags and true labels": sections.company(facts),
        "Hardest images": (
            "<p>The images whose labels are least likely by the scores. On the right, where the worst label's evidence "
            f"is.</p>{pictures.hard_images(facts, note)}"
        ),
        "Labels that look wrong": (
            "<p>Pairs on which tagger and table disagree most. Look at them before you trust either.</p>"
            f"<h3>Missing in the table?</h3>{pictures.suspects(facts, facts.missing, 'Is there a')}"
            f"<h3>In the table by mistake?</h3>{pictures.suspects(facts, facts.wrong, 'Is there no')}"
        ),
        "Training": sections.training(facts),
        "Size and speed": sections.cost(facts),
    }
    links = "".join(f'<a href="#s{number}">{text(name)}</a> ' for number, name in enumerate(parts))
    body = "".join(
        f'<section aria-labelledby="s{number}"><h2 id="s{number}">{text(name)}</h2>{content}</section>'
        for number, (name, content) in enumerate(parts.items())
    )
    own = resources.files(__package__)
    style, script = (own.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    name = Path(facts.tagger.name).name or "tagger"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Report on {text(name)}</title><style>{style}</style></head><body><header>"
        f'<h1>Report on {text(name)}</h1><p class="soft">Measured on {text(source)} with Tagloom '
        f"{text(tagloom.__version__)}.</p><nav>{links}</nav></header><main>{sections.summary(facts)}{body}</main>"
        f"<script>{script}</script></body></html>\n"
    )
