#!/usr/bin/env bash
# Installs what tests drive the dashboard with: Chromium and a font by apt, and into .browser at the
# root of the repository Playwright, which drives it, axe, which checks accessibility, and Pillow,
# which makes screenshots small.
#
# A stamp is written last and names what was installed. While it says what is wanted, nothing is
# done; without it, or with another, the folder is made anew. .browser is 200 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

browser=.browser
stamp=$browser/installed
packages=(chromium fonts-dejavu-core)
modules=(playwright==1.65.2 axe-playwright-python==0.1.8 pillow==13.0.0)
wanted=$(printf '%s\n' "${modules[@]}" "$(/usr/bin/python3 -VV)")

as_root() {
  if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
if [[ ${#missing[@]} -gt 0 ]]; then
  echo "browser: missing: ${missing[*]}"
  as_root apt-get update -q </dev/null
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
fi

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "browser: ${modules[*]} are installed"
  exit 0
fi
echo "browser: installing ${modules[*]} into $browser"
rm -rf "$browser"
/usr/bin/python3 -m venv "$browser"
for attempt in 1 2 3; do
  if "$browser/bin/pip" install --quiet --disable-pip-version-check "${modules[@]}"; then break; fi
  echo "browser: attempt $attempt of 3 failed" >&2
  if ((attempt == 3)); then exit 1; fi
  sleep 5
done
"$browser/bin/python" -c 'import playwright.sync_api, axe_playwright_python'
echo "$wanted" >"$stamp"
