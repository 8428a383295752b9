#!/usr/bin/env python3
"""A double of SGLang's server (0.5.23, Python frontend): its control routes and generation.

sglang_double.py DIRECTORY [--ranks N] [--weight-version V] [--admin-api-key KEY] …

Prints its port. Transports that need a trainer's process group (from_distributed, ipc) are not
there. See double.py for what it refuses and how to ask it what happened.
"""

import double
import fake_engine
import sglang_generation
import sglang_weights
from double import Route
from http_server import Reply

PAUSE_MODES = ("abort", "retract", "in_place")
VERSION = "0.5.23"
PAUSED = {"message": "Generation paused successfully.", "status": "ok"}
CONTINUED = {"message": "Generation continued successfully.", "status": "ok"}
FLUSHED = "Cache flushed.\nPlease check backend logs for more details."
OPEN_ROUTES = ("/health", "/health_generate", "/ready", "/metrics", "/openapi.json", "/generate",
               "/v1/completions", "/v1/chat/completions", "/v1/models", "/model_info",
               "/server_info", "/v1/loads")


class SglangDouble(double.Double):
    """Pauses, flushes, probes; weights and generation are in files of their own."""

    def __init__(self, engine, options):
        super().__init__(engine)
        self.options = options
        self.model_path = options.directory
        self.served_model_name = options.served_model_name
        self.weights = sglang_weights.Weights(self)
        self.routes = {**self._probe_routes(), **self._pause_routes(), **self._memory_routes(),
                       **self.weights.routes(), **sglang_generation.Generation(self).routes()}
        self.load_routes = sglang_weights.LOAD_ROUTES
        self.error_bodies = sglang_weights.ERROR_BODIES
        self.routes["/openapi.json"] = Route(("GET",), self.openapi("SGLang", VERSION))

    def error_body(self, status, message, generates):
        if generates:
            return {"error": {"message": message, "type": "BadRequestError", "code": status,
                              "retryable": False}}
        return {"object": "error", "message": message, "type": "BadRequest", "param": None,
                "code": status}

    def load_violation(self, rule, message):
        return self.weights.refusal(rule, message)

    def authorize(self, call):
        key = self.options.admin_api_key
        given = call.headers.get("Authorization")
        if key and call.path not in OPEN_ROUTES and given != f"Bearer {key}":
            raise self.error(401, "Unauthorized")

    def follows_loads(self, call):
        return call.path == "/server_info"  # the scheduler answers it

    def _probe_routes(self):
        handlers = {"/health": self._health, "/health_generate": self._health,
                    "/ready": self._ready,
                    "/metrics": lambda call: Reply(200, "sglang:num_running_reqs 0\n"),
                    "/model_info": self._model_info, "/server_info": self._server_info,
                    "/v1/models": lambda call: Reply(200, {"object": "list", "data": [
                        {"id": self.served_model_name, "object": "model", "owned_by": "sglang"}]})}
        routes = {path: Route(("GET",), handler) for path, handler in handlers.items()}
        routes["/v1/loads"] = Route(("GET",), self._loads, {
            "dp_rank": "int", "include": "str", "format": "str"})
        return routes

    def _pause_routes(self):
        return {
            "/pause_generation": Route(("POST",), self._pause, body={"mode": (str,)}),
            "/continue_generation": Route(("POST",), self._continue,
                                          body={"torch_empty_cache": (bool,)}),
            "/flush_cache": Route(("GET", "POST"), self._flush, {"timeout": "float"}),
            "/abort_request": Route(("POST",), self._abort, body={
                "rid": (str,), "abort_all": (bool,), "abort_message": (str,)}),
            "/hicache/storage-backend/clear": Route(("POST",), lambda call: Reply())}

    def _memory_routes(self):
        body = {"tags": (list,)}
        return {"/release_memory_occupation": Route(("POST",), self._release_memory, body=body),
                "/resume_memory_occupation": Route(("POST",), self._resume_memory, body=body)}

    # Probes

    def _health(self, _):
        """Real ones answer by a one-token request, which waits while the engine is paused."""
        with self.engine.changed:
            answers = self.engine.changed.wait_for(
                lambda: self.engine.pause_mode is None, self.options.health_timeout_s)
        return Reply(200 if answers else 503)

    def _ready(self, _):
        return Reply(200 if self.engine.pause_mode is None else 503)

    def _model_info(self, _):
        return Reply(200, {
            "model_path": self.model_path, "served_model_name": self.served_model_name,
            "tokenizer_path": self.options.directory, "weight_version": self.weights.told_version,
            "load_format": "auto", "is_generation": True, "model_type": "qwen3"})

    def _server_info(self, _):
        return Reply(200, {"model_path": self.options.directory, "tp_size": self.options.ranks,
                           "weight_version": self.options.weight_version, "version": VERSION,
                           "frontend": "python", "internal_states": [{}]})

    def _loads(self, _):
        state = self.engine.state()
        return Reply(200, {"timestamp": 0.0, "version": VERSION, "loads": [{
            "dp_rank": 0, "num_running_reqs": state["running"],
            "num_waiting_reqs": state["waiting"], "num_used_tokens": state["tokens"],
            "num_total_tokens": state["tokens"]}]})

    # Pause, flush, abort

    def _pause(self, call):
        mode = call.arguments.get("mode", "abort")
        if mode not in PAUSE_MODES:
            raise self.violation("bad_body", f"/pause_generation: mode {mode!r}", 400)
        if self.engine.updating:
            raise self.violation("pause_during_update", "an update is running")
        turn = self.engine.begin_pause(mode)
        if mode == "retract":
            self.engine.preempt()
        self.strike(call, "midway")
        if not self.engine.complete_pause(turn):
            raise self.error(500, "the pause was superseded")
        return Reply(200, PAUSED)

    def _continue(self, _):
        engine = self.engine
        with engine.changed:
            if engine.pause_mode is None:
                raise self.violation("resume_without_pause", "the engine is not paused", 400)
            if not engine.pause_complete:
                raise self.violation("resume_during_pause", "the pause has not completed", 400)
            if engine.updating or self.weights.session:
                raise self.violation("resume_during_update", "an update is not finished", 400)
            if engine.unproven:
                raise self.violation("resume_on_unknown_weights", "the last load failed", 400)
            engine.resume()
        return Reply(200, CONTINUED)

    def _flush(self, call):
        """Only an idle engine flushes, or one that is paused by retract and asked not to wait."""
        engine, waits = self.engine, float(call.query.get("timeout", "0")) > 0
        with engine.changed:
            if engine.pause_mode == "in_place":
                self._refuse_flush("flush_in_place", "frozen requests hold their cache")
            if engine.pause_mode == "retract" and waits:
                self._refuse_flush("flush_with_timeout", "retracted requests never drain")
            if not self.may_flush():
                return Reply(400, "Flush cache failed: requests are pending.")
            engine.clear_prefixes()
        return Reply(200, FLUSHED)

    def _refuse_flush(self, rule, message):
        raise double.Violation(rule, 400, f"Flush cache failed: {message}", message)

    def may_flush(self):
        engine = self.engine
        return engine.pause_mode in ("abort", "retract") or not (engine.running or engine.waiting)

    def _abort(self, call):
        rid = call.arguments.get("rid", "")
        if call.arguments.get("abort_all"):
            self.engine.abort()
        elif rid:
            self.engine.abort(lambda request: request.request_id.startswith(rid))
        return Reply()

    # Memory

    def _release_memory(self, call):
        if not self.options.enable_memory_saver:
            raise self.violation("no_memory_saver", "started without --enable-memory-saver", 400)
        if self.engine.running or self.engine.waiting:
            raise self.violation("release_while_busy", "the scheduler would die of an assertion")
        self.engine.clear_prefixes()
        if "weights" in call.arguments.get("tags", ["weights"]):
            self.engine.unproven = True
            self.engine.set_weights(range(self.options.ranks), fake_engine.Weights("released", {}))
        return Reply()

    def _resume_memory(self, _):
        if not self.options.enable_memory_saver:
            raise self.violation("no_memory_saver", "started without --enable-memory-saver", 400)
        return Reply()


def main():
    parser = double.arguments(__doc__)
    parser.add_argument("--weight-version", default="default")
    parser.add_argument("--admin-api-key")
    parser.add_argument("--enable-memory-saver", action="store_true")
    parser.add_argument("--incremental-streaming-output", action="store_true")
    parser.add_argument("--health-timeout-s", type=float, default=20.0)
    options = parser.parse_args()
    engine = fake_engine.FakeEngine(options.directory, options.ranks, options.weight_version,
                                    options.token_ms / 1000)
    double.serve(SglangDouble(engine, options), options)


if __name__ == "__main__":
    main()
