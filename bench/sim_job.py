#!/usr/bin/env python3
"""How fast the simulator is: sim_job.py [--build DIR] [--rounds N]. Prints CSV.

Rates are per second of processor time, of which the simulator uses one core's: medians of the rounds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "simulate"
EVENTS_GOAL, DAY_GOAL_S = 1_000_000, 60


def simulate(build, name, publish):
    said = subprocess.run([build / "isthmus", "simulate", EXAMPLES / f"{name}.json", "--hours", "24",
                           "--publish", publish, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(said.stdout)["patches" if publish == "patches" else "full_checkpoints"]


def row(case, metric, value, unit, goal="", met=None):
    verdict = "" if met is None else "yes" if met else "no"
    print(f"simulate,{case},{metric},{value:.4g},{unit},{goal},{verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("bench,case,metric,value,unit,target,met")
    for name in ("small", "spot", "eight-regions"):
        rounds = [simulate(options.build, name, "patches") for _ in range(options.rounds)]
        case = f"{name}; 24 h"
        rate = statistics.median(r["events_per_second"] for r in rounds)
        day = statistics.median(r["cpu_seconds"] for r in rounds)
        row(case, "islands", rounds[0]["islands"], "islands")
        row(case, "events", rounds[0]["events"], "events")
        row(case, "decisions of the router", rounds[0]["decisions"], "decisions")
        row(case, "events a CPU second", rate, "1/s", f">= {EVENTS_GOAL:g}", rate >= EVENTS_GOAL)
        row(case, "CPU seconds", day, "s", f"<= {DAY_GOAL_S}", day <= DAY_GOAL_S)


if __name__ == "__main__":
    main()
