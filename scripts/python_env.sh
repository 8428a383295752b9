#!/usr/bin/env bash
# python_env.sh [VENV]   builds the Python package's wheel and installs it
#
# Without VENV into .venv-python at the root of the repository, which it makes, with what the package's
# tests need. With one (.venv-engines) into that, with nothing else: its Python must be of the same version.
# The wheel is built in build/, so only what changed is compiled; a compiler cache serves it and the other builds
# together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv-python
stamp=$venv/installed
build=("scikit-build-core==1.1.2" "nanobind==3.1.0")
tests=("numpy==2.2.6" "ml-dtypes==0.5.4" "httpx==0.28.1" "openai==3.57.0")
wanted=$(printf '%s\n' "${build[@]}" "${tests[@]}" "$(python3 -VV)")

pip() {
  local attempt
  for attempt in 1 2 3; do
    if "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; then return; fi
    echo "python: attempt $attempt of 3 failed: pip $*" >&2
    if ((attempt < 3)); then sleep 5; fi
  done
  return 1
}

if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
  echo "python: making $venv"
  rm -rf "$venv"
  python3 -m venv "$venv"
  pip install "${build[@]}" "${tests[@]}"
  echo "$wanted" >"$stamp"
fi

# Two builds share a compiler cache if they name the compiler alike: CMake by itself says c++.
export CXX=${CXX:-c++} CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
rm -rf "$venv/wheel"
"$venv/bin/python" -m pip --quiet --disable-pip-version-check wheel --no-build-isolation --no-deps \
  --no-index --wheel-dir "$venv/wheel" .
"$venv/bin/python" -m pip --quiet --disable-pip-version-check --python "${1:-$venv}/bin/python" install \
  --no-deps --no-index --force-reinstall "$venv"/wheel/*.whl
echo "python: installed $(basename "$venv"/wheel/*.whl) into ${1:-$venv}"
