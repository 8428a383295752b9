#!/usr/bin/env bash
# render.sh DIR: writes the manifests of this folder into DIR: the chart with its default values, and autoscaling.
# HELM is the program, if it is not on the PATH.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:?a directory}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${HELM:-helm}" template isthmus "$here/../helm/isthmus" --kube-version 1.29.0 --set autoscaling.enabled=true --output-dir "$folder" >/dev/null
for file in "$folder"/isthmus/templates/*.yaml; do
  {
    echo "# Made by deploy/kubernetes/render.sh from the chart in deploy/helm/isthmus: change that."
    grep -v '^# Source: ' "$file" | sed -e 's/ *$//' -e '/^$/d'
  } >"$target/$(basename "$file")"
done
