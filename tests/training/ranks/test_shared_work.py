"""Reading, extracting and tagging are shared out: every image once, and the result of one process."""

import shutil

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Eleven small images and a broken one."""
    folder, rng = tmp_path_factory.mktemp("images") / "images", np.random.default_rng(0)
    folder.mkdir()
    for number in range(11):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / f"{number:02}.png")
    (folder / "04b.png").write_bytes((folder / "04.png").read_bytes()[:200])
    return folder


def test_every_picture_of_an_epoch_is_read_by_one_process(images, in_ranks, tmp_path):
    (alone,) = (rank["result"] for rank in in_ranks("pictures", 1, tmp_path, images=images))
    found = [rank["result"] for rank in in_ranks("pictures", 3, tmp_path, images=images)]
    for epoch, batches in enumerate(alone):
        for number, batch in enumerate(batches):
            assert [row for rank in found for row in rank[epoch][number]] == batch


def test_extraction_is_shared_out_and_all_get_all(images, in_ranks, tmp_path):
    alone = in_ranks("features", 1, tmp_path / "one", images=images)[0]["result"]
    found = [rank["result"] for rank in in_ranks("features", 2, tmp_path / "two", images=images)]
    assert alone["total"] == 11
    for rank in found:
        assert rank["rows"] == alone["rows"]
        assert rank["broken"] == alone["broken"]
        assert len(rank["broken"]) == 1
        assert rank["total"] == 11
        assert 0 < len(rank["computed"]) < 12
        np.testing.assert_allclose(rank["features"], alone["features"], rtol=0, atol=1e-5)
    assert sorted(found[0]["computed"] + found[1]["computed"]) == sorted(alone["computed"])
    again = in_ranks("features", 3, tmp_path / "two", images=images)
    assert [len(rank["result"]["computed"]) for rank in again] != [0, 0, 0]  # the broken one is tried again
    assert again[0]["result"]["total"] == 0


def test_two_processes_write_the_files_of_one(images, untrained_run, in_ranks, tmp_path):
    pytest.importorskip("pyarrow")
    given = {"tagger": untrained_run, "images": images}
    in_ranks("tag", 1, tmp_path / "one", **given)
    counts, said = in_ranks("tag", 2, tmp_path / "two", **given)[0]["result"]
    assert counts == [11, 1]
    assert len(said) == 1
    assert "04b.png" in said[0]
    assert (tmp_path / "two" / "tags.csv").read_bytes() == (tmp_path / "one" / "tags.csv").read_bytes()
    assert read_scores(tmp_path / "two") == read_scores(tmp_path / "one")
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["scores.parquet", "tags.csv"]


def test_a_stopped_prediction_continues_with_as_many_processes(images, untrained_run, in_ranks, tmp_path):
    pytest.importorskip("pyarrow")
    given = {"tagger": untrained_run, "images": images}
    in_ranks("tag", 1, tmp_path / "one", **given)
    stopped = in_ranks("tag", 2, tmp_path / "two", **given, stop_at=3)
    assert [rank.get("error") for rank in stopped] == ["Interrupted"] * 2
    for ranks in (1, 3):
        refused = in_ranks("tag", ranks, tmp_path / "two", **given, resume=True)
        assert all("with --processes 2 that was stopped" in rank["message"] for rank in refused)
    counts, _ = in_ranks("tag", 2, tmp_path / "two", **given, resume=True)[1]["result"]
    assert counts == [11, 1]
    assert (tmp_path / "two" / "tags.csv").read_bytes() == (tmp_path / "one" / "tags.csv").read_bytes()


def test_more_processes_than_images_write_the_same_file(images, untrained_run, in_ranks, tmp_path):
    pytest.importorskip("pyarrow")
    few = tmp_path / "few"
    few.mkdir()
    for name in ("00.png", "01.png"):
        shutil.copy(images / name, few / name)
    given = {"tagger": untrained_run, "images": few}
    in_ranks("tag", 1, tmp_path / "one", **given)
    in_ranks("tag", 3, tmp_path / "three", **given)
    assert (tmp_path / "three" / "tags.csv").read_bytes() == (tmp_path / "one" / "tags.csv").read_bytes()


def read_scores(folder):
    from tagloom.predict.score_files import open_scores

    return [(entry.image, entry.row.tolist()) for entry in open_scores(folder / "scores.parquet")]
