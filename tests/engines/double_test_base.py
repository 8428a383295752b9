"""What the tests of both doubles share: a double with two checkpoints, and its own routes."""

import pathlib
import re

import fake_engine
import harness


class DoubleTest(harness.ServerTest):
    """`program` is the double's file; `double` serves `old`, which is checkpoint v1."""

    program = None
    options = ()

    def setUp(self):
        super().setUp()
        self.old, self.new = self.make_model("old", 1), self.make_model("new", 2)
        self.old_digest, self.new_digest = map(fake_engine.digest_of, (self.old, self.new))
        self.double = self.start_double(*self.options)

    def start_double(self, *options):
        return self.start(harness.HERE / self.program, self.old, *options)

    def ok(self, method, path, body=None, **expected):
        """The body of a call that must be a 200; `expected` keys are in it."""
        status, answer = self.double.call(method, path, body)
        self.assertEqual(status, 200, answer)
        for key, value in expected.items():
            self.assertEqual(answer[key], value, answer)
        return answer

    def post(self, path, body=None, **expected):
        return self.ok("POST", path, body, **expected)

    def get(self, path, **expected):
        return self.ok("GET", path, **expected)

    def state(self):
        return self.get("/_double/state")

    def wait_for_state(self, **expected):
        return harness.wait_until(
            lambda: expected.items() <= self.state().items(), f"state {expected}")

    def rules(self):
        return [violation["rule"] for violation in self.get("/_double/violations")]

    def plan(self, route, kind, **more):
        self.post("/_double/faults", {"route": route, "kind": kind, **more})

    def manual(self):
        self.post("/_double/pacing", {"manual": True})

    def step(self, tokens=1):
        return self.post("/_double/step", {"tokens": tokens})["made"]

    def proofs(self, events, *path):
        """All token proofs of events, each found under `path`."""
        found = []
        for event in events:
            for key in path:
                event = event[key]
            found += event["_double"]
        return found

    def assert_refused(self, rule, method, path, body=None, statuses=range(400, 600)):
        """The call is refused and is the newest violation, of this rule."""
        before = len(self.rules())
        status, answer = self.double.call(method, path, body)
        self.assertIn(status, statuses, answer)
        self.assertEqual(self.rules()[before:], [rule])
        log = self.get("/_double/log")
        self.assertEqual(self.get("/_double/violations")[-1]["call"], log[-1]["id"])
        self.assertEqual(log[-1]["status"], status)


def rules_in(*files):
    """All rules that these sources can record."""
    text = "\n".join((pathlib.Path(harness.HERE) / file).read_text(encoding="utf-8")
                     for file in files)
    return set(re.findall(r'(?:violation|refusal|_refuse_flush)\(\s*"(\w+)"', text))
