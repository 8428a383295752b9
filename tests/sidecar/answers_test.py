#!/usr/bin/env python3
"""Bodies on their way to the engine and back: byte for byte, but for the members that are meant to
change."""

import re
import unittest

import island
import upstream
from island import harness

SALT = rb'"cache_salt":"[0-9a-f]{16}\.1(?:\.[0-9a-f]{32})?",?'
ODD = (b'{"id":"x" , "numbers":[1.0,1.50,1e5,1E+5,-0,0.1000,123456789012345678901234567890'
       b',2.2250738585072014e-308],"text":"\\u00e4\\/ \xc3\xa4","nested":{"weight_version_start":7}'
       b',"choices":[ ]\n}')
STAMP = b',"weight_version_start":1,"weight_version_end":1'


class AnswerTest(upstream.UpstreamTest):

    def raw(self, body=b'{"prompt":"a"}', path="/v1/completions", fields=b""):
        """(head, body) of an answer, as bytes; what came in chunks is joined."""
        answer = upstream.exchange(self.process.port, upstream.request(body, path, fields=fields))
        head, text = answer.split(b"\r\n\r\n", 1)
        if b"\r\nTransfer-Encoding: chunked" in head:
            text = upstream.joined(text)
        return head, text

    def test_an_object_gets_its_stamp_and_keeps_every_other_byte(self):
        self.upstream.answer = upstream.json_answer(ODD)
        head, text = self.raw()
        self.assertEqual(text, ODD[:-1] + STAMP + b"}")
        self.assertIn(b"Content-Length: %d" % len(text), head)
        for name in (b"Isthmus-Version-Start: 1", b"Isthmus-Version-End: 1", b"Isthmus-Run: run"):
            self.assertIn(name, head)

    def test_meta_info_gets_the_stamp_of_sglangs_generate(self):
        plain = b'{"text":"a","meta_info":{"id":"b","n":1.0}}'
        stamped = (b'{"text":"a","meta_info":{"weight_version_start":1,"weight_version_end":1,'
                   b'"id":"b","n":1.0}}')
        self.upstream.answer = upstream.json_answer(plain)
        self.assertEqual(self.raw(path="/generate")[1], stamped)
        self.upstream.answer = upstream.json_answer(b"[" + plain + b", " + plain + b"]")
        self.assertEqual(self.raw(path="/generate")[1], b"[" + stamped + b", " + stamped + b"]")

    def test_refusals_of_the_engine_and_what_is_no_json_pass_as_they_are(self):
        for answer in (upstream.json_answer(b'{"error":{"code":400.0}}', b"400 Bad Request"),
                       b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
                       b"Connection: close\r\n\r\n{}"):
            self.upstream.answer = answer
            self.assertEqual(self.raw()[1], answer.split(b"\r\n\r\n", 1)[1])

    def test_an_answer_in_chunks_or_until_the_end_is_stamped_too(self):
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (
            ODD[at:at + 7] for at in range(0, len(ODD), 7))) + b"0\r\n\r\n"
        start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.upstream.answer = start + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
        self.assertIn(STAMP, self.raw()[1])
        self.upstream.answer = start + b"\r\n" + ODD
        self.assertIn(STAMP, self.raw()[1])

    def test_an_answer_that_breaks_off_does_not_look_complete(self):
        self.upstream.answer = (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                b"Content-Length: 100\r\n\r\n{\"choices\":[")
        head, text = self.raw()
        self.assertLess(len(text), int(re.search(rb"Content-Length: (\d+)", head)[1]))

    def test_nonsense_of_the_engine_is_unavailable(self):
        for answer in (b"", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                       b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"):
            self.upstream.answer = answer
            head, text = self.raw()
            self.assertIn(b" 503 ", head.splitlines()[0])
            self.assertIn(b"EngineUnavailable", text)

    def test_the_engines_own_isthmus_fields_do_not_reach_the_client(self):
        self.upstream.answer = (b"HTTP/1.1 200 OK\r\nIsthmus-Version-Start: 99\r\nX-Own: 1\r\n"
                                b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        head, _ = self.raw()
        self.assertNotIn(b"99", head)
        self.assertIn(b"X-Own: 1", head)

    # What the engine gets

    def sent(self, body, **more):
        self.upstream.requests.clear()
        head, _ = self.raw(body, **more)
        self.assertIn(b" 200 ", head.splitlines()[0])
        return self.upstream.requests[-1]

    def test_the_engine_gets_the_body_but_for_constraint_and_salt(self):
        odd = b'"prompt":"\xc3\xa4\\u00e4", "top_p":1.0,"seed":12345678901234567890123,"a":[1e0]'
        for body in (b'{"weight_version":{"min_version":1}, %s}', b'{%s ,"weight_version":null}',
                     b'{%s}', b'{%s,"cache_salt":"mine"}', b'{"cache_salt":null,%s}',
                     b'{%s,"weight_versio\\u006e":{"exact_version":1}}'):
            _, got = self.sent(body % odd)
            self.assertEqual(len(re.findall(SALT, got)), 1, got)
            self.assertIn(odd, got)
            self.assertNotIn(b"weight_versio", got)

    def test_equal_salts_are_equal_and_others_differ(self):
        def salt(body):
            return re.search(SALT, self.sent(body)[1])[0].rstrip(b",")
        none, empty, mine = (salt(body) for body in (
            b"{}", b'{"cache_salt":""}', b'{"cache_salt":"mine"}'))
        self.assertEqual(len({none, empty, mine}), 3)
        self.assertEqual(salt(b'{"cache_salt":"m\\u0069ne"}'), mine)
        self.assertEqual(salt(b'{"cache_salt":null}'), none)

    def test_the_engine_gets_the_clients_fields_but_not_those_of_the_sidecar(self):
        head, _ = self.sent(b"{}", fields=b"X-Request-Id: r1\r\nIsthmus-Min-Version: 1\r\n"
                                          b"X-Hop: 1\r\nConnection: X-Hop\r\nTE: trailers\r\n"
                                          b"Authorization: Bearer k\r\n")
        self.assertIn(b"X-Request-Id: r1", head)
        self.assertIn(b"Authorization: Bearer k", head)
        self.assertNotIn(b"isthmus", head.lower())
        self.assertNotIn(b"x-hop", head.lower())

    def test_large_bodies_pass_whole(self):
        text = b'{"choices":[],"filler":"' + b"x" * (8 << 20) + b'"}'
        self.upstream.answer = upstream.json_answer(text)
        body = b'{"prompt":"' + b"y" * (8 << 20) + b'"}'
        self.assertEqual(self.raw(body)[1], text[:-1] + STAMP + b"}")
        self.assertIn(body[1:], self.upstream.requests[-1][1])

    # Waiting, in order

    def test_those_that_waited_are_sent_in_the_order_in_which_they_came(self):
        waiting = []
        for place in range(20):
            waiting.append(harness.Background(
                self.raw, b'{"prompt":"%d"}' % place, "/v1/completions",
                b"Isthmus-Min-Version: 2\r\nIsthmus-Wait-Ms: 60000\r\n"))
            self.wait_for(lambda info: info["waiting"] == len(waiting), "it is in the line")
        self.publish()
        for request in waiting:
            self.assertIn(b" 200 ", request.result()[0].splitlines()[0])
        self.assertEqual([re.search(rb'"prompt":"(\d+)"', body)[1]
                          for _, body in self.upstream.requests],
                         [b"%d" % place for place in range(20)])


if __name__ == "__main__":
    unittest.main()
