"""The sections of a report that hold figures and charts, as HTML."""

import json
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from tagloom.evaluation.findings import precision_recall_curve, score_histograms
from tagloom.metrics.blocks import flags_by_class, flags_by_image, sliced_by_class
from tagloom.metrics.long_tail import PARTS, is_worth_showing
from tagloom.report.page.charts import Axis, Line, bar_chart, line_chart
from tagloom.report.page.facts import Facts
from tagloom.wording import printable

SHOWN_CURVES = 24
MOST_PAIRS = 4_000_000  # from which the curve of all pairs is drawn; of more, evenly spaced images are taken
_UNIT = Axis.of("", 0, 1)
COLUMNS = (  # name, digits, what it says
    ("class", 0, "The label"),
    ("images", 0, "Positive images"),
    ("AP", 1, "Average precision, percent"),
    ("precision", 1, "Of its tags, the share that is right, percent"),
    ("recall", 1, "Of its positive images, the share that is tagged, percent"),
    ("F1", 1, "Of precision and recall"),
    ("wrong", 0, "Wrong tags"),
    ("missed", 0, "Missed images"),
    ("threshold", 3, "The score above which it becomes a tag"),
    ("ECE", 1, "How far its scores are from the share that is true, percent, bins of equal mass"),
    ("learned from", 0, "Positive images in training"),
)


def text(value: object) -> str:
    """Escape what comes from other people's files."""
    return escape(printable(str(value)), quote=True)


def summary(facts: Facts) -> str:
    """The main figures: those of `tagloom evaluate`."""
    metrics, spec = facts.result.metrics, facts.tagger.spec
    cards = [("images", f"{metrics['images']:,}"), ("classes", f"{len(spec.classes):,}")]
    names = ("top1", "mAP", "CF1", "OF1", "OP", "OR")
    cards += [(name, f"{metrics[name]:.2f}") for name in names if name in metrics]
    final = list(facts.result.calibration.values())[-1]
    cards.append(("ECE", f"{final['equal-mass']['ECE']:.2f}"))
    listed = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in cards)
    notes = []
    if absent := metrics["classes_without_positive"]:
        notes.append(f"{len(absent)} classes have no positive image here and are not measured.")
    if facts.result.broken:
        notes.append(f"{len(facts.result.broken)} images could not be read and are not counted.")
    parts = metrics.get("long_tail", [])
    tail = _long_tail(parts) if is_worth_showing(parts) else ""
    made = [f"head {spec.head}", f"backbone {spec.backbone}", f"{spec.preprocess.size} px"]
    return (
        f'<p class="soft">{text(", ".join(made))}</p><dl class="cards">{listed}</dl>'
        "<p>All figures are in percent. mAP is the mean of the classes' average precision. CF1 and OF1 are F1 at the "
        "tagger's thresholds, averaged over classes and over all tags; OP and OR are precision and recall over all "
        f"tags. ECE says how far scores are from the share that is true.</p>{_paragraphs(notes)}{tail}"
    )


def _long_tail(parts: Sequence[dict[str, Any]]) -> str:
    """The mAP of classes that were learned from many, some and few images."""
    rows = [
        [
            part["part"],
            PARTS[part["part"]],
            f"{part['classes']:,}",
            "–" if part["mAP"] is None else f"{part['mAP']:.2f}",
        ]
        for part in parts
    ]
    return f'<div class="wide">{html_table(["long tail", "learned from", "classes", "mAP"], rows, texts=2)}</div>'


def class_table(facts: Facts) -> str:
    """All classes, as data for the page's script, which sorts, filters and pages."""
    counts, spec = facts.counts, facts.tagger.spec
    final = list(facts.result.calibration.values())[-1]["equal-mass"]["label_ECE"]
    thresholds = spec.threshold_row()
    rows = []
    for column, name in enumerate(spec.classes):
        positives = int(counts.right[column] + counts.missed[column])
        ratios = [counts.precision[column], counts.recall[column], counts.f1[column]]
        rows.append(
            [
                printable(name),
                positives,
                _rounded(facts.result.metrics["AP"][column]),
                *(_rounded(None if math.isnan(value) else float(value)) for value in ratios),
                int(counts.wrong[column]),
                int(counts.missed[column]),
                _rounded(float(thresholds[column])),
                _rounded(final[column]),
                spec.training_positives[column] if spec.training_positives else None,
            ]
        )
    # "<" would let a label end the script element.
    data = json.dumps(rows, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    heads = "".join(
        f'<th scope="col" data-digits="{digits}" title="{text(about)}"><button type="button">{text(name)}</button></th>'
        for name, digits, about in COLUMNS
    )
    return (
        '<div class="tools"><label>Filter <input id="classes-filter" type="search" autocomplete="off"></label>'
        '<span id="classes-where" role="status"></span><button type="button" id="classes-back">Back</button>'
        '<button type="button" id="classes-next">Next</button></div>'
        f'<div class="wide"><table id="classes"><caption>Click a heading to sort.</caption><thead><tr>{heads}</tr>'
        '</thead><tbody id="classes-body"></tbody></table></div>'
        f'<script type="application/json" id="classes-data">{data}</script>'
        "<noscript><p>Sorting and filtering need JavaScript.</p></noscript>"
    )


def curves(facts: Facts) -> str:
    """Precision against recall: all pairs together, then the classes at both ends."""
    scores = facts.result.scores
    sample = slice(None, None, -(-scores.size // MOST_PAIRS))
    true = flags_by_image(facts.targets, sample)
    seen = np.ones_like(true) if facts.known is None else flags_by_image(facts.known, sample)
    recall, precision = precision_recall_curve(scores[sample][seen], true[seen])
    sampled = f"From {len(true):,} evenly spaced images. " if sample.step > 1 else ""
    every = line_chart(
        "Precision and recall of all pairs",
        f"{sampled}Precision falls from {100 * precision[0]:.0f} to {100 * precision[-1]:.0f} percent as "
        "recall rises to 100.",
        [Line("", _points(recall, precision))],
        _UNIT._replace(name="recall"),
        _UNIT._replace(name="precision"),
    )
    measured = [column for column, ap in enumerate(facts.result.metrics["AP"]) if ap is not None]
    ranked = sorted(measured, key=lambda column: facts.result.metrics["AP"][column])
    half = SHOWN_CURVES // 2
    shown = ranked if len(ranked) <= SHOWN_CURVES else [*ranked[:half], *ranked[-half:]]
    small = []
    targets, known = sliced_by_class(facts.targets), sliced_by_class(facts.known)
    for column in shown:
        true = flags_by_class(targets, column, column + 1)[0]
        seen = np.ones_like(true) if known is None else flags_by_class(known, column, column + 1)[0]
        recall, precision = precision_recall_curve(scores[seen, column], true[seen])
        name, ap = printable(facts.tagger.classes[column]), facts.result.metrics["AP"][column]
        chart = line_chart(
            f"Precision and recall of {name}",
            f"Average precision {ap:.1f} percent over {int(true[seen].sum())} positive images.",
            [Line("", _points(recall, precision))],
            Axis.of("recall", 0, 1, 2),
            Axis.of("precision", 0, 1, 2),
            (240, 170),
        )
        small.append(f"<figure><figcaption>{text(name)}: AP {ap:.1f}</figcaption>{chart}</figure>")
    left_out = len(ranked) - len(shown)
    note = f"<p>The {half} classes with the lowest and the {half} with the highest AP.</p>" if left_out > 0 else ""
    heading = f"<figcaption>{text(sampled)}</figcaption>" if sampled else ""
    both = f'<div class="charts"><figure>{heading}{every}</figure></div>{note}'
    return f'{both}<div class="charts small">{"".join(small)}</div>'


def histograms(facts: Facts) -> str:
    """How scores of true and of untrue labels are spread, and whether they are probabilities."""
    positive, negative = score_histograms(facts.result.scores, facts.targets, facts.known)
    heights = [np.log10(np.maximum(counts, 0.1)).tolist() for counts in (positive, negative)]
    top = max(1, math.ceil(max(max(values) for values in heights)))
    ticks = [(power, f"{10**power:,}") for power in range(top + 1)]
    spread = bar_chart(
        "Scores of true and untrue labels",
        f"{int(positive.sum()):,} true pairs, {int(positive[len(positive) // 2 :].sum()):,} of them with a score above "
        f"0.5; {int(negative.sum()):,} untrue pairs, {int(negative[len(negative) // 2 :].sum()):,} above 0.5.",
        [("true", "a", heights[0]), ("untrue", "b", heights[1])],
        _UNIT._replace(name="score"),
        Axis("pairs, logarithmic", 0, top, ticks),
    )
    lines = [Line("", [(0, 0), (1, 1)], "faint")]
    errors = []
    titles = {"before": "before calibration", "after": "calibrated"}
    for style, (part, found) in zip(
        "ba" if len(facts.result.calibration) > 1 else "a", facts.result.calibration.items(), strict=True
    ):
        curve = found["equal-mass"]
        points = list(zip(curve["score"], curve["frequency"], strict=True))
        name = titles[part] if len(facts.result.calibration) > 1 else "not calibrated"
        lines.append(Line(name, points, style, dots=True))
        errors.append(f"{name}: ECE {curve['ECE']:.2f} percent")
    reliability = line_chart(
        "Reliability",
        "The share of pairs that is true against their mean score; on the diagonal both are equal. "
        f"{'; '.join(errors)}.",
        lines,
        _UNIT._replace(name="mean score"),
        _UNIT._replace(name="share that is true"),
    )
    return (
        f'<div class="charts"><figure><figcaption>Scores</figcaption>{spread}</figure>'
        f"<figure><figcaption>Reliability ({text('; '.join(errors))})</figcaption>{reliability}</figure></div>"
    )


def thresholds(facts: Facts) -> str:
    """What moving all thresholds costs."""
    here = next(moved for moved in facts.moved if moved.by == 0)
    best = max(facts.moved, key=lambda moved: moved.f1)
    lines = [
        Line(name, [(moved.by, getattr(moved, name.lower())) for moved in facts.moved], style)
        for name, style in (("precision", "a"), ("recall", "b"), ("F1", "c"))
    ]
    span = facts.moved[-1].by
    chart = line_chart(
        "What moving all thresholds costs",
        f"At the tagger's thresholds precision is {here.precision:.1f}, recall {here.recall:.1f} and F1 {here.f1:.1f} "
        f"percent. F1 is highest, {best.f1:.1f}, when all thresholds move by {best.by:+.2f}.",
        lines,
        Axis.of("all thresholds moved by", -span, span, 6, "{:+.1f}"),
        Axis.of("percent", 0, 100),
    )
    rows = [
        [
            f"{moved.by:+.1f}" if moved.by else "0",
            *(f"{value:.1f}" for value in (moved.precision, moved.recall, moved.f1)),
            f"{moved.tags:.2f}",
        ]
        for moved in facts.moved
        if abs(round(moved.by * 10) - moved.by * 10) < 1e-6
    ]
    table = html_table(["moved by", "precision", "recall", "F1", "tags per image"], rows)
    return f'<div class="charts"><figure>{chart}</figure><div class="wide">{table}</div></div>'


def company(facts: Facts) -> str:
    """Wrong tags by the true labels they come with."""
    if not facts.company:
        return "<p>No wrong tag comes with a true label more often than chance.</p>"
    names = facts.tagger.classes
    rows = [
        [
            printable(names[pair.tag]),
            printable(names[pair.label]),
            f"{pair.images:,}",
            f"{pair.expected:.1f}",
            f"{pair.together:.0f} %",
            f"{pair.instead:,}",
        ]
        for pair in facts.company
    ]
    header = ["wrong tag", "on images with", "images", "by chance", "truly together", "label missed"]
    return (
        "<p>Wrong tags that come with a true label more often than chance, strongest first. Where both are often truly "
        "<b>together</b>, the tag is guessed because the label is there. Where the label was often <b>missed</b>, "
        f'one is mistaken for the other.</p><div class="wide">{html_table(header, rows, texts=2)}</div>'
    )


def training(facts: Facts) -> str:
    """Loss and mAP by epoch, from the training's log."""
    if not facts.epochs:
        return "<p>The tagger's folder has no log of its training.</p>"
    last = facts.epochs[-1]["epoch"]
    charts = []
    for name, style in (("loss", "b"), ("mAP", "a")):
        points = [(entry["epoch"], entry[name]) for entry in facts.epochs if name in entry]
        if len(points) < 2:
            continue
        values = [value for _, value in points]
        low = 0 if name == "loss" else math.floor(min(values) / 10) * 10
        charts.append(
            line_chart(
                f"{name} by epoch",
                f"{name} goes from {values[0]:.4g} in epoch {points[0][0]:g} to {values[-1]:.4g} in epoch {last:g}.",
                [Line("", points, style, dots=len(points) <= 40)],
                Axis("epoch", 1, max(last, 2), [(tick, f"{tick:g}") for tick in _whole_ticks(last)]),
                Axis.of(name, low, max(values) * 1.02, 4, "{:.3g}"),
            )
        )
    figures = "".join(f"<figure>{chart}</figure>" for chart in charts)
    return f'<div class="charts">{figures}</div>' if figures else "<p>The log has fewer than two epochs.</p>"


def cost(facts: Facts) -> str:
    """Size and speed."""
    spec = facts.tagger.spec
    rows = [[name, f"{size / 1e6:.1f} MB"] for name, size in facts.sizes.items()]
    if isinstance(parameters := spec.data.get("parameters"), int):
        rows.append(["parameters", f"{parameters:,}"])
    engine = {"onnx": "ONNX Runtime", "torch": "torch"}.get(facts.tagger.engine, facts.tagger.engine)
    rows.append([f"images per second here, reading included ({engine})", f"{facts.images_per_second:.0f}"])
    return html_table(["", ""], rows)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Build a plain table; the first `texts` columns are text."""
    kinds = ["text" if number < texts else "" for number in range(len(header))]
    heads = "".join(
        f'<th scope="col" class="{kind}">{text(name)}</th>' for kind, name in zip(kinds, header, strict=True)
    )
    lines = []
    for row in rows:
        cells = [f'<td class="{kind}">{text(value)}</td>' for kind, value in zip(kinds, row, strict=True)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<thead><tr>{heads}</tr></thead>" if any(header) else ""
    return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>"


def _points(x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _paragraphs(notes: Sequence[str]) -> str:
    return "".join(f"<p>{text(note)}</p>" for note in notes)


def _whole_ticks(last: float) -> list[int]:
    step = max(1, math.ceil(last / 6))
    return list(range(1, int(last) + 1, step))
