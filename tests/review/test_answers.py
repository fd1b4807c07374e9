"""Answers are on disk at once, survive a crash, and can be taken back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tagloom.errors import DataError
from tagloom.review.answers import Answer, Answers


def test_answers_are_read_back_in_the_order_given(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "deep" / "answers.jsonl")
    answers.answer("a.jpg", ["dog"])
    answers.add_label("sunset")
    answers.answer("b.jpg", ["sunset"], ["cat"])
    answers.answer("a.jpg", [])
    again = Answers(tmp_path / "deep" / "answers.jsonl")
    assert list(again.given.values()) == [
        Answer("b.jpg", ("sunset",), ("cat",), 1),
        Answer("a.jpg", (), (), 1),
    ]
    assert again.labels == ["sunset"]


def test_undo_takes_back_the_last_answer_and_the_one_before_it(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "answers.jsonl")
    for image in ("a.jpg", "b.jpg"):
        answers.answer(image, ["dog"])
    assert [answers.undo(), answers.undo(), answers.undo()] == ["b.jpg", "a.jpg", None]
    assert Answers(answers.path).given == {}


@pytest.mark.parametrize("torn", [b'{"image": "c.jp', b'{"image": "caf\xc3', b"\x00\x00\x00"])
def test_a_torn_last_line_is_dropped_and_the_next_answer_stands_on_its_own(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    first = Answers(path)
    first.answer("a.jpg", ["dog"])
    first.close()
    path.write_bytes(path.read_bytes() + torn)
    after = Answers(path)
    assert list(after.given) == ["a.jpg"]
    after.answer("d.jpg", [])
    assert list(Answers(path).given) == ["a.jpg", "d.jpg"]


def test_every_answer_survives_a_process_that_is_killed_right_after_it(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    code = (
        "import os, signal, sys; from pathlib import Path; from tagloom.review.answers import Answers\n"
        "a = Answers(Path(sys.argv[1]))\n"
        "[a.answer(f'{n}.jpg', ['dog']) for n in range(5)]; os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, env=os.environ)
    assert done.returncode < 0
    assert list(Answers(path).given) == [f"{n}.jpg" for n in range(5)]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text("[1, 2]\n")
    with pytest.raises(DataError, match="line 1 is no answer"):
        Answers(tmp_path / "answers.jsonl")


def test_names_that_are_not_utf8_come_back_as_they_are(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    Answers(tmp_path / "answers.jsonl").answer(name, [])
    assert list(Answers(tmp_path / "answers.jsonl").given) == [name]
