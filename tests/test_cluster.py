"""Ray tasks, without Ray. Real workers are in predict/test_ray_parts.py and training/features/test_ray_workers.py."""

from pathlib import Path

from tagloom.cluster import _run_in


def test_a_task_reads_relative_paths_from_the_folder_of_the_command(tmp_path):
    (tmp_path / "table.csv").write_text("image,labels\n")
    before = Path.cwd()
    assert _run_in(tmp_path, Path.read_text, Path("table.csv")) == "image,labels\n"
    assert Path.cwd() == before


def test_a_task_runs_where_it_is_if_its_machine_lacks_that_folder(tmp_path):
    assert _run_in(tmp_path / "elsewhere", Path.cwd) == Path.cwd()
