"""vLLM's weight transfer engine `isthmus`: the four calls of an update, and what they promise.

A worker holds at most one update that is not confirmed. finish confirms it; until then the next
start, an update with "undo", or a failure of any worker's part puts the old bits back. The weights
have a label, the digest of the version that they are, from init on; a load that this engine did not
do takes it away, and only another init gives one.
"""

from __future__ import annotations

import concurrent.futures
import functools
import re
from dataclasses import dataclass
from typing import Any

import torch
from vllm.config import set_current_vllm_config
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.logger import init_logger

from . import canary, changes, holdings, position_map, threads, units, workers
from .checkpoint import Checkpoint
from .errors import TransferError
from .holdings import Held
from .scatter import Update

FORMAT = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LISTED = 8  # tensors that cannot be changed: so many are logged by name and reason

logger = init_logger("vllm.isthmus")


@dataclass
class InitInfo(WeightTransferInitInfo):
    """checkpoint: the directory of what the engine has loaded; digest: of this version."""

    format: int
    checkpoint: str
    digest: str


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):
    """changes: a file; base: the digest of the version that it starts from. prepare: only begin to
    read, in a thread; the same without it then writes. Or undo alone."""

    format: int
    changes: str | None = None
    base: str | None = None
    prepare: bool = False
    undo: bool = False


class IsthmusTransferEngine(WeightTransferEngine[InitInfo, UpdateInfo]):
    """One of each worker. All methods are called on all workers, by one thread."""

    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    def __init__(self, config: Any, vllm_config: Any, device: torch.device,
                 model: torch.nn.Module):
        super().__init__(config, vllm_config, device, model)
        self._label: str | None = None
        self._update: Update | None = None
        self._ahead: tuple[tuple, concurrent.futures.Future[Update]] | None = None
        self._learned: tuple[dict, dict[str, Held], dict[str, str]] | None = None
        self._watch_loads()

    # The calls of vLLM

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        """Learns the map, proves it and that it leads to memory in use, and compares the weights with
        the checkpoint, bit by bit. Again after each full load; what was learned is kept."""
        workers.together(lambda: self._check_init(init_info))
        self._label = self._ahead = None
        with _one(lambda: Checkpoint(init_info.checkpoint)) as checkpoint:
            self._learn(checkpoint)
            workers.together(lambda: self._compare(checkpoint))
        self._label = init_info.digest
        self._log_state()

    def start_weight_update(self) -> None:
        self._undo()
        if self._label is None:
            raise TransferError("not-ready", "the weights are not known: init first")

    def receive_weights(self, update_info: UpdateInfo) -> None:
        workers.together(lambda: self._check_request(update_info))
        if update_info.undo:
            self._undo()
        elif update_info.prepare:
            self._ahead = _key(update_info), threads.start(lambda: self._read(update_info))
        else:
            self._write(self._take(update_info))

    def finish_weight_update(self) -> None:
        self._ahead = None
        if self._update is not None:
            self._label, self._update = self._update.target, None

    def shutdown(self) -> None:
        self._undo()
        self._label = self._learned = None

    # The rest

    def _watch_loads(self) -> None:
        """A load through the model's loader makes the weights unknown, and old bits worthless."""
        load = self.model.load_weights

        @functools.wraps(load)
        def load_weights(*args, **kwargs):
            self._label = self._update = self._ahead = None
            return load(*args, **kwargs)

        self.model.load_weights = load_weights

    def _check_init(self, info: InitInfo) -> None:
        _require(info.format == FORMAT, f"format {info.format!r}, known is {FORMAT}")
        _require(isinstance(info.digest, str) and _DIGEST.fullmatch(info.digest),
                 f"digest {info.digest!r}")
        _require(isinstance(info.checkpoint, str), f"checkpoint {info.checkpoint!r}")
        self._require_none_pending("init")

    def _learn(self, checkpoint: Checkpoint) -> None:
        if self._learned is not None and self._learned[0] == checkpoint.layout:
            return
        found = _one(lambda: self._map(checkpoint))
        held, refused = holdings.settle(found, checkpoint)
        if all(each.left_out for each in held.values()):
            raise TransferError("invalid", "none of its tensors can be changed in place: "
                                f"{next(iter(refused.items()), 'it has none')}")
        self._learned = checkpoint.layout, held, refused

    def _map(self, checkpoint: Checkpoint) -> position_map.PositionMap:
        eplb = getattr(self.parallel_config, "enable_eplb", False)
        _require(not eplb, "experts that move between workers (EPLB) have no lasting map")
        with set_current_vllm_config(self.vllm_config):
            found = position_map.learn(self.model, checkpoint)
            for parameter, reason in canary.unproven(self.model, found.parameters()).items():
                found.reopen(parameter, reason)
        return found

    def _compare(self, checkpoint: Checkpoint) -> None:
        for name, held in self._learned[1].items():
            source = units.of_tensor(checkpoint.tensor(name))
            for place, _ in held.places:
                theirs, ours = place.box.view_source(source), place.box.view_dest(place.storage)
                for some, mine in zip(theirs.split(_rows(theirs)), ours.split(_rows(theirs))):
                    if not torch.equal(some.to(mine.device), mine):
                        raise TransferError("conflict", f"{name}: what the engine holds of it in "
                                            f"{place.parameter} is not what the checkpoint holds")

    def _check_request(self, info: UpdateInfo) -> None:
        _require(info.format == FORMAT, f"format {info.format!r}, known is {FORMAT}")
        if info.undo:
            _require(info == UpdateInfo(FORMAT, undo=True), "undo goes alone")
            return
        self._require_none_pending("update")
        _require(isinstance(info.changes, str) and isinstance(info.base, str),
                 f"changes {info.changes!r}, base {info.base!r}")
        if info.base != self._label:
            raise TransferError("conflict", f"an update from {info.base}, the engine holds "
                                f"{self._label}")

    def _read(self, info: UpdateInfo) -> Update:
        """An update of which all is checked and read that one worker can. Any thread."""
        file = changes.read(info.changes)
        if file.base != info.base:
            raise TransferError("conflict", f"{info.changes} is from {file.base}, asked for is "
                                f"{info.base}")
        _, held, refused = self._learned
        for name in file.tensors:
            if name in refused:
                raise TransferError("invalid", f"{name} cannot be changed in place: "
                                    f"{refused[name]}")
            if name not in held:
                raise TransferError("invalid", f"the model has no tensor {name}")
        update = Update(held, file, threads.count(self.device))
        update.prepare()
        return update

    def _take(self, info: UpdateInfo) -> Update:
        """The update that was prepared, if it is this one; else a new one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == _key(info):
            return _one(ahead[1].result)
        return _one(lambda: self._read(info))

    def _write(self, update: Update) -> None:
        update.check_sums(workers.together(update.prepare))
        self._update = update  # so that a failure anywhere takes it back everywhere
        try:
            workers.together(update.apply)
        except TransferError:
            self._undo()
            raise

    def _undo(self) -> None:
        self._ahead = None
        if self._update is not None:
            self._update.undo()
            self._update = None

    def _require_none_pending(self, what: str) -> None:
        if self._update is not None:
            raise TransferError("conflict", f"{what}: an update is not finished: undo or finish it")

    def _log_state(self) -> None:
        _, held, refused = self._learned
        left_out = sum(each.left_out for each in held.values())
        logger.info("isthmus: %d tensors are changed in place, %d the model leaves out, %d only by a "
                    "reload", len(held) - left_out, left_out, len(refused))
        for name, reason in list(refused.items())[:_LISTED]:
            logger.warning("isthmus: only by a reload: %s: %s", name, reason)


def _require(holds: Any, found: str) -> None:
    if not holds:
        raise TransferError("invalid", found)


def _key(info: UpdateInfo) -> tuple:
    return info.changes, info.base


def _one(step):
    """A step of this worker that the others take too; raises on all if it failed on one."""
    made = []
    workers.together(lambda: made.append(step()))
    return made[0]


def _rows(view: torch.Tensor) -> int:
    """How many rows of a view are about 2^24 units: what is copied to a device at a time."""
    return max((1 << 24) // max(view[0].numel(), 1), 1)
