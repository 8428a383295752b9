#!/usr/bin/env python3
"""A double of vLLM's API server (0.32, development mode): its control routes and generation.

vllm_double.py DIRECTORY [--ranks N] [--weight-transfer-backend NAME] [--enable-scale-out] …

Prints its port. Weight transfer is that of a plug-in whose update_info names a directory (`path`);
transports that need a trainer's process group (NCCL, IPC) are not there. See double.py for what it
refuses and how to ask it what happened.
"""

import double
import fake_engine
import vllm_generation
import vllm_weights
from double import Route
from http_server import Reply

PAUSE_MODES = ("abort", "wait", "keep")
VERSION = "0.32.0"


class VllmDouble(double.Double):
    """Pauses, caches, sleep; weights and generation are in files of their own."""

    def __init__(self, engine, options):
        super().__init__(engine)
        self.options = options
        self.asleep = set()  # tags: "weights", "kv_cache"
        self.weights = vllm_weights.Weights(self)
        self.routes = {**self._state_routes(), **self._pause_routes(), **self._cache_routes(),
                       **self.weights.routes(), **vllm_generation.Generation(self).routes()}
        self.load_routes = vllm_weights.LOAD_ROUTES
        self.error_bodies = vllm_weights.error_bodies(options.ranks)
        hidden = () if options.enable_scale_out else vllm_generation.SCALE_OUT
        self.routes["/openapi.json"] = Route(("GET",), self.openapi("vLLM", VERSION, hidden))

    def error_body(self, status, message, generates):
        kind = {400: "Bad Request", 404: "NotFoundError"}.get(status, "InternalServerError")
        return {"error": {"message": message, "type": kind, "param": None, "code": status}}

    def loads(self, call):
        is_other_rpc = (call.path == "/collective_rpc"
                        and call.arguments["method"] != "reload_weights")
        return super().loads(call) and not is_other_rpc

    def follows_loads(self, call):
        return (call.path == "/collective_rpc"
                and call.arguments["method"] == "check_health")

    def _state_routes(self):
        options = self.options
        fixed = {"/version": {"version": VERSION}, "/load": {"server_load": 0},
                 "/v1/models": {"object": "list", "data": [
                     {"id": options.served_model_name, "object": "model", "owned_by": "vllm"}]},
                 "/server_info": {"vllm_config": {"model": options.directory}, "vllm_env": {},
                                  "system_env": {}}}
        routes = {path: Route(("GET",), lambda call, body=body: Reply(200, body))
                  for path, body in fixed.items()}
        routes["/server_info"] = Route(("GET",), routes["/server_info"].handler,
                                       {"config_format": "str"})
        for path, body in (("/health", None), ("/metrics", "vllm:num_requests_running 0\n")):
            routes[path] = Route(("GET",), lambda call, body=body: Reply(200, body))
        routes["/ping"] = Route(("GET", "POST"), lambda call: Reply())
        routes["/get_world_size"] = Route(
            ("GET",), lambda call: Reply(200, {"world_size": options.ranks}),
            {"include_dp": "bool"})
        return routes

    def _pause_routes(self):
        return {
            "/pause": Route(("POST",), self._pause, {"mode": "str", "clear_cache": "bool"}),
            "/resume": Route(("POST",), self._resume),
            "/is_paused": Route(("GET",), lambda call: Reply(200, {
                "is_paused": self.engine.pause_mode is not None})),
            "/abort_requests": Route(("POST",), self._abort_requests,
                                     body={"request_ids": (list,)}),
            "/sleep": Route(("POST",), self._sleep, {"level": "int", "mode": "str"}),
            "/wake_up": Route(("POST",), self._wake_up, {"tags": "str"}),
            "/is_sleeping": Route(("GET",), lambda call: Reply(200, {
                "is_sleeping": bool(self.asleep) or self.engine.pause_mode is not None})),
            "/release_kv_cache_memory": Route(("POST",), self._release_kv_cache)}

    def _cache_routes(self):
        return {
            "/reset_prefix_cache": Route(("POST",), self._reset_prefix_cache, {
                "reset_running_requests": "bool", "reset_external": "bool"}),
            "/reset_mm_cache": Route(("POST",), lambda call: Reply()),
            "/reset_encoder_cache": Route(("POST",), lambda call: Reply())}

    def _pause(self, call):
        mode = call.query.get("mode", "abort")
        if mode not in PAUSE_MODES:
            raise self.violation("bad_query", f"/pause?mode={mode}", 400)
        if self.engine.updating:
            raise self.violation("pause_during_update", "an update is running")
        turn = self.engine.begin_pause(mode)
        self.strike(call, "midway")
        if not self.engine.complete_pause(turn):
            return Reply(500, {"error": "Failed to pause generation: superseded"})
        if call.flag("clear_cache", True):
            self.engine.preempt()
            self.engine.clear_prefixes()
        return Reply(200, {"status": "paused"})

    def _resume(self, _):
        engine = self.engine
        with engine.changed:
            self.check_resume()
            engine.resume()
        return Reply(200, {"status": "resumed"})

    def check_resume(self):
        """A Violation unless the engine is paused, in full, on weights known to be whole."""
        engine = self.engine
        if engine.pause_mode is None:
            raise self.violation("resume_without_pause", "the engine is not paused")
        if self.asleep:
            raise self.violation("resume_while_asleep", "the engine is to be woken instead")
        if not engine.pause_complete:
            raise self.violation("resume_during_pause", "the pause has not completed")
        if engine.updating or self.weights.session:
            raise self.violation("resume_during_update", "a weight update is not finished")
        if engine.unproven:
            raise self.violation("resume_on_unknown_weights", "the last load failed or was cut off")

    def _abort_requests(self, call):
        ids = call.arguments.get("request_ids")
        if ids is None:
            return Reply(200, {"status": "aborted", "aborted": self.engine.abort()})
        self.engine.abort(lambda request: request.request_id in ids)
        return Reply(200, {"status": "aborted", "aborted": len(ids)})

    def _reset_prefix_cache(self, call):
        reset_running = call.flag("reset_running_requests", False)
        with self.engine.changed:
            if self.engine.running and not reset_running:
                return Reply(200, {"success": False})
            self.engine.preempt()
            self.engine.clear_prefixes()
        return Reply(200, {"success": True})

    def _sleep(self, call):
        level = int(call.query.get("level", "1"))
        if level not in (0, 1, 2):
            raise self.violation("bad_query", f"/sleep?level={level}", 400)
        self.engine.complete_pause(self.engine.begin_pause(call.query.get("mode", "abort")))
        if level > 0:
            self.asleep = {"weights", "kv_cache"}
            self.engine.preempt()
            self.engine.clear_prefixes()
        if level == 2:
            self.discard_weights("discarded")
        return Reply(200, {"status": "sleeping", "level": level})

    def discard_weights(self, digest):
        """The weights are gone: until a full load nothing may be generated."""
        self.engine.unproven = True
        self.engine.set_weights(range(self.options.ranks), fake_engine.Weights(digest, {}))

    def _wake_up(self, call):
        if not self.asleep:
            raise self.violation("wake_up_while_awake", "it would resume an engine that is paused")
        tags = call.values("tags")
        self.asleep -= set(tags or self.asleep)
        if not self.asleep:
            self.engine.resume()
        return Reply(200, {"status": "sleeping" if self.asleep else "awake",
                           "tags": tags or None})

    def _release_kv_cache(self, _):
        if not self.engine.pause_complete:
            raise self.violation("release_without_pause", "no completed pause")
        self.engine.preempt()
        self.engine.clear_prefixes()
        return Reply(200, {"status": "kv_cache_released"})


def main():
    parser = double.arguments(__doc__)
    parser.add_argument("--enable-scale-out", action="store_true", help="/inference/v1/generate")
    parser.add_argument("--weight-transfer-backend", help="a plug-in; without it those are 500s")
    parser.add_argument("--update-info-keys", default="path",
                        help="the keys that the plug-in's update_info must have, comma-separated")
    options = parser.parse_args()
    engine = fake_engine.FakeEngine(options.directory, options.ranks, "default",
                                    options.token_ms / 1000)
    double.serve(VllmDouble(engine, options), options)


if __name__ == "__main__":
    main()
