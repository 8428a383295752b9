"""The whole program on s3://: boards, versions, storms, several publishers."""

import json
import subprocess
import threading
import unittest

import servers
from fault_proxy import Exchange, make_creates_exact
from s3_runs import BOARD, PROGRAM, S3RunTest


class ProgramTest(S3RunTest):
    def test_a_run_on_a_bucket_is_like_one_in_a_directory(self):
        self.run_program("board", "init", BOARD)
        self.run_program("board", "init", BOARD, expect=4)
        for step in (37, 38, 39):
            self.publish(step)
            self.pull_and_compare(step)
        self.assertEqual(self.versions(), [3, 2, 1])
        self.run_program("board", "revoke", 3, "--board", BOARD, "--run", "r")
        self.pull_and_compare(38)
        self.run_program("verify", "--board", BOARD, "--run", "r", "--deep")
        shown = self.run_program("inspect", BOARD, "--json")
        self.assertEqual(json.loads(shown.stdout)["runs"], [{"run": "r", "head": 3}])

    def test_endpoint_and_region_can_be_options(self):
        # The environment names an endpoint where nothing is.
        nowhere = f"http://127.0.0.1:{servers.free_port()}"
        self.run_program("board", "init", BOARD, "--s3-endpoint", self.server.endpoint, "--s3-path-style",
                         "--s3-region", "us-east-1", endpoint=nowhere)
        self.run_program("log", "--board", BOARD, "--run", "r", "--board-deadline-s", 1, expect=6,
                         endpoint=nowhere)

    def test_no_board_no_bucket_no_keys(self):
        error = self.run_program("log", "--board", BOARD, "--run", "r", expect=3)
        self.assertIn("isthmus board init", error.stderr)
        error = self.run_program("log", "--board", "s3://", "--run", "r", expect=2)
        self.assertIn("s3://BUCKET", error.stderr)

    def test_a_board_is_not_made_where_creates_are_not_conditional(self):
        def ignore(exchange):
            status, _ = self.server.request("PUT", exchange.request.path, exchange.request.body)
            exchange.send(status, [], b"")

        self.proxy.on(lambda r: any(n.lower() == "if-none-match" for n, _ in r.headers), ignore,
                      times=10**9)
        error = self.run_program("board", "init", BOARD, expect=2, endpoint=self.proxy.endpoint)
        self.assertIn("two publishers could commit one version", error.stderr)
        self.run_program("log", "--board", BOARD, "--run", "r", expect=3)

    def test_a_commit_whose_answer_is_lost_is_one_version(self):
        self.run_program("board", "init", BOARD)
        self.publish(37)
        self.proxy.on(lambda r: r.method == "PUT" and "/log/" in r.path, Exchange.lose_answer)
        self.publish(38, endpoint=self.proxy.endpoint)
        self.assertEqual(self.versions(), [2, 1])
        self.pull_and_compare(38)

    def test_storms_cost_time_only(self):
        self.run_program("board", "init", BOARD)
        self.publish(37)
        count = iter(range(10**9))
        faults = [lambda e: e.error(503, "SlowDown"), Exchange.reset, lambda e: e.error(500, "InternalError"),
                  lambda e: e.truncate(10)]
        # Every other request of all fails, each time in another way; each is asked for once more.
        seen = set()

        def every_first(request):
            fresh = (request.method, request.target) not in seen
            seen.add((request.method, request.target))
            return fresh

        self.proxy.on(every_first, lambda e: faults[next(count) % len(faults)](e), times=10**9)
        self.publish(38, endpoint=self.proxy.endpoint)
        self.pull_and_compare(38, endpoint=self.proxy.endpoint)
        self.assertGreater(next(count), 10)

    def test_a_server_that_goes_in_the_middle_leaves_the_run_as_it_was(self):
        self.run_program("board", "init", BOARD)
        self.publish(37)
        self.proxy.on(lambda r: r.method == "PUT" and "/log/" in r.path,
                      lambda e: e.error(503, "ServiceUnavailable"), times=10**9)
        error = self.run_program("publish", self.data / "step-38", "--board", BOARD, "--run", "r",
                                 "--baseline", self.dir / "baseline", "--board-deadline-s", 1,
                                 endpoint=self.proxy.endpoint, expect=6)
        self.assertIn("503 ServiceUnavailable", error.stderr)
        self.assertEqual(self.versions(), [1])
        self.publish(38)  # the baseline is still the head
        self.assertEqual(self.versions(), [2, 1])

    def test_publishers_at_a_time_share_no_number(self):
        make_creates_exact(self.proxy)
        self.run_program("board", "init", BOARD)
        self.publish(37)
        codes = []

        def one(name):
            environment = servers.environment(self.proxy.endpoint)
            done = subprocess.run([PROGRAM, "publish", self.data / "step-38", "--board", BOARD, "--run", "r",
                                   "--baseline", self.dir / name], env=environment, check=False,
                                  capture_output=True, timeout=300)
            codes.append(done.returncode)

        threads = [threading.Thread(target=one, args=(f"baseline-{i}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertIn(0, codes)
        self.assertTrue(set(codes) <= {0, 4}, codes)
        self.assertEqual(self.versions(), list(range(1 + codes.count(0), 0, -1)))


if __name__ == "__main__":
    unittest.main()
