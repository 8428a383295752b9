"""Publishing from memory: the versions and the bytes are those of the program on the same checkpoint."""

import os
import signal
import threading
import unittest

import isthmus
import ml_dtypes
import numpy
from package import PackageTest, arrays


class PublishingTest(PackageTest):
    def test_versions_and_patches_are_those_of_the_program(self):
        publisher = self.publisher()
        for step in range(3):
            version = publisher.publish(arrays(self.model), step=step, meta={"lr": 1e-6, "note": "x"})
            reference = self.publish_by_program()
            self.assertEqual(version.number, step + 1)
            self.assertEqual((version.digest, version.changed), (reference.digest, reference.changed))
            self.assertEqual(self.parts_of(version), self.parts_of(reference))
            self.assertEqual((version.step, version.meta), (step, {"lr": "1e-06", "note": "x"}))
            self.assertEqual(version, self.board.head("python"))
            self.assert_pulls(version)
            self.model.step()

    def test_pairs_and_a_generator_will_do(self):
        publisher = self.publisher()
        publisher.publish(list(arrays(self.model).items()))
        self.model.step()
        self.assert_pulls(publisher.publish(item for item in arrays(self.model).items()))

    def test_a_checkpoint_directory_can_be_published_in_between(self):
        publisher = self.publisher()
        publisher.publish(arrays(self.model))
        self.model.step()
        source = self.model.write_checkpoint(self.dir / "source")
        self.assert_pulls(publisher.publish_checkpoint(source, step=5))
        self.model.step()
        version = publisher.publish(arrays(self.model))
        self.assertEqual(version.kind, "patch")
        self.assert_pulls(version)

    def test_a_second_session_goes_on_with_the_log(self):
        with self.publisher() as publisher:
            publisher.publish(arrays(self.model))
        self.model.step()
        version = self.publisher().publish(arrays(self.model))
        self.assertEqual((version.number, version.kind), (2, "patch"))

    def test_dtypes_of_ml_dtypes_and_bits_are_the_same(self):
        typed = arrays(self.model)
        for name, dtype in (("model.embed_tokens.weight", ml_dtypes.bfloat16),
                            ("model.layers.0.weight", ml_dtypes.float8_e4m3fn)):
            typed[name] = typed[name].view(dtype)
        publisher = self.publisher()
        publisher.publish(arrays(self.model))
        self.assertEqual(publisher.publish(typed).changed, 0)

    def test_what_is_not_contiguous_is_copied_exactly(self):
        spread = arrays(self.model)
        weight = spread["model.embed_tokens.weight"]
        spread["model.embed_tokens.weight"] = numpy.asfortranarray(weight)
        spread["model.norm.weight"] = numpy.repeat(spread["model.norm.weight"], 3)[::3]
        self.assertFalse(spread["model.norm.weight"].flags.c_contiguous)
        publisher = self.publisher()
        self.assert_pulls(publisher.publish(spread))
        self.model.step()
        changed = dict(arrays(self.model))
        changed["model.embed_tokens.weight"] = changed["model.embed_tokens.weight"][::-1][::-1]
        self.assert_pulls(publisher.publish(changed))

    def test_broadcast_arrays_are_spread_out(self):
        self.model.content["model.norm.weight"][:] = b"\x12\x34" * 900
        stretched = arrays(self.model)
        stretched["model.norm.weight"] = numpy.broadcast_to(numpy.uint16(0x3412), (900,))
        self.assert_pulls(self.publisher().publish(stretched))

    def test_other_libraries_lend_their_arrays_by_dlpack(self):
        class Lent:
            """An array that nobody can take for numpy's."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        publisher = self.publisher()
        self.assert_pulls(publisher.publish({n: Lent(a) for n, a in arrays(self.model).items()}))
        gaps = {n: Lent(a) for n, a in arrays(self.model).items()}
        gaps["model.norm.weight"] = Lent(numpy.zeros(1800, "u2")[::2])
        with self.assertRaisesRegex(isthmus.InvalidError, "model.norm.weight: it is not contiguous"):
            publisher.publish(gaps)

    def test_names_and_projections(self):
        def names(name):
            return None if name.endswith(".momentum") else name.removeprefix("module.")

        def project(name, tensor):
            # The scale is trained in double precision.
            return tensor.astype("f4") if name == "model.layers.0.scale" else tensor

        scale = numpy.linspace(0, 1, 40)
        trained = {f"module.{name}": array for name, array in arrays(self.model).items()}
        trained["module.model.layers.0.scale"] = scale
        trained["module.model.layers.0.scale.momentum"] = scale
        version = self.publisher(names=names, project=project).publish(trained)
        self.model.content["model.layers.0.scale"][:] = scale.astype("f4").tobytes()
        self.assert_pulls(version)

    def test_tied_weights_are_published_under_the_checkpoints_name(self):
        tied = arrays(self.model)
        tied["lm_head.weight"] = tied["model.embed_tokens.weight"]
        self.assert_pulls(self.publisher().publish(tied))
        tied["lm_head.weight"] = tied["model.embed_tokens.weight"].copy()
        with self.assertRaisesRegex(isthmus.InvalidError, "lm_head.weight: the checkpoint has no such"):
            self.publisher("other").publish(tied)

    def test_refusals_name_the_tensor(self):
        good = arrays(self.model)
        weight = "model.norm.weight"
        cases = {
            "model.norm.weight: it is missing": {n: a for n, a in good.items() if n != weight},
            "other: the checkpoint has no such tensor": good | {"other": numpy.zeros(3)},
            r"F32 \[900\], the checkpoint has BF16 \[900\]": good | {weight: numpy.zeros(900, "f4")},
            r"U16 \[899\], the checkpoint has BF16": good | {weight: numpy.zeros(899, "u2")},
            "I16": good | {weight: numpy.zeros(900, "i2")},
            "no dtype": good | {weight: numpy.zeros(900, ">u2")},
            "no dtype dtype": good | {weight: numpy.zeros(900, object)},
            "masked array": good | {weight: numpy.ma.zeros(900, "u2")},
            "a list, expected": good | {weight: [0] * 900},
            "it was given twice": [*good.items(), (weight, good[weight])],
        }
        publisher = self.publisher()
        first = publisher.publish(good)
        for message, tensors in cases.items():
            with self.subTest(message), self.assertRaisesRegex(isthmus.InvalidError, message):
                publisher.publish(tensors)
        self.assertEqual(self.board.head("python"), first)

    def test_arguments_that_contradict_each_other_are_refused(self):
        with self.assertRaisesRegex(isthmus.InvalidError, "checkpoint and files"):
            isthmus.Publisher(self.board, "run", checkpoint=self.dir, files=self.dir)
        with self.assertRaisesRegex(isthmus.InvalidError, "a queue of -1"):
            isthmus.Publisher(self.board, "run", background=True, queue=-1)
        with self.publisher() as publisher:
            publisher.publish(arrays(self.model))
        with self.assertRaisesRegex(isthmus.InvalidError, "in the same place"):
            isthmus.Publisher(self.board, "new", checkpoint=self.dir / "start",
                              baseline=self.dir / "start" / "below").publish(arrays(self.model))
        with self.assertRaisesRegex(isthmus.InvalidError, "follows run python"):
            isthmus.Publisher(self.board, "other", baseline=self.dir / "baseline-python")

    def test_without_a_checkpoint_the_package_lays_the_tensors_out(self):
        files = self.dir / "files"
        (files / "sub").mkdir(parents=True)
        (files / "config.json").write_text("{}")
        (files / "sub" / "vocab.txt").write_text("a b")
        (files / "model.safetensors").write_text("old weights")
        (files / ".hidden").write_text("x")
        typed = {n: numpy.asarray(a) for n, a in arrays(self.model).items()}
        version = self.publisher(files=files).publish(typed)
        self.assert_pulls(version)
        pulled = {str(p.relative_to(self.dir / "replica-python"))
                  for p in (self.dir / "replica-python").rglob("*") if p.is_file()}
        self.assertEqual({p for p in pulled if not p.startswith(".")},
                         {"config.json", "sub/vocab.txt", "model.safetensors"})
        self.model.step()
        with self.publisher("again", files=files) as again:
            again.publish(typed)
            self.model.step()
            self.assertEqual(again.publish(arrays(self.model)).kind, "patch")

    def test_another_writer_is_a_conflict_and_a_new_publisher_goes_on(self):
        ours = self.publisher()
        ours.publish(arrays(self.model))
        self.model.step()
        self.publish_by_program(run="python")
        self.model.step()
        with self.assertRaises(isthmus.ConflictError):
            ours.publish(arrays(self.model))
        ours.close()
        version = self.publisher().publish(arrays(self.model))
        self.assertEqual(version.number, 3)
        self.assert_pulls(version)

    def test_a_closed_publisher_says_so(self):
        publisher = self.publisher()
        publisher.close()
        with self.assertRaisesRegex(isthmus.InvalidError, "it was closed"):
            publisher.publish(arrays(self.model))


class InterruptedTest(PackageTest):
    """Ctrl-C while a publish is under way, at many moments."""

    def test_the_board_is_whole_and_the_next_publish_works(self):
        publisher = self.publisher()
        publisher.publish(arrays(self.model))
        interrupted = 0
        for attempt in range(30):
            self.model.step(one_in=50)
            head = self.board.head("python").number
            timer = threading.Timer(attempt * 0.004, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                publisher.publish(arrays(self.model))
                while True:  # the signal comes here, if it did not before
                    timer.join(0.05)
            except KeyboardInterrupt:
                interrupted += 1
            timer.join()
            self.assertIn(self.board.head("python").number, (head, head + 1))
            self.assertEqual(isthmus.verify(self.dir / "baseline-python"), None)
        self.assertEqual(interrupted, 30)
        self.model.step()
        self.assert_pulls(publisher.publish(arrays(self.model)))


class ForkedTest(PackageTest):
    def test_a_child_is_refused_and_hurts_nothing(self):
        publisher = self.publisher()
        publisher.publish(arrays(self.model))
        replica = isthmus.Replica(self.dir / "replica")
        self.addCleanup(replica.close)
        calls = [lambda: publisher.publish(arrays(self.model)), replica.verify,
                 lambda: replica.pull(self.board, "python"), self.board.runs]
        child = os.fork()
        if child == 0:
            refused = 0
            for call in calls:
                try:
                    call()
                except isthmus.InvalidError as error:
                    refused += "after a fork make a new one" in str(error)
            own = isthmus.Board(self.dir / "board").runs() == ["python"]
            del publisher, replica, calls
            os._exit(0 if refused == 4 and own else 1)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.model.step()
        self.assert_pulls(publisher.publish(arrays(self.model)))

    def test_a_lock_does_not_outlive_close_in_a_child(self):
        replica = isthmus.Replica(self.dir / "replica")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the parent is done
            os._exit(0)
        os.close(read)
        replica.close()
        isthmus.Replica(self.dir / "replica").close()
        os.close(write)
        os.waitpid(child, 0)


if __name__ == "__main__":
    unittest.main()
