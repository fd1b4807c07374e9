"""Cutting a network in two: what runs up to a place in it, and the tail that runs from there.

Any timm model can be cut whose parts run one after the other. The model's own code runs both parts: up to the place it
is stopped there; from there on the modules before the place give blanks and the module at the place gives what was kept
of it. So nothing of the model has to be known but the place, and a cut is used only when it has been proved: prefix and
tail in turn give what the whole network gives.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tagloom.errors import TaggerError
from tagloom.models.feature_maps import feature_maps, stage_modules
from tagloom.wording import first_line, listed, shown

TOLERANCE = 1e-4
Forward = Callable[..., Any]


@dataclass(frozen=True)
class Cut:
    """A place at which a network is cut.

    Attributes:
        place: The module whose output is kept, by its name in the network.
        before: The modules that run before it, each with the form of its output: the shape for one image, without the
            axis of images, in place of each tensor.
        after: The modules that run after it: the tail.
        side: Side of the pictures for which the cut was made.
        channels: The axis of the channels in what is kept, which has the network's own layout.
        channels_last: Whether its channels lie side by side in memory although they are axis 1.
    """

    place: str
    before: Mapping[str, Any]
    after: tuple[str, ...]
    side: int
    channels: int
    channels_last: bool

    def prefix_tensors(self, net: nn.Module) -> dict[str, Tensor]:
        """Give what the kept output depends on: all tensors that are not in the tail."""
        tails = tuple(f"{name}." for name in self.after)
        return {name: value for name, value in net.state_dict().items() if not name.startswith(tails)}

    def tail_parameters(self, net: nn.Module) -> list[nn.Parameter]:
        """List the parameters that only the tail uses."""
        tails = tuple(f"{name}." for name in self.after)
        named = list(net.named_parameters(remove_duplicate=False))
        shared = {id(parameter) for name, parameter in named if not name.startswith(tails)}
        return [parameter for name, parameter in named if name.startswith(tails) and id(parameter) not in shared]


def cut_after(net: nn.Module, where: int | str, side: int, stages: Sequence[int] = ()) -> Cut:
    """Cut a timm model after a stage, or after one of its modules, and prove that the parts make up the whole.

    Args:
        net: The model.
        where: A stage by number, 1 the earliest, or a module by name, for example "blocks.5".
        side: Side of the pictures.
        stages: The intermediate stages that are wanted with the last map; all must come from the tail.

    Raises:
        TaggerError: If it cannot be cut there; the message lists the stages at which it can.
    """
    try:
        return _proved(net, _place(net, where), side, stages)
    except _Uncut as problem:
        usable = [number for number in range(1, len(stage_modules(net)) + 1) if _can_cut(net, number, side, stages)]
        advice = f"It can after the stages {listed(usable)}." if usable else "Train all of it: backbone.frozen=false."
        raise TaggerError(f"the backbone cannot be cut after {_called(where)}: {problem}. {advice}") from problem


def run_prefix(net: nn.Module, cut: Cut, images: Tensor) -> Tensor:
    """Run a network up to a cut.

    Args:
        net: A timm model.
        cut: A cut of it.
        images: (B, 3, side, side), normalised for the model.

    Returns:
        (B, …) what the module at the cut gives, in the network's own layout.
    """
    module = net.get_submodule(cut.place)
    forward = module.forward

    def stop(*inputs: Any, **options: Any) -> None:
        raise _Reached(forward(*inputs, **options))

    with _other_forwards({module: stop}):
        try:
            net.forward_features(images)  # type: ignore[operator]
        except _Reached as reached:
            return reached.output
    raise _Uncut("the network did not get there")


def run_tail(net: nn.Module, cut: Cut, kept: Tensor, stages: Sequence[int] = ()) -> tuple[Tensor, list[Tensor]]:
    """Run a network from a cut on.

    Args:
        net: A timm model.
        cut: A cut of it.
        kept: (B, …) what `run_prefix` gave.
        stages: The intermediate stages that are wanted, by number.

    Returns:
        As `feature_maps`: the last map (B, C, h, w), and a map (B, C_s, h_s, w_s) for each wanted stage.
    """
    if cut.channels_last:  # what comes from a cache is not, and convolutions would be slower
        kept = kept.contiguous(memory_format=torch.channels_last)
    # The default binds each form to its own function.
    forwards: dict[nn.Module, Forward] = {
        net.get_submodule(name): lambda *_, form=form, **__: _blank(form, kept) for name, form in cut.before.items()
    }
    forwards[net.get_submodule(cut.place)] = lambda *_, **__: kept
    with _other_forwards(forwards):
        return feature_maps(net, _blank(torch.Size((3, cut.side, cut.side)), kept), stages)


def _form(output: Any) -> Any:
    """Give the form of what a module gave for one image."""
    if isinstance(output, tuple | list):
        return tuple(_form(part) for part in output)
    return output.shape[1:] if isinstance(output, Tensor) else output


def _blank(form: Any, kept: Tensor) -> Any:
    """Give zeros of a form for as many images as are kept; they take no memory and no time."""
    if isinstance(form, torch.Size):
        return kept.new_zeros(1, *form).expand(len(kept), *form)
    return tuple(_blank(part, kept) for part in form) if isinstance(form, tuple) else form


class _Uncut(Exception):  # noqa: N818  it never leaves this file
    """Why a network cannot be cut at a place."""


class _Reached(Exception):  # noqa: N818  not an error: the way out of a network's own code
    """Carries the output of the module at a cut."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


@contextmanager
def _other_forwards(forwards: Mapping[nn.Module, Forward]) -> Iterator[None]:
    """Let modules compute something else for a while."""
    for module, forward in forwards.items():
        module.forward = forward
    try:
        yield
    finally:
        for module in forwards:
            del module.forward


def _place(net: nn.Module, where: int | str) -> str:
    """Give the name of the module at a stage, or of the one that is named."""
    modules = stage_modules(net)
    if isinstance(where, str):
        if not where or where not in dict(net.named_modules()):
            raise _Uncut(f"it has no module of that name; its stages are the modules {listed(modules)}")
        return where
    if not 1 <= where <= len(modules):
        raise _Uncut(f"it has the stages 1 to {len(modules)}" if modules else "it does not name its stages")
    if modules[where - 1] not in dict(net.named_modules()):
        raise _Uncut(f"its stage is called {modules[where - 1]!r}, and no module is")
    return modules[where - 1]


def _called(where: int | str) -> str:
    return f"stage {where}" if isinstance(where, int) else f"module {shown(where)}"


def _can_cut(net: nn.Module, where: int, side: int, stages: Sequence[int]) -> bool:
    try:
        _proved(net, _place(net, where), side, stages)
    except _Uncut:
        return False
    return True


@torch.no_grad()
def _proved(net: nn.Module, place: str, side: int, stages: Sequence[int]) -> Cut:
    """Cut a network, and compare prefix and tail with the whole on other pictures than those that it was cut with."""
    training = {module: module.training for module in net.modules()}
    pictures = torch.randn(3, 3, side, side, generator=torch.Generator().manual_seed(0))
    pictures = pictures.to(next(net.parameters()).device)
    net.eval()
    try:
        cut = _traced(net, place, pictures[:1])
        _check_stages(net, cut, stages)
        whole, whole_stages = feature_maps(net, pictures[1:], stages)
        tail, tail_stages = run_tail(net, cut, run_prefix(net, cut, pictures[1:]), stages)
    except _Uncut:
        raise
    except Exception as error:  # a network whose parts do not follow one another can fail in any way
        raise _Uncut(f"its parts do not simply follow one another ({first_line(error)})") from error
    finally:
        for module, mode in training.items():
            module.training = mode
    for ours, theirs in zip((tail, *tail_stages), (whole, *whole_stages), strict=True):
        scale = float(theirs.abs().max())
        if ours.shape != theirs.shape or not bool(((ours - theirs).abs() <= TOLERANCE * scale).all()):
            raise _Uncut("what comes after it also reads what comes before")
    if not cut.tail_parameters(net):
        raise _Uncut("nothing that could be trained comes after it")
    return cut


def _check_stages(net: nn.Module, cut: Cut, stages: Sequence[int]) -> None:
    """Refuse wanted stages that the tail does not compute."""
    before = tuple(f"{name}." for name in cut.before)
    for stage in stages:
        if f"{stage_modules(net)[stage - 1]}.".startswith(before):
            raise _Uncut(f"the head reads stage {stage}, which comes before it and is not kept")


@dataclass
class _Trace:
    """Which modules were called, in order, and what they gave."""

    calls: list[str] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    def watch(self, name: str, module: nn.Module) -> list[torch.utils.hooks.RemovableHandle]:
        def called(*_: Any) -> None:
            self.calls.append(name)

        def returned(_: nn.Module, __: Any, output: Any) -> None:
            self.outputs[name] = output

        return [module.register_forward_pre_hook(called), module.register_forward_hook(returned)]


def _traced(net: nn.Module, place: str, image: Tensor) -> Cut:
    """See which modules run before and after a place.

    Only the modules beside the path to the place are looked at: what is inside of one runs when it does.
    """
    path = place.split(".")
    holders = [".".join(path[:depth]) for depth in range(len(path))]
    beside = {
        f"{holder}.{child}" if holder else child
        for holder in holders
        for child, _ in net.get_submodule(holder).named_children()
    }
    beside -= set(holders)
    trace = _Trace()
    handles = [handle for name in beside for handle in trace.watch(name, net.get_submodule(name))]
    try:
        net.forward_features(image)  # type: ignore[operator]
    finally:
        for handle in handles:
            handle.remove()
    if trace.calls.count(place) != 1:
        raise _Uncut(f"the module '{place}' runs {trace.calls.count(place)} times for a picture")
    middle = trace.calls.index(place)
    earlier, later = dict.fromkeys(trace.calls[:middle]), dict.fromkeys(trace.calls[middle + 1 :])
    kept = trace.outputs[place]
    if not isinstance(kept, Tensor):
        raise _Uncut(f"the module '{place}' gives more than one tensor")
    is_map = kept.ndim == 4 and getattr(net, "output_fmt", "NCHW") == "NCHW"
    return Cut(
        place,
        before={name: _form(trace.outputs[name]) for name in earlier if name not in later},
        after=tuple(name for name in later if name not in earlier),
        side=image.shape[-1],
        channels=1 if is_map else -1,
        channels_last=is_map and kept.is_contiguous(memory_format=torch.channels_last),
    )
