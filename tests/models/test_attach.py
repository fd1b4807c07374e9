from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn

import tagloom
from tagloom.errors import RecipeError, TaggerError

SMALL = {"width": 16, "feed_forward": 24, "attention_heads": 2}
MODELS = {
    "test_efficientnet": {},
    "test_resnet": {},
    "test_convnext": {},
    "test_vit": {},
    "test_vit3": {},
    "swin_tiny_patch4_window7_224": {
        "img_size": 64,
        "window_size": 2,
        "embed_dim": 8,
        "depths": (1, 1),
        "num_heads": (2, 2),
    },
}


def attached(model: str, head: str = "ml-decoder", **options: object) -> nn.Module:
    torch.manual_seed(0)
    net = timm.create_model(model, num_classes=10, **MODELS[model])
    return tagloom.attach_head(net, head, classes=5, **SMALL, **options).eval()


def images(model: str, batch: int = 2) -> Tensor:
    size = MODELS[model].get("img_size", 160)
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(batch))


@pytest.mark.parametrize("model", MODELS)
def test_any_timm_model_takes_a_head(model: str) -> None:
    module = attached(model)
    assert module(images(model)).shape == (2, 5)
    assert module.num_classes == 5
    module.train()(images(model)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in module.head.parameters())
    first = next(module.net.parameters())
    assert first.grad.abs().max() > 0


@pytest.mark.parametrize("model", MODELS)
def test_the_classifier_is_gone_and_the_features_are_the_models_own(model: str) -> None:
    torch.manual_seed(0)
    whole = timm.create_model(model, num_classes=10, **MODELS[model])
    features = whole.eval().forward_features(images(model))
    module = attached(model)
    assert not any(tuple(parameter.shape)[:1] == (10,) for parameter in module.net.parameters())
    seen: list[Tensor] = []
    classify = module.head.classify
    module.head.classify = lambda features: (seen.append(features.flatten(2).transpose(1, 2)), classify(features))[1]
    module(images(model))
    if features.ndim == 3:
        expected = features[:, whole.num_prefix_tokens :]
    elif features.shape[-1] == whole.num_features and features.shape[1] != whole.num_features:
        expected = features.flatten(1, 2)
    else:
        expected = features.flatten(2).transpose(1, 2)
    torch.testing.assert_close(seen[0], expected)


def test_every_head_attaches_and_the_normalised_input_is_left_alone() -> None:
    for head in ("ml-decoder", "transformer-decoder", "query2label", "tf"):
        assert attached("test_resnet", head)(images("test_resnet")).shape == (2, 5)
    net = timm.create_model("test_resnet", num_classes=3)
    module = tagloom.attach_head(net, "gap", classes=4).eval()
    with torch.no_grad():
        module.head.linear.weight.normal_()
    expected = module.head.linear(net.forward_features(images("test_resnet")).mean(dim=(2, 3)))
    torch.testing.assert_close(module(images("test_resnet")), expected)


def test_timms_data_settings_are_found_as_before() -> None:
    net = timm.create_model("test_vit")
    before = timm.data.resolve_model_data_config(net)
    assert timm.data.resolve_model_data_config(tagloom.attach_head(net, "gap", classes=2)) == before


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    module = attached("test_vit")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01)
    torch.save(module.state_dict(), tmp_path / "weights.pth")
    other = attached("test_vit")
    with torch.no_grad():
        assert not torch.equal(other(images("test_vit")), module(images("test_vit")))
        other.load_state_dict(torch.load(tmp_path / "weights.pth", weights_only=True))
        assert torch.equal(other(images("test_vit")), module(images("test_vit")))


@pytest.mark.parametrize("model", ["test_efficientnet", "test_vit", "swin_tiny_patch4_window7_224"])
def test_exports_with_a_free_batch(model: str) -> None:
    module = attached(model)
    shapes = ({0: torch.export.Dim("batch", min=1)},)
    with torch.no_grad():
        program = torch.export.export(module, (images(model),), dynamic_shapes=shapes).module()
        for batch in (1, 3):
            torch.testing.assert_close(
                program(images(model, batch)), module(images(model, batch)), rtol=1e-4, atol=1e-5
            )


@pytest.mark.slow
def test_onnx_runtime_computes_the_same(tmp_path: Path) -> None:
    import onnxruntime

    module, path = attached("test_vit"), tmp_path / "model.onnx"
    shapes = ({0: torch.export.Dim("batch", min=1)},)
    with torch.no_grad():
        program = torch.onnx.export(module, (images("test_vit"),), dynamo=True, dynamic_shapes=shapes, verbose=False)
        program.save(str(path))
        session = onnxruntime.InferenceSession(str(path))
        for batch in (1, 3):
            (theirs,) = session.run(None, {session.get_inputs()[0].name: images("test_vit", batch).numpy()})
            np.testing.assert_allclose(theirs, module(images("test_vit", batch)).numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["test_efficientnet", "test_vit"])
def test_compiles_whole(model: str) -> None:
    module = attached(model)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(images(model)), module(images(model)), rtol=1e-4, atol=1e-5)


def test_a_wrong_head_leaves_the_model_whole() -> None:
    net = timm.create_model("test_resnet", num_classes=10)
    with pytest.raises(RecipeError, match="did you mean 'ml-decoder'"):
        tagloom.attach_head(net, "ml-decodr", classes=5)
    assert net(images("test_resnet")).shape == (2, 10)


def test_what_is_not_a_timm_model_is_refused() -> None:
    with pytest.raises(TaggerError, match="not a timm model"):
        tagloom.attach_head(nn.Linear(2, 2), "gap", classes=2)
