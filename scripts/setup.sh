#!/usr/bin/env bash
# Installs what building, testing and linting need and is not there yet: Debian 12, Ubuntu 24.04.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache pkg-config git
  libssl-dev libzstd-dev libxxhash-dev libhwy-dev libcli11-dev libfmt-dev
  libcurl4-openssl-dev libexpat1-dev libsimdjson-dev prometheus-cpp-dev libgtest-dev libgmock-dev
  libjs-d3
  clang-16 clang-format-16 libclang-rt-16-dev
  curl python3 python3-dev python3-venv python3-numpy python3-zstandard python3-xxhash
)
oldest_boost=1.81

# Debian 12's unversioned Boost packages are too old; it has newer ones beside them.
boost_packages() {
  local candidate
  candidate=$(apt-cache policy libboost-dev | sed -n 's/^ *Candidate: //p')
  if [[ $candidate == [0-9]* ]] && dpkg --compare-versions "$candidate" ge "$oldest_boost"; then
    echo libboost-dev libboost-json-dev
  else
    echo "libboost$oldest_boost-dev libboost-json$oldest_boost-dev"
  fi
}

missing_packages() {
  local package
  for package in "${packages[@]}" $(boost_packages); do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      echo "$package"
  done
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; install these by hand (names as in Debian), with Boost >=" \
    "$oldest_boost and its JSON library: ${packages[*]}" >&2
  exit 1
fi

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "setup: nothing is missing"
  exit 0
fi
echo "setup: missing: ${missing[*]}"
as_root apt-get update -q </dev/null
mapfile -t missing < <(missing_packages) # fresh lists can name another Boost
as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
