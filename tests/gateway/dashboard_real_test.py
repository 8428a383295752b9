#!/usr/bin/env python3
"""The dashboard over a real gateway and three real islands that switch versions."""

import unittest

import browser

browser.require()
import fleet  # noqa: E402
from fleet import harness  # noqa: E402


class RealDashboardTest(fleet.FleetTest):
    count = 3

    def open(self):
        driver = browser.Browser()
        self.addCleanup(driver.close)
        page = driver.page()
        self.addCleanup(driver.close_pages)
        page.set_default_timeout(harness.DEADLINE_S * 1000)
        self.complaints, self.elsewhere = [], []
        page.on("console", lambda message: message.type in ("error", "warning")
                and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        url = f"http://127.0.0.1:{self.process.port}"
        page.on("request", lambda request: request.url.startswith(url + "/")
                or self.elsewhere.append(request.url))
        page.goto(url)
        page.wait_for_selector("#connection[data-state=live]")
        return page

    @staticmethod
    def wait_text(page, selector, text):
        page.wait_for_function("([selector, text]) => document.querySelector(selector)?.textContent"
                               " === text", arg=[selector, text])

    def test_islands_and_a_switch_are_shown(self):
        page = self.open()
        self.wait_text(page, "#total-islands", "3 of 3")
        self.wait_text(page, "#total-newest", "1")
        rows = page.locator("#rows tr")
        self.assertEqual(rows.count(), 3)
        for name in ("island-0", "island-1", "island-2"):
            self.assertEqual(page.locator("#rows tr", has_text=name).count(), 1)
        self.publish()
        self.wait_for_version(2)
        self.assertEqual(self.ask()[0], 200)
        self.wait_text(page, "#total-newest", "2")
        self.wait_text(page, "#total-lag", "0")
        # The lanes of the figure, the update's bars and the patch's size.
        page.wait_for_function("""() => new Set([...document.querySelectorAll(
            '#versions .plot rect[data-version]')].map(rect => rect.dataset.version)).has('2')""")
        page.wait_for_selector("#closed g.bar")
        page.wait_for_selector("#patches rect[data-version='2']")
        self.islands[0].kill()
        self.wait_text(page, "#total-islands", "2 of 3")
        self.assertEqual((self.complaints, self.elsewhere), ([], []))


if __name__ == "__main__":
    unittest.main()
