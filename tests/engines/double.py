"""The base of both doubles: a strict server that remembers what it was asked.

A double answers as the real engine does, but refuses and records as a *violation* whatever a real
engine would accept and then do wrong or hang on. Beside the engine's routes it has its own:

  GET    /_double/log         every call: id, method, path, query, body, status (null: no answer),
                              begun and ended (places in one order of all beginnings and ends);
                              {"from": N}: those whose id is at least N
  GET    /_double/violations  rule, call (the id), message
  GET    /_double/state       the engine's state; "hanging": routes of calls that hang by a fault
  GET    /_double/faults      those that still wait for their call; DELETE forgets them
  POST   /_double/faults      {"route", "kind", "count": 1, "when": null}: see faults.py
  POST   /_double/release     {"route": null}: hanging calls go on -> {"released": N}
  POST   /_double/pacing      {"manual": bool}: tokens only by /_double/step, or freely
  POST   /_double/step        {"tokens": N}: that many for each request in flight -> {"made": N}
"""

import argparse
import contextlib
import dataclasses
import itertools
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "refengine"))
import faults  # noqa: E402
import http_server  # noqa: E402

ANYTHING = (str, int, float, bool, list, dict, type(None))


class Violation(http_server.HttpError):
    """A refusal that says which rule the caller broke."""

    def __init__(self, rule, status, body, message):
        super().__init__(status, body)
        self.rule = rule
        self.message = message


@dataclasses.dataclass(frozen=True)
class Route:
    """How one path may be called.

    query: {name: "bool", "str", "int" or "float"}. body: {key: types}, or None where none is read;
    keys in `required` must be there. `loose`: a generation route, whose body may have other keys.
    `optional_body`: it may be empty.
    """

    methods: tuple
    handler: object
    query: dict = dataclasses.field(default_factory=dict)
    body: dict = None
    required: tuple = ()
    loose: bool = False
    optional_body: bool = False


class Double:
    """Subclasses set `self.routes` ({path: Route}) and say how errors look by error_body."""

    def __init__(self, engine):
        self.engine = engine
        self.faults = faults.Faults()
        self.routes = {}
        self.error_bodies = {}  # {path: body of a 200 that tells of an error}
        self.load_routes = ()  # paths whose calls may load weights
        self._loads_begun, self._loads_ended = 0, 0
        self._lock = threading.Lock()
        self._log, self._violations = [], []
        self._order = itertools.count()
        self._own = {
            ("GET", "/_double/log"): lambda body: self._copy(self._log[body.get("from", 0):]),
            ("GET", "/_double/violations"): lambda body: self._copy(self._violations),
            ("GET", "/_double/state"): self._state,
            ("GET", "/_double/faults"): lambda body: self.faults.planned(),
            ("DELETE", "/_double/faults"): lambda body: self.faults.clear(),
            ("POST", "/_double/faults"): self._plan_fault,
            ("POST", "/_double/release"): self._release,
            ("POST", "/_double/pacing"): self._pacing,
            ("POST", "/_double/step"): self._step}

    def error_body(self, status, message, generates):
        """The JSON of an error as this engine sends it; `generates`: on a generation route."""
        raise NotImplementedError

    def violation(self, rule, message, status=500, generates=False):
        return Violation(rule, status, self.error_body(status, message, generates), message)

    def load_violation(self, rule, message):
        """A violation as the routes tell it that load weights."""
        return self.violation(rule, message)

    def error(self, status, message, generates=False):
        return http_server.HttpError(status, self.error_body(status, message, generates))

    # Every call

    def handle(self, call):
        if call.path.startswith("/_double/"):
            return self._handle_own(call)
        entry = self._begin(call)
        try:
            reply = self._answer(call)
            entry["status"] = reply.status
            return reply
        except http_server.HttpError as error:
            entry["status"] = error.reply.status
            if isinstance(error, Violation):
                self.record(error.rule, error.message, entry["id"])
            raise
        finally:
            entry["ended"] = next(self._order)

    def record(self, rule, message, call_id=None):
        with self._lock:
            self._violations.append({"rule": rule, "call": call_id, "message": message})

    def _begin(self, call):
        try:
            body = call.json() if call.body else None
        except ValueError:
            body = call.body.decode("utf-8", "replace")
        with self._lock:
            entry = {"id": len(self._log), "method": call.method, "path": call.path,
                     "query": call.query, "body": body, "status": None,
                     "begun": next(self._order), "ended": None}
            self._log.append(entry)
            return entry

    def _answer(self, call):
        """Checks the call, then lets it meet its fault on the way through its handler."""
        route = self.routes.get(call.path)
        if route is None:
            raise self.error(404, "Not Found")
        self.authorize(call)
        if call.method not in route.methods:
            raise self.violation("wrong_method", f"{call.method} {call.path}", 405)
        self._check_query(route, call)
        call.arguments = self._check_body(route, call)
        call.fault = self.faults.take(call.path)
        call.proves_weights = False
        with self._in_order(call):
            self.strike(call, "before")
            if self._lies(call) and not self.loads(call):
                return http_server.Reply(200, self.error_bodies[call.path])
            reply = route.handler(call)
            self.strike(call, "after")
            return self._settle(call, reply)

    @contextlib.contextmanager
    def _in_order(self, call):
        """The engine's core runs calls in the order in which they came: here, after loads."""
        changed, loads = self.engine.changed, self.loads(call)
        with changed:
            self._loads_begun += loads
            turn = self._loads_begun
            if self.follows_loads(call):
                changed.wait_for(lambda: self._loads_ended >= turn)
        try:
            yield
        finally:
            with changed:
                self._loads_ended += loads
                changed.notify_all()

    def _settle(self, call, reply):
        """A load counts as proven only if its caller can have heard of it."""
        if call.proves_weights and not call.client_is_gone():
            self.engine.unproven = False
        return reply

    @staticmethod
    def _lies(call):
        return call.fault is not None and call.fault.action == "error_in_200"

    def strike(self, call, point):
        generates = self.routes[call.path].loose
        error = self.error(500, f"fault injected ({point})", generates)
        self.faults.strike(call, point, error)

    def authorize(self, call):
        """Raises HttpError where the engine asks for a key that the call lacks."""

    def loads(self, call):
        """True if this call loads weights, so that its faults meet it while it does."""
        return call.path in self.load_routes

    def follows_loads(self, call):
        """True if this call is answered only after every load that came before it."""
        return False

    # Loading

    def begin_load(self, message="weights loaded while the engine generates"):
        """Refuses a load at the wrong time; otherwise one is under way until end_load."""
        engine = self.engine
        with engine.changed:
            if not engine.pause_complete:
                raise self.load_violation("load_without_pause", message)
            if engine.updating:
                raise self.load_violation("second_update", "an update is running")
            engine.updating = engine.unproven = True

    def end_load(self):
        with self.engine.changed:
            self.engine.updating = False

    def load(self, call, directories):
        """All ranks load, unless the call's fault is that they do not. FileNotFoundError, Torn."""
        call.proves_weights = True
        if call.fault is not None and call.fault.action == "stale":
            return
        self.engine.load(directories, lambda: self._midway(call))

    def _midway(self, call):
        if self._lies(call):
            raise http_server.HttpError(200, self.error_bodies[call.path])
        self.strike(call, "midway")

    # What a call may carry

    def _check_query(self, route, call):
        for name, text in call.query.items():
            if name not in route.query:
                raise self.violation("unknown_query", f"{call.path}?{name}", 400)
            if not _is_a(route.query[name], text):
                raise self.violation("bad_query", f"{call.path}?{name}={text}", 400)

    def _check_body(self, route, call):
        """The body as a dict ({} where there is none)."""
        if route.body is None:
            if call.body not in (b"", b"{}"):
                raise self.violation("unexpected_body", f"{call.path} reads no body", 400)
            return {}
        if not call.body and route.optional_body:
            return {}
        try:
            body = call.json()
        except ValueError:
            raise self.violation("bad_body", f"{call.path}: the body is no JSON", 400) from None
        if not isinstance(body, dict):
            raise self.violation("bad_body", f"{call.path}: the body is no object", 400)
        self._check_keys(route, call, body)
        return {key: value for key, value in body.items() if value is not None}

    def _check_keys(self, route, call, body):
        for key in route.required:
            if key not in body:
                raise self.violation("missing_key", f"{call.path}: {key}", 400)
        for key, value in body.items():
            kinds = route.body.get(key, ANYTHING if route.loose else None)
            if kinds is None:
                raise self.violation("unknown_key", f"{call.path}: {key}", 400)
            is_absent = value is None and key not in route.required
            if not is_absent and not _is_one_of(kinds, value):
                raise self.violation("bad_body", f"{call.path}: {key} is {value!r}", 400)

    def openapi(self, title, version, hidden=()):
        """A handler for /openapi.json: all routes but those named in `hidden`."""
        def handle(_):
            listed = http_server.Routes()
            for path in self.routes.keys() - set(hidden):
                for method in self.routes[path].methods:
                    listed.add(method, path, self.routes[path].handler)
            document = listed.openapi(title, version)
            for path, operations in document["paths"].items():
                for operation in operations.values():
                    self._describe(self.routes[path], operation, document)
            return http_server.Reply(200, document)
        return handle

    @staticmethod
    def _describe(route, operation, document):
        """What a call takes, as FastAPI writes it: bodies are references to schemas."""
        operation["parameters"] = [{"name": name, "in": "query", "required": False, "schema": {}}
                                   for name in sorted(route.query)]
        if route.body is not None:
            name = f"Body{len(document.setdefault('components', {'schemas': {}})['schemas'])}"
            document["components"]["schemas"][name] = {
                "type": "object", "properties": {key: {} for key in sorted(route.body)}}
            operation["requestBody"] = {"content": {"application/json": {
                "schema": {"$ref": f"#/components/schemas/{name}"}}}}

    # The double's own routes

    def _handle_own(self, call):
        handler = self._own.get((call.method, call.path))
        if handler is None:
            return http_server.Reply(404, "no such route of the double")
        try:
            body = call.json() if call.body else {}
            result = handler(body)
        except (KeyError, TypeError, ValueError) as error:
            return http_server.Reply(400, f"{type(error).__name__}: {error}")
        return http_server.Reply(200, {} if result is None else result)

    def _copy(self, entries):
        with self._lock:
            return [dict(entry) for entry in entries]

    def _state(self, _):
        return {**self.engine.state(), "hanging": self.faults.hanging()}

    def _plan_fault(self, body):
        if body["route"] not in self.routes:
            raise ValueError(f"no route {body['route']}")
        allowed = {"error_in_200": self.error_bodies, "stale": self.load_routes}
        if body["route"] not in allowed.get(body["kind"], self.routes):
            raise ValueError(f"{body['kind']} is for {', '.join(allowed[body['kind']])}")
        self.faults.plan(body["route"], body["kind"], body.get("count", 1), body.get("when"))

    def _release(self, body):
        return {"released": self.faults.release(body.get("route"))}

    def _pacing(self, body):
        self.engine.set_pacing(bool(body["manual"]))

    def _step(self, body):
        return {"made": sum(self.engine.step() for _ in range(body["tokens"]))}


def _is_one_of(kinds, value):
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _is_a(kind, text):
    if kind == "bool":
        return text.lower() in http_server.FLAGS
    if kind == "str":
        return True
    try:
        {"int": int, "float": float}[kind](text)
        return True
    except ValueError:
        return False


def arguments(description):
    """The options that both doubles have."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("directory", help="the checkpoint served at first")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=2, help="simulated tensor-parallel ranks")
    parser.add_argument("--served-model-name", default="policy")
    parser.add_argument("--token-ms", type=float, default=0,
                        help="from one token of all requests to the next; 0: as fast as it can")
    parser.add_argument("--without", action="append", default=[], metavar="PATH",
                        help="a route that this engine does not have; may be repeated")
    return parser


def serve(double, options):
    """Prints the port, then answers until the process ends."""
    for path in options.without:
        double.routes.pop(path, None)
    server = http_server.Server(double.handle, port=options.port)
    print(server.port, flush=True)
    server.serve_forever()
