"""Views: the ways in which a training image is seen. Each has its own cached features.

Without augmentation there is one view, the plain picture. A mirror image is a second one. Other augmentations are drawn
once per view, so that a frozen backbone runs once per view and not once per epoch.
"""

from dataclasses import dataclass

import numpy as np

from tagloom.data.transforms import sample_rng
from tagloom.recipe.pictures import Augment


@dataclass(frozen=True)
class View:
    """One way to see every picture.

    Attributes:
        augmentation: What is done to the pictures; None for nothing.
        number: Decides what is drawn; it tells two views of the same augmentation apart.
    """

    augmentation: Augment | None = None
    number: int = 0

    def draw(self, key: str) -> np.random.Generator:
        """Give the random generator of the picture with this content hash, so that a view is the same in every run."""
        return sample_rng(self.number, 0, int(key[:15], 16))

    def __str__(self) -> str:
        if self == MIRRORED:
            return "mirrored"
        return f"view {self.number}" if self.augmentation else ""


PLAIN = View()
MIRRORED = View(Augment(flip=1.0))


def views_to_learn_from(augmentation: Augment, count: int) -> list[tuple[View, float]]:
    """List the views of the training pictures, the plain one first, each with the chance that it is shown.

    Args:
        augmentation: The recipe's.
        count: How many augmented views there are; 0 for the plain picture and, with `flip`, its mirror image.
    """
    if count > 0:
        views = [PLAIN, *(View(augmentation, number) for number in range(1, count + 1))]
        return [(view, 1 / len(views)) for view in views]
    if augmentation.flip > 0:
        return [(PLAIN, 1 - augmentation.flip), (MIRRORED, augmentation.flip)]
    return [(PLAIN, 1.0)]
