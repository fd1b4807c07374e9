"""The network of a run before its first step, and which part of it is trained."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from tagloom.models.heads import needs_words
from tagloom.models.network import TaggerNetwork, build_network
from tagloom.models.start import start_from
from tagloom.recipe import Recipe
from tagloom.training.context import RunContext
from tagloom.training.plan import RunPlan
from tagloom.training.tasks.augmented_queries import check_augmented
from tagloom.training.tasks.supervised import Forward
from tagloom.words import encode_labels


class Trained(NamedTuple):
    """What of a network a run trains.

    Attributes:
        module: Holds the parameters.
        forward: From a batch's inputs to logits (B, N).
    """

    module: nn.Module
    forward: Forward


def first_network(plan: RunPlan, classes: tuple[str, ...], context: RunContext) -> TaggerNetwork:
    """Build a plan's network as it is before the first step; refuse a head that the recipe's task cannot train."""
    recipe = plan.recipe
    vectors = None
    if needs_words(recipe.head.name, recipe.head.options):
        vectors = torch.from_numpy(encode_labels(classes, recipe.words.source, cache_folder=context.cache_folder))
    torch.manual_seed(recipe.training.seed)
    network = build_network(
        backbone=recipe.backbone.name,
        weights=recipe.backbone.weights,
        head=recipe.head.name,
        head_options=recipe.head.options,
        classes=len(classes),
        size=recipe.preprocess.size,
        frozen=recipe.backbone.frozen,
        drop_path=recipe.backbone.drop_path,
        normalise=recipe.backbone.normalise,
        depths=recipe.backbone.depths,
        word_vectors=vectors,
    )
    if plan.start:
        _start_from(network, plan.start, classes, recipe, context)
    train_tail(network, recipe)
    check_augmented(network.head, recipe.words)
    return network


def trained_part(network: TaggerNetwork, recipe: Recipe) -> Trained:
    """Give the head, and with a trained tail the network, where features come from a cache; else the whole network."""
    if not recipe.from_cache:
        return Trained(network, network)
    return Trained(network.head if network.backbone.cut is None else network, network.classify_kept)


def train_tail(network: TaggerNetwork, recipe: Recipe) -> None:
    """Cut the network where the recipe says, if it does: what comes after is trained, what comes before is frozen."""
    settings = recipe.backbone
    if settings.train_from is not None:
        network.backbone.train_from(
            settings.train_from,
            size=recipe.preprocess.size,
            stages=network.head.stages,
            statistics=settings.tail_statistics,
        )


def _start_from(
    network: TaggerNetwork, folder: str, classes: tuple[str, ...], recipe: Recipe, context: RunContext
) -> None:
    """Copy the weights of another tagger, and say so where only its backbone fits."""
    head = recipe.head
    whole = start_from(network, Path(folder), classes=classes, head=head.name, head_options=head.options)
    context.log.event("start_from", folder=folder, head=whole)
    if not whole:
        context.log.say("[yellow]only the backbone is copied: the labels, the head or its options differ[/]")
