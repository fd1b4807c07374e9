"""Errors say what was found and what to do, and can be pickled."""

import pickle

import pytest

from tagloom.errors import (
    DataError,
    ImageError,
    MissingExtraError,
    RecipeError,
    TaggerError,
    TagloomError,
    unknown_name,
)


@pytest.mark.parametrize("kind", [DataError, ImageError, RecipeError, TaggerError, MissingExtraError])
def test_every_tagloom_error_is_caught_as_one_family(kind):
    assert issubclass(kind, TagloomError)


def test_an_image_error_survives_pickling():
    error = pickle.loads(pickle.dumps(ImageError("a/b.jpg", "broken", "is cut off.")))  # noqa: S301
    assert (error.path, error.reason, error.finding) == ("a/b.jpg", "broken", "is cut off.")
    assert str(error) == "a/b.jpg: is cut off."


def test_an_unknown_name_gets_the_nearest_one_and_the_whole_list():
    message = unknown_name("loss", "asymetric", ["bce", "asymmetric"])
    assert "did you mean 'asymmetric'?" in message
    assert message.endswith("Known: asymmetric, bce")


def test_a_name_in_the_wrong_case_is_still_recognised():
    assert "did you mean 'mAP'?" in unknown_name("metric", "MAP", ["CF1", "mAP"])


def test_a_name_that_resembles_nothing_gets_no_suggestion():
    message = unknown_name("loss", "zzz", ["bce", "asymmetric"])
    assert "did you mean" not in message
    assert "Known: asymmetric, bce" in message


def test_a_missing_extra_names_the_install_that_brings_it():
    assert "pip install 'tagloom[train]'" in str(MissingExtraError("training", "train"))
