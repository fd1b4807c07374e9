"""Two runs never work in one folder: the second is refused, and told who the first is. A dead one is no obstacle."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tagloom.training.lock import LOCK_FILE, LockedError, locked

HOLD = (
    "import sys, time; from pathlib import Path; from tagloom.training.lock import locked\n"
    "with locked(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(float(sys.argv[2]))\n"
)


def hold(folder: Path, seconds: float = 60) -> subprocess.Popen[str]:
    """Start a process that holds the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_folder_is_locked_while_the_block_runs_and_no_longer(tmp_path):
    with locked(tmp_path):
        assert (tmp_path / LOCK_FILE).exists()
    assert not list(tmp_path.iterdir())
    with locked(tmp_path):
        pass


def test_another_process_is_refused_and_named_and_waited_for(tmp_path):
    process = hold(tmp_path)
    with pytest.raises(LockedError, match=rf"another run is working here \(process {process.pid} on .*--out"):
        locked(tmp_path).__enter__()
    threading.Timer(0.5, process.terminate).start()
    with locked(tmp_path, wait=30):  # it leaves within that time
        assert f"process {os.getpid()} on" in (tmp_path / LOCK_FILE).read_text()
    process.wait()


def test_a_process_that_was_killed_leaves_a_file_that_is_no_obstacle(tmp_path):
    process = hold(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / LOCK_FILE).exists()
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK_FILE).read_text()
    assert not (tmp_path / LOCK_FILE).exists()


def test_threads_of_one_process_are_kept_apart_too(tmp_path):
    with locked(tmp_path):
        found = []

        def work():
            try:
                with locked(tmp_path):
                    pass
            except LockedError as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert "in this process" in found[0]
        with pytest.raises(LockedError):  # and neither has let go of it
            locked(tmp_path).__enter__()


def test_a_child_neither_inherits_the_lock_nor_gives_it_up(tmp_path):
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            os.closerange(3, 200)
            os._exit(0)
        os.waitpid(child, 0)
        outside = subprocess.run([sys.executable, "-c", HOLD, str(tmp_path), "0"], capture_output=True, check=False)
        assert b"another run is working here" in outside.stderr


def test_many_processes_that_take_turns_are_never_inside_together(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from tagloom.training.lock import locked\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(20):\n"
        "    with locked(folder, wait=60):\n"
        "        (folder / 'inside').mkdir()\n"
        "        time.sleep(0.001)\n"
        "        (folder / 'inside').rmdir()\n"
    )
    started = time.monotonic()
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0], time.monotonic() - started
