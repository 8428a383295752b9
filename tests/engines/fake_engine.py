"""What the doubles have in place of a model: ranks that hold digests, requests that get tokens.

A rank "loads" a checkpoint by reading all its bytes; a token says which bytes and which version
made it, and under which weights its keys and values were computed. One lock (`changed`) guards
everything; any thread may call.
"""

import hashlib
import json
import pathlib
import struct
import threading
import time
import typing

STEPPING = (None, "wait")  # the pause modes in which running requests go on


class Torn(Exception):
    """A checkpoint whose bytes end before a tensor does."""


class Weights(typing.NamedTuple):
    digest: str  # SHA-256 of the bytes of all *.safetensors, in the order of their names
    checksums: dict  # tensor name: SHA-256 of its bytes


class Token(typing.NamedTuple):
    digest: str  # of the weights that made it; "mixed:…" where the ranks differ
    version: str  # the engine's label at that moment
    kv: tuple  # digests of the weights that made the keys and values it attends to, oldest first


def digest_of(directory):
    """Weights.digest of a checkpoint, for tests that ask which bytes are served."""
    return read_weights(directory).digest


def read_weights(directory):
    """Raises FileNotFoundError where there are no shards, Torn where one is cut short."""
    shards = {path.name: path.read_bytes()
              for path in pathlib.Path(directory).glob("*.safetensors")}
    if not shards:
        raise FileNotFoundError(f"no *.safetensors in {directory}")
    return weights_of(shards)


def weights_of(shards):
    """Of the bytes of each shard, by its name. Torn where one is cut short."""
    total, checksums = hashlib.sha256(), {}
    for name in sorted(shards):
        total.update(shards[name])
        checksums.update(_tensor_checksums(name, shards[name]))
    return Weights(total.hexdigest(), checksums)


def _tensor_checksums(shard, data):
    begin = 8 + struct.unpack("<Q", data[:8].ljust(8, b"\xff"))[0]
    if begin > len(data):
        raise Torn(f"{shard} ends within its header")
    for name, entry in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        if begin + last > len(data):
            raise Torn(f"{shard} ends within {name}")
        yield name, hashlib.sha256(data[begin + first:begin + last]).hexdigest()


class Request:
    """One generation. `namespace` separates prefix caches (salt, extra key); all else is output."""

    def __init__(self, request_id, prompt, namespace, max_tokens):
        self.request_id = request_id
        self.prompt = prompt  # tuple of token ids
        self.key = (namespace, prompt)
        self.max_tokens = max_tokens
        self.tokens = []
        self.finish = None  # "length" or "abort"
        self.kv = None  # None: to be (again) prefilled
        self.cached_tokens = 0
        self.retractions = 0

    def versions(self):
        """[{"version", "start", "end"}]: half-open spans of output tokens."""
        spans = []
        for place, token in enumerate(self.tokens):
            if spans and spans[-1]["version"] == token.version:
                spans[-1]["end"] = place + 1
            else:
                spans.append({"version": token.version, "start": place, "end": place + 1})
        return spans


class FakeEngine:
    """Serves `directory` on `ranks` ranks; makes tokens freely until `set_pacing(manual=True)`.

    `token_s`: seconds from one token of all requests to the next.
    """

    def __init__(self, directory, ranks, version, token_s=0):
        self.changed = threading.Condition()
        self.ranks = [read_weights(directory)] * ranks
        self.version = version
        self.pause_mode = None
        self.pause_complete = False
        self._pause_turn = 0
        self.unproven = False  # a load began and its success was not told to its caller
        self.updating = False  # a load runs at this moment
        self.running, self.waiting = [], []
        self._prefixes = {}  # (namespace, prompt): digests of the weights that computed its KV
        self._manual = False
        self._token_s = token_s
        threading.Thread(target=self._drive, daemon=True).start()

    # Weights

    def served(self):
        digests = sorted({weights.digest for weights in self.ranks})
        return digests[0] if len(digests) == 1 else "mixed:" + "|".join(digests)

    def load(self, directories, midway=lambda: None):
        """Each rank reads its directory; midway() runs when the first half of them serves it."""
        read = {directory: read_weights(directory) for directory in set(directories)}
        half = max(1, len(directories) // 2)
        for rank, directory in enumerate(directories):
            if rank == half:
                midway()
            self.set_weights([rank], read[directory])
        if half == len(directories):
            midway()

    def set_weights(self, ranks, weights):
        with self.changed:
            for rank in ranks:
                self.ranks[rank] = weights

    # Requests

    def submit(self, request):
        with self.changed:
            self.waiting.append(request)
            self.changed.notify_all()

    def abort(self, wanted=lambda request: True):
        """Ends all for which wanted(request) holds; returns their number."""
        with self.changed:
            chosen = [r for r in (*self.running, *self.waiting) if wanted(r)]
            for request in chosen:
                request.finish = "abort"
            self._drop_finished()
            return len(chosen)

    def wait_for_token(self, request, count, seconds):
        """True once `request` has more than `count` tokens or has ended."""
        with self.changed:
            return self.changed.wait_for(
                lambda: len(request.tokens) > count or request.finish, seconds)

    def step(self):
        """One token for every request in flight; returns how many were made."""
        with self.changed:
            if self.pause_mode not in STEPPING:
                return 0
            if self.pause_mode is None:
                self.running, self.waiting = self.running + self.waiting, []
            for request in self.running:
                self._make_token(request)
            made = len(self.running)
            self._drop_finished()
            return made

    def set_pacing(self, manual):
        with self.changed:
            self._manual = manual
            self.changed.notify_all()

    def _drive(self):
        while True:
            with self.changed:
                self.changed.wait_for(self._goes_on)
            self.step()
            if self._token_s:
                time.sleep(self._token_s)

    def _goes_on(self):
        return not self._manual and (self.running and self.pause_mode in STEPPING
                                     or self.waiting and self.pause_mode is None)

    def _make_token(self, request):
        served = self.served()
        if request.kv is None:
            self._prefill(request, served)
        if request.kv[-1] != served:
            request.kv.append(served)
        request.tokens.append(Token(served, self.version, tuple(request.kv)))
        if len(request.tokens) == request.max_tokens:
            request.finish = "length"

    def _prefill(self, request, served):
        known = self._prefixes.get(request.key)
        if known and not request.tokens:
            request.cached_tokens = len(request.prompt) - 1
        request.kv = list(known or (served,))
        self._prefixes[request.key] = tuple(request.kv)

    def _drop_finished(self):
        self.running = [r for r in self.running if not r.finish]
        self.waiting = [r for r in self.waiting if not r.finish]
        self.changed.notify_all()

    # Pauses and caches

    def begin_pause(self, mode):
        """Returns what complete_pause wants; "abort" ends all requests, "wait" lets them end."""
        with self.changed:
            self._set_pause(mode)
            if mode == "abort":
                self.abort()
            return self._pause_turn

    def complete_pause(self, turn):
        """Waits for the drain; False if another pause or a resume came between."""
        with self.changed:
            self.changed.wait_for(lambda: self._pause_turn != turn or self.pause_mode != "wait"
                                  or not self.running)
            if self._pause_turn != turn:
                return False
            self.pause_complete = True
            return True

    def resume(self):
        with self.changed:
            self._set_pause(None)

    def _set_pause(self, mode):
        self.pause_mode, self.pause_complete = mode, False
        self._pause_turn += 1
        self.changed.notify_all()

    def preempt(self):
        """Running requests lose their keys and values and are prefilled again."""
        with self.changed:
            for request in self.running:
                request.kv = None
                request.retractions += 1

    def clear_prefixes(self):
        with self.changed:
            self._prefixes.clear()

    def state(self):
        """What a test may want to wait for."""
        with self.changed:
            return {"digests": [weights.digest for weights in self.ranks], "version": self.version,
                    "pause_mode": self.pause_mode, "pause_complete": self.pause_complete,
                    "updating": self.updating, "unproven": self.unproven,
                    "running": len(self.running), "waiting": len(self.waiting),
                    "tokens": sum(len(request.tokens) for request in self.running)}
