#!/usr/bin/env python3
"""Times the main job: publishing a step of a large model and pulling it, from page cache.

main_job.py [--gib N] [--runs N] [--folder DIR] [--build DIR]

Generates two steps of a BF16 model that differ in about 1 % of its elements, publishes the first
and seeds a replica with it. Then, in each round, publishes the other of the two steps (so that each
is a patch of the same size against the state before) and pulls that one patch; in the same round
memcpy and a plain copy of the checkpoint are timed, for comparison. Before that, two rounds are not
timed but watched: the peak of the processes' anonymous memory. Prints CSV; docs/benchmarks.md
explains it.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30
SHARED_MEMORY = pathlib.Path("/dev/shm")
# Two steps, the board's anchor, the baseline, the replica and a copy; one more while it is made.
COPIES = 7
LEARNING_RATE = "1.17e-6"  # changes about 1 % of the elements a step (measured)
DENSITY_RANGE = (0.0095, 0.0105)
MEMORY_ROUNDS = 2
POLL_SECONDS = 0.001

# The goals of the project.
MIN_BYTES_PER_SECOND = 1.0e9
MEMORY_BYTES, MEMORY_BYTES_PER_CHANGE = 256 << 20, 16


class BenchError(Exception):
    pass


def note(text):
    print(f"main job: {text}", file=sys.stderr, flush=True)


def call(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise BenchError(f"exit status {done.returncode} of: {' '.join(str(c) for c in command)}")
    return done.stdout


def anonymous_bytes(pid):
    """What the process has now, apart from mapped files and shared memory."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0  # it has ended


def peak_memory(*command):
    """Runs a program; returns what it printed and the highest RssAnon seen."""
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    peak = 0
    while child.poll() is None:
        peak = max(peak, anonymous_bytes(child.pid))
        time.sleep(POLL_SECONDS)
    if child.returncode != 0:
        raise BenchError(f"exit status {child.returncode} of: {command[0]} {command[1]}")
    return child.stdout.read(), peak


def timed(*command):
    """Runs a program; returns what it printed, its seconds by the wall and on all CPUs together."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = call(*command)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return result, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Scene:
    """A board, a publisher's baseline and a replica of one run, in one folder."""

    def __init__(self, build, folder):
        self.isthmus, self.codec_bench = build / "isthmus", build / "isthmus-bench-codec"
        self.modelgen = build / "isthmus-modelgen"
        self.folder, self.board, self.replica = folder, folder / "board", folder / "replica"
        self.steps = [folder / "steps" / f"step-{i}" for i in (0, 1)]
        self.published = 0

    def generate(self, gib):
        note(f"generating two steps of {gib} GiB")
        call(self.modelgen, self.folder / "steps", "--bytes", f"{gib}GiB", "--steps", 2, "--lr",
             LEARNING_RATE)

    def publish_command(self):
        """Of the step that is not the newest version."""
        step = self.steps[self.published % 2]
        self.published += 1
        return (self.isthmus, "publish", step, "--board", self.board, "--run", "bench",
                "--baseline", self.folder / "baseline", "--json")

    def pull_command(self):
        return (self.isthmus, "pull", "--board", self.board, "--run", "bench", "--replica",
                self.replica, "--json")

    def start(self):
        note("first version: an anchor, a new replica")
        call(self.isthmus, "board", "init", self.board)
        call(*self.publish_command())
        call(*self.pull_command())

    def copy_checkpoint(self):
        """Seconds of cp, whose target is new each time."""
        target = self.folder / "copy"
        _, seconds, _ = timed("cp", "-r", self.steps[0], target)
        shutil.rmtree(target)
        return seconds

    def memcpy_gbps(self):
        rows = call(self.codec_bench, "--copy-only", "--bytes", "128MiB", "--rounds", 7).splitlines()
        return float(rows[1].split(",")[3])

    def check_identical(self):
        """The replica holds the step published last, byte for byte."""
        step = self.steps[(self.published - 1) % 2]
        for file in sorted(p for p in step.rglob("*") if p.is_file()):
            call("cmp", file, self.replica / file.relative_to(step))


def check_patch(published, pulled):
    """Guards against measuring something else than one patch of the wanted density."""
    low, high = DENSITY_RANGE
    if published["kind"] != "patch" or not low <= published["density"] <= high:
        raise BenchError(f"wanted a patch of {low:.2%} to {high:.2%}, got {published}")
    if pulled["chain"] != [f"patch {published['version']}"]:
        raise BenchError(f"wanted one patch to be pulled, got {pulled}")


class Measurements:
    """Per round: lists of equal length under each name."""

    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self.values[name])

    def median_ratio(self, name, other):
        return statistics.median(a / b for a, b in zip(self.values[name], self.values[other]))


def timed_round(scene, results):
    commands = {"publish": scene.publish_command(), "pull": scene.pull_command()}
    said = {}
    for name, command in commands.items():
        output, wall, cpu = timed(*command)
        said[name] = json.loads(output)
        results.add(name, said[name]["seconds"])
        results.add(f"{name} wall", wall)
        results.add(f"{name} CPU", cpu)
    published, pulled = said["publish"], said["pull"]
    check_patch(published, pulled)
    results.add("copy", scene.copy_checkpoint())
    results.add("memcpy", published["checkpoint_bytes"] / 1e9 / scene.memcpy_gbps())
    note(f"publish {published['seconds']:.2f} s, pull {pulled['seconds']:.2f} s, "
         f"cp {results.values['copy'][-1]:.2f} s")
    return published


def memory_round(scene, results):
    published, publish_peak = peak_memory(*scene.publish_command())
    pulled, pull_peak = peak_memory(*scene.pull_command())
    check_patch(json.loads(published), json.loads(pulled))
    results.add("publish memory", publish_peak)
    results.add("pull memory", pull_peak)


def row(case, metric, value, unit, bound=None, at_least=True):
    if bound is None:
        target, met = "", ""
    else:
        target = f"{'>=' if at_least else '<='} {bound:.4g}"
        met = "yes" if (value >= bound if at_least else value <= bound) else "no"
    print(f"main job,{case},{metric},{value:.4g},{unit},{target},{met}")


def print_job(name, results, size):
    gbps = size / results.median(name) / 1e9
    row(name, "speed", gbps, "GB/s", MIN_BYTES_PER_SECOND / 1e9)
    row(name, "seconds", results.median(name), "s")
    row(name, "seconds fastest", min(results.values[name]), "s")
    row(name, "seconds slowest", max(results.values[name]), "s")
    row(name, "seconds with process start", results.median(f"{name} wall"), "s")
    row(name, "CPU seconds", results.median(f"{name} CPU"), "s")
    row(name, "speed / memcpy", results.median_ratio("memcpy", name), "ratio")
    row(name, "speed / cp", results.median_ratio("copy", name), "ratio")


def print_memory(name, results, changed):
    limit = MEMORY_BYTES + MEMORY_BYTES_PER_CHANGE * changed
    row(name, "peak anonymous memory", max(results.values[f"{name} memory"]) / 2**20, "MiB",
        limit / 2**20, at_least=False)


def report(place, results, published):
    size, changed = published["checkpoint_bytes"], published["changed"]
    print("bench,case,metric,value,unit,target,met")
    row("machine", "load average before", results.median("load"), "processes")
    row(f"model in {place}", "checkpoint", size / GIB, "GiB")
    row(f"model in {place}", "density", 100 * published["density"], "%")
    row("patch", "size", published["payload_bytes"] / 1e6, "MB")
    row("patch", "size per change", 8 * published["payload_bytes"] / changed, "bits/change")
    for name in ("publish", "pull"):
        print_job(name, results, size)
        print_memory(name, results, changed)
    row("memcpy on one core", "speed", size / results.median("memcpy") / 1e9, "GB/s")
    row("cp of the checkpoint", "speed", size / results.median("copy") / 1e9, "GB/s")


def available_memory():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def has_room(folder, need):
    return folder.is_dir() and shutil.disk_usage(folder).free >= need


def choose_place(wanted, need):
    """(folder for the scratch folder, what to call it): shared memory if there is enough."""
    if wanted is None and has_room(SHARED_MEMORY, need) and available_memory() >= need:
        return SHARED_MEMORY, str(SHARED_MEMORY)
    folder, name = wanted or pathlib.Path(tempfile.gettempdir()), "--folder" if wanted else "TMPDIR"
    if not has_room(folder, need):
        raise BenchError(f"{need / GIB:.0f} GiB needed in {SHARED_MEMORY} (and free memory), in "
                         "TMPDIR or in --folder")
    return folder, f"{name} ({file_system(folder)})"


def file_system(folder):
    return call("stat", "-f", "-c", "%T", folder).strip()


def run(arguments, folder, place):
    scene, results = Scene(arguments.build, folder), Measurements()
    results.add("load", os.getloadavg()[0])
    scene.generate(arguments.gib)
    scene.start()
    for _ in range(MEMORY_ROUNDS):  # they warm up the rest, too
        memory_round(scene, results)
    for _ in range(arguments.runs):
        published = timed_round(scene, results)
    scene.check_identical()
    report(place, results, published)


def run_steps_bench(name, doc, copies, run, runs, ranks=None):
    """The program of a bench of two steps: reads its arguments, finds room for so many copies of the
    model, calls run(arguments, folder); ends with a message if that fails."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--gib", type=int, default=2, help="size of the model")
    parser.add_argument("--runs", type=int, default=runs, help="timed rounds")
    parser.add_argument("--folder", type=pathlib.Path,
                        help="where to work (default: /dev/shm if it has room, else TMPDIR)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    if ranks is not None:
        parser.add_argument("--ranks", type=int, default=ranks)
    arguments = parser.parse_args()
    try:
        parent, _ = choose_place(arguments.folder, copies * arguments.gib * GIB)
        with tempfile.TemporaryDirectory(prefix="isthmus-bench-", dir=parent) as folder:
            run(arguments, pathlib.Path(folder))
    except (BenchError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{name}: {error}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=int, default=2, help="size of the model")
    parser.add_argument("--runs", type=int, default=7, help="timed rounds")
    parser.add_argument("--folder", type=pathlib.Path,
                        help="where to work (default: /dev/shm if it has room, else TMPDIR)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the folder is removed
    parent, place = choose_place(arguments.folder, COPIES * arguments.gib * GIB)
    with tempfile.TemporaryDirectory(prefix="isthmus-bench-", dir=parent) as folder:
        run(arguments, pathlib.Path(folder), place)


if __name__ == "__main__":
    try:
        main()
    except (BenchError, OSError) as error:
        sys.exit(f"main job: {error}")
