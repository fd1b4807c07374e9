"""The report: one offline page whose figures are those of `evaluate`, escaped, described, and small."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tagloom
from tagloom.data.table import LabelTable
from tagloom.errors import TagloomError
from tagloom.predict.tagger import Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.report.page import sections, write_report
from tagloom.report.page.facts import read_epochs
from tagloom.tagger.spec import TaggerSpec

HOSTILE = '</script><img src="https://evil.example/x" onerror=alert(1)>'


class Page(HTMLParser):
    """Collects elements, texts and the data of the table of classes."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.data = ""
        self._script = False
        self.feed(source)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = tag == "script" and dict(attrs).get("id") == "classes-data"

    def handle_data(self, data: str) -> None:
        if self._script:
            self.data += data
            self._script = False
        else:
            self.words.append(data)


def stub_tagger(classes: tuple[str, ...], seed: int = 0) -> Tagger:
    """A tagger without a network: scores depend on the mean colour of a picture."""
    weights = np.random.default_rng(seed).normal(size=(3, len(classes))).astype(np.float32)

    def network(pixels):
        return (pixels.reshape(len(pixels), -1, 3).mean(axis=1) / 128 - 1).astype(np.float32) @ weights

    spec = TaggerSpec(classes, Preprocess(size=32), backbone="stub", head="gap")
    return Tagger(spec, network, "onnx", name="stub")


def colour_table(folder: Path, classes: tuple[str, ...], rows: int) -> LabelTable:
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(rows):
        Image.new("RGB", (40, 30), tuple(rng.integers(0, 256, 3).tolist())).save(folder / f"{number}.png")
    picks = rng.integers(0, len(classes), (rows, 2)).tolist()
    body = [
        json.dumps({"image": f"{row}.png", "labels": sorted({classes[column] for column in pick})})
        for row, pick in enumerate(picks)
    ]
    table = folder / "t.jsonl"
    table.write_text("\n".join(body))
    (folder / "classes.txt").write_text("\n".join(classes))
    return tagloom.load_table(table)


def test_its_figures_are_those_of_evaluate(finished_run, scenes, tmp_path) -> None:
    tagger, table = tagloom.load(finished_run), tagloom.load_table(scenes / "train.csv")
    write_report(tagger, table, finished_run, tmp_path / "new" / "report.html")
    page = Page((tmp_path / "new" / "report.html").read_text())
    result = tagloom.evaluate(tagger, table, show_progress=False)
    text = " ".join(page.words)
    for name in ("mAP", "CF1", "OF1", "OP", "OR"):
        assert f"{result.metrics[name]:.2f}" in text
    rows = json.loads(page.data)
    assert [row[0] for row in rows] == list(tagger.classes)
    for row, ap in zip(rows, result.metrics["AP"], strict=True):
        assert row[2] == (None if ap is None else pytest.approx(ap, abs=1e-4))
    recalls = [row[4] for row in rows if row[4] is not None]
    assert np.mean(recalls) == pytest.approx(result.metrics["CR"], abs=1e-3)
    assert "loss by epoch" in text
    assert "where" in " ".join(element[1].get("alt") or "" for element in page.elements)  # heat maps


def test_nothing_comes_from_outside_and_every_chart_and_picture_is_described(finished_run, scenes, tmp_path) -> None:
    write_report(tagloom.load(finished_run), tagloom.load_table(scenes / "val.csv"), finished_run, tmp_path / "r.html")
    source = (tmp_path / "r.html").read_text()
    page = Page(source)
    for tag, attributes in page.elements:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("data:image/jpeg;base64,", "#")), (tag, attributes)
        if tag == "img":
            assert attributes["alt"]
    assert not re.search(r"https?://|@import|url\(", source)
    charts = [attributes for tag, attributes in page.elements if tag == "svg"]
    ids = {attributes.get("id") for _, attributes in page.elements}
    assert len(charts) > 8
    for chart in charts:
        assert chart["role"] == "img"
        assert set(chart["aria-labelledby"].split()) <= ids
    assert "prefers-color-scheme: dark" in source
    assert "default-src 'none'" in source


def test_names_from_strangers_are_text(tmp_path) -> None:
    classes = (HOSTILE, "plain", "a & b", "tab\tand \x1b[31mescape")
    table = colour_table(tmp_path / "data", ("plain", "a & b"), 30).with_classes(classes, on_missing="negative")
    write_report(stub_tagger(classes), table, tmp_path, tmp_path / "r.html")
    source = (tmp_path / "r.html").read_text()
    page = Page(source)
    assert not [
        attributes for tag, attributes in page.elements if tag == "img" and "evil" in str(attributes.get("src"))
    ]
    assert sum(tag == "script" for tag, _ in page.elements) == 2
    assert json.loads(page.data)[0][0] == HOSTILE
    assert "\x1b" not in source


def test_a_tagger_without_heat_maps_has_a_report_without_them(tmp_path) -> None:
    said: list[str] = []
    table = colour_table(tmp_path / "data", ("a", "b"), 30)
    write_report(stub_tagger(("a", "b")), table, tmp_path, tmp_path / "r.html", note=said.append)
    assert len(said) == 1
    assert "without heat maps" in said[0]


def test_thousands_of_classes_make_a_small_page(tmp_path) -> None:
    classes = tuple(f"class {number}" for number in range(9600))
    table = colour_table(tmp_path / "data", classes, 300)
    write_report(
        stub_tagger(classes), table.with_classes(classes, on_missing="negative"), tmp_path, tmp_path / "r.html"
    )
    assert (tmp_path / "r.html").stat().st_size < 2_000_000
    page = Page((tmp_path / "r.html").read_text())
    assert len(json.loads(page.data)) == 9600
    assert sum(tag == "svg" for tag, _ in page.elements) < 40


def test_of_very_many_pairs_the_curve_is_drawn_from_evenly_spaced_images(tmp_path, monkeypatch) -> None:
    table = colour_table(tmp_path / "data", ("a", "b"), 30)
    monkeypatch.setattr(sections, "MOST_PAIRS", 20)
    write_report(stub_tagger(("a", "b")), table, tmp_path, tmp_path / "r.html")
    assert "From 10 evenly spaced images" in (tmp_path / "r.html").read_text()


def test_the_long_tail_is_shown_where_the_tagger_knows_it(tmp_path) -> None:
    table = colour_table(tmp_path / "data", ("a", "b"), 30)
    tagger = stub_tagger(("a", "b"))
    tagger.spec = replace(tagger.spec, training_positives=(500, 3))
    facts = write_report(tagger, table, tmp_path, tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text())
    head, middle, tail = facts.result.metrics["long_tail"]
    assert [head["mAP"], middle["mAP"], tail["mAP"]] == [
        *facts.result.metrics["AP"][:1],
        None,
        facts.result.metrics["AP"][1],
    ]
    text = " ".join(page.words)
    assert f"head more than 100 training images 1 {head['mAP']:.2f}" in text
    assert f"tail fewer than 20 1 {tail['mAP']:.2f}" in text
    assert [row[-1] for row in json.loads(page.data)] == [500, 3]
    tagger.spec = replace(tagger.spec, training_positives=(500, 300))
    write_report(tagger, table, tmp_path, tmp_path / "all-head.html")
    assert "more than 100" not in (tmp_path / "all-head.html").read_text(), "one part alone says nothing new"


def test_a_strange_log_is_no_reason_to_fail(tmp_path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        'nonsense\n[1]\n{"event": "epoch"}\n{"event": "epoch", "epoch": "x"}\n{"event": "epoch", "epoch": 2, '
        '"loss": 1.5, "mAP": "<b>"}\n{"event": "epoch", "epoch": 1, "loss": NaN}\n' + "[" * 100_000
    )
    assert read_epochs(log) == [{"epoch": 1}, {"epoch": 2, "loss": 1.5}]
    assert read_epochs(tmp_path / "none") == []


def test_a_report_is_an_html_file(tmp_path) -> None:
    table = colour_table(tmp_path / "data", ("a", "b"), 30)
    with pytest.raises(TagloomError, match=r"end the name in \.html"):
        write_report(stub_tagger(("a", "b")), table, tmp_path, tmp_path / "r.pdf")
