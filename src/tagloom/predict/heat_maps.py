"""The ways to make heat maps, and which of them a tagger has."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tagloom.errors import TaggerError, unknown_name
from tagloom.predict.any_labels import WordQueries, with_queries
from tagloom.predict.insides import Insides
from tagloom.tagger.spec import TaggerSpec
from tagloom.wording import shown

METHODS = {
    "attention": "what the label's query read at each place, times what it means for the label (query heads)",
    "cam": "the label's weights at each place of the last map (gap and layover)",
    "eigen-cam": "the strongest pattern of a map, whatever the label; any stage",
    "grad-cam++": "channels weighed by the gradient of the label's logit; any stage; needs torch",
}
POOLED_HEADS = ("gap", "layover")


def default_method(spec: TaggerSpec) -> str:
    """Give the method that fits a tagger's head: the one that points best at things (docs/results.md)."""
    return "cam" if spec.head in POOLED_HEADS else "attention"


def check_method(spec: TaggerSpec, method: str | None, stages: Sequence[int] = ()) -> str:
    """Give the method to use, or refuse one that this tagger's head does not have."""
    own = default_method(spec)
    chosen = method or ("eigen-cam" if stages else own)
    if chosen not in METHODS:
        raise TaggerError(unknown_name("method", chosen, list(METHODS)))
    if chosen in ("attention", "cam") and chosen != own:
        raise TaggerError(
            f"method {shown(chosen)} does not fit the head '{spec.head}'. Use {own}, eigen-cam or grad-cam++."
        )
    if stages and chosen == own:
        raise TaggerError(f"method {shown(chosen)} reads the last map only. For stages use eigen-cam or grad-cam++.")
    return chosen


def raw_maps(
    insides: Insides,
    method: str,
    pixels: NDArray[np.uint8],
    columns: Sequence[int],
    queries: Sequence[WordQueries] | None = None,
    stage: int | None = None,
) -> NDArray[np.float32]:
    """Give a raw map (labels, h, w) of one picture for each of some labels.

    Args:
        insides: The network.
        method: One of `METHODS`.
        pixels: (1, H, W, 3).
        columns: Which labels, by their place among the tagger's.
        queries: The words of the tagger's labels, if it has word queries.
        stage: The stage to look at; None for the last map.
    """
    if method == "eigen-cam":
        words = [] if queries is None else [queries[0].words]
        features = insides.features(pixels, *words) if stage is None else insides.stage_maps(pixels, [stage])[1]
        return np.repeat(eigen_map(features[0])[None], len(columns), axis=0)
    if method == "grad-cam++":
        return _gradient_maps(insides, pixels, columns, queries, stage)
    run = insides.evidence if queries is None else with_queries(insides.evidence, queries)
    return np.asarray(run(pixels)[0][list(columns)])


def _gradient_maps(
    insides: Insides,
    pixels: NDArray[np.uint8],
    columns: Sequence[int],
    queries: Sequence[WordQueries] | None,
    stage: int | None,
) -> NDArray[np.float32]:
    if queries is None:
        return np.asarray(insides.gradient_maps(pixels, columns, stage, None)[0])
    found: dict[int, NDArray[np.float32]] = {}
    first = 0
    for words, slots in queries:  # labels come some thousand at a time
        here = [column for column in columns if first <= column < first + len(slots)]
        if here:
            maps = insides.gradient_maps(pixels, [int(slots[column - first]) for column in here], stage, words)[0]
            found |= dict(zip(here, maps, strict=True))
        first += len(slots)
    return (
        np.stack([found[column] for column in columns]) if found else insides.features(pixels, queries[0].words)[0, :0]
    )


def eigen_map(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Project each place of a map (C, h, w) on the map's first principal direction (Muhammad and Yeasin, 2020).

    Returns:
        (h, w), of the sign with which the direction's largest channels are positive.
    """
    channels, height, width = features.shape
    places = features.reshape(channels, -1).T  # (h · w, C)
    centred = places - places.mean(axis=0)
    # Of the smaller of both Gram matrices: C may be 1,280 and the places 49, or 16 and 12,544.
    if channels < len(places):
        direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    else:
        direction = centred.T @ np.linalg.eigh(centred @ centred.T)[1][:, -1]
    projected = centred @ direction
    return np.asarray(projected * (1 if direction.sum() >= 0 else -1), np.float32).reshape(height, width)
