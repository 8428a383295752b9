"""Clients of the chaos test: each asks for what it likes and checks whatever it gets.

A client fails if an answer is not what was asked for or not true, if a refusal is none that may be
tried again, or if something was cut off that nobody disturbed.
"""

import contextlib
import http.client
import random
import threading
import time

from fleet import harness, island

RETRYABLE = (409, 429, 503, 504)
PROMISES_RETRY_AFTER = (409, 429, 503)
GATEWAY = "gateway"
SESSIONS = 12
PINNING = 3  # clients whose turns are of a pinned session
BROKEN = (OSError, http.client.HTTPException)


class Disturbances:
    """When somebody was disturbed: an island by its name, or the gateway. Any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._times = []  # [name, begin, end or None]

    @contextlib.contextmanager
    def of(self, name):
        entry = [name, time.monotonic(), None]
        with self._lock:
            self._times.append(entry)
        yield
        entry[2] = time.monotonic()

    def met(self, name, begin):
        """Whether `name` was disturbed between then and now."""
        with self._lock:
            return any(who == name and (end is None or end >= begin) for who, _, end in self._times)

    def epoch(self, name):
        """Grows with each disturbance that begins."""
        with self._lock:
            return sum(who == name for who, _, _ in self._times)


class Wish:
    """One request: what it says, and what must hold of its answer."""

    def __init__(self, request_id, pick, newest):
        self.id, self.least, self.most = request_id, 1, None
        self.headers = {"Isthmus-Request-Id": request_id}
        self.body = {"max_tokens": pick.choice((1, 4, 30)), "return_token_ids": True}
        prompt = f"p{pick.randrange(3)}"
        self.path = pick.choice(("/v1/completions", "/v1/chat/completions"))
        if self.path == "/v1/completions":
            self.body["prompt"] = prompt
        else:
            self.body["messages"] = [{"role": "user", "content": prompt}]
        self.streams = pick.random() < 0.5
        self.leaves_after = pick.randrange(3) if self.streams and pick.random() < 0.15 else None
        self.deadline_s = None
        self._limits(pick)
        self._version(pick, max(1, newest + pick.choice((-1, 0, 0, 0, 1))))

    def _limits(self, pick):
        if self.streams:
            self.body["stream"] = True
            self.headers["Isthmus-Version-Spans"] = "1"
        if pick.random() < 0.5:
            self.headers["Isthmus-Wait-Ms"] = str(pick.choice((0, 100, 3000)))
        if pick.random() < 0.2:
            self.deadline_s = pick.choice((0.3, 2, 5))
            self.headers["Isthmus-Deadline-Ms"] = str(int(self.deadline_s * 1000))
        if pick.random() < 0.2:
            self.headers["Isthmus-Priority"] = "evaluation"
        if pick.random() < 0.3:
            self.headers["Isthmus-Session"] = f"shared-{pick.randrange(SESSIONS)}"

    def _version(self, pick, version):
        kind = pick.choice(("min", "exact", "lag", "any", "any"))
        if kind == "min":
            self.least = version
        elif kind == "exact":
            self.least = self.most = version
        elif kind == "lag":
            self.headers["Isthmus-Max-Lag"] = pick.choice(("0", "1", "2", "2s"))
        if kind in ("min", "exact"):
            if pick.random() < 0.5:
                self.headers[f"Isthmus-{kind.title()}-Version"] = str(version)
            else:
                self.body["weight_version"] = {f"{kind}_version": version}

    def pin(self, session):
        """It is a turn of a pinned session, and asks for no version of its own."""
        self.least, self.most = 1, None
        self.body.pop("weight_version", None)
        for name in ("Isthmus-Min-Version", "Isthmus-Exact-Version", "Isthmus-Max-Lag"):
            self.headers.pop(name, None)
        self.headers.update({"Isthmus-Session": session, "Isthmus-Session-Pin": "1"})

    def allows(self, version):
        return self.least <= version and (self.most is None or version <= self.most)


class ChaosClient(threading.Thread):
    """Asks until told to end. `whole`: {request id: (head, answers)} of all that came whole."""

    def __init__(self, test, number, disturbances, pause_s):
        super().__init__(daemon=True)
        self._test, self._number, self._pause_s = test, number, pause_s
        self._pick = random.Random(f"{island.SEED}-{number}")
        self._disturbances = disturbances
        self._ended = threading.Event()
        self._count = 0
        self._pinned = None  # (session, version or None, the gateway's epoch)
        self.counts, self.whole, self.failure = {}, {}, None
        self.start()

    def run(self):
        try:
            while not self._ended.wait(self._pick.uniform(0.5, 1.5) * self._pause_s):
                outcome = self._ask()
                self.counts[outcome] = self.counts.get(outcome, 0) + 1
        except BaseException as error:
            self.failure = error

    def end(self):
        self._ended.set()

    def result(self):
        self.join(harness.DEADLINE_S)
        assert not self.is_alive(), f"client {self._number} got no answer"
        if self.failure:
            raise self.failure

    def _ask(self):
        self._count += 1
        wish = Wish(f"c{self._number}-{self._count}", self._pick, self._test.head)
        if self._number < PINNING:
            self._pin(wish)
        begin = time.monotonic()
        try:
            connection, response = self._test.gateway.send("POST", wish.path, wish.body,
                                                           wish.headers)
        except BROKEN as error:
            # No byte came: nobody's fault but the gateway's.
            assert self._disturbances.met(GATEWAY, begin), f"{wish.id}: {error!r}"
            return "no connection"
        with contextlib.closing(connection):
            if response.status != 200:
                return self._take_refusal(wish, response)
            self._check_head(wish, response.headers)
            take = self._take_stream if wish.streams else self._take_whole
            return take(wish, response, begin)

    def _take_refusal(self, wish, response):
        text = response.read()
        assert response.status in RETRYABLE, (wish.id, response.status, text)
        if response.status in PROMISES_RETRY_AFTER:
            assert response.headers["Retry-After"], (wish.id, text)
        if response.status == 504:
            assert wish.deadline_s, (wish.id, text)
        assert response.headers["Isthmus-Request-Id"] == wish.id, (wish.id, response.status, text)
        if response.status == 409:
            self._pinned = None
        return response.status

    def _check_head(self, wish, head):
        assert head["Isthmus-Request-Id"] == wish.id
        assert head["Isthmus-Run"] == "run"
        start = int(head["Isthmus-Version-Start"])
        assert wish.allows(start), (wish.headers, wish.body, dict(head))
        # The gateway cannot know of a version that nobody has published.
        assert start + int(head["Isthmus-Lag-Start"]) <= self._test.head, dict(head)
        if not wish.streams:
            assert wish.allows(int(head["Isthmus-Version-End"])), (wish.headers, dict(head))

    def _take_whole(self, wish, response, begin):
        try:
            answer = harness.json.loads(response.read())
        except BROKEN as error:
            assert self._disturbances.met(GATEWAY, begin), f"{wish.id}: {error!r}"
            return "cut off"
        self._check_answer(wish, answer)
        assert answer["weight_version_start"] == int(response.headers["Isthmus-Version-Start"])
        assert answer["weight_version_end"] == int(response.headers["Isthmus-Version-End"])
        self._keep(wish, response.headers, [answer])
        return "whole"

    def _take_stream(self, wish, response, begin):
        stream = harness.Stream(None, response)
        stream.close = response.close
        events = []
        with contextlib.suppress(*BROKEN, ValueError):  # what is cut within an event is no JSON
            for event in stream:
                assert "error" not in event, (wish.id, event)
                if island.tokens(event):
                    self._check_answer(wish, event)
                events.append(event)
                if wish.leaves_after is not None and len(events) > wish.leaves_after:
                    return "left"
        if stream.cut_off:
            self._check_cut(wish, response.headers["Isthmus-Island"], begin)
            return "cut off"
        finishes = [choice["finish_reason"] for event in events for choice in event["choices"]]
        assert finishes[-1], (wish.id, events)
        self._keep(wish, response.headers, events)
        return "stream"

    def _check_answer(self, wish, answer):
        self._test.assert_true_answer(answer)
        for token in island.tokens(answer):
            assert wish.allows(int(token["version"])), (wish.headers, wish.body, answer)

    def _check_cut(self, wish, name, begin):
        expired = wish.deadline_s and time.monotonic() - begin >= wish.deadline_s
        died = self._disturbances.met(name, begin) or self._disturbances.met(GATEWAY, begin)
        assert expired or died, f"{wish.id}: {name} cut it off, and nobody had disturbed it"

    def _keep(self, wish, head, answers):
        self.whole[wish.id] = (head, answers)
        if "Isthmus-Session-Pin" in wish.headers:
            self._check_pin(int(head["Isthmus-Version-Start"]), answers[-1])

    # A pinned session is of one version as long as one gateway knows it. Its lease keeps its island at
    # that version for minutes, so few clients have one, and another one only when it has come to nothing.

    def _pin(self, wish):
        if self._pinned is None:
            self._pinned = (wish.id, None, self._disturbances.epoch(GATEWAY))
        wish.pin(self._pinned[0])

    def _check_pin(self, start, last):
        session, version, epoch = self._pinned
        now = self._disturbances.epoch(GATEWAY)
        if version is None or epoch != now:
            self._pinned = (session, start, now)
        else:
            assert start == version, f"session {session} began at {version}: {start}"
        assert last["weight_version_end"] == start, (start, last)


def sum_of(clients):
    counts = {}
    for client in clients:
        for outcome, count in client.counts.items():
            counts[outcome] = counts.get(outcome, 0) + count
    return counts
