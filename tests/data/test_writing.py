from pathlib import Path

import numpy as np
import pytest

from tagloom.data import load_table
from tagloom.data.writing import write_table
from tagloom.errors import DataError


def test_a_written_table_reads_back_the_same(scenes: Path, tmp_path: Path) -> None:
    table = load_table(scenes / "train.csv").select(np.arange(9))
    again = load_table(write_table(table, tmp_path / "part" / "table.csv"))
    assert again.classes == table.classes
    rows = np.arange(9)
    assert np.array_equal(again.targets(rows), table.targets(rows))
    assert [again.path(row) for row in rows] == [table.path(row).absolute() for row in rows]


def test_awkward_names_survive(tmp_path: Path) -> None:
    (tmp_path / "a, b.png").touch()
    (tmp_path / "table.csv").write_text('image,labels\n"a, b.png","dining table|a ""b"""\n')
    table = load_table(tmp_path / "table.csv")
    again = load_table(write_table(table, tmp_path / "copy" / "table.csv"))
    assert again.classes == table.classes
    assert again.path(0) == tmp_path / "a, b.png"


def test_unknown_labels_are_refused_because_they_would_become_negatives(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("image,cat,dog\na.png,1,\nb.png,0,1\n")
    table = load_table(tmp_path / "table.csv")
    if table.known(np.arange(2)).all():
        pytest.fail("the table was meant to hold an unknown label")
    with pytest.raises(DataError, match="unknown"):
        write_table(table, tmp_path / "copy.csv")
