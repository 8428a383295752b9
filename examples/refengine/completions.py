"""POST /v1/completions: one sequence in, one answer or a stream of events out, in vLLM's shapes."""

import queue
import time

import completion_request
import http_server
import sequence as sequences
import tokenizer

DISCONNECT_POLL_S = 0.05  # how soon a client that left stops costing


class Completions:
    """Answers completions by `engine`, under the model name `served_name`."""

    def __init__(self, engine, served_name):
        self._engine = engine
        self._served_name = served_name

    def handle(self, call):
        request = completion_request.parse(call, self._engine.config, self._served_name)
        sequence = sequences.Sequence(request, self._engine.config.eos_token_ids)
        self._engine.submit(sequence)
        tokens = _tokens(call, sequence)
        if request.stream:
            return http_server.EventStream(self._events(sequence, tokens),
                                           lambda: self._end(sequence))
        try:
            return http_server.Reply(200, self._answer(sequence, list(tokens)))
        finally:
            self._end(sequence)

    def _end(self, sequence):
        """A client that left before the last token no longer costs anything."""
        if not sequence.finished:
            self._engine.abort(lambda other: other is sequence)

    def _answer(self, sequence, tokens):
        choice = _choice(sequence.request, tokens)
        if sequence.request.return_token_ids:
            choice["prompt_token_ids"] = list(sequence.request.prompt)
        answer = self._head(sequence.request, int(time.time()), [choice])
        return {**answer, "usage": _usage(sequence)}

    def _events(self, sequence, tokens):
        created = int(time.time())
        for token in tokens:
            yield self._head(sequence.request, created, [_choice(sequence.request, [token])])
        if sequence.request.include_usage:
            yield {**self._head(sequence.request, created, []), "usage": _usage(sequence)}
        yield "[DONE]"

    @staticmethod
    def _head(request, created, choices):
        return {"id": request.request_id, "object": "text_completion", "created": created,
                "model": request.model, "choices": choices}


def _tokens(call, sequence):
    """Yields tokens as they are made; ConnectionAborted once the client is gone."""
    token = None
    while token is None or token.finish_reason is None:
        token = _next_token(call, sequence)
        yield token


def _next_token(call, sequence):
    while True:
        try:
            return sequence.events.get(timeout=DISCONNECT_POLL_S)
        except queue.Empty:
            if call.client_is_gone():
                raise http_server.ConnectionAborted from None


def _choice(request, tokens):
    made = [token for token in tokens if token.token_id != sequences.NO_TOKEN]
    choice = {"index": 0, "text": "".join(token.text for token in tokens), "logprobs": None,
              "finish_reason": tokens[-1].finish_reason, "stop_reason": tokens[-1].stop_reason}
    if request.logprobs >= 0:
        choice["logprobs"] = _logprobs(made, request.tokens_as_ids)
    if request.return_token_ids:
        choice["token_ids"] = [token.token_id for token in made]
    return choice


def _logprobs(tokens, as_ids):
    """vLLM's lists: the chosen token is always among the alternatives."""
    def name(token_id):
        return f"token_id:{token_id}" if as_ids else tokenizer.token_name(token_id)
    return {"text_offset": [token.offset for token in tokens],
            "tokens": [name(token.token_id) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [{name(token_id): logprob for token_id, logprob
                              in ((token.token_id, token.logprob), *token.top)}
                             for token in tokens]}


def _usage(sequence):
    prompt, output = len(sequence.request.prompt), sequence.output_length()
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": sequence.cached_tokens}}
