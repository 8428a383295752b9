"""What tests share whose islands are doubles of sidecars: a gateway in front of them, and what it says."""

import fleet
from fleet import harness, island
from sidecar_double import SidecarDouble, completion


class DoublesTest(harness.ServerTest):
    """`islands`: {id: double}, all listed; `start` begins the gateway."""

    def setUp(self):
        super().setUp()
        self.islands = {}
        self.gateways = 0

    def add(self, name, generation=None, server_info=None):
        double = SidecarDouble(self, generation or (lambda call: call.answer(completion())),
                               server_info)
        self.islands[name] = double
        return double

    def start(self, *options, port=0, ready=None):
        listed = [part for name, one in self.islands.items() for part in one.listed(name)]
        self.gateways += 1
        self.process = fleet.GatewayProcess(self.dir / f"gateway-{self.gateways}.log", *fleet.POLL,
                                            *listed, *options, port=port)
        self.addCleanup(self.process.kill)
        self.gateway = harness.Client(self.process.port)
        for name in self.islands if ready is None else ready:
            self.wait_for_state(name, "ready")

    def facts(self, name):
        for one in self.gateway.get("/v1/fleet")[1]["islands"]:
            if one["id"] == name:
                return one
        return None

    def wait_for_state(self, name, *states):
        def check():
            found = self.facts(name)
            return found if found and found["state"] in states else None
        return harness.wait_until(check, f"{name} is {states}")

    def events(self, kind):
        return [event for event in self.gateway.get("/events")[1] if event["event"] == kind]

    def wait_for_event(self, kind):
        return harness.wait_until(lambda: self.events(kind), f"an event {kind}")[-1]

    def ask(self, headers=None, **more):
        """(status, headers, bytes)"""
        connection, response = self.gateway.send("POST", "/v1/completions",
                                                 {**island.COMPLETION, **more}, headers)
        with harness.contextlib.closing(connection):
            return response.status, response.headers, response.read()

    def wait_at_rest(self):
        def check():
            found = self.gateway.get("/v1/fleet")[1]
            return (found["gateway"]["in_flight"] == found["gateway"]["queued"] == 0
                    and all(one["in_flight"] == 0 for one in found["islands"]))
        harness.wait_until(check, "nothing is in flight")

    def metric(self, name):
        """Of the first sample whose name and labels begin so."""
        for line in self.gateway.get("/metrics")[1].splitlines():
            if line.startswith(name):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")
