"""A drop-in for timm users: any timm model with one of our heads instead of its classifier."""

from typing import Any, cast

from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.models.feature_maps import feature_maps, stage_channels
from tagloom.models.heads import Head, create_head


class HeadedModel(nn.Module):
    """A timm model without its classifier, and a head: normalised images in, logits out.

    Attributes:
        net: The timm model.
        head: The head.
        num_classes: Number of classes N.
        pretrained_cfg: The timm model's own, so that `timm.data.resolve_model_data_config` works as before.
    """

    def __init__(self, net: nn.Module, head: Head, classes: int) -> None:
        super().__init__()
        self.net = net
        self.head = head
        self.num_classes = classes
        self.pretrained_cfg = getattr(net, "pretrained_cfg", {})

    def forward(self, images: Tensor) -> Tensor:
        """Map images (B, 3, H, W), normalised as the timm model wants them, to logits (B, N)."""
        last, stages = feature_maps(self.net, images, self.head.stages)
        logits: Tensor = self.head(last, *stages)
        return logits


def attach_head(model: nn.Module, name: str, *, classes: int, **options: Any) -> HeadedModel:
    """Replace the classifier of a timm model, convolutional or transformer, by a head.

    The model keeps its weights and takes images as before. It is not copied: it loses its own classifier.

    Args:
        model: Any model of `timm.create_model`.
        name: A head, for example "ml-decoder"; a key of `tagloom.recipe.names.HEADS`.
        classes: Number of classes N.
        options: The head's own options, as `create_head` takes them.

    >>> import timm, torch
    >>> model = attach_head(timm.create_model("test_vit"), "ml-decoder", classes=30, readout={"groups": 10})
    >>> model(torch.zeros(2, 3, 160, 160)).shape
    torch.Size([2, 30])
    """
    if not all(hasattr(model, needed) for needed in ("forward_features", "reset_classifier", "num_features")):
        raise TaggerError(
            f"a {type(model).__name__} is not a timm model: it has no forward_features, reset_classifier or "
            "num_features. Use tagloom.create_head on its feature map instead."
        )
    channels = cast(int, model.num_features)
    head = create_head(name, in_channels=channels, classes=classes, stage_channels=stage_channels(model), **options)
    model.reset_classifier(0)  # type: ignore[operator]
    return HeadedModel(model, head, classes)
