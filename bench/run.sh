#!/usr/bin/env bash
# Runs all benchmarks with build/release, writes bench/results/*.csv, docs/bits-per-change.svg and the
# tables of docs/benchmarks.md, and prints a table of the ratios and goals. docs/benchmarks.md says what is measured and how.
#   --real DIR     real steps (bf16/step-37 ... fp8/step-40); default: those in testdata
#   --codec-only   neither the main job nor the sidecar
#   --proxy-only   the sidecar only, next to nginx if it is installed (package nginx-light)
# These are not part of the whole:
#   --board-only   boards of long runs only (10 min)
#   --store-only   publishing to S3 beside a directory (3 min; needs scripts/stores.sh)
#   --far-only     a pull over 100 ms and 1 Gbit/s (2 min; needs scripts/stores.sh, root, /dev/net/tun)
#   --signing-only what signatures and digests cost a publish (3 min; perf from package linux-perf)
#   --ranks-only   publishing from many ranks beside one process (3 min)
#   --python-only  publishing from torch tensors in Python beside the program (2 min; needs .venv-engines, by ./run test-engines)
#   --router-only  how long a gateway takes to choose an island (10 s)
#   --simulate-only  the simulator's speed, and whether it agrees with eight real islands (8 min); --agreement-only: the latter
#   --plugin-only  the plug-in in the real vLLM beside reloads (10 min; needs scripts/engines.sh, 16 GB)
#   --gateway-only the gateway beside nginx, sglang-router and vllm-router (7 min; package nginx-light)
# Other arguments go to main_job.py, store_job.py, far_job.py, signing_job.py, ranks_job.py, python_job.py and gateway_job.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$PWD/build/release
results=bench/results
plot=docs/bits-per-change.svg
document=docs/benchmarks.md
real=
parts="codec main_job proxy"
arguments=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --real)
      real=$2
      shift
      ;;
    --codec-only) parts=codec ;;
    --proxy-only) parts=proxy ;;
    --board-only) parts=board ;;
    --store-only) parts=store ;;
    --far-only) parts=far ;;
    --ranks-only) parts=ranks ;;
    --python-only) parts=python ;;
    --router-only) parts=router ;;
    --simulate-only) parts="simulate agreement" ;;
    --agreement-only) parts=agreement ;;
    --gateway-only) parts=gateway ;;
    --plugin-only) parts=plugin ;;
    -h | --help)
      sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"
      exit
      ;;
    --signing-only) parts=signing ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

# Two steps of 256 MiB at a time, in memory if that has room for them.
parent=${TMPDIR:-/tmp}
if [[ $(df --output=avail -B 1M /dev/shm 2>/dev/null | tail -n 1) -gt 2048 ]]; then
  parent=/dev/shm
fi
scratch=$(mktemp -d -p "$parent")
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
  changes=$(git status --porcelain -- . ":!$results" ":!$plot" ":!$document")
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
      printf "%-24s %-32s %-36s %9s %-12s %s\n", "bench", "case", "metric", "value", "unit", "goal"
    }
    FNR > 1 && (($10 == "ratio" && $6 != "size") || $12 != "" || $8 ~ /^(CPU seconds|load average)/) {
      verdict = $12 == "" ? "" : $12 == "yes" ? "met" : "MISSED"
      missed += $12 == "no"
      printf "%-24s %-32s %-36s %9s %-12s %-10s %s\n", $6, $7, $8, $9, $10, $11, verdict
    }
    END { printf "%d missed\n", missed }' "$@"
}

# The best SIMD target, and AVX2, which has goals of its own.
targets() {
  if grep -qw avx512bw /proc/cpuinfo; then
    echo best,avx2
  else
    echo best
  fi
}

measure_codec() {
  if [[ -z $real ]]; then
    real=$scratch/real
    python3 testdata/unpack.py "$real"
  fi
  record codec "$build/isthmus-bench-codec" "$scratch/generated" --real "$real" --simd "$(targets)"
  python3 bench/plot.py "$results/codec.csv" "$plot"
  rm -rf "$scratch/generated"
}

measure_main_job() {
  record main_job python3 bench/main_job.py --build "$build" "${arguments[@]}"
}

measure_proxy() {
  record proxy python3 bench/proxy_job.py --build "$build"
}

measure_board() {
  record board /usr/bin/python3 bench/board_job.py --build "$build"
}

measure_store() {
  record store /usr/bin/python3 bench/store_job.py --build "$build" "${arguments[@]}"
}

measure_far() {
  record far /usr/bin/python3 bench/far_job.py --build "$build" "${arguments[@]}"
}

measure_signing() {
  record signing /usr/bin/python3 bench/signing_job.py --build "$build" "${arguments[@]}"
}

measure_ranks() {
  record ranks /usr/bin/python3 bench/ranks_job.py --build "$build" "${arguments[@]}"
}

measure_python() {
  scripts/python_env.sh .venv-engines >&2
  record python .venv-engines/bin/python bench/python_job.py --build "$build" "${arguments[@]}"
}

measure_router() {
  record router "$build/isthmus-bench-router"
}

measure_simulate() {
  record simulate /usr/bin/python3 bench/sim_job.py --build "$build"
}

measure_agreement() {
  record agreement /usr/bin/python3 bench/sim_agreement.py --build "$build" "${arguments[@]}"
}

measure_plugin() {
  record plugin .venv-engines/bin/python bench/plugin_job.py "${arguments[@]}"
}

measure_gateway() {
  record gateway /usr/bin/python3 bench/gateway_job.py --build "$build" "${arguments[@]}"
}

mkdir -p "$results"
echo "bench: $parts (codec about 4 min, main_job and proxy 2 min each)" >&2
for part in $parts; do "measure_$part"; done
python3 bench/tables.py "$results" "$document"
table "$results"/*.csv
