#!/usr/bin/env python3
"""Times publishing a step of a large model from many ranks beside publishing it from one process.

ranks_job.py [--gib N] [--ranks N] [--runs N] [--folder DIR] [--build DIR]

Generates two steps of a BF16 model that differ in about 1 % of its elements, whole and cut by rows into
the shares of N ranks, as fully sharded data parallelism cuts it. Each round publishes the other of the
two steps to a board in a directory: from one process with N threads, and from N processes with one thread
each, in either order. Prints CSV: medians, and the median of the rounds' ratios. The ranks share this
machine's cores, so their speed over that of one process says what meeting costs, not what they gain.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import main_job

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import shares as sharing  # noqa: E402

COPIES = 8  # two steps, whole and in shares; of each board an anchor and the baselines


def row(case, metric, value, unit):
    print(f"ranks,{case},{metric},{value:.4g},{unit},,")


class Run:
    """A board with the first step on it."""

    def __init__(self, scene, name):
        self.scene, self.board, self.name = scene, scene.folder / f"board-{name}", name
        self.published, self.seconds = 0, []
        main_job.call(scene.isthmus, "board", "init", self.board)
        main_job.call(*self.command(scene.steps[0], "whole"))

    def command(self, source, baseline, *more):
        return [self.scene.isthmus, *more, "publish", source, "--board", self.board, "--run", "bench",
                "--baseline", self.scene.folder / f"baseline-{self.name}-{baseline}", "--json"]

    def publish(self, ranks, shares):
        self.published += 1
        step = self.published % 2
        commands = [self.command(self.scene.steps[step], "whole", "--threads", ranks)]
        if shares:
            commands = [[*self.command(share, rank, "--threads", 1), "--rank", rank, "--ranks", ranks,
                         "--step", self.published] for rank, share in enumerate(shares[step])]
        start = time.perf_counter()
        running = [subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True)
                   for command in commands]
        said = [process.communicate()[0] for process in running]
        self.seconds.append(time.perf_counter() - start)
        if any(process.returncode for process in running):
            raise main_job.BenchError(f"ranks ended with {[p.returncode for p in running]}")
        return [json.loads(text) for text in said]


def report(one, many, whole, shares):
    size, ranks = whole["checkpoint_bytes"], len(shares)
    print("bench,case,metric,value,unit,target,met")
    row(f"{ranks} ranks", "speed", size / statistics.median(many.seconds) / 1e9, "GB/s")
    row(f"{ranks} ranks", "speed / that of one process on the same cores",
        statistics.median(a / b for a, b in zip(one.seconds, many.seconds)), "ratio")
    row(f"{ranks} ranks", "patch / that of one process",
        shares[0]["payload_bytes"] / whole["payload_bytes"], "ratio")
    row(f"{ranks} ranks", "sent between ranks / patch",
        sum(share["sent_bytes"] for share in shares) / shares[0]["payload_bytes"], "ratio")
    row(f"{ranks} ranks", "largest baseline / an equal share",
        max(share["baseline_bytes"] for share in shares) / (size / ranks), "ratio")


def run(arguments, folder):
    scene = main_job.Scene(arguments.build, folder)
    scene.generate(arguments.gib)
    main_job.note(f"cutting both steps for {arguments.ranks} ranks")
    shares = [[sharing.cut_checkpoint(step, rank, arguments.ranks, folder / f"share-{number}-{rank}")
               for rank in range(arguments.ranks)] for number, step in enumerate(scene.steps)]
    one, many = Run(scene, "one"), Run(scene, "many")
    for i in range(arguments.runs + 1):
        whole = part = None
        for turn in (0, 1) if i % 2 else (1, 0):
            if turn == 0:
                whole = one.publish(arguments.ranks, None)[0]
            else:
                part = many.publish(arguments.ranks, shares)
        if whole["digest"] != part[0]["digest"]:
            raise main_job.BenchError("the ranks published other bytes than one process")
        main_job.note(f"one process {one.seconds[-1]:.2f} s, ranks {many.seconds[-1]:.2f} s")
        if i == 0:  # builds the baselines
            one.seconds.clear()
            many.seconds.clear()
    report(one, many, whole, part)


if __name__ == "__main__":
    main_job.run_steps_bench("ranks job", __doc__, COPIES, run, runs=5, ranks=4)
