"""The engine's one thread: it steps all running sequences and runs control calls between steps.

All state belongs to that thread. Other threads hand it functions through `call` and `submit`; so a
control call never sees half a step, as in real engines.
"""

import collections
import concurrent.futures
import os
import pathlib
import queue
import threading
import traceback

import kv_cache
import model

PREFILL_POSITIONS = 64  # of one sequence per step, so that long prompts do not hold up the others


class Engine:
    """Serves the checkpoint in `directory`; at most `max_running` sequences at a time."""

    def __init__(self, directory, max_running=8):
        self.directory = pathlib.Path(directory)
        self.version = "default"
        self.pause_mode = None  # None while it generates; read by any thread
        self._model = model.load(directory)
        self.config = self._model.config
        self._max_running = max_running
        self._waiting = collections.deque()
        self._running = []
        self._prefixes = kv_cache.PrefixCache()
        self._commands = queue.SimpleQueue()
        self._drained = []  # (future, whether to clear caches) of pauses that wait
        threading.Thread(target=self._loop, name="engine", daemon=True).start()

    def call(self, function, *arguments):
        """Runs function(*arguments) in the engine's thread; returns or raises what it does."""
        done = concurrent.futures.Future()
        self._commands.put((done, function, arguments))
        return done.result()

    def submit(self, sequence):
        self.call(self._waiting.append, sequence)

    def abort(self, wanted):
        """Ends every sequence for which wanted(sequence) holds; returns their number."""
        return self.call(self._abort, wanted)

    def pause(self, mode, clear_cache):
        """Returns when the pause is complete; for "wait" that is when nothing runs any more."""
        self.call(self._pause, mode, clear_cache).result()

    def resume(self):
        self.call(self._resume)

    def reset_prefix_cache(self, reset_running):
        """False, and nothing is done, while a sequence holds blocks that it may not lose."""
        return self.call(self._reset_prefix_cache, reset_running)

    def reload(self, directory=None):
        """Serves the checkpoint in `directory`, or the last one named again. Clears no cache.

        Raises CheckpointError and leaves the weights as they were if it cannot; the directory
        stays the one to be read by a later reload, as in vLLM.
        """
        self.call(self._reload, directory)

    def counts(self):
        """(running, waiting)"""
        return self.call(lambda: (len(self._running), len(self._waiting)))

    # Everything below runs in the engine's thread.

    def _loop(self):
        try:
            while True:
                while not self._has_work() or not self._commands.empty():
                    self._run_command()
                self._step()
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # clients must see a dead engine, not one that never answers

    def _has_work(self):
        admits = self._waiting and self.pause_mode is None
        return admits or (self._running and self.pause_mode in (None, "wait"))

    def _run_command(self):
        done, function, arguments = self._commands.get()
        try:
            done.set_result(function(*arguments))
        except Exception as error:  # whatever it is, it belongs to the caller
            done.set_exception(error)

    def _step(self):
        while self.pause_mode is None and self._waiting and len(self._running) < self._max_running:
            self._running.append(self._waiting.popleft())
        for sequence in self._running:
            self._advance(sequence)
        self._drop_finished()

    def _advance(self, sequence):
        """Computes the next positions; makes a token where they reach the last one known."""
        if sequence.cache is None:
            self._begin(sequence)
        cache, tokens = sequence.cache, sequence.tokens
        logits = None
        for position in range(cache.length, min(len(tokens), cache.length + PREFILL_POSITIONS)):
            is_last = position == len(tokens) - 1
            logits = self._model.step(tokens[position], cache, want_logits=is_last)
        if logits is None:
            return
        if sequence.output_length() == 0:
            self._prefixes.store(tokens, sequence.request.cache_salt, cache)
        sequence.take(logits)

    def _begin(self, sequence):
        found = self._prefixes.find(sequence.tokens, sequence.request.cache_salt)
        sequence.cache = found or kv_cache.KvCache(self.config)
        if sequence.output_length() == 0:
            sequence.cached_tokens = sequence.cache.length

    def _drop_finished(self):
        self._running = [sequence for sequence in self._running if not sequence.finished]
        if not self._running:
            self._complete_pauses()

    def _complete_pauses(self):
        for done, clear_cache in self._drained:
            if clear_cache:
                self._prefixes.clear()
            done.set_result(None)
        self._drained = []

    def _abort(self, wanted):
        chosen = [sequence for sequence in (*self._running, *self._waiting) if wanted(sequence)]
        for sequence in chosen:
            sequence.abort()
        self._waiting = collections.deque(s for s in self._waiting if not s.finished)
        self._drop_finished()
        return len(chosen)

    def _pause(self, mode, clear_cache):
        """A future that is done when the pause is complete."""
        self.pause_mode = mode
        done = concurrent.futures.Future()
        self._drained.append((done, clear_cache))
        if mode == "abort":
            self._abort(lambda sequence: True)
        elif mode == "keep":
            if clear_cache:
                self._preempt()
            self._complete_pauses()
        elif not self._running:
            self._complete_pauses()
        return done

    def _resume(self):
        self.pause_mode = None
        for done, _ in self._drained:
            done.set_exception(RuntimeError("resumed before the requests in flight had ended"))
        self._drained = []

    def _preempt(self):
        for sequence in self._running:
            sequence.cache = None

    def _reset_prefix_cache(self, reset_running):
        if self._running and not reset_running:
            return False
        self._preempt()
        self._prefixes.clear()
        return True

    def _reload(self, directory):
        self.directory = pathlib.Path(directory or self.directory)
        self._model = model.load(self.directory, self.config)
