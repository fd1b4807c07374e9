"""Promise: nothing leaks. Many trainings in one process need no more memory and no more open files than a few."""

import sys

import numpy as np
import pytest

FROZEN = {
    "data": {"holdout": 0.1},
    "preprocess": {"size": 32},
    "augment": {"flip": 0.5},
    "backbone": {"name": "test_efficientnet", "weights": "none"},
    "training": {"epochs": 2, "batch_size": 8, "ema": 0.9, "select": "best"},
}


@pytest.mark.fuzz
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_many_trainings_in_one_process_leave_memory_and_open_files_flat(
    ask_server, small_photos, feature_cache, tmp_path, fuzz_rounds
):
    noted, times = tmp_path / "noted", fuzz_rounds(200)
    found = ask_server(
        "many",
        data=small_photos / "train.csv",
        recipe=FROZEN,
        cache=feature_cache,
        out=tmp_path,
        noted=noted,
        times=times,
    )
    assert found == {"code": 0, "error": None}
    memory, files, threads = np.loadtxt(noted, dtype=int).T
    warm = times // 4  # torch and ONNX Runtime allocate once
    rates = np.polyfit(np.arange(times - warm), memory[warm:] / 1024, 1)
    print(f"{times} trainings: {memory[0] / 1024:.0f}, {memory[warm] / 1024:.0f}, {memory[-1] / 1024:.0f} MiB, "
          f"{rates[0]:+.4f} MiB each, {files[0]} and {files[-1]} files")  # fmt: skip
    assert (files == files[0]).all()
    assert (threads == threads[0]).all()
    assert memory[-1] - memory[warm] < 10 * 1024 + 100 * times  # KiB: less than 0.1 MiB each
