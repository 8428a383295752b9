#!/usr/bin/env python3
"""Times publishing from torch tensors in Python beside the program on the same bytes in files.

python_job.py [--gib N] [--runs N] [--folder DIR] [--build DIR]

For a Python that has torch and the package (scripts/python_env.sh). Generates two steps of a BF16 model that
differ in about 1 % of its elements, and loads them as torch tensors on the CPU. Each round publishes the other of
the two steps, by the program from files and in this process from the tensors, in turns and in either order; then in
the background, where the time counts for which the trainer waits, beside one memcpy of the same tensors by one thread.
Prints CSV: the medians, and the medians of the rounds' ratios.
"""

import ctypes
import json
import os
import pathlib
import statistics
import time

import isthmus
import main_job
import torch

COPIES = 9  # two steps, in files and as tensors; of each of two boards an anchor and a baseline; one to copy into
MIN_PUBLISH = 0.9  # of the program's speed
MAX_BLOCKED = 1.5  # of one memcpy


def row(case, metric, value, unit, target="", met=None):
    verdict = "" if met is None else "yes" if met else "no"
    print(f"python,{case},{metric},{value:.4g},{unit},{target},{verdict}")


def load(step):
    """The tensors of a checkpoint of BF16, by name, in memory of their own."""
    tensors = {}
    for shard in sorted(pathlib.Path(step).glob("*.safetensors")):
        content = shard.read_bytes()
        size = int.from_bytes(content[:8], "little")
        for name, info in json.loads(content[8:8 + size]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + size + offset for offset in info["data_offsets"])
            flat = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.bfloat16)
            tensors[name] = flat.view(info["shape"])
    return tensors


def timed(function, *arguments, **options):
    start = time.perf_counter()
    result = function(*arguments, **options)
    return result, time.perf_counter() - start


class Copies:
    """One memcpy of all tensors, by one thread, into memory that is there."""

    def __init__(self, tensors):
        self.targets = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}

    def copy(self, tensors):
        for name, tensor in tensors.items():
            ctypes.memmove(self.targets[name].data_ptr(), tensor.data_ptr(),
                           tensor.numel() * tensor.element_size())


class Job:
    def __init__(self, scene):
        self.scene = scene
        self.steps = [load(step) for step in scene.steps]
        self.bytes = sum(t.numel() * t.element_size() for t in self.steps[0].values())
        self.board = isthmus.Board(scene.folder / "python-board", create=True)
        self.published = 0

    def publisher(self, run, **options):
        return isthmus.Publisher(self.board, run, checkpoint=self.scene.steps[0],
                                 baseline=self.scene.folder / f"python-{run}", **options)

    def next_step(self):
        self.published += 1
        return self.steps[(self.published - 1) % 2]

    def check(self, version):
        low, high = main_job.DENSITY_RANGE
        if version.kind != "patch" or not low <= version.changed / version.elements <= high:
            raise main_job.BenchError(f"wanted a patch of {low:.2%} to {high:.2%}, got {version}")


def compare_publishes(job, runs):
    """Seconds of (the program, Python), a round each."""
    scene, rounds = job.scene, []
    main_job.call(scene.isthmus, "board", "init", scene.board)
    main_job.call(*scene.publish_command())
    with job.publisher("blocking") as publisher:
        publisher.publish(job.next_step())
        for i in range(runs + 1):
            sides = {}
            for side in ("program", "python")[:: -1 if i % 2 else 1]:
                if side == "program":
                    sides[side] = json.loads(main_job.call(*scene.publish_command()))["seconds"]
                else:
                    version, sides[side] = timed(publisher.publish, job.next_step())
                    job.check(version)
            main_job.note(f"program {sides['program']:.2f} s, Python {sides['python']:.2f} s")
            rounds.append((sides["program"], sides["python"]))
    return rounds[1:]  # the first warms up


def compare_copies(job, runs):
    """Seconds of (a memcpy, the trainer's wait), a round each."""
    rounds, copies = [], Copies(job.steps[0])
    job.published = 0
    with job.publisher("background", background=True) as publisher:
        publisher.publish(job.next_step()).result()
        for _ in range(runs + 1):
            tensors = job.next_step()
            _, plain = timed(copies.copy, tensors)
            pending, waited = timed(publisher.publish, tensors)
            job.check(pending.result())
            main_job.note(f"memcpy {plain:.3f} s, waited {waited:.3f} s")
            rounds.append((plain, waited))
    return rounds[1:]


def report(job, publishes, copies):
    print("bench,case,metric,value,unit,target,met")
    for i, side in enumerate(("program", "python")):
        speed = job.bytes / statistics.median(seconds[i] for seconds in publishes) / 1e9
        row(f"publish by {side}", "speed", speed, "GB/s")
    ratio = statistics.median(program / python for program, python in publishes)
    row("publish", "speed from torch tensors / the program's on files", ratio, "ratio",
        f">= {MIN_PUBLISH}", ratio >= MIN_PUBLISH)
    row("memcpy", "speed", job.bytes / statistics.median(plain for plain, _ in copies) / 1e9, "GB/s")
    ratio = statistics.median(waited / plain for plain, waited in copies)
    row("publish in the background", "time blocked / one memcpy", ratio, "ratio",
        f"<= {MAX_BLOCKED}", ratio <= MAX_BLOCKED)


def run(arguments, folder):
    os.environ["XDG_CACHE_HOME"] = str(folder)
    scene = main_job.Scene(arguments.build, folder)
    scene.generate(arguments.gib)
    job = Job(scene)
    report(job, compare_publishes(job, arguments.runs), compare_copies(job, arguments.runs))


if __name__ == "__main__":
    main_job.run_steps_bench("python job", __doc__, COPIES, run, runs=7)
