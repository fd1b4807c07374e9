from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tagloom.data.audit import Audit, DuplicateGroup, ImageProblem, LabelPair, LabelsPerImage, Leak, LikelySlip
from tagloom.report.audit import render_audit

SOUND = Audit(
    source="labels.csv",
    images=400,
    classes=["cat", "dog"],
    positives=[300, 100],
    unknown=[0, 200],
    labels_per_image=LabelsPerImage(mean=1.0, least=0, most=2, without=100, histogram=[100, 200, 100]),
    strongest_pairs=[LabelPair("cat", "dog", 100, 1 / 3, 1.0)],
    classes_without_positive=[],
    classes_with_few_negatives=[],
    rare_classes=[],
    likely_slips=[],
    class_name_clashes=[],
    class_names_with_outer_spaces=[],
    repeated_rows=0,
    ignored_columns=[],
    understood=["labels are in the column 'tags', by its name"],
    absolute_paths=[],
    paths_outside=[],
    problems=[],
    duplicates=[],
    other="val.csv",
    leaks=[],
)

# In the order in which they should be fixed.
FINDINGS = [
    ({"leaks": [Leak("a.jpg", "b.jpg", "content")]}, "Images also in val.csv (1)", "shared images"),
    ({"problems": [ImageProblem("a.jpg", "missing", "no such file.")]}, "Missing images (1)", "missing images"),
    ({"problems": [ImageProblem("a.jpg", "broken", "ends early")]}, "Broken images (1)", "broken images"),
    ({"problems": [ImageProblem("a.jpg", "oversized", "huge")]}, "Oversized images (1)", "oversized images"),
    ({"problems": [ImageProblem("a.jpg", "format", "is text")]}, "Unsupported files (1)", "convert"),
    ({"duplicates": [DuplicateGroup(["a", "b"], True)]}, "Duplicate images with different labels (1)", "contradict"),
    ({"class_name_clashes": [["Dog", "dog"]]}, "Class names that look alike (1)", "one spelling"),
    ({"class_names_with_outer_spaces": ["dog "]}, "Class names with outer spaces (1)", "trim"),
    ({"likely_slips": [LikelySlip("dgo", 2, "dog", 100)]}, "Classes that may be misspelt (1)", "classes.txt"),
    ({"classes_without_positive": ["dog"]}, "Classes without a positive (1)", "find positives"),
    ({"duplicates": [DuplicateGroup(["a", "b"], False)]}, "Duplicate images (1)", "repeated images"),
]


def page(audit):
    stream = StringIO()
    render_audit(audit, Console(file=stream, width=200, color_system=None))
    return stream.getvalue()


def test_a_sound_table_gets_its_numbers_and_nothing_to_fix():
    text = page(SOUND)
    for part in ("labels.csv", "1.00 on average, 0 to 2", "200 (25.0%)", "75.0%", "33%", "100%"):
        assert part in text
    assert text.rstrip().endswith("Verdict: nothing to fix.")
    for part in ("repeated rows", "ignored columns", "Rare classes"):
        assert part not in text


def test_rare_classes_are_listed_rarest_first_and_are_no_fault():
    text = page(replace(SOUND, positives=[4, 1], rare_classes=["cat", "dog"]))
    assert "Rare classes, with fewer than 5 positives (2)\n  'dog' (1)\n  'cat' (4)\n" in text
    assert "more examples would help" in text
    assert text.rstrip().endswith("Verdict: nothing to fix.")


def test_merged_rows_and_ignored_columns_are_shown():
    text = page(replace(SOUND, repeated_rows=1234, ignored_columns=["split", "w", "h", "url", "id"]))
    assert "1,234, merged with the rows they repeat" in text
    assert "'split', 'w', 'h', 'url' and 1 more" in text
    assert text.rstrip().endswith("Verdict: nothing to fix.")


def test_a_likely_slip_names_both_spellings_and_how_often_they_occur():
    text = page(replace(SOUND, likely_slips=[LikelySlip("persn", 1, "person", 1168)]))
    assert "'persn' (1 positive) next to 'person' (1,168)" in text


def test_a_class_that_may_be_misspelt_is_not_listed_as_rare_again():
    slip = LikelySlip("dgo", 2, "dog", 100)
    shown = replace(SOUND, classes=["dog", "dgo"], positives=[100, 2], rare_classes=["dgo"], likely_slips=[slip])
    assert "Rare classes" not in page(shown)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"images": 1}, "at least 2 images are needed, found 1"),
        ({"positives": [0, 0]}, "no image has any label"),
        ({"problems": [ImageProblem("a.jpg", "missing", "none")] * 21}, "21 of 400 images cannot be read, over 5%"),
    ],
)
def test_the_verdict_says_why_training_would_refuse_the_table(change, reason):
    verdict = page(replace(SOUND, **change)).rstrip().splitlines()[-1]
    assert verdict.startswith(f"Verdict: training would refuse this table: {reason}.")
    assert ("First, add the missing images" in verdict) == ("problems" in change)


@pytest.mark.parametrize(("change", "title", "advice"), FINDINGS)
def test_each_finding_is_listed_and_advised_on(change, title, advice):
    text = page(replace(SOUND, **change))
    assert title in text
    verdict = text.rstrip().splitlines()[-1]
    assert verdict.startswith("Verdict: first, ")
    assert advice in verdict


@pytest.mark.parametrize("fixed", range(len(FINDINGS)))
def test_the_most_serious_finding_comes_first(fixed):
    left = FINDINGS[fixed:]
    changes = {}
    for change, _, _ in left:
        for field, values in change.items():
            changes[field] = [*changes.get(field, []), *values]
    text = page(replace(SOUND, **changes))
    places = [text.index(title) for _, title, _ in left]
    assert places == sorted(places)
    verdict = text.rstrip().splitlines()[-1]
    assert left[0][2] in verdict
    assert (f"other findings above ({len(left) - 1})" in verdict) == (len(left) > 1)


def test_long_lists_are_cut_and_say_where_the_rest_is():
    problems = [ImageProblem(f"{number:03}.jpg", "missing", "no such file.") for number in range(1234)]
    text = page(replace(SOUND, problems=problems))
    assert "009.jpg" in text
    assert "010.jpg" not in text
    assert "… and 1,224 more (all of them with --json)" in text


def test_many_classes_show_the_most_and_the_least_frequent():
    count = 100
    names = [f"class{number:03}" for number in range(count)]
    audit = replace(SOUND, images=1000, classes=names, positives=list(range(count)), unknown=[0] * count)
    text = page(audit)
    assert "class099" in text
    assert "class000" in text
    assert "class050" not in text
    assert "… and 80 more" in text


def test_many_labels_per_image_end_in_one_bar():
    histogram = [5] * 10 + [1] * 30
    labels = LabelsPerImage(mean=6.0, least=0, most=39, without=5, histogram=histogram)
    assert "10+ ━━━━━━━━━━━━━━━━━━━━━━━━ 30" in page(replace(SOUND, labels_per_image=labels))


def test_names_cannot_steer_the_terminal():
    hostile = "[bold red]\x1b[2Jx[/]"
    text = page(replace(SOUND, source=hostile, classes=[hostile, "dog"], classes_without_positive=[hostile]))
    assert "\x1b" not in text
    assert text.count("[bold red]�[2Jx[/]") == 3


def test_an_empty_table_can_be_shown():
    nothing = LabelsPerImage(0.0, 0, 0, 0, [])
    empty = replace(SOUND, images=0, classes=[], positives=[], unknown=[], labels_per_image=nothing, strongest_pairs=[])
    text = page(empty)
    assert "nothing to fix" not in text
    assert "at least 2 images are needed, found 0; no image has any label." in text


def test_paths_that_lead_elsewhere_are_mentioned_with_counts_and_examples():
    far = [f"/data/{number}.jpg" for number in range(12)]
    text = page(replace(SOUND, absolute_paths=far, paths_outside=["../secret.jpg"]))
    assert "Absolute image paths (12)" in text
    assert "/data/0.jpg" in text
    assert "and 2 more" in text
    assert "Image paths that leave the folder of the images (1)" in text
    assert "../secret.jpg" in text
    assert text.rstrip().endswith("Verdict: nothing to fix.")
