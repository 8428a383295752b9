"""What one rank of many holds of a model (docs/ranks.md, "A share"): whole tensors, or rows of torch's DTensors."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from typing import Any

from isthmus._layouts import aligned
from isthmus._sources import Source, describe, refuse


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a tensor that are held here; `offset` is their place in memory."""

    dtype: str
    shape: tuple[int, ...]  # of the whole tensor
    first_row: int
    rows: int
    nbytes: int
    offset: int


class Share:
    """The tensors of one rank, by name, as a Layout has those of a checkpoint."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.slots: dict[str, Rows] = {}
        self.bytes = 0
        for source in sources:
            rows = source.shape[0] if source.shape else 1
            self.slots[source.name] = Rows(
                source.dtype, source.whole or source.shape, source.first_row, rows, source.nbytes, self.bytes
            )
            self.bytes += aligned(source.nbytes)

    def check(self, source: Source) -> Rows:
        """The slot. Whether names, dtypes and shapes are the run's is what the lead sees."""
        return self.slots[source.name]


def describe_held(name: str, tensor: Any) -> Source | None:
    """What this rank has to say of a tensor: all of a plain one, the rows of a DTensor that it holds; None: nothing,
    because it has no rows or another rank has the same ones."""
    if not _is_distributed(tensor):
        return describe(name, tensor)
    span = _rows_of(name, tensor)
    if span is None or span[1] == 0:
        return None
    local = tensor.detach().to_local()
    if tuple(local.shape) != (span[1], *tensor.shape[1:]):
        raise refuse(name, f"its local part is {list(local.shape)}, expected {span[1]} rows of {list(tensor.shape)}")
    source = describe(name, local)
    source.whole, source.first_row = tuple(tensor.shape), span[0]
    return source


def _is_distributed(tensor: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def _rows_of(name: str, tensor: Any) -> tuple[int, int] | None:
    """(first row, rows) that are held here, cut as torch.chunk does, one mesh dimension after another; None: another
    rank has the same."""
    shard = sys.modules["torch.distributed.tensor"].Shard
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    first, rows, is_first = 0, tensor.shape[0] if tensor.dim() else 1, True
    for dimension, placement in enumerate(tensor.placements):
        place, ranks = coordinate[dimension], tensor.device_mesh.size(dimension)
        if placement.is_replicate():
            is_first = is_first and place == 0
        elif type(placement) is shard and placement.dim == 0:
            size = -(-rows // ranks)
            begin = min(place * size, rows)
            first, rows = first + begin, min(size, rows - begin)
        else:
            raise refuse(name, f"its placement is {placement}, expected Shard(0) or Replicate()")
    return (first, rows) if is_first else None
