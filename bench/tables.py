#!/usr/bin/env python3
"""Fills the tables of docs/benchmarks.md from the CSVs: tables.py RESULTS_FOLDER DOCUMENT.

A table stands between the lines "<!-- table NAME -->" and "<!-- end -->"; what is between them is
written anew. Values that miss their goal are bold in goal tables.
"""

import csv
import pathlib
import re
import sys
from typing import NamedTuple

PEERS = ("dense XOR + zstd 1", "u16 gap + value + zstd 1", "row gap + column + value + zstd 1",
         "row gap + column + difference + zstd 1", "u32 index + value + zstd 1")
LOOPS = (("scan", "equal data: speed / memcmp"), ("encode", "speed / memcpy"),
         ("diff", "speed / memcpy"), ("decode + apply", "speed / memcpy"),
         ("decode + apply + digests", "speed / memcpy"))

ROUTERS = ("sglang-router", "vllm-router")
GATEWAY_WAYS = ("direct", "nginx", "gateway", *(f"{name} {setting}" for name in ROUTERS
                                                for setting in ("as it comes", "round robin")))


def read(path):
    """{(bench, case, metric): row} of a CSV that bench/run.sh wrote; nothing if it never did."""
    if not path.exists():
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        return {(row["bench"], row["case"], row["metric"]): row for row in csv.DictReader(file)}


class Results(NamedTuple):
    """What read() gives of each file."""
    codec: dict
    main_job: dict
    sidecar: dict
    board: dict
    store: dict
    far: dict
    signing: dict
    ranks: dict
    router: dict
    gateway: dict
    simulate: dict
    agreement: dict
    python: dict
    plugin: dict

    @classmethod
    def of(cls, folder):
        names = ("codec", "main_job", "proxy", "board", "store", "far", "signing", "ranks",
                 "router", "gateway", "simulate", "agreement", "python", "plugin")
        return cls(*(read(folder / f"{name}.csv") for name in names))


def number(row):
    """The value with about three digits; one more for ratios of sizes, which are exact."""
    if row is None:
        return "–"
    value = float(row["value"])
    if row["bench"] == "size" and row["unit"] == "ratio":
        return f"{value:.3f}"
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def line(*cells):
    return "| " + " | ".join(cells) + " |"


def table(head, rows):
    return "\n".join([line(*head), "|" + "---|" * len(head), *(line(*row) for row in rows)])


def cases(rows, bench):
    """The cases of a bench in the order of the file."""
    return list(dict.fromkeys(case for found, case, _ in rows if found == bench))


def sizes(results):
    codec = results.codec
    head = ("pair", "density", "context", "direct", "entropy given the key, one density",
            "dense XOR + zstd", "u16 gap + value + zstd", "row, column + value; difference",
            "u32 index + value")
    rows = []
    for case in cases(codec, "size"):
        get = lambda metric, of=case: number(codec.get(("size", of, metric)))
        density = float(codec[("size", case, "density")]["value"])
        xor, gap, row, difference, index = (get(peer) for peer in PEERS)
        rows.append((case, f"{density:.2f} %" if density > 0.01 else f"{density:.4f} %",
                     f"**{get('context file')}**", get("direct file"),
                     f"{get('entropy given the old key')}, {get('entropy with one density')}",
                     xor, gap, f"{row}; {difference}", index))
    return table(head, rows)


def speeds(results):
    codec = results.codec
    head = ("pair", "SIMD", "memcpy, GB/s", "scan ÷ memcmp", "encode ÷ memcpy", "diff ÷ memcpy",
            "decode + apply ÷ memcpy", "… + digests ÷ memcpy")
    rows = []
    for case in cases(codec, "memcpy"):
        pair, simd = case.split(" on ")
        rows.append((pair, simd, number(codec[("memcpy", case, "speed")]),
                     *(number(codec.get((loop, case, metric))) for loop, metric in LOOPS)))
    return table(head, rows)


def with_unit(row):
    return number(row) + ("" if row["unit"] == "ratio" else f" {row['unit']}")


def goals_of(rows):
    lines = []
    for (bench, case, metric), row in rows.items():
        if not row["target"]:
            continue
        value = with_unit(row)
        what = metric if bench in ("size", "main job", "sidecar", "board") else f"{bench}: {metric}"
        target = row["target"].replace(">=", "≥").replace("<=", "≤")
        lines.append((case, what, target, value if row["met"] == "yes" else f"**{value}**"))
    return table(("case", "what", "asked", "reached"), lines)


def goals(results):
    return goals_of(results.codec | results.main_job)


def sidecar_goals(results):
    return goals_of(results.sidecar)


def board_goals(results):
    return goals_of(results.board)


def board(results):
    """What has no goal."""
    rows = [(case, metric, with_unit(row)) for (_, case, metric), row in results.board.items()
            if not row["target"]]
    return table(("case", "what", "measured"), rows)


def measured(rows):
    """Everything of a short bench, with the goals of what has one."""
    if not rows:
        return "Not measured yet."
    lines = []
    for (_, case, metric), row in rows.items():
        value = with_unit(row)
        target = row["target"].replace(">=", "≥").replace("<=", "≤")
        lines.append((case, metric, f"**{value}**" if row["met"] == "no" else value, target))
    return table(("case", "what", "measured", "asked"), lines)


def by_way(rows, ways):
    """What was measured of each way to the engines."""
    found = {}
    for (_, case, metric), row in rows.items():
        what, _, way = metric.rpartition(": ")
        if way in ways and not row["target"]:
            found.setdefault((case, what), {})[way] = with_unit(row)
    lines = [(*key, *(values.get(way, "–") for way in ways)) for key, values in found.items()]
    return table(("case", "what", *ways), lines) if rows else "Not measured yet."


def sidecar(results):
    return by_way(results.sidecar, ("direct", "nginx", "sidecar"))


def gateway_ways(results):
    return by_way(results.gateway, GATEWAY_WAYS)


def gateway(results):
    """What is not of one way alone."""
    return measured({key: row for key, row in results.gateway.items()
                     if key[2].rpartition(": ")[2] not in GATEWAY_WAYS or row["target"]})


def main_job(results):
    rows = results.main_job
    get = lambda step, metric: number(rows[("main job", step, metric)])
    steps = [(step, *(get(step, metric) for metric in
                      ("seconds", "CPU seconds", "speed", "speed / memcpy", "speed / cp",
                       "peak anonymous memory"))) for step in ("publish", "pull")]
    steps.append(("memcpy of as many bytes, one core", "", "", get("memcpy on one core", "speed"),
                  "", "", ""))
    steps.append(("cp of the checkpoint", "", "", get("cp of the checkpoint", "speed"), "", "", ""))
    head = ("", "seconds", "CPU seconds", "GB/s", "÷ memcpy", "÷ cp", "anonymous memory, MiB")
    return table(head, steps)


TABLES = {"sizes": sizes, "speeds": speeds, "goals": goals, "main job": main_job,
          "sidecar": sidecar, "sidecar goals": sidecar_goals,
          "board": board, "board goals": board_goals,
          "store": lambda results: measured(results.store),
          "far": lambda results: measured(results.far),
          "signing": lambda results: measured(results.signing),
          "ranks": lambda results: measured(results.ranks),
          "router": lambda results: measured(results.router),
          "simulate": lambda results: measured(results.simulate),
          "agreement": lambda results: measured(results.agreement),
          "python": lambda results: measured(results.python),
          "plugin": lambda results: measured(results.plugin),
          "gateway": gateway, "gateway ways": gateway_ways}


def fill(text, results):
    """The document with its tables written anew."""

    def anew(match):
        return f"{match[1]}\n\n{TABLES[match[2]](results)}\n\n<!-- end -->"

    return re.sub(r"(<!-- table (.+?) -->)\n.*?<!-- end -->", anew, text, flags=re.DOTALL)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, document = sys.argv[1:]
    with open(document, encoding="utf-8") as file:
        text = file.read()
    filled = fill(text, Results.of(pathlib.Path(folder)))  # before the document is emptied
    with open(document, "w", encoding="utf-8") as file:
        file.write(filled)


if __name__ == "__main__":
    main()
