"""The built-in data set: pictures of things, drawn by code from a seed, with nothing to download.

It is hard in the ways real pictures are hard, and each way has a setting: small things, clutter, overlap, things that
co-occur, and pairs of colour and thing that training never shows.
"""

from tagloom.data.scenes.drawing import MAX_OVERLAP, PlacedThing, draw_scene
from tagloom.data.scenes.settings import PAIRS, THEMES, THINGS, SceneSettings, scene_classes, unseen_pairs
from tagloom.data.scenes.writing import write_scenes

__all__ = [
    "MAX_OVERLAP",
    "PAIRS",
    "THEMES",
    "THINGS",
    "PlacedThing",
    "SceneSettings",
    "draw_scene",
    "scene_classes",
    "unseen_pairs",
    "write_scenes",
]
