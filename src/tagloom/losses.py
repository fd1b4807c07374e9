"""Losses over logits `(B, N)` and 0/1 targets `(B, N)`: what training minimises.

Every loss takes `known`, `(B, N)`, true where the pair is known: an unknown pair gets no loss and no gradient, whatever
its logit. Every loss takes `weights`, `(N,)` or `(B, N)`, which multiply the terms. Everything is computed in float32.
All but `soft_margin_loss` sum over classes and average over images, so they differ in the term only.

A loss of your own is a function like these and a line in `tagloom.recipe.names.LOSSES`. The first line of its docstring
says what it is for.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor

from tagloom.checks import check_choice, check_number
from tagloom.errors import DataError, RecipeError, unknown_name
from tagloom.recipe.names import LOSSES, resolve
from tagloom.wording import shown

Limits = tuple[float, float]
Function = TypeVar("Function", bound=Callable[..., Tensor])
_LIMITS: dict[Callable[..., Tensor], dict[str, Limits]] = {}


def limits(**options: Limits) -> Callable[[Function], Function]:
    """Say between which numbers the options of a loss may lie; a recipe that goes beyond is refused."""

    def note(function: Function) -> Function:
        _LIMITS[function] = options
        return function

    return note


@limits(gamma_negative=(0, 100), gamma_positive=(0, 100), margin=(0, 0.99))
def asymmetric_loss(
    logits: Tensor,
    targets: Tensor,
    gamma_negative: float = 4.0,
    gamma_positive: float = 0.0,
    margin: float = 0.05,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Give easy negatives almost no weight (Ridnik et al., Asymmetric Loss for Multi-Label Classification, 2021).

    With p = σ(x) and q = min(1 − p + margin, 1), a positive costs −(1 − p)^γ₊ · log p and a negative
    −(1 − q)^γ₋ · log q, the powers held constant in the gradient. Both gammas and the margin at zero give exactly
    `binary_cross_entropy`.

    Args:
        logits: `(B, N)`, any float dtype.
        targets: `(B, N)`, 0 or 1, any dtype.
        gamma_negative: How fast the weight of a negative falls as it gets easier.
        gamma_positive: The same for a positive; with 0 every positive has full weight.
        margin: A negative with p below it costs nothing at all.
        known: `(B, N)`, true where the pair is known; all pairs if None.
        weights: `(N,)` or `(B, N)`, factors of the terms.

    Returns:
        A float32 scalar. Only one `(B, N)` float tensor is stored for the backward pass.

    >>> print(f"{asymmetric_loss(torch.tensor([[2.0, -2.0]]), torch.tensor([[1, 0]])):.4f}")
    0.1269
    """
    logits = _prepared(logits, targets, known)
    terms: Tensor = _AsymmetricTerms.apply(logits, targets > 0.5, gamma_negative, gamma_positive, margin)
    return _summed(terms, known, weights)


class _AsymmetricTerms(torch.autograd.Function):
    """Terms and their derivative at once: constant powers give it a closed form, and nothing else has to be stored.

    Autograd's own graph of the same expression stores several `(B, N)` tensors, which is much for 9,600 classes.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, positive: Tensor, gamma_negative: float, gamma_positive: float, margin: float
    ) -> Tensor:
        p, complement = torch.sigmoid(logits), torch.sigmoid(-logits)
        if margin > 0:
            excess = (p - margin).clamp_(min=0)  # 1 − q
            terms = -torch.log1p(-excess)
            derivative = p * complement / (1 - excess) * (excess > 0)
        else:  # q may underflow, so its logarithm is taken from the logit
            excess = p
            terms = -F.logsigmoid(-logits)
            derivative = p
        power = torch.where(positive, complement**gamma_positive, excess**gamma_negative)
        terms = torch.where(positive, -F.logsigmoid(logits), terms).mul_(power)
        ctx.save_for_backward(torch.where(positive, -complement, derivative).mul_(power))
        return terms

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None, None]:
        (derivative,) = ctx.saved_tensors
        return upstream * derivative, None, None, None, None


@limits(gamma=(0, 100), alpha=(0, 1))
def focal_loss(
    logits: Tensor,
    targets: Tensor,
    gamma: float = 2.0,
    alpha: float | None = None,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Give pairs that are already right less weight, positive and negative (Lin et al., Focal Loss, 2017).

    A pair costs −α_t · (1 − p_t)^γ · log p_t, where p_t is the probability given to what is true and α_t is `alpha`
    for a positive and 1 − `alpha` for a negative (1 for both if None). The gradient goes through the power, as in the
    paper. Arguments otherwise as for `asymmetric_loss`.
    """
    logits = _prepared(logits, targets, known)
    positive = targets > 0.5
    toward_truth = torch.where(positive, logits, -logits)
    # exp(γ log σ) where σ**γ would have an infinite derivative at an underflowed σ
    terms = -F.logsigmoid(toward_truth) * torch.exp(gamma * F.logsigmoid(-toward_truth))
    if alpha is not None:
        terms = terms * torch.where(positive, alpha, 1 - alpha)
    return _summed(terms, known, weights)


@limits(smoothing=(0, 1))
def binary_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy: every pair costs −log of the probability given to the truth.

    With `smoothing` s the target y becomes (1 − s) y + s / N. Arguments otherwise as for `asymmetric_loss`.

    >>> print(f"{binary_cross_entropy(torch.zeros(3, 2), torch.ones(3, 2)):.4f}")
    1.3863
    """
    logits = _prepared(logits, targets, known)
    terms = F.binary_cross_entropy_with_logits(logits, _smoothed(targets, smoothing), reduction="none")
    return _summed(terms, known, weights)


@limits(smoothing=(0, 1))
def soft_margin_loss(
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Average the cross-entropy over each image's known classes, then over images; N does not change its scale.

    If everything is known it is torch's `multilabel_soft_margin_loss`. An image without known classes contributes 0.
    Arguments as for `binary_cross_entropy`.
    """
    logits = _prepared(logits, targets, known)
    terms = F.binary_cross_entropy_with_logits(logits, _smoothed(targets, smoothing), reduction="none")
    classes_known = logits.shape[1] if known is None else known.bool().sum(dim=1, keepdim=True).clamp(min=1)
    return _summed(terms / classes_known, known, weights)


@limits(smoothing=(0, 1))
def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Cross-entropy under a softmax, for images with one label each.

    Unknown classes are left out of the softmax, and the targets of the others are scaled to sum to one, so that they
    may be one-hot, several-hot or probabilities. An image without a known positive contributes 0.

    Args:
        logits: `(B, N)`, any float dtype.
        targets: `(B, N)`, one-hot or probabilities, any dtype.
        smoothing: The share of the target that is spread evenly over the image's known classes.
        known: `(B, N)`, true where the pair is known; all pairs if None.
        weights: `(N,)` or `(B, N)`, factors of the terms.

    Returns:
        A float32 scalar.

    >>> print(f"{cross_entropy(torch.zeros(1, 4), torch.tensor([[0, 1, 0, 0]])):.4f}")
    1.3863
    """
    logits = _prepared(logits, targets, known)
    possible = torch.ones_like(targets, dtype=torch.bool) if known is None else known.bool()
    # The lowest finite number: e to its power is 0, and unlike −∞ it leaves a row without known classes finite.
    log_p = torch.log_softmax(logits.masked_fill(~possible, torch.finfo(torch.float32).min), dim=1)
    target = targets.float() * possible
    mass = target.sum(dim=1, keepdim=True)
    spread = possible / possible.sum(dim=1, keepdim=True).clamp(min=1)
    target = torch.where(mass > 0, (1 - smoothing) * target / mass.clamp(min=1e-12) + smoothing * spread, 0)
    return _summed(-log_p * target, possible, weights)


def _smoothed(targets: Tensor, smoothing: float) -> Tensor:
    return (1 - smoothing) * targets.float() + smoothing / targets.shape[1]


def _prepared(logits: Tensor, targets: Tensor, known: Tensor | None) -> Tensor:
    """Give logits in float32, with 0 where unknown: masking only the terms would let ∞ · 0 into the gradient."""
    for name, other in (("targets", targets), ("known", known)):
        if other is not None and other.shape != logits.shape:
            raise DataError(
                f"logits are {tuple(logits.shape)} but {name} are {tuple(other.shape)}: a loss needs one of each per"
                " image and class. Check that head and table have the same number of classes."
            )
    logits = logits.float()
    return logits if known is None else torch.where(known.bool(), logits, 0)


def _summed(terms: Tensor, known: Tensor | None, weights: Tensor | None) -> Tensor:
    """Sum terms `(B, N)` over known classes and average over images; a batch without images costs 0."""
    if weights is not None:
        terms = terms * weights.to(terms)
    if known is not None:
        terms = torch.where(known.bool(), terms, 0)
    return terms.sum() / max(len(terms), 1)


class Loss(Protocol):
    """What a task calls: logits, targets and known, each `(B, N)`, to a scalar."""

    def __call__(self, logits: Tensor, targets: Tensor, known: Tensor | None = None) -> Tensor:
        """Compute the loss of one batch."""


def _weights(given: Any) -> Tensor | None:
    """Check class weights from a recipe: a list of numbers of at least 0, one per class."""
    if given is None or isinstance(given, Tensor):
        return given
    try:
        weights = torch.tensor(given, dtype=torch.float32)
    except (TypeError, ValueError):
        weights = torch.full((1,), -1.0)
    if weights.ndim != 1 or not bool((weights >= 0).all()):
        raise RecipeError(
            f"loss option weights is {shown(given)}; it must be a list of numbers of at least 0, one per class."
        )
    return weights


def _row(weights: Tensor, columns: int) -> Tensor:
    """Give weights of unknown pairs, () or (N,), a value per column. Random queries after the classes are all known."""
    if weights.ndim and len(weights) > columns:
        raise RecipeError(f"the loss has {len(weights)} values of unknown_weight for {columns} classes: give one each.")
    return F.pad(weights, (0, columns - len(weights))) if weights.ndim else weights.expand(columns)


def create_loss(name: str, **options: Any) -> Loss:
    """Make the loss that a recipe names, with its options checked and filled in.

    Args:
        name: A key of `tagloom.recipe.names.LOSSES`.
        **options: Arguments of that function except logits, targets and known; and for every loss `unknown_weight`, the
            weight of unknown pairs as negatives, one for all classes or one for each: 0, the default, leaves them out.

    Returns:
        A function of logits, targets and known.

    Raises:
        RecipeError: For a name or an option that does not exist, or a value that cannot work.

    >>> print(f"{create_loss('asymmetric', margin=0.0)(torch.zeros(1, 1), torch.zeros(1, 1)):.4f}")
    0.0433
    """
    check_choice("loss", name, LOSSES)
    function = resolve(LOSSES[name])
    parameters = inspect.signature(function).parameters
    allowed = set(parameters) - {"logits", "targets", "known"} | {"unknown_weight"}
    within = {**_LIMITS.get(function, {}), "unknown_weight": (0.0, 1.0)}
    for option, value in options.items():
        if option not in allowed:
            raise RecipeError(unknown_name(f"option of the loss '{name}'", option, allowed))
        if option == "unknown_weight" and isinstance(value, list | tuple):
            for weight in value:
                check_number("loss option unknown_weight", weight, 0.0, 1.0)
        elif option != "weights" and (
            option == "unknown_weight" or value is not None or parameters[option].default is not None
        ):
            low, high = within.get(option, (-math.inf, math.inf))
            check_number(f"loss option {option}", value, low, high)
    weights = _weights(options.pop("weights", None))
    unknown_weight = torch.as_tensor(options.pop("unknown_weight", 0.0), dtype=torch.float32)
    counts_unknown = bool((unknown_weight > 0).any())

    def loss(logits: Tensor, targets: Tensor, known: Tensor | None = None) -> Tensor:
        factors = None if weights is None else weights.to(logits.device)
        if factors is not None and factors.shape[-1] != logits.shape[-1]:
            raise RecipeError(
                f"the loss has {factors.shape[-1]} weights for {logits.shape[-1]} classes: give one each."
            )
        if known is not None and counts_unknown:
            as_negative = _row(unknown_weight.to(logits.device), logits.shape[-1])
            certainty = torch.where(known.bool(), 1.0, as_negative)
            targets = targets * known.bool()
            known, factors = known.bool() | (as_negative > 0), certainty if factors is None else certainty * factors
        terms: Tensor = function(logits, targets, known=known, weights=factors, **options)
        return terms

    return loss


def expected_positives_loss(loss: Loss, columns: Tensor, expected: float, weight: float) -> Loss:
    """Ask for a number of positives per image where no negative is known: add `weight` · N · ((k̂ − `expected`) / N)².

    This is expected positive regularisation (Cole et al., Multi-Label Learning from Single Positive Labels, 2021). k̂ is
    the mean number of positives that the batch's images are given: the sum of σ(x) over the N classes in `columns`.

    Args:
        loss: The loss of the known pairs.
        columns: (N,) bool, the classes that count.
        expected: How many of these classes an image has, on average.
        weight: The factor of the term.
    """

    def regularised(logits: Tensor, targets: Tensor, known: Tensor | None = None) -> Tensor:
        chosen = torch.sigmoid(logits.float())[:, : len(columns)][:, columns.to(logits.device)]
        excess = chosen.sum(dim=1).mean() - expected
        return loss(logits, targets, known) + weight * excess**2 / max(chosen.shape[1], 1)

    return regularised
