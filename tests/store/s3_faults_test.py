"""What goes wrong between a store and its server: the store over a proxy with faults, before s3s-fs."""

import datetime
import hashlib
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import servers
from fault_proxy import Exchange, FaultProxy, http_date, is_create

TOOL = os.environ["ISTHMUS_STORE_TOOL"]
LOCATION = f"s3://{servers.BUCKET}/b"
MIB = 1 << 20


def method(*methods):
    return lambda request: request.method in methods


def header(request, name):
    return {n.lower(): v for n, v in request.headers}.get(name, "")


class FaultTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = servers.Server("s3s-fs")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.proxy = FaultProxy(self.server.port)
        self.addCleanup(self.proxy.close)
        self.key = self.id().rsplit(".", 1)[1]
        self.variables = {"STORE_DEADLINE_MS": "30000"}

    def environment(self):
        return servers.environment(self.proxy.endpoint, **self.variables)

    def tool(self, operation, key=None, file=""):
        """What the operation printed."""
        done = subprocess.run([TOOL, LOCATION, operation, key or self.key, str(file)],
                              env=self.environment(), capture_output=True, text=True, timeout=120,
                              check=True)
        return done.stdout.strip()

    def content(self, size=1000):
        file = self.dir / "content"
        file.write_bytes(os.urandom(size))
        return file

    def stored(self, key=None):
        """The object as the server has it, seen past the proxy."""
        status, body = self.server.request("GET", f"/{servers.BUCKET}/b/{key or self.key}")
        return body if status == 200 else None

    def put_past_proxy(self, content, key=None):
        status, _ = self.server.request("PUT", f"/{servers.BUCKET}/b/{key or self.key}", content)
        self.assertEqual(status, 200)

    # Storms.

    def test_a_storm_of_errors_is_waited_out(self):
        codes = [(500, "InternalError"), (503, "SlowDown"), (503, "ServiceUnavailable"),
                 (502, "BadGateway"), (429, "TooManyRequests"), (400, "RequestTimeout"),
                 (409, "ConditionalRequestConflict")]
        for status, code in codes:
            self.proxy.on(lambda r: True, lambda e, s=status, c=code: e.error(s, c))
        file = self.content()
        self.assertEqual(self.tool("create", file=file), "ok true")
        self.assertEqual(self.stored(), file.read_bytes())
        self.assertEqual(len(self.proxy.log), len(codes) + 1)

    def test_retry_after_is_obeyed(self):
        self.proxy.on(lambda r: True, lambda e: e.error(503, "SlowDown", [("Retry-After", "2")]))
        start = time.monotonic()
        self.assertEqual(self.tool("put", file=self.content()), "ok")
        self.assertGreaterEqual(time.monotonic() - start, 2)  # a lower bound, and no timing

    def test_a_storm_that_does_not_end_is_unavailable_at_the_deadline(self):
        self.variables["STORE_DEADLINE_MS"] = "1000"
        self.proxy.on(lambda r: True, lambda e: e.error(503, "SlowDown"), times=10**9)
        answer = self.tool("put", file=self.content())
        self.assertRegex(answer, r"^unavailable: store .* tries, at last: status 503 SlowDown")
        self.assertIsNone(self.stored())

    # Connections.

    def test_resets_while_an_answer_is_awaited_are_tried_again(self):
        self.proxy.on(lambda r: True, Exchange.reset, times=3)
        file = self.content()
        self.assertEqual(self.tool("put", file=file), "ok")
        self.assertEqual(self.stored(), file.read_bytes())

    def test_a_reset_in_an_upload_is_tried_again(self):
        # A proxy of its own that breaks the first connection after a little of the body.
        relay, first = RelayThatBreaks(self.server.port), self.content(8 * MIB)
        self.addCleanup(relay.close)
        done = subprocess.run([TOOL, LOCATION, "put", self.key, first], text=True,
                              env=servers.environment(relay.endpoint, **self.variables),
                              capture_output=True, timeout=120, check=True)
        self.assertEqual(done.stdout.strip(), "ok")
        self.assertEqual(relay.broken, 1)
        self.assertEqual(self.stored(), first.read_bytes())

    def test_a_truncated_answer_is_tried_again(self):
        self.put_past_proxy(b"0123456789" * 1000)
        self.proxy.on(method("GET"), lambda e: e.truncate(777), times=2)
        self.assertEqual(self.tool("get"), "ok " + "0123456789" * 1000)

    def test_a_truncated_download_is_whole_in_the_end(self):
        content = os.urandom(3 * MIB)
        self.put_past_proxy(content)
        self.proxy.on(method("GET"), lambda e: e.truncate(2 * MIB), times=2)
        self.assertEqual(self.tool("fetch", file=self.dir / "to"), "ok")
        self.assertEqual((self.dir / "to").read_bytes(), content)

    def test_resets_in_some_ranges_cost_these_ranges_only(self):
        content = os.urandom(50 * MIB)
        self.put_past_proxy(content)
        self.proxy.on(lambda r: "33554432" in header(r, "range"), Exchange.reset, times=2)
        self.assertEqual(self.tool("fetch", file=self.dir / "to"), "ok")
        self.assertEqual((self.dir / "to").read_bytes(), content)
        self.assertEqual(len(self.proxy.log), 4 + 2)

    def test_a_stalled_answer_is_given_up_and_tried_again(self):
        self.variables["STORE_STALL_MS"] = "1000"
        self.put_past_proxy(b"content")
        self.proxy.on(method("GET"), lambda e: e.stall(3))
        self.assertEqual(self.tool("get"), "ok content")
        self.assertEqual(len(self.proxy.log), 2)

    def test_a_download_that_fails_leaves_no_file(self):
        self.variables["STORE_DEADLINE_MS"] = "500"
        self.put_past_proxy(os.urandom(MIB))
        self.proxy.on(method("GET"), lambda e: e.truncate(1000), times=10**9)
        self.assertRegex(self.tool("fetch", file=self.dir / "to"), "^unavailable: fetch ")
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_a_server_that_is_away_for_a_while_is_waited_for(self):
        server = servers.Server("s3s-fs")
        self.addCleanup(server.close)
        server.stop()
        back = threading.Timer(1.0, server.start)
        back.start()
        self.addCleanup(back.join)
        done = subprocess.run([TOOL, LOCATION, "put", self.key, self.content()], text=True,
                              env=servers.environment(server.endpoint, **self.variables),
                              capture_output=True, timeout=120, check=True)
        self.assertEqual(done.stdout.strip(), "ok")

    def test_a_server_that_does_not_come_back_is_unavailable(self):
        done = subprocess.run([TOOL, LOCATION, "size", self.key], text=True, capture_output=True,
                              env=servers.environment(f"http://127.0.0.1:{servers.free_port()}",
                                                      STORE_DEADLINE_MS="500"),
                              timeout=120, check=True)
        self.assertRegex(done.stdout, "^unavailable: read the size of .* at last: ")

    # Creates.

    def test_a_create_whose_answer_is_lost_is_found_to_be_its_own(self):
        self.proxy.on(is_create, Exchange.lose_answer)
        file = self.content()
        self.assertEqual(self.tool("create", file=file), "ok true")
        self.assertEqual(self.stored(), file.read_bytes())

    def test_a_create_that_was_lost_to_another_is_found_to_be_so(self):
        """The other one has the very same content: that must not be taken for success."""
        file = self.content()

        def another_is_faster(exchange):
            self.tool("create", file=file)
            exchange.reset()

        self.proxy.on(is_create, another_is_faster)
        self.assertEqual(self.tool("create", file=file), "ok false")

    def test_a_create_is_open_if_the_object_does_not_say_who_made_it(self):
        def unmarked(exchange):
            self.put_past_proxy(b"somebody's")
            exchange.reset()

        self.proxy.on(is_create, unmarked)
        self.assertRegex(self.tool("create", file=self.content()), "^unavailable: .*may have been")

    def test_an_existing_key_is_false_at_once(self):
        self.put_past_proxy(b"first")
        self.assertEqual(self.tool("create", file=self.content()), "ok false")
        self.assertEqual(len(self.proxy.log), 1)

    def test_a_server_without_conditions_is_found_out(self):
        def ignore(exchange):
            exchange.request.headers = [(n, v) for n, v in exchange.request.headers
                                        if n.lower() != "if-none-match"]
            # Signed for what the client sent, so made anew.
            self.put_past_proxy(exchange.request.body,
                                exchange.request.path.removeprefix(f"/{servers.BUCKET}/b/"))
            exchange.send(200, [], b"")

        self.proxy.on(is_create, ignore, times=10**9)
        self.assertRegex(self.tool("probe"), "^invalid: use .* ignores the condition")
        self.assertEqual(self.tool("list", "probe-"), "ok")  # and nothing is left

    # Uploads in parts.

    def uploads(self):
        return [f for f in self.server.root.rglob("*upload*")]

    def test_parts_that_fail_are_sent_again(self):
        self.proxy.on(lambda r: "partNumber=2" in r.query, lambda e: e.error(500, "InternalError"))
        self.proxy.on(lambda r: "partNumber=3" in r.query, Exchange.lose_answer)
        file = self.content(70 * MIB)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        self.assertEqual(self.tool("putfile", file=file), f"ok sha256:{digest}")
        self.assertEqual(hashlib.sha256(self.stored()).hexdigest(), digest)

    def test_an_upload_that_fails_is_taken_back(self):
        self.proxy.on(lambda r: "partNumber=4" in r.query, lambda e: e.error(403, "AccessDenied"),
                      times=10**9)
        before = self.uploads()
        self.assertRegex(self.tool("putfile", file=self.content(70 * MIB)), "^invalid: store ")
        self.assertTrue(any(r.method == "DELETE" and "uploadId=" in r.query for r in self.proxy.log))
        self.assertEqual(self.uploads(), before)
        self.assertIsNone(self.stored())

    def test_an_error_inside_a_200_is_tried_again(self):
        self.proxy.on(lambda r: r.method == "POST" and "uploadId=" in r.query,
                      lambda e: e.error(200, "InternalError"), times=2)
        file = self.content(65 * MIB)
        self.assertRegex(self.tool("putfile", file=file), "^ok sha256:")
        self.assertEqual(self.stored(), file.read_bytes())

    def test_an_error_inside_a_200_that_stays_is_no_success(self):
        self.proxy.on(lambda r: r.method == "POST" and "uploadId=" in r.query,
                      lambda e: e.error(200, "InvalidPart"), times=10**9)
        self.assertRegex(self.tool("putfile", file=self.content(65 * MIB)), "^invalid: .*InvalidPart")
        self.assertIsNone(self.stored())

    def test_a_completion_whose_answer_is_lost_is_found_to_be_its_own(self):
        self.proxy.on(lambda r: r.method == "POST" and "uploadId=" in r.query, Exchange.lose_answer)
        file = self.content(65 * MIB)
        self.assertRegex(self.tool("putfile", file=file), "^ok sha256:")
        self.assertEqual(self.stored(), file.read_bytes())

    # Clocks, regions, redirects.

    def test_a_clock_an_hour_off_is_corrected_by_the_servers(self):
        seen = []

        def strict(exchange):
            """Refuses dates that are not within a quarter of an hour of its own, an hour ahead."""
            date = header(exchange.request, "x-amz-date")
            then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ")
            now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
            skew = (then - now).total_seconds() - 3600
            seen.append(skew)
            if abs(skew) > 900:
                return exchange.error(403, "RequestTimeTooSkewed", [("Date", http_date(3600))])
            self.assertEqual(exchange.request.method, "PUT")
            exchange.send(200, [], b"")

        self.proxy.on(method("PUT"), strict, times=3)
        self.variables["STORE_LINES"] = "1"
        file = self.content()
        done = subprocess.run([TOOL, LOCATION], env=self.environment(), text=True, timeout=120,
                              input=f"put k1 {file}\nput k2 {file}\n", capture_output=True, check=True)
        self.assertEqual(done.stdout, "ok \nok \n")
        self.assertEqual(len(seen), 3)  # the second request has the right date at once

    def test_a_head_without_a_word_corrects_the_clock_too(self):
        self.put_past_proxy(b"content")
        self.proxy.on(method("HEAD"), lambda e: e.send(403, [("Date", http_date(3600))], b""))
        # The real server refuses the corrected date, which is wrong for it, so one more is made up.
        self.proxy.on(method("HEAD"), lambda e: e.send(
            200 if abs(self.ahead(e.request) - 3600) < 60 else 403, [("Content-Length", "7")], b""))
        self.assertEqual(self.tool("size"), "ok 7")

    @staticmethod
    def ahead(request):
        then = datetime.datetime.strptime(header(request, "x-amz-date"), "%Y%m%dT%H%M%SZ")
        return (then - datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)).total_seconds()

    def test_the_region_that_the_server_names_is_signed_for(self):
        def other_region(exchange):
            exchange.send(400, [], b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>x"
                                   b"</Message><Region>eu-west-7</Region></Error>")

        self.proxy.on(method("GET"), other_region)
        self.proxy.on(lambda r: "/eu-west-7/s3/" in header(r, "authorization"),
                      lambda e: e.send(200, [], b"there"))
        self.assertEqual(self.tool("get"), "ok there")

    def test_a_redirect_is_not_followed_and_says_where_to(self):
        other = FaultProxy(self.server.port)
        self.addCleanup(other.close)
        self.proxy.on(lambda r: True, lambda e: e.send(307, [("Location", other.endpoint + "/x")], b""),
                      times=10**9)
        answer = self.tool("get")
        self.assertRegex(answer, rf"^invalid: .*redirected to \"{other.endpoint}/x\".*--s3-endpoint")
        self.assertEqual(other.log, [])

    # Answers of an enemy.

    def test_a_huge_length_takes_no_memory(self):
        self.proxy.on(method("GET"), lambda e: e.send(
            200, [("Content-Length", str(1 << 50))], b"x" * 100), times=10**9)
        self.assertRegex(self.tool("get"), r"^corrupt: read .*1125899906842624 bytes, at most 1048576")

    def test_a_body_that_does_not_end_is_refused_at_the_limit(self):
        def endless(exchange):
            exchange.connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            while True:  # until the client goes
                exchange.connection.sendall(b"x" * 65536)

        self.proxy.on(method("GET"), endless, times=10**9)
        self.assertRegex(self.tool("get"), "^corrupt: read .*more bytes, at most 1048576")
        self.assertRegex(self.tool("fetch", file=self.dir / "to"), "^corrupt: .*does not say how long")
        self.assertRegex(self.tool("list"), "^corrupt: list .*more than 8388608 bytes")
        self.assertFalse((self.dir / "to").exists())

    def test_an_error_text_that_does_not_end_is_cut(self):
        def endless(exchange):
            exchange.connection.sendall(b"HTTP/1.1 404 No\r\nConnection: close\r\n\r\n")
            while True:
                exchange.connection.sendall(b"<a>" * 20000)

        self.proxy.on(method("GET"), endless)
        self.assertEqual(self.tool("get"), "ok (missing)")

    def test_headers_that_do_not_end_are_refused(self):
        def endless(exchange):
            exchange.connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                exchange.connection.sendall(b"x-more: " + b"y" * 4000 + b"\r\n")

        self.proxy.on(method("GET"), endless, times=10**9)
        self.assertRegex(self.tool("get"), "^corrupt: .*headers")

    def test_wrong_ranges_are_refused(self):
        content = os.urandom(20 * MIB)
        self.put_past_proxy(content)
        second = f"bytes 16777216-20971519/{20 * MIB}"
        for wrong in ("bytes 0-4194303/20971520", "bytes 16777216-20971519/99999999",
                      "bytes 16777217-20971520/20971521", "nonsense", ""):
            with self.subTest(wrong):
                def lie(exchange, value=wrong):
                    status, headers, body = exchange.forward()
                    headers = [(n, v if n.lower() != "content-range" else value) for n, v in headers]
                    self.assertIn(second, [v for _, v in exchange.forward()[1]])
                    exchange.send(status, headers, body)

                self.proxy.clear()
                self.proxy.on(lambda r: header(r, "range").startswith("bytes=16777216"), lie,
                              times=10**9)
                self.assertRegex(self.tool("fetch", file=self.dir / "to"), "^(corrupt|unavailable): ")
                self.assertFalse((self.dir / "to").exists())

    def test_ranges_of_two_objects_are_never_mixed(self):
        old, new = os.urandom(40 * MIB), os.urandom(40 * MIB)
        self.put_past_proxy(old)

        def replaced(exchange):
            self.put_past_proxy(new)
            exchange.through()

        self.proxy.on(lambda r: header(r, "range").startswith("bytes=16777216"), replaced)
        self.assertEqual(self.tool("fetch", file=self.dir / "to"), "ok")
        self.assertEqual((self.dir / "to").read_bytes(), new)

    # Downloads of a size that is known.

    def fetch_expecting(self, size):
        self.variables["STORE_MAX_BYTES"] = str(size)
        return self.tool("fetch", file=self.dir / "to")

    def test_an_object_of_the_expected_size_comes_in_ranges_at_once(self):
        content = os.urandom(20 * MIB + 3)
        self.put_past_proxy(content)
        self.proxy.on(lambda r: header(r, "range").startswith("bytes=0-"), Exchange.reset)
        self.assertEqual(self.fetch_expecting(len(content)), "ok")
        self.assertEqual((self.dir / "to").read_bytes(), content)
        self.assertEqual([r.method for r in self.proxy.log], ["GET"] * (8 + 1))
        self.assertEqual(len({header(r, "range") for r in self.proxy.log}), 8)

    def test_an_object_smaller_than_expected_is_whole_all_the_same(self):
        for size in (0, 1000, 5 * MIB, 20 * MIB):
            with self.subTest(size):
                content = os.urandom(size)
                self.put_past_proxy(content)
                self.assertEqual(self.fetch_expecting(30 * MIB), "ok")
                self.assertEqual((self.dir / "to").read_bytes(), content)

    def test_ranges_at_once_of_two_objects_are_never_mixed(self):
        old, new = os.urandom(24 * MIB), os.urandom(24 * MIB)
        self.put_past_proxy(old)

        def replaced(exchange):
            self.put_past_proxy(new)
            exchange.through()

        self.proxy.on(lambda r: header(r, "range").startswith(f"bytes={9 * MIB}-"), replaced)
        self.assertEqual(self.fetch_expecting(len(old)), "ok")
        self.assertEqual((self.dir / "to").read_bytes(), new)

    def test_a_missing_object_of_an_expected_size_is_missing(self):
        self.assertRegex(self.fetch_expecting(20 * MIB), "^not_found: fetch ")
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_a_listing_with_a_bomb_or_keys_that_break_the_rules(self):
        def listing(inner, head=""):
            return lambda e: e.send(200, [], (f"<?xml version=\"1.0\"?>{head}<ListBucketResult>"
                                              f"{inner}</ListBucketResult>").encode())

        keys = ["b/good", "b/../up", "b//x", "b/.hidden", "other/k", "b/with space", "b/&#10;x", "b/",
                "b/" + "k" * 2000, "b/also"]
        self.proxy.on(method("GET"), listing("".join(f"<Contents><Key>{k}</Key></Contents>"
                                                     for k in keys)))
        self.assertEqual(self.tool("list", "g"), "ok good")
        bomb = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>"
        self.proxy.on(method("GET"), listing("<Contents><Key>&b;</Key></Contents>", bomb))
        self.assertRegex(self.tool("list", "x"), "^corrupt: list .*DOCTYPE")
        self.proxy.on(method("GET"), listing("<IsTruncated>true</IsTruncated>"))
        self.assertRegex(self.tool("list", "x"), "^corrupt: list .*does not say where")
        again = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>" \
                "<Contents><Key>b/x</Key></Contents>"
        self.proxy.on(method("GET"), listing(again), times=10**9)
        self.assertRegex(self.tool("list", "x"), "^corrupt: list .*does not end")

    def test_a_proxys_page_is_no_listing(self):
        self.proxy.on(method("GET"), lambda e: e.send(200, [], b"<html><body>Sign in</body></html>"))
        self.assertRegex(self.tool("list", "x"), "^corrupt: list .*no listing")

    def test_a_signature_that_is_refused_is_invalid_and_shows_no_secret(self):
        self.variables["AWS_SECRET_ACCESS_KEY"] = "wrong/secret"
        answer = self.tool("get")
        self.assertRegex(answer, "^invalid: read .*status 403 SignatureDoesNotMatch")
        self.assertNotIn("wrong/secret", answer)


class RelayThatBreaks:
    """Bytes both ways; the first connection is reset after 1 MiB towards the server."""

    def __init__(self, port_behind):
        self.port_behind, self.broken = port_behind, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            limit = MIB if self.broken == 0 else None
            self.broken = 1
            server = socket.create_connection(("127.0.0.1", self.port_behind))
            threading.Thread(target=self.copy, args=(client, server, limit), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, None), daemon=True).start()

    def copy(self, source, sink, limit):
        count = 0
        try:
            while piece := source.recv(65536):
                count += len(piece)
                if limit is not None and count > limit:
                    source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                      struct.pack("ii", 1, 0))
                    source.close()
                    break
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


if __name__ == "__main__":
    unittest.main()
