#!/usr/bin/env python3
"""Alerts, dashboard and rules for autoscaling: read by promtool, and only about numbers that there are."""

import json
import pathlib
import re
import tempfile
import unittest

import deployed
import documented
from deployed import DEPLOY, needs

RULES = DEPLOY / "prometheus"
DASHBOARD = DEPLOY / "grafana/isthmus.json"


def read(path):
    return deployed.yaml.safe_load(path.read_text(encoding="utf-8"))


def promtool(*arguments, **more):
    done = deployed.run(deployed.tool("promtool"), *arguments, **more)
    if done.returncode != 0:
        raise AssertionError(f"promtool {arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def check_expressions(expressions):
    """promtool reads expressions in files of rules only."""
    rules = [{"record": f"expression:{number}", "expr": text} for number, text in enumerate(expressions)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"groups": [{"name": "expressions", "rules": rules}]}, file)
        file.flush()
        promtool("check", "rules", file.name)


def without_variables(expression):
    """As Grafana would ask it."""
    return expression.replace("$__rate_interval", "1m").replace("$run", "grpo-7")


class Base(unittest.TestCase):

    def assert_numbers_exist(self, expression):
        names = set(re.findall(r"\bisthmus_\w+", expression))
        self.assertTrue(names, expression)
        self.assertEqual(names - documented.series(), set(), expression)


@needs("promtool")
class AlertsTest(Base):

    def alerts(self):
        return [rule for group in read(RULES / "alerts.yaml")["groups"] for rule in group["rules"]]

    def test_rules_are_valid_and_do_what_their_tests_say(self):
        promtool("check", "rules", RULES / "alerts.yaml")
        promtool("test", "rules", RULES / "alerts_test.yaml")

    def test_every_alert_is_seen_to_fire_and_one_that_waits_not_to_fire(self):
        seen = [case for test in read(RULES / "alerts_test.yaml")["tests"] for case in test["alert_rule_test"]]
        fired = {case["alertname"] for case in seen if case["exp_alerts"]}
        quiet = {case["alertname"] for case in seen if not case["exp_alerts"]}
        self.assertEqual({alert["alert"] for alert in self.alerts()}, fired)
        patient = {alert["alert"] for alert in self.alerts() if "for" in alert}
        self.assertLessEqual(patient, quiet)

    def test_alerts_are_about_numbers_that_there_are_and_the_documentation_has_them(self):
        text = (deployed.ROOT / "docs/operations.md").read_text(encoding="utf-8")
        section = text.split("\n## Alerts\n")[1].split("\n## ")[0]
        for alert in self.alerts():
            self.assert_numbers_exist(alert["expr"])
        named = set(re.findall(r"`(Isthmus\w+)`", section))
        self.assertEqual(named, {alert["alert"] for alert in self.alerts()})


@needs("promtool")
class DashboardTest(Base):

    def setUp(self):
        self.dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        self.panels = [panel for panel in self.dashboard["panels"] if panel["type"] != "row"]

    def expressions(self):
        return [target["expr"] for panel in self.panels for target in panel["targets"]]

    def test_every_question_can_be_asked(self):
        self.assertGreater(len(self.expressions()), 30)
        check_expressions(map(without_variables, self.expressions()))
        with self.assertRaises(AssertionError):
            check_expressions(["sum(rate(isthmus_gateway_queued)"])

    def test_questions_are_about_numbers_that_there_are(self):
        for expression in self.expressions():
            self.assert_numbers_exist(expression)
        for variable in self.dashboard["templating"]["list"]:
            if variable["type"] == "query":
                self.assert_numbers_exist(variable["query"]["query"])

    def test_it_asks_for_most_of_what_there_is(self):
        asked = set(re.findall(r"\bisthmus_\w+", " ".join(self.expressions())))
        asked = {re.sub("_(bucket|sum|count)$", "", name) for name in asked}
        for part, names in documented.numbers().items():
            self.assertGreaterEqual(len(names & asked) * 3, len(names), part)

    def test_panels_have_their_own_place_and_number(self):
        self.assertEqual(len({panel["id"] for panel in self.dashboard["panels"]}), len(self.dashboard["panels"]))
        taken = set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells


@needs("promtool")
class ScrapingTest(Base):

    def test_the_scrape_configuration_is_valid(self):
        """Distributions leave out what finds pods: something else stands in for it."""
        text = (RULES / "prometheus.yaml").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "prometheus.yaml"
            file.write_text(text.replace("kubernetes_sd_configs: [{role: pod}]", "file_sd_configs: [{files: [pods.json]}]"),
                            encoding="utf-8")
            promtool("check", "config", "--syntax-only", file)
        self.assertEqual(text.count("kubernetes_sd_configs: [{role: pod}]"), 3)
        self.assertEqual(read(RULES / "prometheus.yaml")["rule_files"], ["alerts.yaml"])

    def test_it_keeps_the_pods_of_the_chart(self):
        jobs = read(RULES / "prometheus.yaml")["scrape_configs"]
        kept = {job["relabel_configs"][0]["regex"] for job in jobs}
        labels = set()
        for file in (DEPLOY / "kubernetes").glob("*.yaml"):
            for thing in deployed.yaml.safe_load_all(file.read_text(encoding="utf-8")):
                pod = deployed.pod_of(thing)
                if pod:
                    at = thing["spec"]["template"]["metadata"]["labels"]
                    labels.add(";".join((at["app.kubernetes.io/name"], at["app.kubernetes.io/component"],
                                         pod["containers"][0]["ports"][0]["name"])))
        self.assertEqual(kept, labels)

    def test_the_adapter_offers_what_the_scaler_asks_for(self):
        rules = read(RULES / "adapter.yaml")["rules"]["external"]
        for rule in rules:
            self.assert_numbers_exist(rule["seriesQuery"])
            self.assert_numbers_exist(rule["metricsQuery"])
        check_expressions([rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="rl"') for rule in rules])
        scaler = read(DEPLOY / "kubernetes/autoscaling.yaml")
        asked = {metric["external"]["metric"]["name"] for metric in scaler["spec"]["metrics"]}
        self.assertEqual(asked, {rule["name"]["as"] for rule in rules})


if __name__ == "__main__":
    deployed.main()
