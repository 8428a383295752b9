"""Publishing in the background."""

import subprocess
import sys
import threading
import unittest

import isthmus
import numpy
from package import ROOT, PackageTest, arrays
from waiting import Background, wait_until


class Held:
    """The native publisher, whose publishes wait until they are let through; `calls` counts those that came."""

    def __init__(self, native):
        self._native = native
        self._open = threading.Semaphore(0)
        self.calls = 0

    def let_through(self, count):
        self._open.release(count)

    def publish(self, *arguments):
        self.calls += 1
        self._open.acquire()
        return self._native.publish(*arguments)

    def __getattr__(self, name):
        return getattr(self._native, name)


def copies(model):
    return {name: array.copy() for name, array in arrays(model).items()}


class BackgroundTest(PackageTest):
    def held_publisher(self, **options):
        publisher = self.publisher(background=True, **options)
        held = publisher._native = Held(publisher._native)
        self.addCleanup(held.let_through, 100)  # before it is closed, should the test fail
        return publisher, held

    def test_what_is_published_is_what_the_tensors_held_when_publish_returned(self):
        publisher, held = self.held_publisher()
        tensors, pending, wanted = copies(self.model), [], []
        for step in range(2):
            pending.append(publisher.publish(tensors, step=step))
            wanted.append({name: array.tobytes() for name, array in tensors.items()})
            for array in tensors.values():
                array.reshape(-1).view("u1")[:2] ^= 1
        self.assertFalse(pending[0].done())
        held.let_through(2)
        publisher.flush()
        for version, expected in zip((p.result() for p in pending), wanted):
            self.assert_pulls(version, expected)
        self.assertEqual([int(p.result()) for p in pending], [1, 2])

    def test_at_most_queue_versions_wait(self):
        publisher, held = self.held_publisher(queue=2)
        for _ in range(3):  # one in work, two that wait
            publisher.publish(arrays(self.model))
        fourth = Background(publisher.publish, arrays(self.model))
        wait_until(lambda: held.calls == 1, "the first is in work")
        self.assertTrue(fourth.is_alive())
        held.let_through(1)
        pending = fourth.result()  # it found room
        held.let_through(3)
        self.assertEqual(int(pending.result()), 4)

    def test_memory_is_reused(self):
        publisher = self.publisher(background=True)
        publisher.publish(arrays(self.model)).result()
        memory = publisher._background._free[0]
        for _ in range(3):
            self.model.step()
            publisher.publish(arrays(self.model)).result()
            wait_until(lambda: publisher._background._free, "it is given back")
        self.assertEqual([memory.address], [m.address for m in publisher._background._free])

    def test_queue_0_holds_the_checkpoint_once(self):
        publisher = self.publisher(background=True, queue=0)
        for _ in range(3):
            self.model.step()
            publisher.publish(arrays(self.model))
        publisher.flush()
        self.assertEqual(len(publisher._background._free), 1)
        self.assert_pulls(self.board.head("python"))

    def test_what_is_not_contiguous_or_projected_is_published_too(self):
        publisher = self.publisher(background=True, project=lambda name, tensor: tensor.copy())
        spread = arrays(self.model)
        spread["model.embed_tokens.weight"] = numpy.asfortranarray(spread["model.embed_tokens.weight"])
        self.assert_pulls(publisher.publish(spread).result())

    def test_a_failure_is_raised_by_result_and_by_the_next_call(self):
        publisher = self.publisher(background=True)
        publisher.publish(arrays(self.model)).result()
        self.publish_by_program(run="python")
        failed = publisher.publish(arrays(self.model))
        with self.assertRaises(isthmus.ConflictError):
            failed.result()
        with self.assertRaises(isthmus.ConflictError):
            publisher.publish(arrays(self.model))
        publisher.flush()  # it was raised

    def test_a_tensor_that_is_missing_is_refused_at_once(self):
        publisher = self.publisher(background=True)
        tensors = arrays(self.model)
        del tensors["scalar"]
        for _ in range(4):  # no memory is lost by it
            with self.assertRaisesRegex(isthmus.InvalidError, "scalar: it is missing"):
                publisher.publish(tensors)
        publisher.publish(arrays(self.model)).result()

    def test_result_waits_no_longer_than_it_is_told(self):
        publisher, held = self.held_publisher()
        pending = publisher.publish(arrays(self.model))
        with self.assertRaisesRegex(isthmus.NotReadyError, "not done after 0.01 s"):
            pending.result(0.01)
        held.let_through(1)
        self.assertEqual(int(pending.result()), 1)

    def test_leaving_the_block_waits(self):
        with self.publisher(background=True) as publisher:
            pending = publisher.publish(arrays(self.model))
        self.assertTrue(pending.done())

    def test_a_process_that_ends_publishes_what_waits(self):
        code = ("import sys; sys.path.insert(0, sys.argv[2]); import pathlib, isthmus, numpy, package\n"
                "start = pathlib.Path(sys.argv[1]) / 'start'\n"
                "tensors = {n: numpy.frombuffer(c, 'u1').view(package.NUMPY[package.SHAPES[n][0]])"
                ".reshape(package.SHAPES[n][1]) for n, c in package.read_tensors(start).items()}\n"
                "publisher = isthmus.Publisher(sys.argv[1] + '/board', 'python', background=True, "
                "checkpoint=start, baseline=sys.argv[1] + '/baseline')\n"
                "publisher.publish(tensors); publisher.publish(tensors)\n")
        self.model.write_checkpoint(self.dir / "start")
        subprocess.run([sys.executable, "-c", code, self.dir, ROOT / "tests" / "python"], check=True)
        self.assertEqual(int(self.board.head("python")), 2)


class CheckTest(PackageTest):
    """A tensor that changes while it is read is noticed."""

    def test_in_the_background(self):
        tensors = copies(self.model)

        def changing():
            """Changes a tensor when it was copied, or soon will be."""
            yield from tensors.items()
            tensors["model.norm.weight"][5] ^= 1

        publisher = self.publisher(background=True, check=True)
        publisher.publish(tensors).result()
        from isthmus import publishing

        batch_bytes, publishing._BATCH_BYTES = publishing._BATCH_BYTES, 1  # copies each at once
        self.addCleanup(setattr, publishing, "_BATCH_BYTES", batch_bytes)
        with self.assertRaisesRegex(isthmus.ConflictError, "model.norm.weight: it changed while"):
            publisher.publish(changing())
        self.assertEqual(int(publisher.publish(tensors).result()), 2)

    def test_a_blocking_publish_that_nobody_disturbs(self):
        publisher = self.publisher(check=True)
        for _ in range(2):
            self.model.step()
            self.assert_pulls(publisher.publish(arrays(self.model)))


if __name__ == "__main__":
    unittest.main()
