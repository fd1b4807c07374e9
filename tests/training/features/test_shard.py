"""A shard is whole or absent, and damage to any of its bytes is found."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from tagloom.cache_folder import is_intact
from tagloom.errors import TagloomError
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.shard import read_shard, write_shard

KEYS = ["a", "b", "c"]


def summaries() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random((3, 5)).astype(np.float16), rng.random((3, 2, 3)).astype(np.float32), np.ones((3, 1), "<f2")]


def test_any_reader_of_safetensors_can_read_a_shard(tmp_path):
    shard = write_shard(tmp_path, KEYS, [summaries()])
    assert is_intact(shard.path)
    with safe_open(shard.path, framework="numpy") as file:
        assert file.metadata()["keys"].split() == KEYS
        for number, array in enumerate(summaries()):
            np.testing.assert_array_equal(file.get_tensor(str(number)), array)


def test_arrays_are_mapped_aligned_and_cannot_be_written(tmp_path):
    shard = read_shard(write_shard(tmp_path, KEYS, [summaries()]).path)
    for array, wanted in zip(shard.open(), summaries(), strict=True):
        np.testing.assert_array_equal(array, wanted)
        assert array.dtype == wanted.dtype
        assert array.flags.aligned
        assert not array.flags.writeable


@pytest.mark.fuzz
def test_no_damage_is_believed_and_none_raises_anything_raw(tmp_path, fuzz_rounds):
    rng = random.Random(0)
    shard = write_shard(tmp_path, KEYS, [summaries()])
    content = shard.path.read_bytes()
    for number in range(fuzz_rounds(5000)):
        damaged = bytearray(content)
        kind = number % 4
        first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        if kind == 0:
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            damaged[first:last] = bytes(last - first)
        elif kind == 2:
            del damaged[first:last]
        else:
            damaged[first:first] = rng.randbytes(rng.randrange(1, 20))
        shard.path.write_bytes(damaged)
        notes: list[str] = []
        cache = FeatureCache(tmp_path, note=notes.append)
        intact = damaged == content
        assert cache.missing(KEYS) == ([] if intact else KEYS), (kind, first, last)
        assert len(notes) == (not intact)
        assert shard.path.exists() == intact


@pytest.mark.fuzz
def test_shards_of_older_versions_raise_nothing_raw(tmp_path, fuzz_rounds):
    rng = random.Random(1)
    np.save(tmp_path / "ab.0.npy", summaries()[1])
    (tmp_path / "ab.keys").write_text("\n".join(KEYS))
    contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(fuzz_rounds(5000)):
        for path, content in contents.items():
            path.write_bytes(content)
        path, content = rng.choice(list(contents.items()))
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(min(len(damaged), 140))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.randrange(len(damaged) + 1)] if rng.random() < 0.3 else damaged)
        cache = FeatureCache(tmp_path)
        found = [key for key in KEYS if key not in cache.missing(KEYS)]
        try:
            assert all(array.shape == (len(found), 2, 3) for array in cache.view(found).gather(np.arange(len(found))))
        except TagloomError:
            pytest.fail("what is not missing can be viewed")


WRITER = """
import os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
from tagloom.cache_folder import is_intact
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.stored import as_stored

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
KEYS = [f"{number:032x}" for number in range(40)]
rng = random.Random(0)

def features(key):
    return np.random.default_rng(int(key, 16)).random((1, 200_000), np.float32)

def write():
    cache = FeatureCache(folder)
    while todo := cache.missing(KEYS):
        chosen = todo[:4]
        cache.add(chosen, *(as_stored([features(key), features(key)[:, :7]]) for key in chosen))

killed = unfinished = 0
most = 0.5
while killed < rounds:
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        write()
        os._exit(0)
    time.sleep(rng.random() * most)
    os.kill(child, signal.SIGKILL)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        most = max(0.02, min(most, time.monotonic() - began))
    else:
        killed += 1
    left = list(folder.glob("*.partial"))
    unfinished += len(left)
    for path in left:
        path.unlink()
    notes = []
    cache = FeatureCache(folder, note=notes.append)
    missing = set(cache.missing(KEYS))
    assert not notes, notes
    assert all(is_intact(path) for path in folder.glob("*.safetensors"))
    for key in KEYS:
        if key not in missing:
            large, small = cache.view([key]).gather(np.array([0]))
            assert np.array_equal(large, features(key).astype(np.float16))
            assert np.array_equal(small, features(key)[:, :7])
    if not missing:
        shutil.rmtree(folder)
write()
assert not FeatureCache(folder, note=print).missing(KEYS)
print(f"{killed} writers killed, {unfinished} of them in the middle of a file")
"""


@pytest.mark.fuzz
def test_writers_that_are_killed_at_any_moment_leave_whole_shards_or_none(tmp_path: Path, fuzz_rounds):
    rounds = fuzz_rounds(50)
    (tmp_path / "writer.py").write_text(WRITER)
    done = subprocess.run(
        [sys.executable, tmp_path / "writer.py", tmp_path / "cache", str(rounds)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    assert done.stdout.startswith(f"{rounds} writers killed")
