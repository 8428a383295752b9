"""Keys and values of one sequence, and the prefix cache that lets requests share them.

Neither knows which weights made its content: after a reload old entries stay until somebody drops
them, as in real engines.
"""

import collections
import hashlib
import struct

import numpy as np

BLOCK_TOKENS = 16  # prefixes are shared in whole blocks, vLLM's default size
FIRST_CAPACITY = 64  # positions


class KvCache:
    """float32 keys and values of shape (kv_heads, positions, head_dim) per layer."""

    def __init__(self, config):
        self.length = 0
        shape = (config.kv_heads, FIRST_CAPACITY, config.head_dim)
        self._keys = [np.zeros(shape, np.float32) for _ in range(config.layers)]
        self._values = [np.zeros(shape, np.float32) for _ in range(config.layers)]

    def begin_position(self):
        """Makes room for one more position; returns its number."""
        if self.length == self._keys[0].shape[1]:
            self._keys = [np.concatenate((k, np.zeros_like(k)), axis=1) for k in self._keys]
            self._values = [np.concatenate((v, np.zeros_like(v)), axis=1) for v in self._values]
        return self.length

    def append(self, layer, key, value):
        """Stores (kv_heads, head_dim) each; returns views of all positions up to this one."""
        self._keys[layer][:, self.length] = key
        self._values[layer][:, self.length] = value
        end = self.length + 1
        return self._keys[layer][:, :end], self._values[layer][:, :end]

    def end_position(self):
        self.length += 1

    def copy(self, length):
        """A cache of its own with the first `length` positions."""
        copied = object.__new__(KvCache)
        copied.length = length
        copied._keys = [keys.copy() for keys in self._keys]
        copied._values = [values.copy() for values in self._values]
        return copied


class PrefixCache:
    """Whole blocks of prompts; beyond `capacity` blocks the oldest go first. For one thread."""

    def __init__(self, capacity=1024):
        self._capacity = capacity
        self._entries = collections.OrderedDict()  # chained block hash -> (KvCache, length)

    def find(self, tokens, salt):
        """A copy of the longest known prefix that leaves a token to compute, or None."""
        found = None
        for key, length in _block_keys(tokens, salt):
            if key not in self._entries or length >= len(tokens):
                break
            self._entries.move_to_end(key)
            found = self._entries[key]
        return found and found[0].copy(found[1])

    def store(self, tokens, salt, cache):
        """Keeps a copy of all whole blocks of `tokens`, whose positions `cache` holds."""
        snapshot = cache.copy(len(tokens))
        for key, length in _block_keys(tokens, salt):
            self._entries.setdefault(key, (snapshot, length))
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def clear(self):
        self._entries.clear()


def _block_keys(tokens, salt):
    """Yields (hash of salt and all tokens so far, their number) for every whole block."""
    chain = hashlib.blake2b((salt or "").encode(), digest_size=16)
    for begin in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        block = tokens[begin:begin + BLOCK_TOKENS]
        chain.update(struct.pack(f"<{BLOCK_TOKENS}I", *block))
        yield chain.copy().digest(), begin + BLOCK_TOKENS
