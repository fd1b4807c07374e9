"""All scores are kept in a file of their own, and tags made from it are those that a prediction gives."""

import json
import resource
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tagloom.errors import DataError, TaggerError
from tagloom.predict.files import Job
from tagloom.predict.from_scores import tags_from_scores, write_tags_from_scores
from tagloom.predict.inputs import Shard
from tagloom.predict.journal import journal_path
from tagloom.predict.score_files import Scores, open_scores, write_scores
from tagloom.predict.tagger import Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

CLASSES = ("bright", "dark", "=1+1", "größer")


def stub_tagger(**changes: object) -> Tagger:
    """Scores that all differ, and are exact in float16, so that rounding does not hide a mistake."""
    settings = {"thresholds": (0.47, 0.22, 0.9, 0.0)} | changes
    spec = TaggerSpec(CLASSES, Preprocess(size=32), "x", "gap", **settings)

    def run(pictures: np.ndarray) -> np.ndarray:
        level = pictures.reshape(len(pictures), -1).mean(1, dtype=np.float64)[:, None] / 255
        wanted = np.round(np.clip(np.hstack([level, 1 - level, level / 2, level**2]), 1 / 16, 15 / 16) * 16) / 16
        return np.log(wanted / (1 - wanted)).astype(np.float32)

    return Tagger(spec, run, "onnx", name="stub")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(30):
        level = rng.integers(0, 256)
        pixels = np.full((4, 4, 3), level, np.uint8)
        Image.fromarray(pixels).save(folder / f"{'=' if number == 7 else ''}{number:02}.png")
    (folder / "12.png").write_bytes(b"no image")
    return folder


def test_tags_from_kept_scores_are_those_of_a_prediction(photos, tmp_path):
    scores = tmp_path / "kept" / "scores.parquet"
    assert Job(stub_tagger(), [photos], tmp_path / "tags.csv", scores).run() == (29, 1)
    for number, options in enumerate(
        [{}, {"threshold": 0.3}, {"top_k": 2}, {"max_tags": 1}, {"threshold": 0.1, "max_tags": 2}]
    ):
        ours, theirs = tmp_path / f"ours{number}.jsonl", tmp_path / f"theirs{number}.jsonl"
        assert write_tags_from_scores([scores], ours, **options) == 29
        tagger = stub_tagger()
        Job(tagger, [photos], theirs, rule=tagger.rule(**options)).run()
        assert ours.read_bytes() == theirs.read_bytes()
    assert not journal_path(tmp_path / "tags.csv").exists()
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["scores.parquet"]


def test_scores_alone_are_enough_and_come_back_in_half_precision(photos, tmp_path):
    out = tmp_path / "scores.parquet"
    Job(stub_tagger(), [photos], scores=out).run()
    found = open_scores(out)
    assert (found.classes, found.task, found.images) == (CLASSES, "multi", 29)
    rows = list(found)
    assert rows[0].row.dtype == np.float16
    good = [path for path in sorted(photos.iterdir()) if path.name != "12.png"]
    np.testing.assert_array_equal(np.stack([row for _, row in rows]), stub_tagger().scores(good).astype(np.float16))
    assert str(parquet.read_schema(out).field("scores").type) == "fixed_size_list<element: halffloat>[4]"


@pytest.mark.parametrize("last", [1, 9, 13, 29, 30])
def test_scores_of_a_run_that_was_stopped_are_those_of_one_that_was_not(photos, tmp_path, last):
    whole, out = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    Job(stub_tagger(), [photos], tmp_path / "whole.csv", whole).run()

    def stop(done: int) -> None:
        if done == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Job(stub_tagger(), [photos], tmp_path / "out.csv", out).run(on_image=stop)
    kept = tmp_path / "out.csv.scores.partial"
    assert kept.stat().st_size == last * 2 * len(CLASSES)
    with kept.open("ab") as file:
        file.write(b"cut")  # a row that was being written
    Job(stub_tagger(), [photos], tmp_path / "out.csv", out).run(resume=True)
    assert parquet.read_table(out).equals(parquet.read_table(whole))
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not kept.exists()


def test_a_stopped_run_without_scores_is_not_continued_with_them(photos, tmp_path):
    def stop(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Job(stub_tagger(), [photos], tmp_path / "out.csv").run(on_image=stop)
    with pytest.raises(DataError, match="another shard"):
        Job(stub_tagger(), [photos], tmp_path / "out.csv", shard=Shard(0, 2)).run(resume=True)
    job = Job(stub_tagger(), [photos], tmp_path / "out.csv", tmp_path / "scores.parquet")
    assert job.run(resume=True) == (29, 1), "no score was kept, so it starts over"
    assert open_scores(tmp_path / "scores.parquet").images == 29


def test_scores_of_shards_become_one_file_of_tags(photos, tmp_path):
    shards = [tmp_path / f"{index}.parquet" for index in range(4)]
    for index, path in enumerate(shards):
        Job(stub_tagger(), [photos], scores=path, shard=Shard(index, 4)).run()
    Job(stub_tagger(), [photos], tmp_path / "whole.csv").run()
    assert write_tags_from_scores(shards, tmp_path / "tags.csv") == 29
    assert sorted((tmp_path / "tags.csv").read_text().split()) == sorted((tmp_path / "whole.csv").read_text().split())


def test_scores_of_two_taggers_are_not_mixed(photos, tmp_path):
    Job(stub_tagger(), [photos], scores=tmp_path / "a.parquet").run()
    spec = TaggerSpec(("x",), Preprocess(size=32), "x", "gap")
    write_scores([Scores("a.png", np.float16([0.5]))], spec, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet: has other classes than .*a\.parquet"):
        list(tags_from_scores([tmp_path / "a.parquet", tmp_path / "b.parquet"]))


def test_a_single_label_tagger_keeps_its_one_label(photos, tmp_path):
    Job(stub_tagger(task="single"), [photos], scores=tmp_path / "a.parquet").run()
    assert all(len(tags) == 1 for _, tags in tags_from_scores([tmp_path / "a.parquet"]))
    with pytest.raises(TaggerError, match="max_tags is 0"):
        list(tags_from_scores([tmp_path / "a.parquet"], max_tags=0))


@pytest.mark.parametrize("name", ["scores.csv", "tags.parquet"])
def test_a_name_that_scores_cannot_have_is_refused_before_any_work(photos, tmp_path, name):
    with pytest.raises(DataError, match=r"scores are written as \.parquet, to a file of their own"):
        Job(stub_tagger(), [photos], tmp_path / "tags.parquet", tmp_path / name).run()


def about(path: Path, **changes: object) -> Path:
    """Change what a file of scores says about its tagger."""
    table = parquet.read_table(path)
    content = json.loads(table.schema.metadata[b"tagloom"]) | changes
    parquet.write_table(table.replace_schema_metadata({b"tagloom": json.dumps(content).encode()}), path)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"classes": ["a"]},
        {"classes": ["a", "a", "b", "c"]},
        {"classes": [1, 2, 3, 4]},
        {"thresholds": [2, 0, 0, 0]},
        {"thresholds": "none"},
        {"task": "x"},
        {"classes": None},
    ],
)
def test_a_file_that_was_tampered_with_is_refused(photos, tmp_path, changes):
    Job(stub_tagger(), [photos], scores=tmp_path / "a.parquet").run()
    open_scores(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: holds no scores of Tagloom.*tagloom predict"):
        open_scores(about(tmp_path / "a.parquet", **changes))


def test_what_is_no_file_of_scores_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    parquet.write_table(pa.table({"image": ["a.png"]}), tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet", "gone.parquet"):
        with pytest.raises(DataError, match=f"{name}: holds no scores of Tagloom"):
            open_scores(tmp_path / name)


def test_scores_that_are_not_numbers_are_refused(tmp_path):
    spec = TaggerSpec(("x",), Preprocess(size=32), "x", "gap")
    write_scores([Scores("a.png", np.float16([np.nan]))], spec, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="a score is not a finite number"):
        list(open_scores(tmp_path / "a.parquet"))


@pytest.mark.skipif(not hasattr(parquet.ParquetWriter, "add_key_value_metadata"), reason="pyarrow is too old")
def test_a_huge_name_in_many_rows_is_refused_in_little_memory(tmp_path):
    """A file of 20 kB whose rows share one name of 1.2 MB: 2.4 GB."""
    write_scores([Scores("a.jpg", np.zeros(4, np.float16))], stub_tagger().spec, tmp_path / "good.parquet")
    rows = 2048
    name = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 1_200_000]))
    scores = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * 4, np.float16)), 4)
    table, path = pa.table({"image": name, "scores": scores}), tmp_path / "bad.parquet"
    options = {"compression": "zstd", "store_schema": False, "dictionary_pagesize_limit": 2**24}
    with parquet.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(parquet.read_metadata(tmp_path / "good.parquet").metadata)
    assert path.stat().st_size < 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="over 4096 characters"):
        list(open_scores(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
