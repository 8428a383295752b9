"""Weights that a backend keeps in another order than its loader fills: what goes where.

The loader is given parameters of the shapes that the layer had before; the backend's own packing,
run once on numbers, says where each unit goes. Known: the experts' kernels for CPUs (one expert is
packed like all others). What the checkpoint's bits then do not confirm is refused at init.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import torch
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info
from vllm.model_executor.model_loader.reload.sanitize import restore_layer_refs

from . import boxes, units
from .boxes import Box
from .recording import storage_id

EXPERT_WEIGHTS = ("w13_weight", "w2_weight")


class _Packing:
    """How one expert of a kind of layers is packed: found when first asked for, then remembered, for
    all layers and experts are packed alike."""

    def __init__(self, layer: torch.nn.Module, name: str, meta: torch.Tensor, runtime: torch.Tensor):
        self._layer, self._name, self._meta = layer, name, meta
        each = max(meta.dtype.itemsize // 4, 1)
        self._loadable_expert = meta[0].numel() * each
        self._runtime_expert = runtime[0].numel() * each
        self._places: torch.Tensor | None = None
        self._boxes: dict[Box, Box | None] = {}

    def reorder(self, box: Box) -> Box | None:
        """A box of the loader's units as one of the runtime's; None if that takes more than one."""
        expert, dest = divmod(box.dest, self._loadable_expert)
        box = dataclasses.replace(box, dest=dest)
        if box not in self._boxes:
            self._boxes[box] = self._reorder(box)
        found = self._boxes[box]
        return found and dataclasses.replace(
            found, dest=found.dest + expert * self._runtime_expert)

    def forget(self) -> None:
        self._places = None

    def _reorder(self, box: Box) -> Box | None:
        if self._places is None:
            self._places = _places(self._layer, self._name, self._meta)
        source, dest = _positions(box, 1), _positions(box, 2)
        expert, within = dest // self._loadable_expert, dest % self._loadable_expert
        return boxes.factor(source, self._places[within] + expert * self._runtime_expert)


class Packed:
    """One weight of one layer, as the loader sees it (`loadable`, on the meta device) and as it is."""

    def __init__(self, layer: torch.nn.Module, name: str, packings: dict[tuple, _Packing]):
        self.layer, self.name = layer, name
        self.runtime: torch.nn.Parameter = layer._parameters[name]
        metas = get_layerwise_info(layer).restore_metadata[0]
        self.loadable = restore_layer_refs(metas[name], layer)
        kind = (type(_experts(layer)), layer.activation, name, self.runtime.shape,
                *(metas[other].shape for other in EXPERT_WEIGHTS), self.loadable.dtype)
        self.packing = packings.setdefault(
            kind, _Packing(layer, name, self.loadable, self.runtime))


def packed_weights(model: torch.nn.Module) -> list[Packed]:
    packings: dict[tuple, _Packing] = {}
    return [Packed(layer, name, packings) for layer in model.modules() if _is_packed(layer)
            for name in EXPERT_WEIGHTS]


def _is_packed(layer: torch.nn.Module) -> bool:
    return (isinstance(layer, RoutedExperts) and layer.w13_weight.device.type == "cpu"
            and _experts(layer) is not None)


def _experts(layer: torch.nn.Module):
    return getattr(getattr(layer.quant_method, "moe_kernel", None), "fused_experts", None)


@contextlib.contextmanager
def loadable(packed: list[Packed]) -> Iterator[dict[int, Packed]]:
    """While it is open the layers have the parameters that a loader expects, without data. Yields
    what each storage of them stands for."""
    try:
        for weight in packed:
            weight.layer._parameters[weight.name] = weight.loadable
        yield {storage_id(weight.loadable): weight for weight in packed}
    finally:
        for weight in packed:
            weight.layer._parameters[weight.name] = weight.runtime


def _positions(box: Box, stride: int) -> torch.Tensor:
    """The positions on one side of a box (1: source, 2: destination), in the order of the source."""
    places = torch.tensor([box.source if stride == 1 else box.dest])
    for dim in box.dims:
        places = (places[:, None] + torch.arange(dim[0]) * dim[stride]).view(-1)
    return places


def _places(layer: torch.nn.Module, name: str, meta: torch.Tensor) -> torch.Tensor:
    """int64 [units of one expert]: where the packing puts each. Numbers from 1 go through it in
    pieces of a unit's bits, so that padding, which is zero, is no number."""
    shape, dtype = meta.shape[1:], meta.dtype
    numbers = torch.arange(1, shape.numel() * max(dtype.itemsize // 4, 1) + 1)
    bits, packed = 8 * units.unit_bytes(dtype), None
    for shift in range(0, int(numbers[-1]).bit_length(), bits):
        piece = units.as_numbers(_pack(layer, name, _as_weight(numbers >> shift, shape, dtype)))
        packed = piece if packed is None else packed + (piece << shift)
    places = torch.zeros(len(numbers) + 1, dtype=torch.int64)
    places[packed] = torch.arange(len(packed))
    return places[1:]


def _as_weight(numbers: torch.Tensor, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    signed = units.SIGNED[units.unit_bytes(dtype)]
    mask = (1 << 8 * signed.itemsize) - 1
    return (numbers & mask).to(signed).view(dtype).view(1, *shape)


def _pack(layer: torch.nn.Module, name: str, weight: torch.Tensor) -> torch.Tensor:
    """One expert's weight through the layer's own packing, as units."""
    shadow = torch.nn.Module()
    shadow.activation = layer.activation
    shadow.moe_config = layer.moe_config
    for other in EXPERT_WEIGHTS:
        meta = get_layerwise_info(layer).restore_metadata[0][other]
        value = weight if other == name else torch.zeros((1, *meta.shape[1:]), dtype=meta.dtype)
        shadow.register_parameter(other, torch.nn.Parameter(value, requires_grad=False))
    experts = _experts(layer)
    kept = dict(experts.__dict__)
    experts.process_weights_after_loading(shadow)
    experts.__dict__.update(kept)
    return units.of_tensor(getattr(shadow, name).data)
