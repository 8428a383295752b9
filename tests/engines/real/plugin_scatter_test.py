#!/usr/bin/env python3
"""Boxes, sums and the scatter by themselves: plain tensors, every size of unit, every bit."""

import os
import pathlib
import random
import sys
import tempfile
import unittest
from unittest import mock

import models  # noqa: F401  for the paths
import changes_files
import numpy as np
import torch
from isthmus.vllm import boxes, changes, scatter, units
from isthmus.vllm.boxes import Box
from isthmus.vllm.errors import TransferError
from isthmus.vllm.holdings import Held
from isthmus.vllm.position_map import Place

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", random.randrange(1 << 32)))
DIGESTS = "1" * 64, "2" * 64
DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
          "I64": torch.int64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
          "U8": torch.uint8, "I32": torch.int32, "BOOL": torch.bool}


def setUpModule():
    print(f"ISTHMUS_TEST_SEED={SEED}", file=sys.stderr, flush=True)


class BoxTest(unittest.TestCase):

    def setUp(self):
        self.draw = random.Random(SEED)

    def random_view(self):
        """(a tensor's shape, the view of its positions that a loader could take)"""
        shape = [self.draw.randint(1, 6) for _ in range(self.draw.randint(1, 4))]
        view = torch.arange(int(np.prod(shape))).view(shape)
        for dim, size in enumerate(shape):
            begin = self.draw.randrange(size)
            view = view.narrow(dim, begin, self.draw.randint(1, size - begin))
        return shape, view

    def test_a_box_says_of_each_position_whether_it_is_inside_and_where(self):
        for _ in range(300):
            shape, source = self.random_view()
            order = self.draw.sample(range(source.ndim), source.ndim)
            dest = torch.arange(7, 7 + source.numel()).view([source.shape[i] for i in order])
            dest = dest.permute([order.index(i) for i in range(source.ndim)])
            box = boxes.make(source.storage_offset(), 7, tuple(
                zip(source.shape, source.stride(), dest.stride())))
            expected = dict(zip(source.flatten().tolist(), dest.flatten().tolist()))
            self.assertEqual(box.count, len(expected))
            inside, places = box.locate(torch.arange(-3, int(np.prod(shape)) + 50))
            found = {i - 3: int(places[i]) for i in range(len(places)) if inside[i]}
            self.assertEqual(found, expected)
            again = boxes.factor(torch.tensor(sorted(expected)),
                                 torch.tensor([expected[i] for i in sorted(expected)]))
            if again is not None:  # a slice of a slice may take more than one
                inside, places = again.locate(torch.tensor(sorted(expected)))
                self.assertTrue(inside.all())
                self.assertEqual(places.tolist(), [expected[i] for i in sorted(expected)])

    def test_what_is_not_one_box_is_none(self):
        self.assertIsNone(boxes.make(0, 0, ((4, 0, 1),)))  # one source, four places
        self.assertIsNone(boxes.make(0, 0, ((3, 2, 1), (3, 1, 3))))  # rows that overlap
        self.assertIsNone(boxes.factor(torch.arange(6), torch.tensor([0, 1, 2, 7, 8, 20])))

    def test_sums_are_those_of_the_format(self):
        positions = np.unique(np.random.default_rng(SEED).integers(0, 1 << 40, 1000))
        old, new = (np.random.default_rng(SEED + i).integers(0, 1 << 16, len(positions))
                    .astype(np.uint16) for i in (1, 2))
        step = torch.from_numpy(new.astype(np.int64) - old.astype(np.int64))
        self.assertEqual(f"{units.sum_of(torch.from_numpy(positions), step):016x}",
                         changes_files.sum_change(positions, old, new))


class ScatterTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-scatter-")
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name) / "changes"
        self.random = np.random.default_rng(SEED)

    def bits(self, count, size):
        """Units of any bits: NaN of all kinds, both zeros, what no arithmetic would make."""
        return self.random.integers(0, 256, count * size, np.uint8).view(f"<u{size}")

    def file(self, dtype, elements, old, new):
        entries, described = changes_files.between({"t": (dtype, (elements,), old)},
                                                   {"t": (dtype, (elements,), new)})
        return changes.read(changes_files.write(self.path, entries, described, *DIGESTS))

    def held(self, dtype, elements, units_count, *places):
        return {"t": Held(dtype, (elements,), units_count, places, left_out=False)}

    def test_every_bit_of_every_dtype_arrives_and_goes_back(self):
        for dtype, kind in DTYPES.items():
            for threads in (1, 3):
                with self.subTest(dtype, threads=threads):
                    self.check_dtype(dtype, kind, threads)

    def check_dtype(self, dtype, kind, threads):
        elements, size = 200_000, units.unit_bytes(kind)
        count = elements * kind.itemsize // size
        old = self.bits(count, size)
        new = np.where(self.random.random(count) < 0.9, self.bits(count, size), old)
        memory = torch.from_numpy(np.concatenate([old[:5], old]).copy().view(f"<i{size}")
                                  if size > 1 else np.concatenate([old[:5], old]))
        before = memory.clone()
        place = Place(Box(0, 5, ((count, 1, 1),)), memory, "p")
        update = scatter.Update(self.held(dtype, elements, count, (place, True)),
                                self.file(dtype, elements, old, new), threads)
        update.check_sums([update.prepare()])
        update.apply()
        self.assertTrue(np.array_equal(memory[5:].numpy().view(f"<u{size}"), new))
        self.assertTrue(torch.equal(memory[:5], before[:5]))
        update.undo()
        self.assertTrue(torch.equal(memory, before))

    def slices(self, rows, columns, workers):
        """[(memory, place)] of workers that hold columns of a matrix."""
        width = columns // workers
        return [Place(Box(rank * width, 0, ((rows, columns, width), (width, 1, 1))),
                      torch.zeros(rows * width, dtype=torch.int16), "p") for rank in range(workers)]

    def test_workers_sums_add_up_to_the_files(self):
        rows, columns, workers = 300, 120, 4
        old, new = np.zeros(rows * columns, np.uint16), self.bits(rows * columns, 2)
        file = self.file("BF16", rows * columns, old, new)
        places = self.slices(rows, columns, workers)
        updates = [scatter.Update(self.held("BF16", rows * columns, rows * columns, (place, True)),
                                  file) for place in places]
        parts = [update.prepare() for update in updates]
        for update in updates:
            update.check_sums(parts)
            update.apply()
            with self.assertRaises(TransferError):
                update.check_sums(parts[1:])
        held = np.hstack([place.storage.numpy().view("<u2").reshape(rows, -1) for place in places])
        self.assertTrue(np.array_equal(held.ravel(), new))

    def test_a_write_that_fails_leaves_the_old_bits(self):
        count = 500_000
        old, new = self.bits(count, 2), self.bits(count, 2)
        memory = torch.from_numpy(old.copy().view("<i2"))
        place = Place(Box(0, 0, ((count, 1, 1),)), memory, "p")
        for threads in (1, 2):
            update = scatter.Update(self.held("BF16", count, count, (place, True)),
                                    self.file("BF16", count, old, new), threads)
            update.check_sums([update.prepare()])
            with mock.patch.object(scatter, "_write_new", self.failing(9, scatter._write_new)):
                with self.assertRaises(OSError):
                    update.apply()
            self.assertTrue(np.array_equal(memory.numpy().view("<u2"), old))


    @staticmethod
    def failing(count, write_new):
        left = iter(range(count))

        def write(write):
            if next(left, None) is None:
                raise OSError("a write that the test lets fail")
            write_new(write)

        return write

    def test_large_tensors_have_wide_positions(self):
        described = {"t": ["U8", [1 << 16, 1 << 16], "0" * 16]}
        for dtype, taken in ((np.uint64, True), (np.uint32, False)):
            entries = {"p:t": np.array([5], dtype), "b:t": np.array([1], np.uint8)}
            path = changes_files.write(self.path, entries, described, *DIGESTS)
            if taken:
                self.assertEqual(changes.read(path).tensors["t"].units, 1 << 32)
            else:
                with self.assertRaises(TransferError):
                    changes.read(path)


class MemoryTest(unittest.TestCase):

    def test_what_an_update_keeps_is_bounded_by_what_changes(self):
        """Places of 8 bytes and old bits of 2; new bits stay in the mapped file."""
        count = 1 << 20
        old, new = np.zeros(count, np.uint16), np.ones(count, np.uint16)
        with tempfile.TemporaryDirectory() as folder:
            entries, described = changes_files.between({"t": ("BF16", (count,), old)},
                                                       {"t": ("BF16", (count,), new)})
            file = changes.read(changes_files.write(pathlib.Path(folder) / "changes", entries,
                                                    described, *DIGESTS))
            place = Place(Box(0, 0, ((count, 1, 1),)), torch.zeros(count, dtype=torch.int16), "p")
            update = scatter.Update({"t": Held("BF16", (count,), count, ((place, True),), False)},
                                    file)
            update.prepare()
            kept = sum(write.places.nbytes + write.old.nbytes for write in update._writes)
            self.assertEqual(kept, 10 * count)
            shared = {write.new.untyped_storage().data_ptr() for write in update._writes}
            self.assertEqual(shared, {file.tensors["t"].bits.untyped_storage().data_ptr()})


if __name__ == "__main__":
    unittest.main()
