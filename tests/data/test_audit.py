import itertools
import json
import os
import time
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.sparse import csr_array

from tagloom.data import load_table
from tagloom.data.audit import LabelPair, LikelySlip, audit
from tagloom.data.audit.class_names import likely_slips
from tagloom.data.table import LabelTable


def picture(shade, form="PNG", size=(8, 6)):
    noise = np.random.default_rng(shade).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    stream = BytesIO()
    Image.fromarray(noise).save(stream, form)
    return stream.getvalue()


def make_table(root, labels, classes=("cat", "dog"), **fields):
    """A table from {image: set of classes}."""
    dense = np.array([[name in names for name in classes] for names in labels.values()], dtype=bool)
    return LabelTable(root, list(labels), classes, csr_array(dense.reshape(len(labels), len(classes))), **fields)


def absent_images(dense, exceptions=None, unlisted="negative"):
    dense = np.array(dense, dtype=bool)
    names = tuple(f"c{column}" for column in range(dense.shape[1]))
    exceptions = None if exceptions is None else csr_array(np.array(exceptions, dtype=bool))
    images = [f"{row}.jpg" for row in range(len(dense))]
    return LabelTable(Path("/nowhere"), images, names, csr_array(dense), exceptions, unlisted)


def test_a_sound_table_has_nothing_to_fix(tmp_path):
    for shade, name in enumerate("ab"):
        (tmp_path / f"{name}.png").write_bytes(picture(shade))
    found = audit(make_table(tmp_path, {"a.png": {"cat"}, "b.png": {"dog"}}, source="labels.csv"))
    assert (found.source, found.images, found.classes) == ("labels.csv", 2, ["cat", "dog"])
    assert not found.problems
    assert not found.duplicates
    assert not found.leaks
    assert not found.classes_without_positive
    assert not found.class_name_clashes
    assert not found.class_names_with_outer_spaces
    assert not found.likely_slips
    assert found.trainable


def test_images_that_cannot_be_used_are_reported_by_kind(tmp_path):
    (tmp_path / "good.png").write_bytes(picture(0))
    (tmp_path / "cut.jpg").write_bytes(picture(1, "JPEG", (30, 30))[:-400])
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "large.png").write_bytes(picture(2, size=(40, 40)))
    (tmp_path / "text.jpg").write_text("no picture at all")
    (tmp_path / "folder.jpg").mkdir()
    names = ["good.png", "absent.jpg", "cut.jpg", "empty.jpg", "large.png", "text.jpg", "folder.jpg"]
    found = audit(make_table(tmp_path, {name: {"cat"} for name in names}), max_pixels=1000)
    assert {problem.image: problem.kind for problem in found.problems} == {
        "absent.jpg": "missing",
        "cut.jpg": "broken",
        "empty.jpg": "broken",
        "large.png": "oversized",
        "text.jpg": "format",
        "folder.jpg": "format",
    }
    assert [problem.image for problem in found.problems] == names[1:]  # in the table's order
    assert all(problem.finding for problem in found.problems)


def test_duplicates_are_grouped_and_say_whether_their_labels_differ(tmp_path):
    for name, shade in {"a": 0, "b": 1, "c": 0, "d": 2, "e": 1, "f": 0}.items():
        (tmp_path / f"{name}.png").write_bytes(picture(shade))
    labels = {"a.png": {"cat"}, "b.png": {"dog"}, "c.png": {"cat"}, "d.png": {"dog"}, "e.png": set(), "f.png": {"cat"}}
    found = audit(make_table(tmp_path, labels))
    groups = {tuple(group.images): group.labels_differ for group in found.duplicates}
    assert groups == {("a.png", "c.png", "f.png"): False, ("b.png", "e.png"): True}


def test_duplicates_differ_when_only_what_is_known_differs(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(picture(0))
    unknown = csr_array(np.array([[False, True], [False, False]]))
    table = make_table(tmp_path, {"a.png": {"cat"}, "b.png": {"cat"}}, exceptions=unknown)
    assert audit(table).duplicates[0].labels_differ


def test_empty_files_are_not_duplicates_of_each_other(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.png").touch()
    assert audit(make_table(tmp_path, {"a.png": {"cat"}, "b.png": {"dog"}})).duplicates == []


def test_leaks_are_found_by_path_and_by_content(tmp_path):
    (tmp_path / "val").mkdir()
    for name, shade in {"a.png": 0, "b.png": 1, "val/copy.png": 1, "val/own.png": 2}.items():
        (tmp_path / name).write_bytes(picture(shade))
    train = make_table(tmp_path, {"a.png": {"cat"}, "b.png": {"dog"}, "gone.png": {"dog"}}, source="train.csv")
    validation = make_table(
        tmp_path / "val",
        {"../a.png": {"cat"}, "copy.png": {"dog"}, "own.png": {"cat"}, "absent.png": set(), "../gone.png": set()},
        source="val.csv",
    )
    found = audit(train, validation)
    assert found.other == "val.csv"
    assert [(leak.image, leak.other_image, leak.by) for leak in found.leaks] == [
        ("a.png", "../a.png", "path"),
        ("b.png", "copy.png", "content"),
        ("gone.png", "../gone.png", "path"),
    ]


def test_every_image_is_read_once_and_progress_counts_to_the_end(tmp_path, monkeypatch):
    for shade, name in enumerate("abc"):
        (tmp_path / f"{name}.png").write_bytes(picture(shade))
    opened, plain_open = [], os.open

    def counting_open(path, *arguments, **options):
        opened.append(Path(path).name)
        return plain_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", counting_open)
    seen = []
    train = make_table(tmp_path, {"a.png": {"cat"}, "b.png": {"dog"}})
    audit(train, make_table(tmp_path, {"b.png": {"dog"}, "c.png": {"cat"}}), progress=lambda *step: seen.append(step))
    assert sorted(opened) == ["a.png", "b.png", "c.png"]
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("workers", [1, 4])
def test_findings_do_not_depend_on_the_number_of_threads(tmp_path, workers, monkeypatch):
    monkeypatch.setattr("tagloom.data.audit.files._CHUNK", 3)
    labels = {f"{number}.png": {"cat"} for number in range(10)}
    for number, name in enumerate(labels):
        (tmp_path / name).write_bytes(picture(number % 4))
    table = make_table(tmp_path, labels)
    assert audit(table, workers=workers).to_dict() == audit(table, workers=2).to_dict()


@st.composite
def kinds_of_pairs(draw):
    shape = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    cells = draw(st.lists(st.sampled_from([1, 0, -1]), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    return np.array(cells).reshape(shape)


@given(kinds_of_pairs(), st.sampled_from(["negative", "unknown"]))
def test_counts_are_those_of_a_plain_count(kinds, unlisted):
    found = audit(absent_images(kinds == 1, kinds == (-1 if unlisted == "negative" else 0), unlisted), workers=1)
    per_image = (kinds == 1).sum(axis=1).tolist()
    assert found.positives == (kinds == 1).sum(axis=0).tolist()
    assert found.unknown == (kinds == -1).sum(axis=0).tolist()
    labels = found.labels_per_image
    assert (labels.least, labels.most, labels.without) == (min(per_image), max(per_image), per_image.count(0))
    assert labels.mean == pytest.approx(sum(per_image) / len(per_image))
    assert labels.histogram == [per_image.count(number) for number in range(max(per_image) + 1)]
    assert found.classes_without_positive == [f"c{c}" for c in range(kinds.shape[1]) if not (kinds[:, c] == 1).any()]


@given(kinds_of_pairs())
def test_pairs_are_those_that_two_loops_find(kinds):
    positive = kinds == 1
    expected = {}
    for a, b in itertools.combinations(range(positive.shape[1]), 2):
        both = int((positive[:, a] & positive[:, b]).sum())
        if both >= 2:
            counts = positive.sum(axis=0)
            expected[f"c{a}", f"c{b}"] = (both, both / counts[a], both / counts[b])
    found = audit(absent_images(positive), workers=1).strongest_pairs
    assert {(p.first, p.second): (p.together, p.share_of_first, p.share_of_second) for p in found} == expected
    overlaps = [1 / (1 / pair.share_of_first + 1 / pair.share_of_second - 1) for pair in found]
    assert all(before >= after - 1e-12 for before, after in itertools.pairwise(overlaps))


def test_pairs_are_counted_across_blocks_of_classes(monkeypatch):
    positive = np.random.default_rng(0).random((60, 11)) < 0.3
    whole = audit(absent_images(positive), workers=1).strongest_pairs
    monkeypatch.setattr("tagloom.data.audit.labels._CHUNK", 4)
    assert audit(absent_images(positive), workers=1).strongest_pairs == whole
    assert all(isinstance(pair, LabelPair) for pair in whole)


def test_class_names_that_look_alike_are_grouped():
    names = ("Dog", "dog", "dog ", "dining table", "dining_table", "cat", "café", "cafe\u0301", "hot-dog")
    table = LabelTable(Path(), [], names, csr_array((0, len(names)), dtype=bool))
    found = audit(table)
    assert found.class_name_clashes == [
        ["Dog", "dog", "dog "],
        ["dining table", "dining_table"],
        ["café", "cafe\u0301"],
    ]
    assert found.class_names_with_outer_spaces == ["dog "]


def with_counts(counts, **fields):
    """A table whose classes have these many positives, each image with one label."""
    labels = {f"{name}-{number}.jpg": {name} for name, times in counts.items() for number in range(times)}
    return make_table(Path("/nowhere"), labels, tuple(counts), **fields)


def test_classes_with_few_positives_are_rare_and_those_without_any_are_listed_separately():
    found = audit(with_counts({"none": 0, "one": 1, "four": 4, "five": 5}))
    assert found.rare_classes == ["one", "four"]
    assert found.classes_without_positive == ["none"]


@pytest.mark.parametrize(
    "slip",
    ["persn", "perrson", "persan", "pesron", "Persons", "per-son", "pérson"],
)
def test_a_rare_class_one_typo_from_a_frequent_one_is_reported(slip):
    found = audit(with_counts({"person": 20, "cat": 20, slip: 4}))
    assert found.likely_slips == [LikelySlip(slip, 4, "person", 20)]


@pytest.mark.parametrize(
    "counts",
    [
        {"cat": 30, "car": 1},  # one letter in three makes another word
        {"male person": 30, "female person": 1},  # two letters apart
        {"person": 19, "persn": 4},  # not five times as frequent
        {"person": 30, "persn": 6},  # not rare
        {"route 61": 30, "route 66": 1},  # another number is another thing
        {"Person": 30, "person": 1},  # already a clash
        {"person": 30, "persn": 0},
        {"x" * 101: 30, "x" * 100 + "y": 1},
    ],
)
def test_other_classes_are_not_reported_as_typos(counts):
    assert audit(with_counts(counts)).likely_slips == []


def test_a_typo_between_two_classes_is_taken_for_the_more_frequent():
    found = audit(with_counts({"mouses": 10, "houses": 12, "louses": 1}))
    assert [slip.meant for slip in found.likely_slips] == ["houses"]


@given(st.text("ab", min_size=4, max_size=9), st.text("ab", min_size=4, max_size=9))
def test_typos_are_those_found_by_comparing_all_shortened_names(frequent, rare):
    if frequent == rare:
        return
    one_less = [{name, *(name[:i] + name[i + 1 :] for i in range(len(name)))} for name in (frequent, rare)]
    expected = bool(one_less[0] & one_less[1]) and SequenceMatcher(None, rare, frequent).ratio() >= 0.8
    assert bool(audit(with_counts({frequent: 5, rare: 1}), workers=1).likely_slips) == expected


def test_given_classes_are_not_checked_for_typos(tmp_path):
    rows = "".join(f"{number}.jpg,person\n" for number in range(9))
    (tmp_path / "labels.csv").write_text(f"image,labels\n{rows}x.jpg,persn\n")
    assert [slip.name for slip in audit(load_table(tmp_path / "labels.csv")).likely_slips] == ["persn"]
    (tmp_path / "classes.txt").write_text("person\npersn\n")
    assert audit(load_table(tmp_path / "labels.csv")).likely_slips == []


def test_typos_among_thousands_of_classes_are_found_quickly():
    rng = np.random.default_rng(0)
    names = sorted({"".join(rng.choice(list("abcdefghijklmnop"), 12)) for _ in range(9600)})
    frequent, rare = names[:4800], names[4800:]
    slip = frequent[7][:3] + frequent[7][4:]
    counts = np.array([5] * len(frequent) + [1] * (len(rare) + 1))
    start = time.perf_counter()
    found = likely_slips([*frequent, *rare, slip], counts)
    assert [(case.name, case.meant) for case in found] == [(slip, frequent[7])]
    assert time.perf_counter() - start < 5  # comparing each with each takes minutes


def test_repeated_rows_and_ignored_columns_reach_the_audit(tmp_path):
    (tmp_path / "labels.csv").write_text("image,labels,split\na.jpg,cat,x\na.jpg,cat,y\nb.jpg,cat,x\n")
    found = audit(load_table(tmp_path / "labels.csv"))
    assert (found.images, found.repeated_rows, found.ignored_columns) == (2, 1, ["split"])


@pytest.mark.parametrize(
    ("images", "labelled", "missing", "obstacles"),
    [
        (2, 1, 0, 0),
        (1, 1, 0, 1),
        (2, 0, 0, 1),
        (1, 0, 0, 2),
        (20, 1, 1, 0),
        (19, 1, 1, 1),
        (40, 0, 3, 2),
    ],
)
def test_trainable_follows_the_rules_of_training(tmp_path, images, labelled, missing, obstacles):
    labels = {f"{number}.png": {"cat"} if number < labelled else set() for number in range(images)}
    for number, name in enumerate(labels):
        if number >= missing:
            (tmp_path / name).write_bytes(picture(number))
    found = audit(make_table(tmp_path, labels))
    assert len(found.obstacles) == obstacles
    assert found.trainable == (obstacles == 0)
    assert found.to_dict()["obstacles"] == found.obstacles


def test_an_audit_survives_json_and_says_everything(tmp_path):
    (tmp_path / "a.png").write_bytes(picture(0))
    (tmp_path / "labels.csv").write_text("image,labels\na.png,cat|dog\nb.png,cat\n")
    table = load_table(tmp_path / "labels.csv")
    found = audit(table, table)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain == found.to_dict()
    assert plain["problems"] == [{"image": "b.png", "kind": "missing", "finding": found.problems[0].finding}]
    assert [leak["by"] for leak in plain["leaks"]] == ["path", "path"]
