#!/usr/bin/env bash
# run.sh SECONDS [TARGET...]: runs the fuzz targets that the preset "fuzz" built, as many at a time
# as there are cores. Corpora, logs and findings lie below build/fuzz and stay for the next run.
# ISTHMUS_FUZZ_SEED repeats a run. Exits with 1 if there is a finding.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=build/fuzz

usage() {
  echo "usage: ./run fuzz SECONDS [TARGET...]; targets: $(targets | xargs)" >&2
  exit 2
}

targets() { (cd $out/fuzz && find . -name 'fuzz-*' -executable -type f | sed 's|./fuzz-||' | sort); }

# Patches may hold tables and files of 256 MiB; nothing else here may allocate much at once, so a
# size that is believed before it was checked is a finding.
memory_limit() {
  case $1 in
    part | chain) echo 257 ;;
    *) echo 80 ;;
  esac
}

dictionary() {
  case $1 in
    safetensors | weight_map | manifest | board_json) echo -dict=fuzz/json.dict ;;
    http | request_body | answer_stamp | events | rollouts) echo -dict=fuzz/http.dict ;;
  esac
}

# run_one TARGET: says how it ended; 255 (which stops xargs) never.
run_one() {
  local target=$1 log=$out/logs/$1.log found=$out/findings/$1/ result=ok
  mkdir -p "$out/corpus/$target" "$found" "$out/logs"
  local known=("$out/corpus/$target")
  for folder in "$out/seeds/$target" "fuzz/regressions/$target"; do
    if [[ -d $folder ]]; then known+=("$folder"); fi
  done
  ASAN_OPTIONS=quarantine_size_mb=64 ASAN_SYMBOLIZER_PATH=$symbolizer \
    "$out/fuzz/fuzz-$target" "-max_total_time=$seconds" "-seed=$seed" -timeout=25 \
    -rss_limit_mb=1024 "-malloc_limit_mb=$(memory_limit "$target")" -max_len=65536 \
    "-artifact_prefix=$found" -print_final_stats=1 $(dictionary "$target") \
    "${known[@]}" >"$log" 2>&1 || result=FINDING
  summarize "$target" "$log" "$result"
  [[ $result == ok ]] || echo "fuzz: $target: $(sed -n 's/.*Test unit written to //p' "$log" |
    tail -n 1), log $log"
  [[ $result == ok ]]
}

# summarize TARGET LOG RESULT: one line of its numbers
summarize() {
  local last
  last=$(grep -o 'cov: .*' "$2" | tail -n 1 | sed 's/ lim:.*//; s/ exec.*//')
  printf 'fuzz: %-13s %-7s %9s execs  %s\n' "$1" "$3" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$2")" "$last"
}

[[ ${1:-} =~ ^[0-9]+$ ]] || usage
seconds=$1
shift
seed=${ISTHMUS_FUZZ_SEED:-$((RANDOM * 32768 + RANDOM + 1))}
if [[ $# -eq 0 ]]; then mapfile -t chosen < <(targets); else chosen=("$@"); fi
for target in "${chosen[@]}"; do
  [[ -x $out/fuzz/fuzz-$target ]] || usage
done

# Names in stack traces; any version does.
symbolizer=$(compgen -c llvm-symbolizer | sort -u | head -n 1 || true)
symbolizer=$(command -v "${symbolizer:-none}" || true)

/usr/bin/python3 fuzz/seeds.py $out/seeds
echo "fuzz: ${seconds} s a target, ISTHMUS_FUZZ_SEED=$seed"
export out seconds seed symbolizer
export -f run_one summarize memory_limit dictionary
printf '%s\n' "${chosen[@]}" | xargs -P "$(nproc)" -I{} bash -c 'run_one {}' && exit 0
echo "fuzz: to repeat a finding: $out/fuzz/fuzz-TARGET FILE" >&2
exit 1
