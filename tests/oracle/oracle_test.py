#!/usr/bin/env python3
"""The oracle against the golden vectors, and the program `isthmus` against both.

The classes named *Program* run the program that the environment variable ISTHMUS_BIN names. Pairs
of checkpoints are drawn from the seed in ISTHMUS_TEST_SEED, printed at the start.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]

import numpy  # noqa: E402
from checkpoint import (  # noqa: E402
    DTYPE_IDS, DTYPES, INDEX, Checkpoint, data_bytes, make_index, make_shard, read_checkpoint,
    write_files,
)  # fmt: skip
from golden import GOLDEN, ROOT, must_decode, must_fail, read_tree  # noqa: E402
from layout import CHUNK_UNITS, mix, unit_bytes  # noqa: E402
from make_vectors import LIBRARY_FRAMES, write_vectors  # noqa: E402
from must_decode import plain  # noqa: E402
from must_decode_layout import TWO_CHUNKS, two_chunks  # noqa: E402
from patch_oracle import Refused, apply_parts, apply_to, main, read_part  # noqa: E402
from patch_writer import CONTEXT, DIRECT, RAW, XOR, File, Part, Tensor  # noqa: E402

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", "20250611"))
EXIT_CODES = {"corrupt": 5, "newer": 2}  # of the program, for the reasons to refuse a part


def setUpModule():
    print(f"ISTHMUS_TEST_SEED={SEED}", file=sys.stderr)


class ScratchTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="isthmus-oracle-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def assert_same_files(self, found, want):
        """Two {path: content}, compared without printing the content."""
        self.assertEqual(sorted(found), sorted(want))
        self.assertEqual([path for path in want if found[path] != want[path]], [])

    def assert_refused(self, reason, parts, base):
        with self.assertRaises(Refused) as caught:
            apply_to([read_part(data) for data in parts], base)
        self.assertEqual(caught.exception.reason, reason)


class OracleTest(ScratchTest):
    def test_must_decode_gives_what_is_expected(self):
        for vector in must_decode():
            with self.subTest(vector.name):
                base = self.scratch / vector.name / "base"
                write_files(read_tree(vector / "base"), base)
                out = self.scratch / vector.name / "out"
                apply_parts([read_part((vector / "patch.part").read_bytes())], base, out)
                self.assert_same_files(read_tree(out), read_tree(vector / "expected"))

    def test_must_fail_is_refused_with_its_reason_at_its_stage(self):
        for name, verdict in must_fail().items():
            with self.subTest(name, why=verdict["why"]):
                data = (GOLDEN / "must-fail" / f"{name}.part").read_bytes()
                stage = "read"
                with self.assertRaises(Refused) as caught:
                    part, stage = read_part(data), "apply"
                    apply_to([part], read_checkpoint(GOLDEN / verdict["base"]))
                found = (caught.exception.reason, stage)
                self.assertEqual(found, (verdict["reason"], verdict["stage"]))

    def test_every_must_fail_part_has_a_verdict(self):
        found = {path.stem for path in (GOLDEN / "must-fail").glob("*.part")}
        self.assertEqual(found, set(must_fail()))

    def test_every_part_that_is_cut_or_longer_is_refused(self):
        old, _, part = plain()
        data = part.write()
        for size in range(len(data)):
            self.assert_refused("corrupt", [data[:size]], old)
        self.assert_refused("corrupt", [data + b"\0"], old)

    def test_every_changed_bit_is_noticed(self):
        """Save in the frames of files: zstd ignores a bit there, and only content is hashed."""
        old, _, part = plain()
        data = part.write()
        frames_bytes = sum(len(file.payload()) for file in part.files)
        for at in range(8 * (len(data) - frames_bytes)):
            changed = bytearray(data)
            changed[at // 8] ^= 1 << at % 8
            in_major_version = at // 8 in (8, 9)
            self.assert_refused("newer" if in_major_version else "corrupt", [bytes(changed)], old)

    def test_golden_vectors_are_what_make_vectors_writes(self):
        write_vectors(self.scratch)
        made, stored = read_tree(self.scratch), read_tree(GOLDEN)
        skipped = {f"must-decode/{name}/patch.part" for name in LIBRARY_FRAMES}
        sources = {path for path in stored if path.endswith((".py", ".pyc", ".md"))}
        want = {path: stored[path] for path in stored.keys() - sources}
        self.assertEqual(sorted(made), sorted(want))
        self.assertEqual([p for p in want if made[p] != want[p] and p not in skipped], [])

    def test_golden_vectors_stay_small(self):
        files = [path for path in GOLDEN.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        self.assertLess(sum(path.stat().st_size for path in files), 1_000_000)


class PartsTest(ScratchTest):
    """A tensor of two chunks, spread over two parts of one patch."""

    def setUp(self):
        super().setUp()
        self.old, self.new, whole = two_chunks()
        self.parts = []
        for number, chunk in enumerate(whole.chunks):
            changed = {at: v for at, v in TWO_CHUNKS.items() if at // CHUNK_UNITS == number}
            values = numpy.array(list(changed.values()), numpy.uint64)  # the old units are 0
            sum_change = int((mix(numpy.array(list(changed))) * values).sum())
            fields = {"changed": len(changed), "sum_change": sum_change}
            entry = Tensor(**vars(whole.tensors[0]) | fields)
            model = whole.models[chunk.model]
            chunk.model = 0
            self.parts.append(Part([entry], [model], [chunk], [], whole.base, whole.target))

    def test_parts_give_the_whole_in_either_order(self):
        parts = [read_part(part.write()) for part in self.parts]
        for order in (parts, parts[::-1]):
            self.assert_same_files(apply_to(order, self.old).files, self.new.files)

    def test_one_of_the_parts_alone_is_refused(self):
        for part in self.parts:
            self.assert_refused("corrupt", [part.write()], self.old)

    def test_a_chunk_in_two_parts_is_refused(self):
        parts = [self.parts[number].write() for number in (0, 1, 1)]
        self.assert_refused("corrupt", parts, self.old)

    def test_entries_in_one_of_the_parts_only_add_up_too(self):
        first, second = self.parts
        first.tensors[0].sum_change += second.tensors.pop().sum_change
        parts = [read_part(part.write()) for part in self.parts]
        self.assert_same_files(apply_to(parts, self.old).files, self.new.files)

    def test_sums_that_do_not_add_up_are_refused(self):
        self.parts[1].tensors[0].sum_change += 1
        self.assert_refused("corrupt", [part.write() for part in self.parts], self.old)

    def test_a_file_in_two_parts_is_refused(self):
        for part in self.parts:
            part.files = [File(b"notes.txt", 0, b"new")]
        self.assert_refused("corrupt", [part.write() for part in self.parts], self.old)


class OracleCommandTest(ScratchTest):
    def test_exit_codes_are_those_of_the_program(self):
        good, bad = GOLDEN / "must-decode" / "plain", GOLDEN / "must-fail"
        base, out = str(good / "base"), str(self.scratch / "out")
        with open(os.devnull, "w") as null:
            stdout, stderr = sys.stdout, sys.stderr
            sys.stdout = sys.stderr = null
            try:
                self.assertEqual(main(["apply", str(good / "patch.part"), base, out]), 0)
                self.assertEqual(main(["inspect", str(bad / "magic.part")]), 5)
                self.assertEqual(main(["inspect", str(bad / "major-2.part")]), 2)
                self.assertEqual(main(["inspect", str(good / "patch.part")]), 0)
                self.assertEqual(main(["table", base]), 0)
                self.assertEqual(main(["table", str(self.scratch / "nowhere")]), 3)
                self.assertEqual(main(["apply", base]), 2)
            finally:
                sys.stdout, sys.stderr = stdout, stderr
        self.assert_same_files(read_tree(self.scratch / "out"), read_tree(good / "expected"))


class ProgramTest(ScratchTest):
    def setUp(self):
        super().setUp()
        self.program = os.environ.get("ISTHMUS_BIN")
        self.assertTrue(self.program, "ISTHMUS_BIN must name the program isthmus")

    def run_program(self, *arguments):
        command = [self.program, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, errors="replace")

    def assert_done(self, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")


class ProgramGoldenTest(ProgramTest):
    def test_must_decode_gives_what_is_expected(self):
        for vector in must_decode():
            with self.subTest(vector.name):
                patch = vector / "patch.part"
                self.assert_done("inspect", patch)
                if read_part(patch.read_bytes()).stated:  # others are for boards, not for files
                    self.apply_both_ways(vector, patch)

    def apply_both_ways(self, vector, patch):
        base, out = self.scratch / vector.name, self.scratch / f"{vector.name}.out"
        expected = read_tree(vector / "expected")
        write_files(read_tree(vector / "base"), base)
        self.assert_done("apply", patch, base, "-o", out)
        self.assert_same_files(read_tree(out), expected)
        self.assert_same_files(read_tree(base), read_tree(vector / "base"))
        self.assert_done("apply", patch, base)
        self.assert_same_files(read_checkpoint(base).files, expected)

    def test_must_fail_is_refused_and_nothing_is_touched(self):
        verdicts = must_fail()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(self.refuse, verdicts, verdicts.values()))
        for name, verdict, (done, problems) in zip(verdicts, verdicts.values(), found):
            with self.subTest(name, why=verdict["why"]):
                for call in done:
                    self.assertEqual(call.returncode, EXIT_CODES[verdict["reason"]], call)
                    last_line = call.stderr.rstrip("\n").split("\n")[-1]
                    self.assertTrue(last_line.startswith("isthmus: "), call)
                self.assertEqual(problems, [])

    def test_must_fail_is_refused_without_its_base_if_it_can_be(self):
        for name, verdict in must_fail().items():
            with self.subTest(name, why=verdict["why"]):
                call = self.run_program("inspect", GOLDEN / "must-fail" / f"{name}.part")
                self.assertEqual(call.returncode == 0, verdict["stage"] == "apply", call)

    def refuse(self, name, verdict):
        """([the two calls, into a new directory and in place], [what they touched])"""
        folder = self.scratch / name
        base, part = folder / "base", GOLDEN / "must-fail" / f"{name}.part"
        write_files(read_tree(GOLDEN / verdict["base"]), base)
        before, done, problems = visible(base), [], []
        for options in (["-o", folder / "out"], []):
            done.append(self.run_program("apply", part, base, *options))
            touched = {path for path, _ in visible(base).items() ^ before.items()}
            if touched or os.listdir(folder) != ["base"]:
                left = sorted(touched), os.listdir(folder)
                problems.append(f"apply {options}: touched or left behind: {left}")
        return done, problems


def visible(directory):
    """{path: content, None for a folder}, without names that begin with a dot."""
    found = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory)
        if not any(part.startswith(".") for part in name.parts):
            found[name.as_posix()] = None if path.is_dir() else path.read_bytes()
    return found


class ProgramRoundTripTest(ProgramTest):
    """isthmus diff, then the oracle's and the program's apply: NEW again, byte for byte."""

    # What may come out: a payload that would exceed its limit (section 2.1) leaves raw only.
    ENCODINGS = {
        "context": {CONTEXT, RAW}, "direct": {DIRECT, RAW}, "xor": {XOR, RAW}, "raw": {RAW},
        "auto": {RAW, XOR, DIRECT, CONTEXT},
    }  # fmt: skip

    def round_trips(self, old, new):
        old_checkpoint, new_checkpoint = read_checkpoint(old), read_checkpoint(new)
        for encoding, ids in self.ENCODINGS.items():
            with self.subTest(encoding, old=str(old)):
                patch, out = self.scratch / f"{encoding}.part", self.scratch / f"{encoding}.out"
                self.assert_done("diff", old, new, "-o", patch, "--encoding", encoding)
                part = read_part(patch.read_bytes())
                self.assertLessEqual({chunk.encoding for chunk in part.chunks}, ids)
                self.assertEqual(part.base, old_checkpoint.version())
                self.assertEqual(part.target, new_checkpoint.version())
                result = apply_to([part], old_checkpoint)
                self.assert_same_files(result.files, new_checkpoint.files)
                self.assert_done("apply", patch, old, "-o", out)
                self.assert_same_files(read_tree(out), new_checkpoint.files)
                shutil.rmtree(out)

    def drawn(self, density, large):
        pair = drawn_pair(numpy.random.default_rng([SEED, int(density * 10**6)]), density, large)
        for side, checkpoint in zip(("old", "new"), pair):
            write_files(checkpoint.files, self.scratch / side)
        self.round_trips(self.scratch / "old", self.scratch / "new")

    def test_one_unit_in_ten_thousand(self):
        self.drawn(0.0001, LARGE)

    def test_one_percent(self):
        self.drawn(0.01, LARGE)

    def test_thirty_percent(self):
        self.drawn(0.3, FEWER)

    def test_every_unit(self):
        self.drawn(1.0, FEWER)

    def test_nothing(self):
        self.drawn(0.0, FEWER)

    def test_real_training_steps(self):
        unpack = [sys.executable, ROOT / "testdata" / "unpack.py", self.scratch / "data"]
        subprocess.run(unpack, check=True)
        for view in ("bf16", "fp8"):
            steps = self.scratch / "data" / view
            self.round_trips(steps / "step-37", steps / "step-38")

    def test_golden_pairs(self):
        for vector in must_decode():
            pair = [self.scratch / vector.name / side for side in ("base", "expected")]
            for side in pair:
                write_files(read_tree(vector / side.name), side)
            self.round_trips(*pair)


SMALL = (1, 7, 300)  # units of tensors that every dtype has, in each of three layers
LARGE = {  # units of further tensors: around the size from which they are no more in pools
    "F8_E4M3": (2**20 - 1, 2**20, 2**20 + 1), "BF16": (2**20 - 200, 2**21 + 9), "F4": (2**20,),
    "F32": (2**20 + 1,), "F64": (2**19, 2**20 + 2),
}  # fmt: skip
FEWER = {"BF16": (20_000,), "F4": (30_000,), "F32": (9_000,)}  # the oracle takes long for changes


def drawn_pair(rng, density, large):
    """Two checkpoints of two shards; `density` of the units differ, none in one layer of three."""
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    sides = [{file: {} for file in files} for _ in range(2)]
    for dtype, _ in DTYPES.values():
        units_of_tensors = [(f"layers.{layer}", units) for layer in (0, 1, 10) for units in SMALL]
        units_of_tensors += [("large", units) for units in large.get(dtype, ())]
        for at, (group, units) in enumerate(units_of_tensors):
            dims, w = drawn_dims(dtype, units)
            before = rng.integers(0, 256, data_bytes(dtype, dims), numpy.uint8).view(f"<u{w}")
            after = drawn_change(rng, before, 0 if group == "layers.1" else density)
            for side, data in zip(sides, (before, after)):
                side[files[at % 2]][f"{group}.{dtype}.{units}"] = (dtype, dims, data.tobytes())
    contents = [{f: make_shard(tensors) for f, tensors in side.items()} for side in sides]
    return [Checkpoint(content | {INDEX: make_index(sides[0])}) for content in contents]


def drawn_dims(dtype, units):
    """(dims of about that many units, bytes of a unit)"""
    id_ = DTYPE_IDS[dtype]
    dims = {4: (units, 2), 6: (-(-units // 3), 4), 64: (-(-units // 2),)}
    return dims.get(DTYPES[id_][1], (units,)), unit_bytes(id_)


def drawn_change(rng, units, density):
    """A copy with `density` of the units changed, nine of ten of them by one."""
    top = int(numpy.iinfo(units.dtype).max)
    positions = numpy.flatnonzero(rng.random(len(units)) < density)
    near = numpy.where(rng.random(len(positions)) < 0.5, 1, top)
    far = rng.integers(1, top, len(positions), endpoint=True)
    by = numpy.where(rng.random(len(positions)) < 0.9, near, far)
    out = units.copy()
    out[positions] += by.astype(units.dtype)
    return out


if __name__ == "__main__":
    unittest.main()
