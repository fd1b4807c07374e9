"""What is watched after every epoch: everything, or of very many images the same sample every time."""

from pathlib import Path

import numpy as np
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
from tagloom.training.signals import StopRequest
from tagloom.training.validation import choose_watched, score_batches

COUNT = 40


def batches_of(folder, count=COUNT) -> FeatureBatches:
    """Images whose only feature is their row, and whose labels are the bits of it."""
    keys = [str(row) for row in range(count)]
    cache = FeatureCache(folder / "cache")
    if cache.missing(keys):
        cache.add(keys, [np.arange(count, dtype=np.float32)[:, None]])
    bits = (np.arange(count)[:, None] >> np.arange(6)) & 1 == 1
    table = LabelTable(folder, keys, tuple("abcdef"), csr_array(bits))
    return FeatureBatches([cache.view(keys)], table, batch_size=7, seed=0)


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
