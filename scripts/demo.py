#!/usr/bin/env python3
"""Publishes real and generated checkpoints to a board, pulls them back and compares every byte.

demo.py [--gib N] [--build DIR]

Then two islands, each a sidecar before a reference engine, follow a run while requests name the
versions that may answer them (demo_islands.py). Then a gateway before three islands in two regions, of
which one is killed and another added while requests flow (demo_fleet.py); exits with 1 if one failed.

Two models: the real one of testdata/ and a generated BF16 model of N GiB (default 1; 0 leaves it
out). A first replica follows version by version, a second goes from nothing straight to the latest;
after each pull every file of the source is compared with the replica's by cmp. Prints one table;
exits with 1 if a byte differs. Everything happens in a temporary folder under TMPDIR.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import demo_fleet
import demo_islands

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30
MAKE_MODEL = ROOT / "examples" / "refengine" / "make_model.py"
STEPS = 4  # of each model
# Of the generated model: the steps, the board's anchor, the baseline, the replica, and one copy
# that is being written.
COPIES_ON_DISK = STEPS + 4
REAL_MODEL_BYTES = GIB // 4  # the same for the real model, generously
COLUMNS = ("checkpoint", "version", "elements changed", "density", "checkpoint bytes",
           "patch bytes", "times smaller", "publish s", "pull s", "files")


class DemoError(Exception):
    pass


def note(text):
    print(f"demo: {text}", file=sys.stderr, flush=True)


def call(*command):
    """Runs a program to its end; returns what it printed. Its standard error is ours."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        shown = " ".join(str(c) for c in command)
        raise DemoError(f"exit status {done.returncode} of: {shown}\n{done.stdout}".rstrip())
    return done.stdout


def compare(source, replica):
    """Returns "identical", or what cmp says of the first file that differs."""
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        name = file.relative_to(source)
        done = subprocess.run(["cmp", file, replica / name], capture_output=True, text=True)
        if done.returncode != 0:
            return f"DIFFERS in {name}: {(done.stdout or done.stderr).strip()}"
    return "identical"


class Fleet:
    """One board, its publisher's baseline, and the replicas of one run."""

    def __init__(self, isthmus, folder, run):
        self.isthmus, self.folder, self.run = isthmus, folder, run
        self.board = folder / "board"
        folder.mkdir()
        call(isthmus, "board", "init", self.board)

    def publish(self, checkpoint):
        return json.loads(call(self.isthmus, "publish", checkpoint, "--board", self.board,
                               "--run", self.run, "--baseline", self.folder / "base", "--json"))

    def pull(self, replica, version):
        return json.loads(call(self.isthmus, "pull", "--board", self.board, "--run", self.run,
                               "--replica", self.folder / replica, "--version", version, "--json"))

    def follow(self, checkpoint):
        """Publishes one checkpoint and brings replica R1 to it; returns a row of the table."""
        note(f"{self.run} {checkpoint.name}: publish, pull, compare")
        sent = self.publish(checkpoint)
        got = self.pull("R1", sent["version"])
        anchor = sent.get("parent") is None
        return (
            f"{self.run} {checkpoint.name}", str(sent["version"]),
            "anchor" if anchor else f"{sent['changed']:,}",
            "" if anchor else f"{sent['density']:.4%}",
            *sizes(sent["checkpoint_bytes"], sent["payload_bytes"]),
            f"{sent['seconds']:.2f}", f"{got['seconds']:.2f}",
            compare(checkpoint, self.folder / "R1"),
        ), sent

    def catch_up(self, checkpoint, newest):
        """Brings replica R2 from nothing to the newest version; returns a row of the table."""
        note(f"{self.run} {checkpoint.name}: pull from nothing, compare")
        shutil.rmtree(self.folder / "R1")
        got = self.pull("R2", newest["version"])
        return (
            f"{self.run} {checkpoint.name}", str(newest["version"]), "from nothing", "",
            *sizes(newest["checkpoint_bytes"], got["fetched_bytes"]),
            "", f"{got['seconds']:.2f}", compare(checkpoint, self.folder / "R2"),
        )


def sizes(checkpoint_bytes, patch_bytes):
    return f"{checkpoint_bytes:,}", f"{patch_bytes:,}", f"{checkpoint_bytes / patch_bytes:.1f}"


def play(isthmus, folder, run, checkpoints):
    """Yields the rows of one model."""
    fleet = Fleet(isthmus, folder, run)
    for checkpoint in checkpoints:
        row, newest = fleet.follow(checkpoint)
        yield row
    yield fleet.catch_up(checkpoints[-1], newest)


def real_model(folder):
    call(sys.executable, ROOT / "testdata" / "unpack.py", folder)
    return [folder / "bf16" / f"step-{step}" for step in range(37, 37 + STEPS)]


def generated_model(modelgen, folder, gib):
    note(f"generating {STEPS} steps of a {gib} GiB model")
    call(modelgen, folder, "--bytes", f"{gib}GiB", "--steps", STEPS, "--seed", 7)
    return [folder / f"step-{step}" for step in range(STEPS)]


def print_table(rows, columns=COLUMNS):
    """The first and the last column are text, the others are right-aligned numbers."""
    table = [columns, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns) - 1)]
    for row in table:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:-1], widths[1:]))]
        print("  ".join([*cells, row[-1]]))


def check_space(scratch, gib):
    need, free = COPIES_ON_DISK * gib * GIB + REAL_MODEL_BYTES, shutil.disk_usage(scratch).free
    if free < need:
        raise DemoError(f"{scratch.parent} has {free / GIB:.1f} GiB free, {need / GIB:.1f} are "
                        "needed; set TMPDIR to a roomier place, or use --gib 0")


def demo(build, gib, scratch):
    """Plays both models; returns the rows."""
    check_space(scratch, gib)
    isthmus = build / "isthmus"
    rows = list(play(isthmus, scratch / "minilm", "minilm", real_model(scratch / "real")))
    if gib > 0:
        steps = generated_model(build / "isthmus-modelgen", scratch / "steps", gib)
        rows += play(isthmus, scratch / "generated", "generated", steps)
    return rows


def print_islands(build, scratch):
    """Two islands that follow a run of small checkpoints; see demo_islands.py."""
    note("two islands: sidecars before reference engines, and requests that name versions")
    fleet = Fleet(build / "isthmus", scratch / "islands", "demo")

    def publish(version):
        step = fleet.folder / f"step-{version}"
        call(sys.executable, MAKE_MODEL, step, "--seed", version)
        fleet.publish(step)

    rows, lines = [], []
    for item in demo_islands.play(fleet.isthmus, ROOT, fleet.folder, publish):
        (rows if isinstance(item, tuple) else lines).append(item)
    print()
    print_table(rows, demo_islands.COLUMNS)
    print("\n" + "\n".join(lines))


def print_fleet(build, scratch):
    """A gateway before three islands; see demo_fleet.py. Returns how many requests failed."""
    note("three islands in two regions behind a gateway, requests that flow all the time")
    fleet = Fleet(build / "isthmus", scratch / "fleet", "demo")

    def publish(version):
        step = fleet.folder / f"step-{version}"
        call(sys.executable, MAKE_MODEL, step, "--seed", version)
        fleet.publish(step)

    rows, (lines, failed) = demo_fleet.play(fleet.isthmus, ROOT, fleet.folder, publish, note)
    print()
    print_table(rows, demo_fleet.COLUMNS)
    print("\n" + "\n".join(lines))
    return failed


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=int, default=1, help="size of the generated model; 0: none")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    return parser.parse_args()


def main():
    arguments, start = parse_arguments(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the folder is removed
    with tempfile.TemporaryDirectory(prefix="isthmus-demo-") as scratch:
        rows = demo(arguments.build, arguments.gib, pathlib.Path(scratch))
        print_table(rows)
        print_islands(arguments.build, pathlib.Path(scratch))
        failed = print_fleet(arguments.build, pathlib.Path(scratch))
    print("\npatch bytes: uploaded by publish; of a pull from nothing, the bytes that it fetched. "
          f"{os.cpu_count()} CPUs, {time.monotonic() - start:.0f} s in all.")
    return 0 if failed == 0 and all(row[-1] == "identical" for row in rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (DemoError, demo_islands.IslandError, OSError) as error:
        sys.exit(f"demo: {error}")
