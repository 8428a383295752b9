"""Publishing versions of a run from tensors in memory (docs/python.md, "Publishing")."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from isthmus import _core
from isthmus._layouts import Layout, OwnLayout
from isthmus._shares import Share, describe_held
from isthmus._sources import Source, describe, refuse, storage_key
from isthmus.boards import Board, Version, _opened
from isthmus.errors import ConflictError, Error, InvalidError, NotReadyError

_log = logging.getLogger("isthmus")

# What is copied in one go: Ctrl-C is noticed, and tensors of a generator are let go, in between.
_BATCH_BYTES = 1 << 30

# Where tensors lie: name, address, bytes.
Places = list[tuple[str, int, int]]
NamedTensors = Mapping[str, Any] | Iterable[tuple[str, Any]]


class Pending:
    """A version that is being published in the background."""

    def __init__(self, future: concurrent.futures.Future[Version]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether `result` would return, or raise, at once."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Version:
        """Waits until the version is durable, at most `timeout` seconds: then NotReadyError, and the publish goes
        on. Raises what it failed with."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.TimeoutError:
            if self._future.done():
                raise
            raise NotReadyError(f"wait for a publish: not done after {timeout} s") from None


class Publisher:
    """Publishes versions of one run, one at a time, from tensors in memory.

    Compares with a *baseline*, a local replica of the newest version, so a version costs what changed. Holds the
    baseline's lock until `close`. Not thread-safe: `publish` is for one thread.

    Args:
        board: a Board, or where one is.
        run: its name; begun by the first version.
        checkpoint: the directory that training starts from, in Hugging Face's form. Its files that are not weights
            belong to every version; its tensors' names, dtypes and shapes are those that must come, and their
            layout over shards stays. It may change between versions, but not while one is published.
        files: without `checkpoint`: the directory of the files that are not weights.
        baseline: where the baseline is kept, as large as the checkpoint; default: in the user's cache.
        names: from a trainer's name of a tensor to the checkpoint's; None leaves the tensor out.
        project: (checkpoint's name, tensor) to the tensor to publish: the served view of a master weight.
        background: `publish` returns as soon as the tensors may change.
        queue: in the background: so many versions may wait; each takes memory of the checkpoint's size.
        check: throws ConflictError if a tensor changed while it was read. Costs one more pass over them.
        rank, ranks: this process is one of many that publish each version together, each what it holds of it: plain
            tensors, and rows of DTensors (`Shard(0)`, also on several mesh dimensions; of replicas the first one's).
            Every rank calls `publish` with the same `step`. Without `checkpoint` and `files`: they are those of the
            version before. The first version is one process's (`publish_checkpoint`). The baseline is of the
            share's size.
        rank_deadline_s: seconds, the most that a publish waits for other ranks.
        threads: to work on; 0: one per core.

    Raises:
        InvalidError: the baseline follows another run, or lies in the checkpoint's directory. ConflictError: another
        process uses the baseline.
    """

    def __init__(
        self,
        board: Board | str | os.PathLike[str],
        run: str,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        files: str | os.PathLike[str] | None = None,
        baseline: str | os.PathLike[str] | None = None,
        names: Callable[[str], str | None] | None = None,
        project: Callable[[str, Any], Any] | None = None,
        background: bool = False,
        queue: int = 1,
        check: bool = False,
        rank: int | None = None,
        ranks: int | None = None,
        rank_deadline_s: float = 600.0,
        threads: int = 0,
    ) -> None:
        if queue < 0:
            raise InvalidError(f"publish run {run}: a queue of {queue}, at least 0 allowed")
        if checkpoint is not None and files is not None:
            raise InvalidError(f"publish run {run}: checkpoint and files, one of them allowed")
        if (rank is None) != (ranks is None):
            raise InvalidError(f"publish run {run}: rank and ranks go together")
        if ranks is not None and (checkpoint is not None or files is not None):
            raise InvalidError(f"publish run {run}: with ranks neither checkpoint nor files is allowed")
        self._run = run
        self._rank_deadline_s = rank_deadline_s
        self._names = names
        self._project = project
        self._check = check
        self._threads = threads
        self._files = None if files is None else os.fspath(files)
        self._layout = None if checkpoint is None else Layout(os.fspath(checkpoint))
        self._memory: _core.HostMemory | None = None
        self._hook: Any = None  # of an optimizer
        self._background = _Background(run, queue) if background else None
        place = "" if baseline is None else os.fspath(baseline)
        native_board = _opened(board)._native
        self._native: _core.Publisher | None = None
        self._native_rank: _core.RankPublisher | None = None
        if rank is not None and ranks is not None:
            self._native_rank = _core.RankPublisher(native_board, run, rank, ranks, place, threads)
        else:
            self._native = _core.Publisher(native_board, run, place, threads)

    @classmethod
    def from_optimizer_hook(
        cls,
        optimizer: Any,
        board: Board | str | os.PathLike[str],
        run: str,
        *,
        named_parameters: Iterable[tuple[str, Any]] | None = None,
        every: int = 1,
        first_step: int = 1,
        **options: Any,
    ) -> Publisher:
        """A publisher that every `every`th step of a torch optimizer uses, from now on until it is closed.

        named_parameters, every, first_step: as of isthmus.trainers.optimizer.OptimizerHook, whose close() also
        publishes a last step that is none of those; options: as of the class.
        """
        from isthmus.trainers.optimizer import OptimizerHook  # needs torch

        publisher = cls(board, run, **options)
        try:
            hook = OptimizerHook(publisher, optimizer, named_parameters, every=every, first_step=first_step)
        except BaseException:
            publisher.close()
            raise
        publisher._hook = hook
        return publisher

    @property
    def baseline(self) -> str:
        """The baseline's directory."""
        return self._either.baseline

    @property
    def _either(self) -> _core.Publisher | _core.RankPublisher:
        native = self._native or self._native_rank
        assert native is not None
        return native

    def publish(
        self,
        named_tensors: NamedTensors,
        *,
        step: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Version | Pending:
        """Publishes the tensors as the next version.

        Args:
            named_tensors: a mapping or pairs of name and tensor: torch tensors, numpy arrays or what has
                `__dlpack__`, on the CPU or a device, of the checkpoint's dtype and shape. Unsigned integers of the
                same width stand for the bits. They must not change before this returns.
            step: the trainer's optimizer step; needed with ranks, who know by it that they publish the same.
            meta: texts to keep with the version; other values are written as `str` has them.

        Returns:
            The version, durable; in the background a Pending.

        Raises:
            InvalidError: naming the tensor that is missing, unknown, given twice, of another shape or dtype, or has
            no plain bits. ConflictError: another publisher has taken the run; a new Publisher goes on from what it
            published. Then, and on any other error, no version was made.
        """
        self._either.baseline  # noqa: B018  # not in a forked child, not after close
        note = {key: str(value) for key, value in (meta or {}).items()}
        step = None if step is None else int(step)
        if step is None and self._native_rank is not None:
            raise InvalidError(f"publish run {self._run} with other ranks: it needs a step")
        if self._background is not None:
            self._background.raise_failure()
            return self._publish_later(named_tensors, step, note)
        layout, places, owners = self._places(named_tensors)
        version = self._commit(layout, places, step, note, self._check)
        del owners
        return version

    def publish_checkpoint(
        self,
        directory: str | os.PathLike[str],
        *,
        step: int | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Version:
        """Publishes a checkpoint directory as the next version, after all that wait. It must not change before
        this returns (ConflictError)."""
        self.flush()
        if self._native is None:
            raise InvalidError(f"publish {directory}: with ranks only tensors are published")
        note = {key: str(value) for key, value in (meta or {}).items()}
        return self._told(self._native.publish_checkpoint(os.fspath(directory), step, note))

    def flush(self) -> None:
        """Waits for everything in the background; raises its first failure that was not yet raised here."""
        if self._background is not None:
            self._background.flush()

    def close(self) -> None:
        """Waits for everything in the background, then gives up the baseline's lock. Raises as `flush`."""
        if self._hook is not None:
            self._hook.remove()
        try:
            if self._background is not None:
                self._background.close()
        finally:
            self._either.close()
            self._memory = None
            if isinstance(self._layout, OwnLayout):
                self._layout.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except Error as failure:
            if error is None:
                raise
            _log.error("publish run %s: %s", self._run, failure)  # the caller's own error goes on

    # From tensors to places in memory.

    def _places(self, named_tensors: NamedTensors) -> tuple[Layout | Share, Places, list[Any]]:
        """Where the tensors lie, and what keeps them there. What cannot be read in place is copied."""
        layout, sources = self._sources(named_tensors)
        places: Places = []
        owners = []
        for source in sources:
            slot = layout.check(source)
            address = source.address
            if address is None:
                if self._memory is None or self._memory.size < layout.bytes:
                    # As large as all, but only what is written takes room.
                    self._memory = _core.HostMemory(layout.bytes, self._threads, False)
                source.copy(self._memory, slot.offset)
                address = self._memory.address + slot.offset
            places.append((source.name, address, slot.nbytes))
            owners.append(source.owner)
        return layout, places, owners

    def _publish_later(
        self, named_tensors: NamedTensors, step: int | None, meta: dict[str, str]
    ) -> Pending:
        assert self._background is not None
        layout, sources = self._sources(named_tensors)
        memory = self._background.take_memory(layout.bytes, self._threads)
        try:
            places = self._copy(layout, sources, memory)
        except BaseException:
            self._background.give_back(memory)
            raise
        return self._background.submit(memory, lambda: self._commit(layout, places, step, meta, False))

    def _copy(
        self, layout: Layout | Share, sources: Iterable[Source], memory: _core.HostMemory
    ) -> Places:
        """Copies all tensors; returns where they lie now."""
        places: Places = []
        batch = _Batch(memory, keep=self._check)
        for source in sources:
            slot = layout.check(source)
            batch.add(source, slot.offset, slot.nbytes)
            places.append((source.name, memory.address + slot.offset, slot.nbytes))
        batch.finish()
        return places

    def _sources(self, named_tensors: NamedTensors) -> tuple[Layout | Share, Iterable[Source]]:
        """The layout and, one after another, the tensors that it has; InvalidError at the end if one is missing."""
        if self._native_rank is not None:
            sources = list(self._resolve(None, named_tensors))
            return Share(sources), sources
        if self._layout is not None:
            return self._layout, self._resolve(self._layout, named_tensors)
        sources = list(self._resolve(None, named_tensors))
        self._layout = OwnLayout(sources, self._files)
        return self._layout, sources

    def _resolve(self, layout: Layout | None, named_tensors: NamedTensors) -> Iterator[Source]:
        pairs = named_tensors.items() if isinstance(named_tensors, Mapping) else named_tensors
        seen: dict[str, Any] = {}  # name: storage
        storages: set[Any] = set()
        unknown: dict[str, Any] = {}
        for given, tensor in pairs:
            name = given if self._names is None else self._names(given)
            if name is None:
                continue
            key = storage_key(tensor)
            if name in seen:
                raise refuse(name, "it was given twice")
            if layout is None and key is not None and key in storages:
                continue  # tied: the first name counts
            if layout is not None and name not in layout.slots:
                unknown[name] = key
                continue
            seen[name] = key
            storages.add(key)
            served = tensor if self._project is None else self._project(name, tensor)
            source = describe(name, served) if self._native_rank is None else describe_held(name, served)
            if source is not None:
                yield source
        if layout is not None:
            _check_complete(layout, seen, unknown)

    def _commit(
        self, layout: Layout | Share, places: Places, step: int | None, meta: dict[str, str], check: bool
    ) -> Version:
        if isinstance(layout, Layout):
            assert self._native is not None
            return self._told(self._native.publish(layout.directory, places, step, meta, check))
        assert self._native_rank is not None and step is not None
        held = []
        for name, address, nbytes in places:
            slot = layout.slots[name]
            held.append((name, slot.dtype, slot.shape, slot.first_row, slot.rows, address, nbytes))
        return self._told(self._native_rank.publish(held, step, meta, self._rank_deadline_s, check))

    def _told(self, result: _core.PublishResult | _core.RankPublishResult) -> Version:
        version = Version._of(result.manifest)
        for note in result.notes:
            _log.warning("publish version %d of run %s: %s", version.number, self._run, note)
        if isinstance(result, _core.PublishResult) and result.anchor_reason:
            _log.info("version %d of run %s is an anchor: %s", version.number, self._run,
                      result.anchor_reason)
        return version


def _check_complete(layout: Layout, seen: dict[str, Any], unknown: dict[str, Any]) -> None:
    missing = [name for name in layout.slots if name not in seen]
    if missing:
        tied = " (it may be tied to another one: a state_dict has both)" if len(missing) == 1 else ""
        raise refuse(missing[0], f"it is missing, and {len(missing) - 1} others{tied}")
    storages = {key for key in seen.values() if key is not None}
    for name, key in unknown.items():
        if key not in storages:  # else tied: the checkpoint has the other name
            raise refuse(name, "the checkpoint has no such tensor")


class _Batch:
    """Copies of tensors, gathered so that all threads have work. With `keep` the tensors are kept, and compared
    with the copies at the end."""

    def __init__(self, memory: _core.HostMemory, keep: bool) -> None:
        self._memory = memory
        self._keep = keep
        self._spans: list[tuple[int, int, int]] = []
        self._bytes = 0
        self._sources: list[Source] = []  # of the spans
        self._kept: list[tuple[list[tuple[int, int, int]], list[Source]]] = []

    def add(self, source: Source, offset: int, nbytes: int) -> None:
        if source.address is None:
            source.copy(self._memory, offset)
            return
        self._spans.append((offset, source.address, nbytes))
        self._sources.append(source)
        self._bytes += nbytes
        if self._bytes >= _BATCH_BYTES:
            self._copy()

    def finish(self) -> None:
        self._copy()
        for spans, sources in self._kept:
            different = self._memory.find_difference(spans)
            if different >= 0:
                raise ConflictError(
                    f"publish tensor {sources[different].name}: it changed while it was read"
                )

    def _copy(self) -> None:
        self._memory.copy(self._spans)
        if self._keep:
            self._kept.append((self._spans, self._sources))
        self._spans, self._sources, self._bytes = [], [], 0


class _Background:
    """A thread that publishes one version after another, and the memory that they wait in: that of the one it works
    on, and of as many as may wait."""

    def __init__(self, run: str, queue: int) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(1, f"isthmus {run}")
        self._changed = threading.Condition()
        self._left = queue + 1  # pieces of memory that may still be made
        self._free: list[_core.HostMemory] = []
        self._futures: list[concurrent.futures.Future[Version]] = []

    def take_memory(self, size: int, threads: int) -> _core.HostMemory:
        """Waits for memory that nothing reads any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._left)
            if self._free and self._free[-1].size >= size:
                return self._free.pop()
            if self._free:
                self._free.pop()  # too small now: what is made replaces it
            else:
                self._left -= 1
        try:
            return _core.HostMemory(size, threads, True)
        except BaseException:
            with self._changed:
                self._left += 1
            raise

    def give_back(self, memory: _core.HostMemory) -> None:
        with self._changed:
            self._free.append(memory)
            self._changed.notify()

    def submit(self, memory: _core.HostMemory, publish: Callable[[], Version]) -> Pending:
        def work() -> Version:
            try:
                return publish()
            finally:
                self.give_back(memory)

        future = self._executor.submit(work)
        self._futures.append(future)
        return Pending(future)

    def raise_failure(self) -> None:
        """Raises the first failure of what has ended, once."""
        ended: list[concurrent.futures.Future[Version]] = []
        going_on: list[concurrent.futures.Future[Version]] = []
        for future in self._futures:
            (ended if future.done() else going_on).append(future)
        self._futures = going_on
        for future in ended:
            future.result()

    def flush(self) -> None:
        concurrent.futures.wait(self._futures)
        self.raise_failure()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._executor.shutdown()
            self._free.clear()
