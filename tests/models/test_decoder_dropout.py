"""Dropout as in the released code of ML-Decoder and Query2Label: of attention weights, and with a mask per image."""

import pytest
import torch
from torch import Tensor, nn

from tagloom.errors import RecipeError
from tagloom.models.heads import create_head
from tagloom.models.heads.transformer import Attention

BATCH, CLASSES, CHANNELS = 3, 5, 6


def make(name: str = "ml-decoder", **decoder: object) -> nn.Module:
    torch.manual_seed(0)
    decoder = {"feed_forward": 10, "attention_heads": 2, "dropout": 0.0, **decoder}
    return create_head(name, in_channels=CHANNELS, classes=CLASSES, width=8, decoder=decoder)


def same_image(head: nn.Module) -> Tensor:
    """Give the logits of one image that is in the batch three times."""
    torch.manual_seed(1)
    return head(torch.randn(1, CHANNELS, 3, 4).expand(BATCH, -1, -1, -1))


def mixed(head: nn.Module) -> Tensor:
    """Give what comes out of the step before the image."""
    seen: list[Tensor] = []
    head.decoder.layers[0].mixing.register_forward_hook(lambda module, inputs, output: seen.append(output))
    same_image(head)
    return seen[0]


@pytest.mark.parametrize("name", ["ml-decoder", "transformer-decoder"])
def test_queries_share_a_mask_unless_each_image_is_to_have_its_own(name: str) -> None:
    assert mixed(make(name, dropout=0.5).train()).shape == (1, CLASSES, 8)
    apart = mixed(make(name, dropout=0.5, dropout_per_image=True).train())
    assert apart.shape == (BATCH, CLASSES, 8)
    assert not torch.allclose(apart[0], apart[1])


def test_a_mask_per_image_changes_nothing_without_dropout_and_in_use() -> None:
    shared, apart = make(), make(dropout_per_image=True)
    for training in (True, False):
        torch.testing.assert_close(same_image(shared.train(training)), same_image(apart.train(training)))
    assert mixed(apart.eval()).shape[0] == 1, "in use the part before the image still runs once"


@pytest.mark.parametrize("name", ["ml-decoder", "transformer-decoder", "query2label", "tf"])
def test_dropped_attention_differs_between_equal_images_in_training_only(name: str) -> None:
    head = make(name, attention_dropout=0.5, **({"head_width": 4} if name == "tf" else {}))
    training = same_image(head.train())
    assert not torch.allclose(training[0], training[1])
    using = same_image(head.eval())
    torch.testing.assert_close(using[0], using[1])
    without = same_image(make(name, **({"head_width": 4} if name == "tf" else {})).eval())
    torch.testing.assert_close(using, without)


def test_dropped_attention_keeps_its_mean_and_is_that_of_torchs_attention() -> None:
    torch.manual_seed(0)
    ours = Attention(8, 2, dropout=0.25).train()
    queries, memory = torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    with torch.no_grad():
        many = ours(ours.project(queries.expand(20_000, -1, -1)), memory.expand(20_000, -1, -1))
        torch.testing.assert_close(many.mean(0), ours.eval()(ours.project(queries), memory)[0], rtol=0, atol=0.02)
        theirs = nn.MultiheadAttention(8, 2, dropout=0.25, batch_first=True)
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
        rival, _ = theirs(queries.expand(20_000, -1, -1), memory.expand(20_000, -1, -1), memory.expand(20_000, -1, -1))
    torch.testing.assert_close(many.std(0), rival.std(0), rtol=0.05, atol=0.01)


def test_a_share_of_one_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"decoder\.attention_dropout is 1"):
        make(attention_dropout=1.0)
