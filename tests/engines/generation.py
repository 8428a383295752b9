"""What both doubles do for a generation: admit it, hand its tokens on, notice a client that left.

Every answer proves itself: besides the engine's own fields a choice has "_double": a list with
{"digest", "version", "kv"} of each token (see fake_engine.Token), and text, token ids and
log-probabilities follow from the digest and the token's place.
"""

import hashlib
import secrets

import http_server

DISCONNECT_POLL_S = 0.02


def token_id(token, place):
    return int.from_bytes(hashlib.sha256(f"{token.digest}{place}".encode()).digest()[:2], "big")


def logprob(token, place):
    return -1.0 - token_id(token, place) / 65536


def text(token):
    return f"{token.digest[:12]}:{token.version} "


def proof(tokens):
    return [{"digest": token.digest, "version": token.version, "kv": list(token.kv)}
            for token in tokens]


def new_id(call, key="request_id"):
    """The id that the caller chose, or a fresh one."""
    return call.headers.get("X-Request-Id") or call.arguments.get(key) or secrets.token_hex(16)


def prompt_tokens(prompt):
    """Token ids of a text (its bytes), of messages, or of ids as they are."""
    if isinstance(prompt, str):
        return tuple(prompt.encode())
    if prompt and isinstance(prompt[0], dict):
        return tuple(b"\n".join(str(m.get("content")).encode() for m in prompt))
    return tuple(prompt)


def admit(double, request):
    """Hands a request to the engine; a Violation where a real one would hang or serve nonsense."""
    engine = double.engine
    with engine.changed:
        if engine.pause_mode == "abort":
            raise double.violation("generation_while_paused",
                                   "a request arrived while paused with abort", 503, True)
        if engine.unproven and engine.pause_mode is None:
            raise double.violation("generation_on_unknown_weights",
                                   "the last load is not known to have succeeded", 500, True)
        engine.submit(request)


def end(double, request):
    double.engine.abort(lambda other: other is request)


def tokens(double, call, request):
    """Yields (place, token, finish) as they come; token is None for an end without a token."""
    place = 0
    while True:
        double.engine.wait_for_token(request, place, DISCONNECT_POLL_S)
        if place < len(request.tokens):
            last = request.finish if place + 1 == len(request.tokens) else None
            yield place, request.tokens[place], last
            place += 1
            if place == 1:
                double.strike(call, "midway")
            if last:
                return
        elif request.finish:
            yield place, None, request.finish
            return
        elif call.client_is_gone():
            raise http_server.ConnectionAborted


def wait_for_end(double, call, request):
    """Returns when the request has ended; it ends with its client."""
    try:
        for _ in tokens(double, call, request):
            pass
    finally:
        end(double, request)


def stream(double, call, request, events):
    """An answer by server-sent events; a fault midway becomes an event with the error."""
    def guarded():
        try:
            yield from events
            yield "[DONE]"
        except http_server.HttpError as error:
            yield error.reply.body
    return http_server.EventStream(guarded(), lambda: end(double, request))
