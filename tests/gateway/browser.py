"""Chromium without a window, which scripts/browser.sh installs; without it tests are skipped (77)."""

import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
SITE = next(iter(sorted((ROOT / ".browser" / "lib").glob("python3*/site-packages"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--force-device-scale-factor=1"]
SKIPPED = 77


def require():
    """Exits with 77 unless browser and driver are installed."""
    if SITE is None or not pathlib.Path(CHROMIUM).is_file() or not (ROOT / ".browser" / "installed").is_file():
        print("skipped: no browser; scripts/browser.sh installs it", file=sys.stderr)
        sys.exit(SKIPPED)
    sys.path.insert(0, str(SITE))


def axe_source():
    return (SITE / "axe_playwright_python" / "axe.min.js").read_text(encoding="utf-8")


class Browser:
    """A browser with a fresh profile; page() opens one page with these preferences."""

    def __init__(self):
        from playwright.sync_api import sync_playwright
        self._profile = tempfile.TemporaryDirectory(prefix="isthmus-browser-")
        self._playwright = sync_playwright().start()
        self._open = []

    def page(self, width=1440, height=1000, **preferences):
        profile = pathlib.Path(self._profile.name) / str(len(self._open))
        context = self._playwright.chromium.launch_persistent_context(
            str(profile), executable_path=CHROMIUM, headless=True, args=ARGUMENTS,
            viewport={"width": width, "height": height}, timezone_id="UTC", **preferences)
        self._open.append(context)
        return context.pages[0]

    def close_pages(self):
        for context in self._open:
            context.close()
        self._open = []

    def close(self):
        self.close_pages()
        self._playwright.stop()
        self._profile.cleanup()
