#!/usr/bin/env bash
# lint.sh      checks formatting, layers, file sizes and clang-tidy; stops at the first that fails
# lint.sh fmt  formats all C++ files in place
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints, each ended by a zero byte, the files under the source folders that match find's $@.
sources() {
  local folder
  for folder in isthmus python bench tests fuzz; do
    if [[ -d $folder ]]; then find "$folder" -type f \( "$@" \) -print0; fi
  done | sort -z
}

format() {
  sources -name '*.h' -o -name '*.cc' | xargs -0 -r clang-format-16 "$@"
}

# at_most LIMIT: every file named on standard input has at most so many lines.
at_most() {
  xargs -0 -r wc -l | awk -v limit="$1" '
    $2 != "total" && $1 > limit { print $2 ": " $1 " lines, at most " limit; bad = 1 }
    END { exit bad }'
}

sizes() {
  sources -name '*.h' | at_most 250
  sources -name '*.cc' | at_most 500
  find . \( -name build -o -name '.venv-*' -o -name .stores -o -name .browser \) -prune -o -name README.md -print0 | at_most 150
}

layers() {
  python3 -m unittest discover -q -s tests/lint -p '*_test.py'
  python3 scripts/check_layers.py .
}

# Refuses sources that no target compiles: clang-tidy could only guess how.
all_built() {
  local unbuilt
  unbuilt=$(comm -23 <(find isthmus -name '*.cc' | sort) \
    <(sed -n "s|^ *\"file\": \"$PWD/\([^\"]*\)\".*|\1|p" build/release/compile_commands.json | sort -u))
  if [[ -n $unbuilt ]]; then
    echo "$unbuilt: in no build target"
    return 1
  fi
}

# From PyPI, not from the distribution: since version 22 clang-tidy does not match its checks against
# the headers of the system, which makes it three times as fast.
install_tidy() {
  local wanted="clang-tidy==23.1.4"
  if [[ $(cat .venv-lint/installed 2>/dev/null) == "$wanted" ]]; then return; fi
  rm -rf .venv-lint
  python3 -m venv .venv-lint
  .venv-lint/bin/pip install --quiet --disable-pip-version-check "$wanted"
  echo "$wanted" >.venv-lint/installed
}

tidy() {
  install_tidy
  cmake --preset release >/dev/null
  all_built
  find isthmus -name '*.cc' -print0 | sort -z |
    xargs -0 -r -n 1 -P "$(nproc)" \
      .venv-lint/bin/clang-tidy -p build/release --quiet 2>&1 |
    sed '/^[0-9]* warnings\{0,1\} generated\.$/d'
}

check() {
  echo "lint: $1"
  shift
  "$@"
}

if [[ ${1:-} == fmt ]]; then
  format -i
  exit 0
fi
check formatting format --dry-run -Werror
check "file sizes" sizes
check layers layers
check clang-tidy tidy
echo "lint: ok"
