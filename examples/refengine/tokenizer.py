"""A tokenizer without a vocabulary: token ids 0 to 255 are the bytes of UTF-8 text.

Larger ids have no text of their own and read as <300>. With a real checkpoint, text prompts are
therefore nonsense to the model; send token ids made by its own tokenizer.
"""

import codecs


def encode(text):
    return list(text.encode("utf-8"))


def token_name(token_id):
    """How logprobs name a token: unique, so that it can be a key."""
    if token_id >= 0x100:
        return f"<{token_id}>"
    return chr(token_id) if token_id < 0x80 else f"bytes:\\x{token_id:02x}"


class TextStream:
    """Turns tokens into text as they come, held back where a stop string may have begun."""

    def __init__(self, stop):
        self._stop = [text for text in stop if text]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.characters = 0  # decoded so far, held back or not
        self.stop_hit = None  # the stop string found; it is cut from the text

    def push(self, token_id):
        """The text that is now certain. After a hit nothing more may be pushed."""
        added = self._decode(token_id)
        self.characters += len(added)
        self._held += added
        hits = [(self._held.find(text), text) for text in self._stop if text in self._held]
        if hits:
            begin, self.stop_hit = min(hits)
            return self._release(begin)
        longest = max((len(text) for text in self._stop), default=1)
        return self._release(max(0, len(self._held) - longest + 1))

    def finish(self):
        """What was held back, when the output ends for another reason than a stop string."""
        if self.stop_hit is not None:
            return ""
        self._held += self._decoder.decode(b"", True)
        return self._release(len(self._held))

    def _decode(self, token_id):
        if token_id < 0x100:
            return self._decoder.decode(bytes([token_id]))
        unfinished = self._decoder.decode(b"", True)
        self._decoder.reset()
        return f"{unfinished}<{token_id}>"

    def _release(self, count):
        released, self._held = self._held[:count], self._held[count:]
        return released
