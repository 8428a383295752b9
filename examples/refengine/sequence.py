"""One request while it runs: its tokens, its cache, and the queue on which its client waits."""

import dataclasses
import queue

import sampling
import tokenizer

NO_TOKEN = -1


@dataclasses.dataclass(frozen=True)
class Token:
    """One step of output as the client sees it."""

    token_id: int  # NO_TOKEN: only the end is told
    text: str
    offset: int  # where the token's text begins, in characters
    logprob: float
    top: list  # [(token id, logprob)]
    finish_reason: str  # None, "stop", "length", "abort"
    stop_reason: object  # the stop string or token id; None for end of text


class Sequence:
    """Belongs to the engine's thread, but for `events`, which any thread may read."""

    def __init__(self, request, eos_token_ids):
        self.request = request
        self.events = queue.SimpleQueue()
        self.tokens = list(request.prompt)  # prompt and output
        self.cache = None  # KvCache once it has begun; None again when preempted
        self.cached_tokens = 0  # of the prompt, found in the prefix cache
        self.finished = False
        self._sampler = sampling.Sampler(request.temperature, request.seed)
        self._text = tokenizer.TextStream(request.stop)
        self._stop_ids = set(request.stop_token_ids)
        self._eos = set() if request.ignore_eos else set(eos_token_ids)

    def output_length(self):
        return len(self.tokens) - len(self.request.prompt)

    def take(self, logits):
        """Chooses the next token from float32 logits (vocab) and tells the client."""
        logprobs = sampling.log_softmax(logits)
        token_id = self._sampler.choose(logprobs)
        self.tokens.append(token_id)
        offset = self._text.characters
        text = self._text.push(token_id)
        finish_reason, stop_reason = self._end_after(token_id)
        if finish_reason:
            text += self._text.finish()
        top = sampling.top_logprobs(logprobs, max(0, self.request.logprobs))
        self._emit(Token(token_id, text, offset, float(logprobs[token_id]), top, finish_reason,
                         stop_reason))

    def abort(self):
        """Ends with what was made so far."""
        if not self.finished:
            self._emit(Token(NO_TOKEN, self._text.finish(), self._text.characters, 0.0, [], "abort",
                             None))

    def _end_after(self, token_id):
        if self._text.stop_hit is not None:
            return "stop", self._text.stop_hit
        if token_id in self._eos:
            return "stop", None
        if token_id in self._stop_ids:
            return "stop", token_id
        return ("length" if self.output_length() == self.request.max_tokens else None), None

    def _emit(self, token):
        self.finished = token.finish_reason is not None
        self.events.put(token)
