"""Who holds what: each worker's part of a tensor's position-keyed sum, without counting twice."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import workers
from .boxes import Box
from .checkpoint import DTYPES, Checkpoint
from .position_map import Place, PositionMap


@dataclass(frozen=True)
class Held:
    """places: this worker's of one tensor, each with whether it adds to the sum: one worker counts a
    box that several hold, and once. units: of the whole tensor. left_out: no worker holds any of it,
    since the model's loader skips it; a reload would do so too."""

    dtype: str
    shape: tuple[int, ...]
    units: int
    places: tuple[tuple[Place, bool], ...]
    left_out: bool


def settle(position_map: PositionMap,
           checkpoint: Checkpoint) -> tuple[dict[str, Held], dict[str, str]]:
    """(what is held, {name: why it cannot be changed}) of all tensors; all workers call it.

    A tensor of which the workers together hold a part only cannot be changed: its sum proves
    nothing.
    """
    everyone = workers.gather((position_map.open, {
        name: [_source(place.box) for place in places]
        for name, places in position_map.places.items()}))
    held, refused = {}, {}
    for reasons, _ in everyone:
        refused.update(reasons)
    for name, (dtype, shape) in checkpoint.layout.items():
        if name in refused:
            continue
        total = math.prod(shape) * max(DTYPES[dtype].itemsize // 4, 1)
        owners = _owners([boxes.get(name, ()) for _, boxes in everyone])
        counted = sum(math.prod(count for count, _ in box[1]) for box in owners)
        if counted not in (0, total):
            refused[name] = f"the workers hold {counted} of its {total} units"
            continue
        held[name] = Held(dtype, shape, total, _mine(position_map.places[name], owners),
                          left_out=total > 0 and counted == 0)
    return held, refused


def _source(box: Box) -> tuple:
    return box.source, tuple((count, stride) for count, stride, _ in box.dims)


def _owners(boxes_by_rank: list) -> dict[tuple, tuple[int, int]]:
    """{box: (rank, index) of the first place that holds it}."""
    owners: dict[tuple, tuple[int, int]] = {}
    for rank, boxes in enumerate(boxes_by_rank):
        for index, box in enumerate(boxes):
            owners.setdefault(box, (rank, index))
    return owners


def _mine(places: list[Place], owners: dict) -> tuple[tuple[Place, bool], ...]:
    return tuple((place, owners[_source(place.box)] == (workers.rank(), index))
                 for index, place in enumerate(places))
