#!/usr/bin/env python3
"""What a relay says about objects, lists and errors."""

import unittest

import relays
from relays import RUN, harness

IMMUTABLE = "public, max-age=31536000, immutable"


class ObjectsTest(relays.RelayTest):

    def setUp(self):
        super().setUp()
        self.part = RUN + "data/1/a/part"
        self.content = self.put_random(self.part, 5_000_001)
        self.put(RUN + "head.json", b'{"format":1,"version":1}\n')
        self.put(RUN + "log/0000000001.json", b"{}\n")

    def test_objects_are_what_the_store_holds_cached_or_not(self):
        for cache in ("cache", None):
            relay = self.start(cache=cache)
            for _ in range(2):
                self.assertEqual(relay.get("/" + self.part), self.content)
                self.assertEqual(relay.get("/board.json"), (self.board / "board.json").read_bytes())
                self.assertEqual(relay.get(f"/{RUN}head.json"), b'{"format":1,"version":1}\n')

    def test_what_never_changes_says_so_and_what_may_change_too(self):
        relay = self.start()
        for key in ("board.json", self.part, RUN + "log/0000000001.json"):
            answer = relay.ask("/" + key)
            self.assertEqual(answer.headers["Cache-Control"], IMMUTABLE)
            self.assertRegex(answer.headers["ETag"], r'\A"[0-9a-f]{32}"\Z')
        for target in (f"/{RUN}head.json", f"/{RUN}none", "/?list=", "/metrics", "/health"):
            self.assertEqual(relay.ask(target).headers["Cache-Control"], "no-cache", target)

    def test_tags_are_the_same_on_every_relay_of_the_board_and_differ_by_object(self):
        one, other = self.start(cache="one"), self.start(cache=None)
        targets = ("/board.json", "/" + self.part, f"/{RUN}head.json")
        tags = [one.ask(target).headers["ETag"] for target in targets]
        self.assertEqual([other.ask(target).headers["ETag"] for target in targets], tags)
        self.assertEqual(len(set(tags)), 3)

    def test_a_head_has_the_fields_of_the_object_and_fetches_nothing(self):
        relay = self.start()
        head = relay.ask("/" + self.part, method="HEAD")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(head.headers["Content-Length"], str(len(self.content)))
        self.assertEqual(relay.metric("origin_bytes_total"), 0)
        tag = head.headers["ETag"]
        same = relay.ask("/" + self.part, headers={"If-None-Match": tag})
        self.assertEqual((same.status, same.body, same.headers["ETag"]), (304, b"", tag))
        self.assertEqual(relay.metric("origin_bytes_total"), 0)
        self.assertEqual(relay.ask("/" + self.part, headers={"If-None-Match": '"x"'}).status, 200)

    def test_ranges(self):
        relay = self.start()
        size, whole = len(self.content), self.content
        for _ in range(2):  # the first time while it is fetched
            for text, first, end in (("0-0", 0, 1), ("4194303-4194304", 4194303, 4194305),
                                     (f"{size - 1}-", size - 1, size), ("-3", size - 3, size),
                                     (f"17-{size * 2}", 17, size)):
                answer = relay.ask("/" + self.part, headers={"Range": f"bytes={text}"})
                self.assertEqual(answer.status, 206)
                self.assertEqual(answer.headers["Content-Range"], f"bytes {first}-{end - 1}/{size}")
                self.assertEqual(answer.body, whole[first:end])
        beyond = relay.ask("/" + self.part, headers={"Range": f"bytes={size}-"})
        self.assertEqual((beyond.status, beyond.headers["Content-Range"]), (416, f"bytes */{size}"))
        tag = beyond.headers["ETag"]
        for condition, status in ((tag, 206), ('"x"', 200)):
            answer = relay.ask("/" + self.part, headers={"Range": "bytes=1-2",
                                                         "If-Range": condition})
            self.assertEqual(answer.status, status)
        head = relay.ask(f"/{RUN}head.json", headers={"Range": "bytes=1-8"})
        self.assertEqual((head.status, head.body), (206, b'"format"'))

    def test_many_ranges_are_answered_as_none(self):
        relay = self.start()
        many = ",".join(f"{i}-{i}" for i in range(5000))
        for ranges in ("0-0,2-2", many):
            answer = relay.ask("/" + self.part, headers={"Range": f"bytes={ranges}"})
            self.assertEqual((answer.status, answer.body), (200, self.content))

    def test_lists_have_all_keys_with_a_prefix_and_nothing_foreign(self):
        self.put("secret/token", b"x")
        self.put("board.json.bak", b"x")
        relay = self.start()
        keys = ["board.json", self.part, RUN + "head.json", RUN + "log/0000000001.json"]
        for prefix, found in (("", keys), (RUN + "da", keys[1:2]), (RUN + "log/0", keys[3:]),
                              ("nothing", []), ("secret", [])):
            self.assertEqual(relay.ask(f"/?list={prefix}").json(), {"keys": found}, prefix)
        self.assertEqual(relay.ask("/secret/token").status, 404)
        self.assertEqual(relay.ask("/board.json.bak").status, 404)

    def test_a_long_list_is_whole(self):
        for number in range(5000):
            path = self.board / RUN / "log" / f"{number:010}.json"
            path.write_bytes(b"")
        keys = self.start().ask(f"/?list={RUN}log/").json()["keys"]
        self.assertEqual(keys, [f"{RUN}log/{number:010}.json" for number in range(5000)])

    def test_an_entry_is_seen_soon_after_it_exists(self):
        relay = self.start()
        target = f"/{RUN}log/0000000002.json"
        self.assertEqual(relay.ask(target).status, 404)
        self.put(RUN + "log/0000000002.json", b"2")
        relays.wait_until(lambda: relay.ask(target).status == 200, "the entry is there")
        self.put(RUN + "head.json", b"new")
        relays.wait_until(lambda: relay.get(f"/{RUN}head.json") == b"new", "the hint is new")

    def test_other_methods_are_refused(self):
        relay = self.start()
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"):
            answer = relay.ask("/board.json", method=method)
            self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"), method)

    def test_a_place_without_a_board_is_refused_at_once(self):
        (self.dir / "empty").mkdir()
        done = harness.run("board", "serve", self.dir / "empty", "--listen", "127.0.0.1:0",
                           expect=3)
        self.assertIn("board", done.stderr)

    def test_a_cache_is_one_relays(self):
        self.start()
        done = harness.run("board", "serve", self.board, "--listen", "127.0.0.1:0", "--cache",
                           self.dir / "cache", expect=4)
        self.assertRegex(done.stderr, r"cache .*another process is using it")


if __name__ == "__main__":
    unittest.main()
