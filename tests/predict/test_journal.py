"""A prediction that is stopped keeps what it did, and continues to the same bytes."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tagloom.errors import DataError
from tagloom.predict.files import Job, Tagged
from tagloom.predict.journal import Journal, Sharing, journal_path, refuse_others
from tagloom.predict.tagger import Tag, Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.tagger.spec import TaggerSpec

COMMAND = Path(__file__).with_name("stub_command.py")
ASKED = {"tagger": "a", "threshold": None}
IMAGES = [f"{number}.jpg" for number in range(7)]


def stub_tagger(**changes: object) -> Tagger:
    """Says how bright a picture is, to the last bit, so that scores of all pictures differ."""
    spec = TaggerSpec(("bright", "=1+1", 'a "b"|c'), Preprocess(size=32), "x", "gap", **changes)

    def run(pictures: np.ndarray) -> np.ndarray:
        level = pictures.reshape(len(pictures), -1).mean(1) / 64 - 1
        return np.stack([level, -level, level / 2], 1).astype(np.float32)

    return Tagger(spec, run, "onnx", name="stub")


def write_images(folder: Path, count: int) -> Path:
    """Small images that all differ; every eleventh cannot be read."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"{number:05}.png"
        if number % 11 == 3:
            path.write_bytes(b"not an image")
        else:
            Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(path)
    return folder


def journal(out: Path, **options: object) -> Journal:
    return Journal(out, ASKED, iter(IMAGES), **options)


def fill(journal: Journal, *all_tags: list[Tag] | None) -> None:
    """Add the next images."""
    for tags in all_tags:
        journal.add(IMAGES[journal.done], tags)


def tag_to_file(tagger: Tagger, images: Path, out: Path, **options: Any) -> Tagged:
    return Job(tagger, [images], out).run(**options)


def images_in(path: Path) -> int:
    """How many complete lines of images a journal has."""
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


def test_what_was_added_is_there_after_a_stop(tmp_path: Path) -> None:
    with journal(tmp_path / "tags.csv") as first:
        fill(first, [Tag("a", 0.1)], None, [], [Tag("\udcff\x1b", 1 / 3)])
    with journal(tmp_path / "tags.csv", resume=True) as second:
        assert (second.done, second.failed) == (4, 1)
        assert [entry.tags for entry in second.entries()] == [[Tag("a", 0.1)], None, [], [Tag("\udcff\x1b", 1 / 3)]]
        fill(second, [])
        assert [entry.image for entry in second.entries()] == IMAGES[:5]


def test_it_continues_after_whole_batches_only(tmp_path: Path) -> None:
    with journal(tmp_path / "tags.csv") as first:
        fill(first, *[[]] * 5)
    with journal(tmp_path / "tags.csv", resume=True, chunk=3) as second:
        assert second.done == 3
        assert len(list(second.entries())) == 3
    with journal(tmp_path / "tags.csv", resume=True, chunk=4) as third:
        assert third.done == 0


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_line_that_was_cut_off_does_not_count(tmp_path: Path, cut: int) -> None:
    with journal(tmp_path / "tags.csv") as first:
        fill(first, [])
        fill(first, [Tag("dining table", 0.123456789)])
    path = journal_path(tmp_path / "tags.csv")
    path.write_bytes(path.read_bytes()[:-cut])
    with journal(tmp_path / "tags.csv", resume=True) as second:
        assert second.done == 1
        fill(second, [])
        assert [entry.tags for entry in second.entries()] == [[], []]


def test_what_was_done_is_not_lost_silently(tmp_path: Path) -> None:
    with journal(tmp_path / "tags.csv") as first:
        fill(first, [])
    for _ in range(2):
        with pytest.raises(DataError, match=r"tags\.csv\.partial: holds 1 images .*--resume, or delete"):
            journal(tmp_path / "tags.csv")
    with journal(tmp_path / "tags.csv", resume=True) as second:
        assert second.done == 1


def test_one_that_holds_nothing_leaves_no_file_and_is_no_obstacle(tmp_path: Path) -> None:
    with journal(tmp_path / "tags.csv"):
        pass
    assert list(tmp_path.iterdir()) == []
    journal_path(tmp_path / "tags.csv").write_bytes(b'{"format": 1, "tag')
    with journal(tmp_path / "tags.csv") as again:
        fill(again, [])


def test_other_options_or_images_are_refused_by_name(tmp_path: Path) -> None:
    out = tmp_path / "tags.csv"
    with journal(out) as first:
        fill(first, [])
        fill(first, [])
    with pytest.raises(DataError, match=r"begun with another threshold\. Continue with the same"):
        Journal(out, ASKED | {"threshold": 0.5}, iter(IMAGES), resume=True)
    with pytest.raises(DataError, match=r"image 2 was '1\.jpg' and is now 'x\.jpg'"):
        Journal(out, ASKED, iter(["0.jpg", "x.jpg"]), resume=True)
    with pytest.raises(DataError, match=r"image 2 was '1\.jpg' and is now missing"):
        Journal(out, ASKED, iter(["0.jpg"]), resume=True)
    names = iter([*IMAGES, "new.jpg"])
    with Journal(out, ASKED, names, resume=True) as more:
        assert more.done == 2, "images that come later are no obstacle"
        assert next(names) == "2.jpg", "and it goes on with the next"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    with journal(tmp_path / "tags.csv") as first:
        fill(first, [])
        for resume in (False, True):
            with pytest.raises(DataError, match="another process is writing"):
                journal(tmp_path / "tags.csv", resume=resume)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_run_that_is_stopped_after_any_image_ends_in_the_same_file(tmp_path: Path, suffix: str) -> None:
    images = write_images(tmp_path / "images", 69)
    whole, out = tmp_path / f"whole{suffix}", tmp_path / f"tags{suffix}"
    counted = tag_to_file(stub_tagger(), images, whole)
    assert counted == (63, 6)

    for last in (1, 31, 32, 33, 68, 69):

        def stop(done: int, last: int = last) -> None:
            if done == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tag_to_file(stub_tagger(), images, out, resume=True, on_image=stop)
        assert images_in(journal_path(out)) == last
        assert not out.exists()
    assert tag_to_file(stub_tagger(), images, out, resume=True) == counted
    if suffix == ".parquet":
        from pyarrow.parquet import read_table

        assert read_table(out).equals(read_table(whole))
    else:
        assert out.read_bytes() == whole.read_bytes()
    assert not journal_path(out).exists()


def test_another_tagger_does_not_continue(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", 5)

    def stop(done: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tag_to_file(stub_tagger(), images, tmp_path / "tags.csv", on_image=stop)
    with pytest.raises(DataError, match="another tagger"):
        tag_to_file(stub_tagger(metrics={"a": 1}), images, tmp_path / "tags.csv", resume=True)


def start(images: Path, out: Path, *options: str, most_bytes: int | None = None) -> "subprocess.Popen[str]":
    """Start the command with a tagger that needs no network; `most_bytes` is the largest file it can write."""
    arguments = [sys.executable, str(COMMAND), "predict", str(images), "--out", str(out), *options]
    if most_bytes is not None:
        shell = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes},) * 2); "
        arguments = [sys.executable, "-c", f"{shell}os.execv(sys.executable, {arguments!r})"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 60
    while not true() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_keep_what_is_done_and_say_how_to_continue(tmp_path: Path, number: int, code: int) -> None:
    images, out = write_images(tmp_path / "images", 320), tmp_path / "tags.csv"
    process = start(images, out)
    wait_until(lambda: images_in(journal_path(out)) > 0, process)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code, told
    assert "of 320 images are done. Continue with the same command and --resume" in told
    assert "Traceback" not in told
    done = images_in(journal_path(out))
    assert 0 < done < 320
    again = start(images, out)
    assert again.wait(60) == 2
    assert f"holds {done} images" in again.communicate()[1]
    continued = start(images, out, "--resume")
    assert continued.wait(60) == 0, continued.communicate()
    assert len(out.read_text().splitlines()) == 1 + 320 - len([n for n in range(320) if n % 11 == 3])


@pytest.mark.skipif(sys.platform == "win32", reason="no limits")
@pytest.mark.parametrize("most_bytes", [2500, 7300])
def test_a_full_disk_is_a_clear_message_and_loses_nothing(tmp_path: Path, most_bytes: int) -> None:
    images, whole, out = (
        write_images(tmp_path / "images", 128),
        tmp_path / "whole.jsonl",
        tmp_path / "t.jsonl",
    )
    assert start(images, whole).wait(60) == 0
    out.write_text("the one before")
    process = start(images, out, most_bytes=most_bytes)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2, told
    assert "t.jsonl: cannot be written" in told
    assert "What is done is kept: make room, and continue with the same command and --resume." in told
    assert "Traceback" not in told
    assert out.read_text() == "the one before"
    assert images_in(journal_path(out)) > 0
    assert start(images, out, "--resume").wait(60) == 0
    assert out.read_bytes() == whole.read_bytes()


def test_a_folder_in_its_way_is_named_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "tags.csv").mkdir()
    with pytest.raises(DataError, match=r"tags\.csv: is a folder"):
        tag_to_file(stub_tagger(), tmp_path / "a.jpg", tmp_path / "tags.csv")


@pytest.mark.fuzz
def test_a_prediction_that_is_killed_again_and_again_loses_and_doubles_no_row(
    tmp_path: Path, fuzz_rounds: Callable[[int], int]
) -> None:
    kills, count = fuzz_rounds(20), fuzz_rounds(2000)
    images = write_images(tmp_path / "images", count)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "tags.jsonl"
    assert start(images, whole).wait(120) == 0
    rng = random.Random(0)
    killed = 0
    for turn in range(kills):
        before = images_in(journal_path(out))
        step = rng.randrange(1, max(count // (kills + 2), 2))
        process = start(images, out, "--resume")
        wait_until(lambda aim=before + step: images_in(journal_path(out)) >= aim, process)
        time.sleep(rng.random() * 0.01)
        process.send_signal((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)[turn % 4])
        process.communicate(timeout=60)
        killed += process.returncode != 0
        assert not out.exists() or out.read_bytes() == whole.read_bytes(), "a file of tags is whole or absent"
    assert killed >= kills - 1, "the images were done before it was killed often enough"
    last = start(images, out, "--resume")
    output, told = last.communicate(timeout=120)
    assert last.returncode == 0, told
    readable = len([number for number in range(count) if number % 11 != 3])
    assert f"{readable} of {count} images tagged" in output
    assert out.read_bytes() == whole.read_bytes()
    names = [json.loads(line)["image"] for line in out.read_text().splitlines()]
    assert len(names) == len(set(names)) == readable
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "tags.jsonl", "whole.jsonl"]


LEFT = {
    "tags.csv.part-3-of-8.partial": "--engine ray --parts 8",
    "tags.csv.2-of-4.partial": "--processes 4",
    "tags.csv.partial": "--processes 1",
}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", [name for name, how in LEFT.items() if "processes 1" not in how])
def test_one_process_does_not_start_over_next_to_the_journals_of_many(tmp_path: Path, name: str, resume: bool) -> None:
    images = write_images(tmp_path / "images", 3)
    (tmp_path / name).write_text("{}\n")
    with pytest.raises(DataError, match=f"{name}: belongs to a prediction with {LEFT[name]} that was stopped"):
        tag_to_file(stub_tagger(), images, tmp_path / "tags.csv", resume=resume)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", name], "nothing was begun"


@pytest.mark.parametrize("mine", [Sharing(1), Sharing(4), Sharing(8, on_ray=True), Sharing(4, on_ray=True)], ids=str)
@pytest.mark.parametrize("name", LEFT)
def test_only_what_was_shared_out_alike_is_continued(tmp_path: Path, mine: Sharing, name: str) -> None:
    (tmp_path / name).write_text("{}\n")
    for other in ("tags.csv.part-1-of-x.partial", "other.csv.part-1-of-2.partial", "tags.csv.scores.partial"):
        (tmp_path / other).write_text("{}\n")
    if LEFT[name] == str(mine):
        refuse_others(tmp_path / "tags.csv", mine)
        return
    with pytest.raises(DataError, match=rf"same command, (--engine local )?{LEFT[name]} and --resume, or delete"):
        refuse_others(tmp_path / "tags.csv", mine)
