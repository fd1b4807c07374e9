"""Losses over logits `(B, N)` and 0/1 targets `(B, N)`: what training minimises.

Every loss takes `known`, `(B, N)` and true where the label is known, and gives an unknown pair no loss and no gradient,
whatever its logit; and `weights`, `(N,)` or `(B, N)`, which multiply the terms. Everything is computed in float32,
whatever comes in. All but `soft_margin_loss` sum over labels and average over images, so they differ only in the term.
"""

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812, the name everybody knows it by
from torch import Tensor

from tagloom.errors import DataError, RecipeError, unknown_name


def asymmetric_loss(
    logits: Tensor,
    targets: Tensor,
    gamma_negative: float = 4.0,
    gamma_positive: float = 0.0,
    margin: float = 0.05,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Let easy negatives weigh next to nothing (Ridnik et al., Asymmetric Loss for Multi-Label Classification, 2021).

    With p = σ(x) and q = min(1 − p + margin, 1), a positive costs −(1 − p)^γ₊ · log p and a negative
    −(1 − q)^γ₋ · log q, the powers held constant in the gradient. Both gammas and the margin at zero give exactly
    `binary_cross_entropy`.

    Args:
        logits: `(B, N)`, any float dtype.
        targets: `(B, N)`, 0 or 1, any dtype.
        gamma_negative: How fast a negative stops counting as it gets easy.
        gamma_positive: The same for a positive; 0 keeps every positive at full weight.
        margin: A negative with p below it costs nothing at all.
        known: `(B, N)`, true where the label is known; all of them if None.
        weights: `(N,)` or `(B, N)`, factors of the terms.

    Returns:
        A float32 scalar. Only one `(B, N)` float tensor is kept for the backward pass.

    >>> print(f"{asymmetric_loss(torch.tensor([[2.0, -2.0]]), torch.tensor([[1, 0]])):.4f}")
    0.1269
    """
    logits = _prepared(logits, targets, known)
    terms: Tensor = _AsymmetricTerms.apply(logits, targets > 0.5, gamma_negative, gamma_positive, margin)
    return _summed(terms, known, weights)


class _AsymmetricTerms(torch.autograd.Function):
    """Terms and their derivative at once: constant powers give it a closed form, and nothing else need be kept.

    Autograd's own graph of the same expression keeps several `(B, N)` tensors, which 9,600 labels make heavy.
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


def focal_loss(
    logits: Tensor,
    targets: Tensor,
    gamma: float = 2.0,
    alpha: float | None = None,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Turn down labels that are already right, positive and negative alike (Lin et al., Focal Loss, 2017).

    A label costs −α_t · (1 − p_t)^γ · log p_t, where p_t is the probability given to what is true and α_t is `alpha`
    for a positive and 1 − `alpha` for a negative (1 for both if None). The power takes part in the gradient, as in the
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


def binary_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Cost every label −log of the probability given to the truth.

    With `smoothing` s the target y becomes (1 − s) y + s / N. Arguments otherwise as for `asymmetric_loss`.

    >>> print(f"{binary_cross_entropy(torch.zeros(3, 2), torch.ones(3, 2)):.4f}")
    1.3863
    """
    logits = _prepared(logits, targets, known)
    terms = F.binary_cross_entropy_with_logits(logits, _smoothed(targets, smoothing), reduction="none")
    return _summed(terms, known, weights)


def soft_margin_loss(
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Average the cross-entropy over each image's known labels, then over images; N does not change its scale.

    It is torch's `multilabel_soft_margin_loss` where all is known. An image with nothing known contributes 0.
    Arguments as for `binary_cross_entropy`.
    """
    logits = _prepared(logits, targets, known)
    terms = F.binary_cross_entropy_with_logits(logits, _smoothed(targets, smoothing), reduction="none")
    labels_known = logits.shape[1] if known is None else known.bool().sum(dim=1, keepdim=True).clamp(min=1)
    return _summed(terms / labels_known, known, weights)


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    known: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Make the classes compete by a softmax, for images that carry one label each.

    Unknown classes are left out of the softmax, and the targets of the others are scaled to sum to one, so that they
    may be one-hot, several-hot or probabilities. An image without a known positive contributes 0.

    Args:
        logits: `(B, N)`, any float dtype.
        targets: `(B, N)`, one-hot or probabilities, any dtype.
        smoothing: The share of the target that is spread evenly over the image's known classes.
        known: `(B, N)`, true where it is known whether the image is of the class; all if None.
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
    """Logits in float32, with 0 where unknown: masking only the terms would let ∞ · 0 into the gradient."""
    for name, other in (("targets", targets), ("known", known)):
        if other is not None and other.shape != logits.shape:
            raise DataError(
                f"logits are {tuple(logits.shape)} but {name} are {tuple(other.shape)}: a loss takes one of each per"
                " image and label. Check that the head has as many classes as the table."
            )
    logits = logits.float()
    return logits if known is None else torch.where(known.bool(), logits, 0)


def _summed(terms: Tensor, known: Tensor | None, weights: Tensor | None) -> Tensor:
    """Sum terms `(B, N)` over known labels and average over images; a batch without images costs 0."""
    if weights is not None:
        terms = terms * weights.to(terms)
    if known is not None:
        terms = torch.where(known.bool(), terms, 0)
    return terms.sum() / max(len(terms), 1)


class Loss(Protocol):
    """What a task calls: logits, targets and known, each `(B, N)`, to a scalar."""

    def __call__(self, logits: Tensor, targets: Tensor, known: Tensor | None = None) -> Tensor:
        """Compute the loss of one batch."""


LOSSES: dict[str, Callable[..., Tensor]] = {
    "asymmetric": asymmetric_loss,
    "focal": focal_loss,
    "bce": binary_cross_entropy,
    "soft-margin": soft_margin_loss,
    "cross-entropy": cross_entropy,
}

_LIMITS = {
    "gamma": (0.0, 100.0),
    "gamma_negative": (0.0, 100.0),
    "gamma_positive": (0.0, 100.0),
    "margin": (0.0, 0.99),
    "alpha": (0.0, 1.0),
    "smoothing": (0.0, 1.0),
    "unknown_weight": (0.0, 1.0),
}


def _weights(name: str, given: Any) -> Tensor | None:
    """Check label weights that a recipe lists: one number from 0 on for each label."""
    if given is None or isinstance(given, Tensor):
        return given
    try:
        weights = torch.tensor(given, dtype=torch.float32)
    except (TypeError, ValueError):
        weights = torch.full((1,), -1.0)
    if weights.ndim != 1 or not bool((weights >= 0).all()):
        raise RecipeError(f"weights of the loss '{name}' are {given!r}: list numbers from 0 on, one per label.")
    return weights


def create_loss(name: str, **options: Any) -> Loss:
    """Build the loss that a recipe names, with its options fixed and checked.

    Args:
        name: A key of `LOSSES`.
        **options: Arguments of that function other than logits, targets and known; and for every loss
            `unknown_weight`, with which labels that are unknown count as negatives: 0, the default, leaves them out.

    Returns:
        A function of logits, targets and known.

    Raises:
        RecipeError: For a name or an option that does not exist, or a value that cannot work.

    >>> print(f"{create_loss('asymmetric', margin=0.0)(torch.zeros(1, 1), torch.zeros(1, 1)):.4f}")
    0.0433
    """
    if name not in LOSSES:
        raise RecipeError(unknown_name("loss", name, LOSSES))
    function = LOSSES[name]
    allowed = set(inspect.signature(function).parameters) - {"logits", "targets", "known"} | {"unknown_weight"}
    for option, value in options.items():
        if option not in allowed:
            raise RecipeError(unknown_name(f"option of the loss '{name}'", option, allowed))
        if option in _LIMITS and not (value is None and option == "alpha"):
            low, high = _LIMITS[option]
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise RecipeError(
                    f"{option} of the loss '{name}' is {value!r}: give a number from {low:g} to {high:g}."
                )

    weights = _weights(name, options.pop("weights", None))
    unknown_weight = options.pop("unknown_weight", 0.0)

    def loss(logits: Tensor, targets: Tensor, known: Tensor | None = None) -> Tensor:
        factors = None if weights is None else weights.to(logits.device)
        if factors is not None and factors.shape[-1] != logits.shape[-1]:
            raise RecipeError(f"the loss has {factors.shape[-1]} weights for {logits.shape[-1]} labels: give one each.")
        if known is not None and unknown_weight > 0:
            targets = targets * known.bool()
            certainty = torch.where(known.bool(), 1.0, unknown_weight)
            known, factors = None, certainty if factors is None else certainty * factors
        return function(logits, targets, known=known, weights=factors, **options)

    return loss
