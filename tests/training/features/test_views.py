"""Views: which are kept, how likely each is shown, and that a view is the same wherever it is made."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tagloom.data.table import LabelTable
from tagloom.errors import RecipeError
from tagloom.recipe import Recipe, recipe_from_dict
from tagloom.recipe.pictures import Augment
from tagloom.training.features.cache import FeatureCache
from tagloom.training.features.feature_batches import FeatureBatches
from tagloom.training.features.views import MIRRORED, PLAIN, View, views_to_learn_from

CROPS = Augment(flip=0.5, crop_scale=(0.4, 1.0))


def test_without_augmentation_a_picture_is_seen_as_it_is():
    assert views_to_learn_from(Augment(), 0) == [(PLAIN, 1.0)]


def test_flipping_keeps_a_mirror_image_that_is_shown_as_often_as_asked():
    assert views_to_learn_from(Augment(flip=0.3), 0) == [(PLAIN, 0.7), (MIRRORED, 0.3)]


def test_augmented_views_come_after_the_picture_and_all_are_equally_likely():
    views, chances = zip(*views_to_learn_from(CROPS, 3), strict=True)
    assert views == (PLAIN, View(CROPS, 1), View(CROPS, 2), View(CROPS, 3))
    assert chances == pytest.approx([0.25] * 4)
    assert [str(view) for view in views] == ["", "view 1", "view 2", "view 3"]


def test_what_is_drawn_follows_from_picture_and_view_alone():
    def numbers(view, key):
        return view.draw(key).random(4).tolist()

    first, other = "00ff" * 8, "ff00" * 8
    assert numbers(View(CROPS, 1), first) == numbers(View(CROPS, 1), first)
    assert numbers(View(CROPS, 1), first) != numbers(View(CROPS, 2), first)
    assert numbers(View(CROPS, 1), first) != numbers(View(CROPS, 1), other)


def test_every_view_is_shown_as_often_as_its_chance_says(tmp_path):
    count, chances = 3000, (0.5, 0.2, 0.0, 0.3)
    keys = [str(row) for row in range(count)]
    views = []
    for number in range(len(chances)):
        cache = FeatureCache(tmp_path / str(number))
        cache.add(keys, [np.full((count, 1), number, np.float32)])
        views.append(cache.view(keys))
    table = LabelTable(tmp_path, keys, ("a",), csr_array(np.ones((count, 1), bool)))
    batches = FeatureBatches(views, table, batch_size=64, seed=5, chances=chances)
    shown = np.concatenate([batch.inputs[0][:, 0].numpy() for batch in batches.epoch(0)])
    said = np.concatenate([batch.view.numpy() for batch in batches.epoch(0)])
    np.testing.assert_array_equal(shown, said)
    np.testing.assert_allclose(np.bincount(said, minlength=4) / count, chances, atol=0.03)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"augment": {"crop_scale": [0.4, 1.0]}}, "cached_views: 6"),
        ({"augment": {"mixup": 0.2}, "training": {"cached_views": 2}}, "cannot be cached"),
        ({"training": {"cached_views": 2}}, "choose augmentations in augment"),
        ({"augment": {"flip": 0.5}, "backbone": {"frozen": False}, "training": {"cached_views": 2}}, "frozen"),
        ({"augment": {"flip": 0.5}, "training": {"cached_views": -1}}, "training.cached_views is -1"),
    ],
)
def test_recipes_that_ask_for_views_that_cannot_be_are_refused(content, message):
    with pytest.raises(RecipeError) as caught:
        recipe_from_dict(content)
    assert message in str(caught.value)
    assert Recipe().training.cached_views == 0
