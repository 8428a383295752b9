"""Where the tensors of a version lie: in which checkpoint's files, and in the memory that they are copied to."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable

from isthmus import _core
from isthmus._sources import BITS, Source, refuse

# Of each tensor in memory: what SIMD code likes best.
_ALIGNMENT = 64
_INDEX = "model.safetensors.index.json"


@dataclasses.dataclass(frozen=True)
class Slot:
    """A tensor that belongs to the checkpoint; `offset` is its place in memory."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int


class Layout:
    """The tensors of the checkpoint in `directory`, by name."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.slots: dict[str, Slot] = {}
        self.bytes = 0
        for name, dtype, shape in _core.tensors_of(directory):
            elements = 1
            for size in shape:
                elements *= size
            nbytes = elements * BITS[dtype] // 8
            self.slots[name] = Slot(dtype, tuple(shape), nbytes, self.bytes)
            self.bytes += -(-nbytes // _ALIGNMENT) * _ALIGNMENT

    def check(self, source: Source) -> Slot:
        """The slot of a source; InvalidError, naming it, if it is not of its dtype and shape. Unsigned integers of
        the same width stand for the bits."""
        slot = self.slots[source.name]
        is_bits = source.dtype.startswith("U") and source.dtype != slot.dtype
        if is_bits and BITS[slot.dtype] < 8:  # packed: so many bytes
            if source.dtype != "U8" or source.nbytes != slot.nbytes:
                raise refuse(source.name, f"{source.nbytes} bytes of {source.dtype}, the checkpoint has "
                                          f"{slot.nbytes} bytes of {slot.dtype}")
            return slot
        fits = BITS[source.dtype] == BITS[slot.dtype] if is_bits else source.dtype == slot.dtype
        if not fits or source.shape != slot.shape:
            raise refuse(source.name, f"{source.dtype} {list(source.shape)}, the checkpoint has "
                                      f"{slot.dtype} {list(slot.shape)}")
        return slot


class OwnLayout(Layout):
    """A layout that the package makes, for tensors that come from no checkpoint: by name, in shards of at most
    5 GB. It lies in a temporary directory, where the tensors take no room, until `close`; the other files of the
    directory `files` belong to it."""

    def __init__(self, sources: Iterable[Source], files: str | None) -> None:
        directory = tempfile.mkdtemp(prefix="isthmus-layout-")
        self._remove = weakref.finalize(self, _remove_of_process, directory, os.getpid())
        _core.write_layout(directory, [(s.name, s.dtype, list(s.shape)) for s in sources])
        if files is not None:
            _link_files(pathlib.Path(files), pathlib.Path(directory))
        super().__init__(directory)

    def close(self) -> None:
        self._remove()


def _remove_of_process(directory: str, pid: int) -> None:
    if os.getpid() == pid:  # not in a forked child
        shutil.rmtree(directory, ignore_errors=True)


def _link_files(files: pathlib.Path, directory: pathlib.Path) -> None:
    """What is not weights, and not hidden."""
    for folder, folders, names in os.walk(files):
        folders[:] = [name for name in folders if not name.startswith(".")]
        below = pathlib.Path(folder).relative_to(files)
        for name in names:
            is_weights = below == pathlib.Path() and (name.endswith(".safetensors") or name == _INDEX)
            if is_weights or name.startswith("."):
                continue
            (directory / below).mkdir(parents=True, exist_ok=True)
            (directory / below / name).symlink_to((pathlib.Path(folder) / name).resolve())
