"""What goes wrong on the whole way, from a publisher by a bucket to a replica: s3s-fs that dies, keys that
expire, clocks that are off, objects that somebody alters or removes, cleaning beside a slow reader."""

import datetime
import json
import pathlib
import shutil
import sys
import threading
import unittest

import servers
from fault_proxy import http_date
from s3_runs import BOARD, S3RunTest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from waiting import DEADLINE_S, Background, wait_until  # noqa: E402

HOUR_S = 3600


def header(request, name):
    return {n.lower(): v for n, v in request.headers}.get(name, "")


def is_data(method, version):
    return lambda request: request.method == method and f"/data/{version}/" in request.path


def is_commit(version):
    return lambda request: request.method == "PUT" and f"/log/{version:010}" in request.path


class OutageTest(S3RunTest):
    def die_during(self, matches):
        """The server dies of the request, which gets no answer."""
        def die(exchange):
            self.server.stop()
            exchange.reset()

        self.proxy.on(matches, die)

    def check_it_goes_on(self, matches):
        self.start_run(37)
        self.die_during(matches)
        publishing = Background(lambda: self.publish(38, endpoint=self.proxy.endpoint))
        wait_until(lambda: self.server.process.poll() is not None, "the server died")
        asked = len(self.proxy.log)
        wait_until(lambda: len(self.proxy.log) >= asked + 3, "the publisher tries again and again")
        self.server.start()
        publishing.result()
        self.assertEqual(self.versions(), [2, 1])
        self.pull_and_compare(38)

    def test_a_publisher_waits_for_a_server_that_died_in_its_upload(self):
        self.check_it_goes_on(is_data("PUT", 2))

    def test_a_publisher_waits_for_a_server_that_died_in_its_commit(self):
        self.check_it_goes_on(is_commit(2))

    def test_a_server_that_stays_away_leaves_the_run_as_it_was(self):
        self.start_run(37)
        self.die_during(is_data("PUT", 2))
        error = self.run_program(*self.publish_arguments(38), "--board-deadline-s", 1, expect=6,
                                 endpoint=self.proxy.endpoint)
        self.assertRegex(error.stderr, r"store runs/r/data/2/\S+ in s3://\S+: gave up after \d+ tries")
        self.pull("--board-deadline-s", 1, replica="none", expect=6)
        self.assertFalse((self.dir / "none").exists())
        self.server.start()
        self.assertEqual(self.versions(), [1])
        self.publish(38)
        self.pull_and_compare(38)

    def test_a_replica_waits_for_a_server_that_died_in_its_download(self):
        self.start_run(37, 38)
        self.pull("--version", 1)
        self.die_during(is_data("GET", 2))
        pulling = Background(lambda: self.pull(endpoint=self.proxy.endpoint))
        wait_until(lambda: self.server.process.poll() is not None, "the server died")
        asked = len(self.proxy.log)
        wait_until(lambda: len(self.proxy.log) >= asked + 3, "the replica tries again and again")
        self.server.start()
        pulling.result()
        self.compare(38)


class IdentityTest(S3RunTest):
    """Keys and clocks."""

    def test_keys_that_expire_between_upload_and_commit_are_renewed(self):
        file = self.dir / "credentials"

        def write_keys(token):
            file.write_text(f"[default]\naws_access_key_id = {servers.KEY_ID}\n"
                            f"aws_secret_access_key = {servers.SECRET}\naws_session_token = {token}\n")

        def expire(exchange):
            write_keys("new")
            exchange.error(400, "ExpiredToken")

        self.start_run(37)
        write_keys("old")
        is_old = lambda request: header(request, "x-amz-security-token") == "old"
        self.proxy.on(lambda r: is_commit(2)(r) and is_old(r), expire)
        self.publish(38, endpoint=self.proxy.endpoint, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="",
                     AWS_SHARED_CREDENTIALS_FILE=str(file))
        self.assertEqual(self.versions(), [2, 1])
        tokens = [header(request, "x-amz-security-token") for request in self.proxy.log]
        at = tokens.index("new")
        self.assertEqual((set(tokens[:at]), set(tokens[at:])), ({"old"}, {"new"}))

    def test_a_clock_an_hour_off_publishes_and_pulls(self):
        """The server's clock is an hour ahead, and it refuses dates a quarter of an hour off."""
        refused = []

        def strict(exchange):
            request = exchange.request
            date = datetime.datetime.strptime(header(request, "x-amz-date"), "%Y%m%dT%H%M%SZ")
            now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
            if abs((date - now).total_seconds() - HOUR_S) > 900:
                refused.append(request)
                return exchange.error(403, "RequestTimeTooSkewed", [("Date", http_date(HOUR_S))])
            self.sign_anew(request)
            exchange.through()

        self.proxy.on(lambda r: True, strict, times=10**9)
        pull = ["pull", "--board", BOARD, "--run", "r", "--replica", self.dir / "replica"]
        programs = (["board", "init", BOARD], self.publish_arguments(37), pull, self.publish_arguments(38))
        for count, arguments in enumerate(programs, 1):
            self.run_program(*arguments, endpoint=self.proxy.endpoint)
            self.assertEqual(len(refused), count)  # one request more for each process
        self.run_program(*pull, endpoint=self.proxy.endpoint)
        self.assertLessEqual(len(refused), len(programs) + 7)  # those that it begins with, all at once
        self.compare(38)

    @staticmethod
    def sign_anew(request):
        """With the real server's time."""
        signature = ("authorization", "x-amz-date", "x-amz-content-sha256", "host")
        kept = [(n, v) for n, v in request.headers if n.lower() not in signature]
        host = header(request, "host")
        signed = servers.signed_headers(
            host, request.method, request.target, request.body,
            [(n, v) for n, v in kept if n.lower().startswith("x-amz-")])
        request.headers = [("Host", host), *signed.items(),
                           *((n, v) for n, v in kept if n.lower() not in signed)]


class AlteredTest(S3RunTest):
    """Objects that somebody altered or removed in the bucket."""

    def alter(self, key):
        content = bytearray(self.object(key))
        content[len(content) // 2] ^= 1
        self.object(key, "PUT", bytes(content))

    def test_an_altered_part_is_named_and_another_payload_used(self):
        self.start_run(37, 38, 39)
        self.pull("--version", 2)
        (part,) = self.parts(3)
        self.alter(part)
        self.assertIn(part, self.pull(expect=5).stderr)
        self.compare(38)  # it stays where it was
        self.run_program("board", "anchor", 3, self.data / "step-39", "--board", BOARD, "--run", "r")
        done = self.pull("--json")
        self.assertEqual(json.loads(done.stdout)["chain"], ["anchor 3"])
        self.assertIn(part, done.stderr)
        self.compare(39)

    def test_a_swollen_part_is_refused_before_it_is_fetched(self):
        self.start_run(37, 38)
        self.pull("--version", 1)
        (part,) = self.parts(2)
        self.object(part, "PUT", self.object(part) + bytes(40 << 20))
        self.assertRegex(self.pull(expect=5).stderr, rf"fetch {part} in \S+: \d+ bytes, at most \d+ allowed")
        self.compare(37)

    def test_a_hole_in_the_log_is_refused(self):
        self.start_run(37, 38, 39)
        self.pull("--version", 1)
        self.object("runs/r/log/0000000002.json", "DELETE")
        self.assertIn("no chain leads there", self.pull(expect=3).stderr)
        self.compare(37)
        self.pull(replica="fresh", expect=3)
        clean = ["board", "gc", "--board", BOARD, "--run", "r", "--keep-last", 1, "--keep-younger-h", 0]
        for command in (["verify", "--board", BOARD, "--run", "r"], [*clean, "--apply"]):
            done = self.run_program(*command, expect=5)
            self.assertRegex(done.stdout + done.stderr, "version 2\\b.*no log entry")
        self.assertTrue(self.object(self.parts(3)[0]))  # cleaning removed nothing

    def test_a_removed_anchor_fails_only_those_who_begin_with_it(self):
        self.start_run(37, 38, 39)
        self.pull("--version", 1)
        lost = self.parts(1)[0]
        self.object(lost, "DELETE")
        self.assertIn(lost, self.pull(replica="fresh", expect=3).stderr)
        self.pull_and_compare(39)
        self.run_program("board", "anchor", 3, self.data / "step-39", "--board", BOARD, "--run", "r")
        self.pull(replica="fresh")
        self.compare(39, "fresh")

    def test_cleaning_beside_a_slow_reader_costs_it_another_chain(self):
        self.start_run(37, 38, 39, 40)
        self.pull("--version", 1)

        def clean_first(exchange):
            options = ("--board", BOARD, "--run", "r")
            self.run_program("board", "anchor", 4, self.data / "step-40", *options)
            self.run_program("board", "gc", *options, "--keep-last", 1, "--keep-younger-h", 0, "--apply")
            exchange.through()

        self.proxy.on(is_data("GET", 3), clean_first)
        done = self.pull("--json", endpoint=self.proxy.endpoint)
        self.assertEqual(json.loads(done.stdout)["chain"], ["anchor 4"])
        self.assertIn("left out a payload", done.stderr)
        self.compare(40)


class SameEpochTest(S3RunTest):
    def test_of_two_publishers_with_one_epoch_one_wins_each_number(self):
        """A copied baseline holds the writer's id, so both go on with its epoch."""
        self.start_run(37)
        shutil.copytree(self.dir / "baseline", self.dir / "copy")
        both, one = threading.Barrier(2, timeout=DEADLINE_S), threading.Lock()

        def race(exchange):
            both.wait()
            with one:  # the server's own creates are not exact when they race
                answer = exchange.forward()
            exchange.send(*answer)

        self.proxy.on(is_commit(2), race, times=2)
        publishers = [Background(self.outcome, baseline) for baseline in ("baseline", "copy")]
        outcomes = sorted(publisher.result() for publisher in publishers)
        self.assertEqual([code for code, _ in outcomes], [0, 4], outcomes)
        self.assertIn("another publisher committed this version first", outcomes[1][1])
        self.assertEqual(self.versions(), [2, 1])
        self.assertEqual(self.epochs(), [1, 1])
        self.pull_and_compare(38)
        for step, baseline in ((39, "copy"), (40, "baseline")):  # the loser follows
            self.publish(step, baseline)
        self.assertEqual(self.epochs(), [1, 1, 1, 1])
        self.pull_and_compare(40)

    def outcome(self, baseline):
        """Exit code and words."""
        try:
            return 0, self.publish(38, baseline, endpoint=self.proxy.endpoint).stderr
        except AssertionError as failure:
            self.assertIn("4 != 0", str(failure))
            return 4, str(failure)

    def epochs(self):
        log = self.run_program("log", "--board", BOARD, "--run", "r", "--json")
        return [entry["epoch"] for entry in json.loads(log.stdout)["versions"]]


if __name__ == "__main__":
    unittest.main()
