#!/usr/bin/env bash
# Installs the object stores that tests run against into .stores at the root of the repository:
# s3s-fs, an S3 server over a directory that checks signatures, and moto, which imitates AWS.
#
# A stamp is written last and names what was installed. While it says what is wanted, nothing is
# done; without it, or with another, the folder is made anew. .stores is a few hundred MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stores=.stores
stamp=$stores/installed
s3s="s3s-fs 0.14.1"
oldest_cargo=1.92 # what this s3s-fs asks for
moto=("moto[s3,server]==5.2.5")
wanted=$(printf '%s\n' "$s3s" "${moto[@]}" "$(/usr/bin/python3 -VV)")

has_cargo() {
  command -v cargo >/dev/null &&
    printf '%s\n' "$oldest_cargo" "$(cargo --version | cut -d ' ' -f 2)" | sort -V -C
}

# Distributions have no cargo that is new enough. Without one the tests with moto are left.
if ! has_cargo; then
  echo "stores: no cargo $oldest_cargo or later on the PATH (https://rustup.rs): tests with $s3s are" \
    "skipped" >&2
  s3s=
  wanted=$(printf '%s\n' "without s3s-fs" "${moto[@]}" "$(/usr/bin/python3 -VV)")
fi

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "stores: ${s3s:+$s3s and }${moto[0]} are installed"
  exit 0
fi

# Registries are far away: a connection that breaks must not cost the whole.
try() {
  local attempt
  for attempt in 1 2 3; do
    if "$@"; then return; fi
    echo "stores: attempt $attempt of 3 failed: $*" >&2
    if ((attempt < 3)); then sleep 5; fi
  done
  return 1
}

echo "stores: installing ${s3s:+$s3s and }${moto[0]} into $stores (some minutes)"
SECONDS=0
rm -rf "$stores"
mkdir "$stores"
# Little optimisation: the build takes half the time, and tests need no fast server.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false \
  CARGO_TARGET_DIR=$stores/target
if [[ -n $s3s ]]; then
  try cargo install --quiet --locked --features binary --root "$stores" \
    --version "${s3s#* }" "${s3s% *}"
  rm -rf "$stores/target"
fi
/usr/bin/python3 -m venv "$stores/moto"
try "$stores/moto/bin/pip" install --quiet --disable-pip-version-check "${moto[@]}"
"$stores/moto/bin/python" -c 'import moto.server'
echo "$wanted" >"$stamp"
echo "stores: installed in $SECONDS s"
