#!/usr/bin/env python3
"""Answers of several choices, and of shapes that no double makes, in the client's one form."""

import unittest

from isthmus import errors
from isthmus._answers import Assembly

HEADERS = {"isthmus-run": "r", "isthmus-island": "i", "isthmus-request-id": "q",
           "isthmus-lag-start": "1", "isthmus-lag-end": "2"}


def rollout(*events, headers=None):
    assembly = Assembly()
    for event in events:
        assembly.add(event)
    return assembly.rollout(headers or HEADERS, events)


def choice(index, text, **more):
    return {"index": index, "text": text, "finish_reason": None, **more}


class OpenAiTest(unittest.TestCase):

    def test_several_choices_in_one_piece(self):
        found = rollout({"choices": [choice(1, "b", token_ids=[2, 3]), choice(0, "a", token_ids=[1])],
                         "weight_version_start": 4, "weight_version_end": 4})
        self.assertEqual([(one.index, one.text, one.tokens, one.spans) for one in found.choices],
                         [(0, "a", [1], [(4, 0, 1)]), (1, "b", [2, 3], [(4, 0, 2)])])
        self.assertEqual((found.text, found.tokens, found.spans), ("a", [1], [(4, 0, 1)]))
        self.assertEqual((found.run, found.island, found.request_id, found.lag_start, found.lag_end),
                         ("r", "i", "q", 1, 2))

    def test_events_of_several_choices_that_cross_a_switch(self):
        spans = {"exact": False, "unit": "token", "complete": True, "choices": [
            {"index": 1, "spans": [{"version": 4, "start": 0, "end": 1},
                                   {"version": 5, "start": 1, "end": 2}]}]}
        found = rollout(
            {"choices": [choice(0, "a", token_ids=[1])], "weight_version_start": 4,
             "weight_version_end": 4},
            {"choices": [choice(1, "b", token_ids=[2])], "weight_version_start": 4,
             "weight_version_end": 4},
            {"choices": [{**choice(1, "c", token_ids=[3]), "finish_reason": "stop"}],
             "weight_version_start": 4, "weight_version_end": 5, "weight_version_spans": spans})
        self.assertEqual((found.start_version, found.end_version), (4, 5))
        self.assertEqual([(one.text, one.tokens, one.spans, one.finish_reason)
                          for one in found.choices],
                         [("a", [1], [], None), ("bc", [2, 3], [(4, 0, 1), (5, 1, 2)], "stop")])
        self.assertEqual(found.choices[1].versions(), [4, 5])

    def test_a_chat_without_content_has_an_empty_text(self):
        message = {"role": "assistant", "content": None, "tool_calls": []}
        self.assertEqual(rollout({"choices": [{"index": 0, "message": message}]}).text, "")

    def test_without_ids_the_log_probabilities_count_the_tokens_and_else_the_usage_does(self):
        stamp = {"weight_version_start": 4, "weight_version_end": 4}
        found = rollout({"choices": [choice(0, "ab", logprobs={"token_logprobs": [-1, -2]})], **stamp})
        self.assertEqual((found.tokens, found.logprobs, found.spans), (None, [-1, -2], [(4, 0, 2)]))
        found = rollout({"choices": [choice(0, "ab")], "usage": {"completion_tokens": 7}, **stamp})
        self.assertEqual((found.tokens, found.spans), (None, [(4, 0, 7)]))

    def test_an_engines_own_label_is_no_version(self):
        found = rollout({"choices": [choice(0, "a", token_ids=[1], weight_versions=[
            {"version": "default", "start": 0, "end": 1}])],
            "weight_version_start": 4, "weight_version_end": 4})
        self.assertEqual(found.spans, [(4, 0, 1)])

    def test_without_a_sidecar_there_is_no_version(self):
        found = rollout({"choices": [choice(0, "a", token_ids=[1])]})
        self.assertEqual((found.start_version, found.end_version, found.spans), (None, None, []))

    def test_versions_may_come_in_headers_only(self):
        found = rollout({"choices": [choice(0, "a", token_ids=[1])]}, headers={
            "isthmus-version-start": "7", "isthmus-version-end": "7"})
        self.assertEqual((found.start_version, found.end_version, found.spans), (7, 7, [(7, 0, 1)]))


class SglangTest(unittest.TestCase):

    @staticmethod
    def record(text, ids, count, **meta):
        return {"text": text, "output_ids": ids, "meta_info": {
            "completion_tokens": count, "finish_reason": None, "weight_version_start": 4,
            "weight_version_end": 4, **meta}}

    def test_a_list_of_several(self):
        found = rollout([self.record("a", [1], 1, finish_reason={"type": "stop"}),
                         self.record("bc", [2, 3], 2, output_token_logprobs=[[-1, 2, None],
                                                                            [-2, 3, None]])])
        self.assertEqual([(one.text, one.tokens, one.logprobs, one.finish_reason, one.spans)
                          for one in found.choices],
                         [("a", [1], None, "stop", [(4, 0, 1)]),
                          ("bc", [2, 3], [-1, -2], None, [(4, 0, 2)])])

    def test_events_with_all_up_to_them_and_events_with_what_is_new(self):
        whole = [self.record("a", [1], 1), self.record("ab", [1, 1], 2),
                 self.record("abc", [1, 1, 3], 3)]
        pieces = [self.record("a", [1], 1), self.record("b", [1], 2), self.record("c", [3], 3)]
        for events in (whole, pieces):
            found = rollout(*events)
            self.assertEqual((found.text, found.tokens), ("abc", [1, 1, 3]))

    def test_events_without_ids(self):
        found = rollout({"text": "a", "meta_info": {"completion_tokens": 1}},
                        {"text": "ab", "meta_info": {"completion_tokens": 2}})
        self.assertEqual((found.text, found.tokens), ("ab", None))


class ShapesTest(unittest.TestCase):

    def test_what_is_no_answer(self):
        for event in ({}, {"choices": [5]}, {"choices": None}, 5, None, "text", [5],
                      {"meta_info": None}, {"choices": [choice(0, "a", logprobs={"content": [{}]})]},
                      {"choices": [choice(0, 5)]}):
            with self.assertRaises(errors.CorruptError):
                rollout(event)
        for event in ([], {"choices": []}):
            with self.assertRaises(errors.CorruptError):
                rollout(event)


if __name__ == "__main__":
    unittest.main()
