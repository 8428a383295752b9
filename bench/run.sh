#!/usr/bin/env bash
# Runs all benchmarks with build/release, writes bench/results/*.csv and prints a table of the
# ratios and goals. Arguments go to main_job.py. docs/benchmarks.md says what is measured and how.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$PWD/build/release
results=bench/results

scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$results"/*.tmp' EXIT

machine() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  echo "${model:-$(uname -m)} / $(nproc) cores"
}

compiler() {
  local command
  command=$(sed -n 's/^CMAKE_CXX_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")
  "$command" --version | head -n 1
}

# The results of this very run do not make the tree dirty.
commit() {
  local changes
  if ! git rev-parse --short HEAD 2>/dev/null | tr -d '\n'; then
    echo unknown
    return
  fi
  changes=$(git status --porcelain -- . ":!$results")
  echo "${changes:+-dirty}"
}

# Cells hold no commas.
cell() { "$@" | tr ',' ';'; }
origin=$(date -u +%Y-%m-%dT%H:%M:%SZ),$(cell machine),$(cell compiler)
origin+=,$(cell uname -sr),$(cell commit)

# record NAME COMMAND...: runs it and puts the origin before the rows that it prints. If it fails,
# NAME.csv stays as it was.
record() {
  local name=$1
  shift
  "$@" >"$scratch/rows"
  awk -v origin="$origin" '
    NR == 1 { print "date,machine,compiler,kernel,commit," $0; next }
    { print origin "," $0 }' "$scratch/rows" >"$results/$name.csv.tmp"
  mv "$results/$name.csv.tmp" "$results/$name.csv"
}

table() {
  awk -F, '
    BEGIN {
      printf "%-20s %-24s %-26s %9s %-12s %s\n", "bench", "case", "metric", "value", "unit", "goal"
    }
    FNR > 1 && ($10 == "ratio" || $12 != "" || $8 ~ /^(CPU seconds|load average)/) {
      verdict = $12 == "" ? "" : $12 == "yes" ? "met" : "MISSED"
      missed += $12 == "no"
      printf "%-20s %-24s %-26s %9s %-12s %-10s %s\n", $6, $7, $8, $9, $10, $11, verdict
    }
    END { printf "%d missed\n", missed }' "$@"
}

mkdir -p "$results"
echo "bench: test data, then the codec (about 30 s), then the main job (about 2 min)" >&2
python3 testdata/unpack.py "$scratch/real"
record codec "$build/isthmus-bench-codec" "$scratch/generated" --real "$scratch/real/bf16"
rm -rf "$scratch/generated"
record main_job python3 bench/main_job.py --build "$build" "$@"
table "$results/codec.csv" "$results/main_job.csv"
