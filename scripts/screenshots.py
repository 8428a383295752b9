#!/usr/bin/env python3
"""Makes docs/dashboard-*.png anew: the dashboard over generated fleets of 3, 100 and 1,000 islands.

usage: screenshots.py [FOLDER]; needs what scripts/browser.sh installs.
"""

import io
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "gateway"))
import browser  # noqa: E402
from dashboard_double import DashboardDouble  # noqa: E402
from fleet_model import FleetModel  # noqa: E402

SHOTS = (("dashboard-3", 3, "light"), ("dashboard-100", 100, "dark"), ("dashboard-1000", 1000, "light"))
WIDTH, HEIGHT, COLOURS = 1280, 2480, 160
REGIONS = ("fra", "iad", "nrt", "sfo")


def main():
    browser.require()
    from PIL import Image
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs")
    chromium = browser.Browser()
    try:
        for name, islands, scheme in SHOTS:
            model = FleetModel(islands, seed=7, names=lambda index: f"{REGIONS[index % 4]}-{index // 4:03}")
            double = DashboardDouble(model)
            page = chromium.page(width=WIDTH, color_scheme=scheme)
            page.goto(double.url)
            page.wait_for_selector("#patches rect[data-version]")
            image = Image.open(io.BytesIO(page.screenshot(full_page=True)))
            image = image.crop((0, 0, WIDTH, min(HEIGHT, image.height)))
            image.quantize(COLOURS).save(folder / f"{name}.png", optimize=True)
            chromium.close_pages()
            double.close()
    finally:
        chromium.close()


if __name__ == "__main__":
    main()
