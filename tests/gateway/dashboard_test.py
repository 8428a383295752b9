"""The dashboard in a real browser, over fleets of 3, 100 and 1,000 islands."""

import json
import os
import pathlib
import random
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "gateway"), str(ROOT / "tests" / "support")]
import browser  # noqa: E402

browser.require()
from dashboard_double import DashboardDouble  # noqa: E402
from fleet_model import SERVING, FleetModel, rank  # noqa: E402
from waiting import DEADLINE_S  # noqa: E402

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", random.randrange(1 << 32)))
print(f"ISTHMUS_TEST_SEED={SEED}", file=sys.stderr)
HOSTILE = ['<img src=x onerror="window.hacked=1">', "</td><script>window.hacked=1</script>", "a\u202eb&amp;\"'`${1}", "x" * 128]
FIGURES = ("versions", "lag", "requests", "load", "latency", "staging", "closed", "patches", "density", "push")


class DashboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, model, token=None, script=None, **preferences):
        """The page over the model, watched: nothing may go elsewhere, nothing may be complained of.

        `script` runs before the page's own, and the page's clock can be set forward."""
        self.double = DashboardDouble(model, token)
        self.addCleanup(self.double.close)
        page = self.browser.page(**preferences)
        self.addCleanup(self.browser.close_pages)
        page.set_default_timeout(DEADLINE_S * 1000)
        self.complaints, self.elsewhere = [], []
        page.on("console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(self.double.url + "/") or self.elsewhere.append(request.url))
        if script:
            page.clock.install()
            page.add_init_script(script)
        page.goto(self.double.url)
        return page

    def open_fleet(self, islands, samples=300, **preferences):
        page = self.open(FleetModel(islands, SEED, samples=samples), **preferences)
        self.wait_live(page)
        return page

    @staticmethod
    def set_hidden(page, hidden):
        page.evaluate("""hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
            document.dispatchEvent(new Event('visibilitychange')); }""", hidden)

    def wait_live(self, page):
        page.wait_for_selector("#connection[data-state=live]")
        page.wait_for_selector("#rows tr")

    def wait_text(self, page, selector, text):
        page.wait_for_function("([selector, text]) => document.querySelector(selector).textContent === text", arg=[selector, text])

    def wait_drawn(self, page):
        """Until the page shows the model as it is now, fleet and history."""
        model = self.double.model
        page.wait_for_function("""([cursor, flight]) => document.getElementById('totals').dataset.cursor === cursor
            && document.getElementById('total-flight').textContent === flight""",
                               arg=[f"{model.instance}.{model.sequence}", f"{model.in_flight:,}"])

    def wait_received(self, page, samples):
        """Until the page counts as many requests as these samples do."""
        received = sum(sample["requests"]["received"] for _, sample in samples) * 2
        page.wait_for_function("wanted => Math.abs(Number(document.querySelector('#total-failed + dd').textContent.replace(/[^0-9]/g, '')) - wanted) <= 1", arg=received)

    def assert_clean(self):
        self.assertEqual(self.elsewhere, [])
        self.assertEqual(self.complaints, [])
        self.assertEqual(self.double.strange, [])

    @staticmethod
    def column(page, name):
        """The texts of a class of cells, from top to bottom."""
        return page.locator(f"#rows td.{name}").all_text_contents()

    def check_totals(self, page):
        model = self.double.model
        serving = [island for island in model.islands if island.state in SERVING]
        lags = sorted(model.lags())
        self.assertEqual(page.inner_text("#total-islands"), f"{len(serving):,} of {len(model.islands):,}")
        self.assertEqual(page.inner_text("#total-newest"), str(model.newest))
        self.assertEqual(page.inner_text("#total-lag"), f"{rank(lags, 50):,}")
        self.assertIn(f"p95 {rank(lags, 95):,}, highest {lags[-1]:,}", page.inner_text("#total-lag + dd"))
        self.assertEqual(page.inner_text("#total-flight"), f"{model.in_flight:,}")
        self.assertEqual(page.inner_text("#total-queued"), f"{model.queued:,}")
        self.assertEqual(page.inner_text("#total-failed"), "0")
        received = sum(sample["requests"]["received"] for _, sample in model.samples) * 2
        self.assertAlmostEqual(int(re.search(r"of ([\d,]+)", page.inner_text("#total-failed + dd"))[1].replace(",", "")), received, delta=1)

    def check_drawn(self, page, figures=FIGURES):
        for figure in figures:
            shapes = page.locator(f"#{figure} .plot svg").locator("path[d], rect[width]")
            self.assertGreater(shapes.count(), 0, figure)
            for index in range(min(shapes.count(), 20)):
                box = shapes.nth(index).evaluate("shape => { const box = shape.getBBox(); return [box.x, box.y, box.width, box.height]; }")
                self.assertTrue(all(abs(each) < 1e5 for each in box), f"{figure}: {box}")
            self.assertNotIn("NaN", page.inner_html(f"#{figure} .plot"), figure)

    def test_three_islands(self):
        page = self.open_fleet(3, samples=900)
        self.check_drawn(page)
        self.check_totals(page)
        model = self.double.model
        lanes = page.locator("#versions .plot rect[data-version]").evaluate_all("all => all.map(rect => Number(rect.dataset.version))")
        changes = [change for line in model.history(1800, "")["timelines"] for change in line["changes"]]
        self.assertEqual(sorted(lanes), sorted(version for t, version in changes if t < model.now))
        self.assertEqual(page.locator("#versions .plot text.row").count(), 3)
        self.assertEqual(set(page.locator("#patches rect[data-version]").evaluate_all("all => all.map(rect => Number(rect.dataset.version))")),
                         {facts["version"] for _, facts in model.facts})
        self.assertEqual(page.locator("#closed g.bar").count(), 12)
        self.assertTrue(page.locator("#strip").count() == 0 and not page.is_visible("#versions canvas"))
        self.assert_clean()

    def test_a_hundred_islands(self):
        page = self.open_fleet(100, samples=900)
        self.check_drawn(page)
        self.check_totals(page)
        versions = {version for _, sample in self.double.model.samples for version, _ in sample["runs"][0]["versions"]}
        bands = page.locator("#versions .plot path.band").evaluate_all("all => all.map(path => Number(path.dataset.version))")
        self.assertEqual(set(bands), versions)
        self.assertTrue(page.is_visible("#versions canvas"))
        self.assertEqual(page.inner_text("#count"), "1 to 50 of 100 islands")
        self.assert_clean()

    def test_a_thousand_islands_are_refreshed(self):
        page = self.open_fleet(1000)
        self.check_drawn(page)
        self.check_totals(page)
        # Frames are drawn again and again while the page is refreshed: it never hangs for good.
        for _ in range(3):
            self.double.advance()
            self.wait_drawn(page)
            self.assertGreater(page.evaluate("() => new Promise(done => { let frames = 0; const next = () => (frames += 1) === 5 ? done(frames) : requestAnimationFrame(next); next(); })"), 4)
        self.check_totals(page)
        cells = page.evaluate("""() => { const canvas = document.querySelector('#versions canvas');
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return new Set(new Uint32Array(data.buffer)).size; }""")
        self.assertGreater(cells, 1)
        self.assert_clean()

    def test_it_follows_the_fleet_by_cursors(self):
        page = self.open_fleet(3, samples=20)
        self.double.advance(40)
        self.wait_drawn(page)
        self.check_totals(page)
        asked = [target for target in self.double.targets if target.startswith("/v1/fleet/history")]
        self.assertEqual(asked[0], "/v1/fleet/history?since_s=1800")
        self.assertEqual(asked[1], "/v1/fleet/history?since_s=1800&after=gw-1.20")
        self.assert_clean()

    def test_another_gateway_begins_anew(self):
        page = self.open_fleet(3, samples=20)
        self.double.model = FleetModel(5, SEED + 1, samples=7, instance="gw-2")
        self.wait_drawn(page)
        self.assertEqual(page.inner_text("#gateway"), "gw-2")
        self.check_totals(page)
        self.assert_clean()

    def test_the_time_shown_can_be_chosen(self):
        page = self.open_fleet(3, samples=900)
        page.select_option("#window", "300")
        self.wait_received(page, self.double.model.samples[-151:])
        self.double.advance(60)
        self.wait_received(page, self.double.model.samples[-151:])
        page.select_option("#window", "86400")
        page.wait_for_function("() => document.querySelector('#total-failed + dd').textContent.startsWith('of')")
        page.wait_for_function("() => document.querySelectorAll('#lag path.line').length >= 3")
        self.assertIn("/v1/fleet/history?since_s=86400", self.double.targets)
        self.assert_clean()

    def test_sorted_and_filtered_by_keyboard(self):
        page = self.open_fleet(100)
        model = self.double.model
        page.focus("th[data-column=id] button")
        page.keyboard.press("Enter")
        self.assertEqual(page.get_attribute("th[data-column=id]", "aria-sort"), "ascending")
        self.assertEqual(self.column(page, "name"), [island.id for island in model.islands][:50])
        page.keyboard.press("Space")
        self.assertEqual(page.get_attribute("th[data-column=id]", "aria-sort"), "descending")
        self.assertEqual(self.column(page, "name"), [island.id for island in model.islands][:49:-1])
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        self.assertEqual(page.get_attribute("th[data-column=state]", "aria-sort"), "ascending")
        self.assertIsNone(page.get_attribute("th[data-column=id]", "aria-sort"))
        page.focus("#next")
        page.keyboard.press("Enter")
        self.assertEqual(page.inner_text("#count"), "51 to 100 of 100 islands")
        page.focus("#filter")
        page.keyboard.type("island-007")
        self.assertEqual(sorted(self.column(page, "name")), [f"island-{index:04}" for index in range(70, 80)])
        self.assertEqual(page.inner_text("#count"), "10 of 100 islands")
        page.keyboard.type(" nothing like this")
        self.assertEqual(self.column(page, "name"), [])
        page.fill("#filter", "")
        page.select_option("#state", "suspect")
        self.assertEqual(page.locator("#rows tr").count(), sum(island.state == "suspect" for island in model.islands))
        self.assert_clean()

    def test_all_is_reached_by_tab(self):
        page = self.open_fleet(3)
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.className"), "skip")
        page.keyboard.press("Enter")
        self.assertEqual(page.evaluate("document.activeElement.id"), "islands")
        seen = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("(() => { const at = document.activeElement; return at.id || at.closest('figure, th')?.id || at.closest('th')?.dataset.column || at.className; })()"))
        self.assertLessEqual({"window", "pause", "theme", "filter", "state", "scroll", "id", "reason", *FIGURES}, seen)

    def test_charts_are_read_by_arrow_keys(self):
        page = self.open_fleet(3, samples=100)
        page.focus("#load .plot")
        page.keyboard.press("Home")
        first = self.double.model.samples[0][1]
        self.assertIn(f"in flight {first['in_flight']}, queued {first['queued']}", page.inner_text("#load [role=status]"))
        page.keyboard.press("End")
        last = self.double.model.samples[-1][1]
        self.assertIn(f"in flight {last['in_flight']}, queued {last['queued']}", page.inner_text("#load [role=status]"))
        page.focus("#closed .plot")
        page.keyboard.press("ArrowDown")
        update = self.double.model.updates[-1]
        self.assertIn(f"{update[2]}, switch from {update[4]['from']} to {update[4]['to']}", page.inner_text("#closed [role=status]"))

    def test_light_and_dark(self):
        def background():
            return sum(map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]))

        page = self.open_fleet(3, samples=20, color_scheme="dark", reduced_motion="reduce")
        self.assertLess(background(), 200)
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('#connection i')).animationName"), "none")
        page.focus("#theme")
        page.keyboard.press("Enter")
        self.assertEqual(page.inner_text("#theme"), "Theme: light")
        self.assertGreater(background(), 600)
        page.keyboard.press("Enter")
        self.assertEqual(page.inner_text("#theme"), "Theme: dark")
        self.assertLess(background(), 200)
        page.reload()
        self.wait_live(page)
        self.assertEqual(page.inner_text("#theme"), "Theme: dark")
        self.assert_clean()

    def test_hostile_names_and_reasons_are_text(self):
        model = FleetModel(4, SEED, samples=60, names=HOSTILE.__getitem__, run='<b onclick="x">run</b>')
        for island in model.islands:
            island.state, island.reason, island.until = "suspect", HOSTILE[1], model.now + 10**9
        for _, _, _, _, update in model.updates:
            update["error"] = HOSTILE[0]
        page = self.open(model)
        self.wait_live(page)
        self.assertEqual(sorted(self.column(page, "name")), sorted(HOSTILE))
        self.assertEqual(self.column(page, "reason"), [HOSTILE[1]] * 4)
        self.assertEqual(page.evaluate("document.querySelectorAll('#rows img, #rows script, figure img, figure script, figure b b').length"), 0)
        self.assertIsNone(page.evaluate("window.hacked ?? null"))
        self.assert_clean()

    def test_a_lost_connection_is_told_and_recovers(self):
        page = self.open_fleet(3, samples=20)
        self.double.dead = True
        page.wait_for_selector("#lost:not([hidden])")
        self.assertIn("No answer from the gateway", page.inner_text("#lost"))
        self.assertEqual(page.get_attribute("#lost", "role"), "alert")
        self.assertRegex(page.inner_text("#connection"), r"^connection lost, last answer (now|\d+ s ago)$")
        self.assertGreater(page.locator("#rows tr").count(), 0)
        self.double.advance(30)
        self.double.dead = False
        page.wait_for_selector("#lost", state="hidden")
        self.wait_drawn(page)
        self.check_totals(page)
        self.assertEqual([text for text in self.complaints if "ERR_EMPTY_RESPONSE" not in text], [])

    def test_a_bad_answer_is_told(self):
        page = self.open_fleet(3, samples=20)
        history, self.double.history = self.double.history, lambda _: self.double.refuse(503)
        page.wait_for_selector("#lost:not([hidden])")
        self.assertIn("The gateway answered 503", page.inner_text("#lost"))
        self.double.history = history
        page.wait_for_selector("#lost", state="hidden")

    def test_nothing_is_asked_while_hidden_or_paused(self):
        page = self.open_fleet(3, samples=20, script="window.asked = 0; const ask = fetch; window.fetch = (...all) => { window.asked += 1; return ask(...all); };")

        def asked_in_a_minute():
            before = page.evaluate("window.asked")
            page.clock.fast_forward(60_000)
            return page.evaluate("window.asked") - before

        page.click("#pause")
        page.wait_for_selector("#connection[data-state=paused]")
        self.assertEqual(asked_in_a_minute(), 0)
        self.set_hidden(page, True)
        page.click("#pause")
        self.assertEqual(asked_in_a_minute(), 0)
        self.double.advance()
        self.set_hidden(page, False)
        self.wait_drawn(page)
        page.wait_for_function("window.asked % 2 === 0")
        page.clock.fast_forward(60_000)
        page.wait_for_function("asked => window.asked > asked", arg=page.evaluate("window.asked"))

    def test_an_operators_token_is_asked_for(self):
        page = self.open(FleetModel(3, SEED, samples=20), token="right")
        page.wait_for_selector("#ask[open]")
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        self.wait_text(page, "#ask-why", "The gateway does not accept this token.")
        page.wait_for_selector("#ask[open]")
        page.fill("#token", "right")
        page.keyboard.press("Enter")
        self.wait_live(page)
        self.assertFalse(page.is_visible("#ask"))
        self.assertEqual(page.evaluate("[sessionStorage.getItem('isthmus.token'), localStorage.length]"), ["right", 0])
        self.assertEqual(self.elsewhere, [])

    def test_without_push_times_there_is_no_chart_of_them(self):
        page = self.open(FleetModel(3, SEED, samples=100, push=False))
        self.wait_live(page)
        page.wait_for_selector("#patches rect[data-version]")
        self.assertFalse(page.is_visible("#push"))
        self.assert_clean()

    def test_a_gateway_that_has_just_begun(self):
        page = self.open(FleetModel(0, SEED, samples=0))
        page.wait_for_selector("#connection[data-state=live]")
        self.assertEqual(page.inner_text("#total-islands"), "0 of 0")
        self.assertEqual(page.inner_text("#lag .empty"), "Nothing yet.")
        self.assert_clean()

    def test_accessibility(self):
        for islands, scheme in ((3, "light"), (100, "dark")):
            page = self.open_fleet(islands, color_scheme=scheme)
            page.evaluate(browser.axe_source())
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            problems = [f"{each['id']}: {each['help']}: {node['html'][:160]}" for each in found["violations"] for node in each["nodes"]]
            self.assertEqual(problems, [], json.dumps(problems, indent=1))


if __name__ == "__main__":
    unittest.main()
