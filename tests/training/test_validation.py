"""What is watched after every epoch: everything, or of very many images the same sample every time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from tagloom import scratch
from tagloom.data.table import LabelTable
from tagloom.training import validation
from tagloom.training.context import RunContext
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.prepare import RunBatches
from tagloom.training.log import RunLog
from tagloom.training.ranks import ALONE, World
from tagloom.training.signals import StopRequest
from tagloom.training.validation import choose_watched, score_batches

COUNT = 40


class OneOfTwo(World):
    """One of two ranks that are threads. It notes how many logits it sends at once."""

    size = 2

    def __init__(self, rank: int, said: dict, meeting: threading.Barrier) -> None:
        self.rank = rank
        self.said = said
        self.meeting = meeting
        self.sent: list[int] = []

    def gather(self, value):
        self.said[self.rank] = value
        self.meeting.wait(10)
        found = [self.said[0], self.said[1]]
        self.meeting.wait(10)
        return found

    def collect(self, array):
        self.sent.append(len(array) if array.ndim == 2 else 0)
        found = self.gather(array)
        return np.concatenate(found) if self.is_first else array[:0]

    def largest(self, *numbers):
        return tuple(map(max, zip(*self.gather(numbers), strict=True)))


def batches_of(folder, count=COUNT, world=ALONE) -> FeatureBatches:
    """Images whose only feature is their row, and whose labels are the bits of it."""
    keys = [str(row) for row in range(count)]
    cache = FeatureCache(folder / "cache")
    if cache.missing(keys):
        cache.add(keys, [np.arange(count, dtype=np.float32)[:, None]])
    bits = (np.arange(count)[:, None] >> np.arange(6)) & 1 == 1
    table = LabelTable(folder, keys, tuple("abcdef"), csr_array(bits))
    return FeatureBatches([cache.view(keys)], table, batch_size=7, seed=0, world=world)


def watched_rows(folder, monkeypatch, *, most, seed=0, val=True):
    monkeypatch.setattr(validation, "MOST_WATCHED", most)
    said: list[str] = []
    part = batches_of(folder)
    run = RunBatches(part, None if val else part, part if val else None, [], np.zeros((0, 16), np.uint8))
    with RunLog(folder) as log:
        monkeypatch.setattr(log, "say", said.append)
        found = choose_watched(run, seed, RunContext(folder, torch.device("cpu"), folder, StopRequest(), log))
    scored = score_batches(lambda rows: rows.expand(-1, 6), found.batches, folder=folder, device=torch.device("cpu"))
    rows = scored.logits[:, 0].astype(int)
    np.testing.assert_array_equal(scored.targets.toarray(), (rows[:, None] >> np.arange(6)) & 1)
    return rows.tolist(), " ".join(said), found.what


def test_a_table_of_usual_size_is_watched_as_a_whole(tmp_path, monkeypatch):
    rows, said, what = watched_rows(tmp_path, monkeypatch, most=COUNT)
    assert rows == list(range(COUNT))
    assert (said, what) == ("", "validation images")


def test_of_a_large_table_a_sample_is_watched_and_that_is_said(tmp_path, monkeypatch):
    rows, said, what = watched_rows(tmp_path, monkeypatch, most=15)
    assert rows == sorted(set(rows))
    assert len(rows) == 15
    assert "a sample of 15 of 40 validation images; at the end: of all" in said
    assert what == "a sample of validation images"
    assert rows == watched_rows(tmp_path, monkeypatch, most=15)[0]
    assert rows != watched_rows(tmp_path, monkeypatch, most=15, seed=1)[0]


def test_without_validation_images_those_held_out_are_watched(tmp_path, monkeypatch):
    rows, said, what = watched_rows(tmp_path, monkeypatch, most=15, val=False)
    assert len(rows) == 15
    assert "held-out images" in said
    assert what == "a sample of held-out images"


def test_logits_that_are_too_large_for_memory_are_in_a_file_of_the_run(tmp_path, monkeypatch):
    batches = batches_of(tmp_path)
    cpu = torch.device("cpu")
    inside = score_batches(lambda rows: rows.expand(-1, 6), batches, folder=tmp_path, device=cpu)
    monkeypatch.setattr(scratch, "IN_MEMORY", 10)
    outside = score_batches(lambda rows: rows.expand(-1, 6), batches, folder=tmp_path, device=cpu)
    assert isinstance(outside.logits, np.memmap)
    assert Path(outside.logits.filename).parent == tmp_path
    np.testing.assert_array_equal(outside.logits, inside.logits)
    assert not list(tmp_path.glob("scratch-*"))


@pytest.mark.parametrize("count", [1, 2, COUNT, COUNT + 1])
def test_the_logits_of_two_processes_come_in_blocks_and_in_order(tmp_path, monkeypatch, count):
    monkeypatch.setattr(validation, "SENT_AT_ONCE", 5 * 6, raising=False)  # five images of six classes
    batches_of(tmp_path, count)
    meeting, said = threading.Barrier(2), {}
    ranks = [OneOfTwo(rank, said, meeting) for rank in range(2)]

    def scored(world):
        batches = batches_of(tmp_path, count, world)
        return score_batches(
            lambda rows: rows.expand(-1, 6), batches, folder=tmp_path, device=torch.device("cpu"), world=world
        )

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(scored, ranks)
    assert first.logits[:, 0].tolist() == list(range(count))
    np.testing.assert_array_equal(first.targets.toarray(), (np.arange(count)[:, None] >> np.arange(6)) & 1)
    assert len(second.logits) == 0
    assert max(ranks[0].sent + ranks[1].sent) <= 5
