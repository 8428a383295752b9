"""The package's boards, replicas and files, and the program inside it."""

import dataclasses
import datetime
import pathlib
import subprocess
import sys
import unittest

import isthmus
from isthmus import _core, errors
from package import PackageTest, program, program_json


class BoardsTest(PackageTest):
    def test_a_log_says_what_was_published(self):
        before = datetime.datetime.now(datetime.timezone.utc)
        for step in range(3):
            self.model.step()
            self.publish_by_program()
        log = self.board.log("program")
        self.assertEqual([int(version) for version in log], [1, 2, 3])
        self.assertEqual([version.kind for version in log], ["anchor", "patch", "patch"])
        self.assertEqual([version.parent for version in log], [None, 1, 2])
        self.assertEqual(log[-1], self.board.head("program"))
        self.assertEqual(log[1], self.board.version("program", 2))
        self.assertEqual(self.board.log("program", after=2), log[2:])
        self.assertEqual(self.board.runs(), ["program"])
        shown = program_json("log", "--board", self.dir / "board", "--run", "program")["versions"]
        self.assertEqual([v["changed"] for v in shown], [v.changed for v in reversed(log)])
        self.assertGreaterEqual(log[0].created_at, before - datetime.timedelta(milliseconds=1))
        self.assertEqual(log[0].view, "bf16")
        with self.assertRaises(dataclasses.FrozenInstanceError):
            log[0].number = 7

    def test_an_empty_board_has_nothing(self):
        self.assertEqual(self.board.runs(), [])
        self.assertEqual(self.board.log("none"), [])
        self.assertIsNone(self.board.head("none"))
        with self.assertRaisesRegex(isthmus.NotFoundError, "version 1 of run none"):
            self.board.version("none", 1)

    def test_create_keeps_the_board_that_is_there(self):
        self.assertEqual(isthmus.Board(self.dir / "board", create=True).uuid, self.board.uuid)

    def test_failures_are_of_the_table(self):
        with self.assertRaises(isthmus.NotFoundError) as caught:
            isthmus.Board(self.dir / "nowhere")
        self.assertEqual(caught.exception.code, "not_found")
        self.assertIsInstance(caught.exception, LookupError)
        with self.assertRaisesRegex(ValueError, "deadline of -1 s"):
            isthmus.Board(self.dir / "board", deadline_s=-1)
        with self.assertRaises(isthmus.InvalidError):
            isthmus.Board("ftp://nowhere")
        with self.assertRaises(TypeError):
            isthmus.Board(7)
        for code, kind in errors.BY_CODE.items():
            self.assertEqual(kind("text").code, code)
            self.assertEqual(str(kind("text")), "text")

    def test_a_replica_follows_forward_and_back(self):
        for _ in range(3):
            self.model.step()
            self.publish_by_program()
        versions = self.board.log("program")
        with isthmus.Replica(self.dir / "replica") as replica:
            self.assertEqual((replica.version, replica.run, replica.digest), (None, None, None))
            self.assertEqual(replica.pull(self.board, "program"), versions[2])
            self.assertEqual(replica.pull(self.dir / "board", "program", 1), versions[0])
            self.assertEqual((replica.version, replica.run), (1, "program"))
            replica.verify()
            with self.assertRaisesRegex(isthmus.ConflictError, "another process is using it"):
                isthmus.Replica(self.dir / "replica")
            with self.assertRaises(isthmus.NotFoundError):
                replica.pull(self.board, "program", 9)
        with self.assertRaisesRegex(isthmus.InvalidError, "it was closed"):
            replica.verify()
        isthmus.verify(self.dir / "replica")
        isthmus.Replica(self.dir / "replica").close()

    def test_patches_in_files(self):
        old = self.model.write_checkpoint(self.dir / "old")
        self.model.step()
        new = self.model.write_checkpoint(self.dir / "new")
        found = isthmus.diff(old, new, self.dir / "a.patch")
        shown = program_json("diff", old, new, "-o", self.dir / "b.patch")
        self.assertEqual((self.dir / "a.patch").read_bytes(), (self.dir / "b.patch").read_bytes())
        self.assertEqual(found.changed, shown["changed"])
        self.assertEqual(found.patch_bytes, (self.dir / "a.patch").stat().st_size)
        self.assertEqual(found.encodings, shown["encodings"])
        applied = isthmus.apply(self.dir / "a.patch", old, self.dir / "out")
        self.assertEqual(applied.changed, found.changed)
        isthmus.verify(self.dir / "out", new)
        with self.assertRaisesRegex(isthmus.CorruptError, "tensor .* differs") as caught:
            isthmus.verify(old, new)
        self.assertEqual(len(caught.exception.problems), found.tensors_changed)
        isthmus.apply(self.dir / "a.patch", old)
        isthmus.verify(old, new)
        with self.assertRaisesRegex(isthmus.CorruptError, "already the result"):
            isthmus.apply(self.dir / "a.patch", old)

    def test_inspect_says_what_the_command_says(self):
        old = self.model.write_checkpoint(self.dir / "old")
        self.model.step()
        isthmus.diff(old, self.model.write_checkpoint(self.dir / "new"), self.dir / "a.patch")
        self.publish_by_program()
        isthmus.Replica(self.dir / "replica").pull(self.board, "program")
        entry = self.dir / "board/runs/program/log/0000000001.json"
        kinds = {}
        for path in (old, self.dir / "a.patch", self.dir / "board", self.dir / "replica", entry):
            described = isthmus.inspect(path)
            self.assertEqual(described, program_json("inspect", path))
            kinds[described["kind"]] = described
        self.assertEqual(set(kinds), {"checkpoint", "patch", "board", "replica", "manifest"})
        with self.assertRaisesRegex(isthmus.NotFoundError, "inspect .*nothing"):
            isthmus.inspect(self.dir / "nothing")

    def test_the_program_is_in_the_package(self):
        version = program("--version").strip()
        self.assertEqual(version, f"isthmus {isthmus.__version__}")
        script = pathlib.Path(sys.executable).parent / "isthmus"
        shown = subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown.strip(), version)
        program("inspect", self.dir / "nothing", expect=3)

    def test_nothing_of_others_is_imported(self):
        code = ("import sys, isthmus; found = {'numpy', 'torch', 'httpx'} & set(sys.modules); "
                "assert not found, found")
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_the_stub_names_what_the_module_has(self):
        stub = (pathlib.Path(_core.__file__).parent / "_core.pyi").read_text()
        for name in ("class Board", "class Publisher", "class HostMemory", "def write_layout"):
            self.assertIn(name, stub)


if __name__ == "__main__":
    unittest.main()
