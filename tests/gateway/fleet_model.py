"""A fleet that evolves, and what a gateway says of it: docs/gateway.md, in the documented shapes.

The same seed gives the same fleet. Time is the model's own; advance() is one sample of 2 s.
"""

import datetime
import random

STEP_MS = 2000
EVERY_COARSE = 15
FINE = 900
BEGIN_MS = 1_770_000_000_000
SERVING = ("ready", "staging", "committing")
STATES = (*SERVING, "draining", "suspect", "gone")
PHASES = ("fetch", "apply", "check", "stage", "hold", "drain", "pause", "load", "flush", "verify",
          "resume", "canary", "closed", "own", "paused")
TOTALS = ("received", "served", "refused", "shed", "failed", "abandoned", "retried", "tokens")
ELEMENTS = 8_030_261_248


def rank(ordered, percent):
    """The nearest-rank quantile."""
    return ordered[-(-len(ordered) * percent // 100) - 1]


def text_time(milliseconds):
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Island:
    def __init__(self, name, random_, run):
        self.id, self.run, self.random = name, run, random_
        self.state, self.reason = "ready", ""
        self.served, self.target = 1, None
        self.until = 0  # when what it does ends
        self.region_s = random_.choice((3, 6, 12, 25)) * random_.uniform(0.8, 1.3)
        self.update = None
        self.in_flight, self.load = 0, 13.0

    def step(self, now, newest):
        chance = self.random.random()
        if self.state == "suspect":
            if now >= self.until:
                self.state, self.reason = "ready", ""
        elif self.state == "committing":
            if now >= self.until:
                self._finish(now)
        elif self.state == "staging":
            if now >= self.until:
                self.state, self.until = "committing", now + self.random.uniform(400, 2500)
        elif chance < 0.0004:
            self.state, self.until = "suspect", now + self.random.uniform(20_000, 90_000)
            self.reason = "it does not answer: connection refused"
        elif self.served < newest:
            self.state, self.target = "staging", newest
            self.began, self.until = now, now + 1000 * self.region_s * self.random.uniform(0.7, 1.5)
        self.load += 0.08 * (13 - self.load) + self.random.uniform(-1, 1)
        self.in_flight = max(0, round(self.load)) if self.state in SERVING else 0

    def _finish(self, now):
        stage = self.until - self.began
        ms = {"fetch": stage * 0.7, "apply": stage * 0.2, "check": stage * 0.06, "stage": stage, "hold": 0.0}
        closed = {"drain": 0.0, "pause": 25.0, "load": 420.0, "flush": 12.0, "verify": 70.0, "resume": 8.0,
                  "canary": 95.0, "own": 15.0}
        closed = {name: value * self.random.uniform(0.6, 1.8) for name, value in closed.items()}
        ms |= closed | {"closed": sum(closed.values()), "paused": sum(closed.values()) * 0.9}
        ok = self.random.random() > 0.004
        self.update = {"kind": "switch", "from": self.served, "to": self.target, "ended_at": text_time(now), "ok": ok,
                       "error": "" if ok else "engine 0: load answered 500", "fetched_bytes": 61_000_000 + self.target * 10_000,
                       "ms": [round(ms[phase], 1) for phase in PHASES]}
        if ok:
            self.state, self.served, self.target = "ready", self.target, None
        else:
            self.state, self.until, self.target = "suspect", now + 15_000, None
            self.reason = "its sidecar says that it is not ready: load failed"


class FleetModel:
    """`names` makes an island's id of its index."""

    def __init__(self, islands, seed, names="island-{:04}".format, run="math-8b", samples=FINE, push=True,
                 instance="gw-1"):
        self.random = random.Random(seed)
        self.instance, self.run, self.push = instance, run, push
        self.islands = [Island(names(index), self.random, run) for index in range(islands)]
        for island in self.islands[41::97]:
            island.region_s *= 12  # far away
        self.now, self.newest, self.sequence = BEGIN_MS, 1, 0
        self.next_version = self.now
        self.samples, self.changes, self.updates, self.facts = [], [], [], []
        self.rates = dict.fromkeys(TOTALS, 0)
        self.queued, self.busy = 0, 1.0
        for _ in range(samples):
            self.advance()

    def advance(self):
        self.now += STEP_MS
        self.sequence += 1
        if self.now >= self.next_version:
            self._publish()
        for island in self.islands:
            before = island.served if island.state in SERVING else 0
            told = island.update
            island.step(self.now, self.newest)
            after = island.served if island.state in SERVING else 0
            if before != after or self.sequence == 1:
                self.changes.append((self.sequence, self.now, island.id, island.run, after))
            if island.update is not told:
                self.updates.append((self.sequence, self.now, island.id, island.run, island.update))
        self._requests()
        self.samples.append((self.sequence, self._sample()))

    def _publish(self):
        self.newest += 1
        self.next_version = self.now + self.random.uniform(60_000, 110_000)
        changed = int(ELEMENTS * self.random.uniform(0.004, 0.02))
        meta = {"isthmus.push_p50": f"{self.random.uniform(0.8, 1.4):.2f}e-6", "isthmus.floor": "4.1e-5"} if self.push else {}
        self.facts.append((self.sequence, {
            "run": self.run, "version": self.newest, "patch_bytes": changed * 9 // 10, "changed": changed,
            "elements": ELEMENTS, "created_at": text_time(self.now), "meta": meta}))

    def _requests(self):
        serving = sum(island.state in SERVING for island in self.islands)
        self.busy += 0.03 * (1 - self.busy) + self.random.uniform(-0.02, 0.02)
        rate = round(serving * 2.5 * self.busy, 1)
        shed = round(rate * 0.25, 1) if self.sequence % 300 > 280 else 0
        refused = round(rate * self.random.uniform(0, 0.03), 1)
        self.rates = {"received": rate, "served": round(rate - shed - refused, 1), "refused": refused, "shed": shed,
                      "failed": 0, "abandoned": 0, "retried": round(rate * 0.01, 2), "tokens": round(rate * 310)}
        self.queued = self.random.randrange(20) if shed else 0

    def _sample(self):
        scale = self.busy
        return {"t": self.now, "requests": self.rates, "in_flight": self.in_flight, "queued": self.queued,
                "first_byte_ms": [round(41 * scale, 2), round(160 * scale * scale, 2)],
                "added_ms": [round(0.14 * scale, 3), round(0.9 * scale, 3)], "runs": [self._run_sample()]}

    def _run_sample(self):
        served = {}
        for island in self.islands:
            if island.state in SERVING:
                served[island.served] = served.get(island.served, 0) + 1
        kept = sorted(sorted(served, key=lambda version: (served[version], version))[-12:], reverse=True)
        lags = sorted(self.lags())
        return {"run": self.run, "newest": self.newest, "serving": len(lags),
                "versions": [[version, served[version]] for version in kept],
                "others": sum(count for version, count in served.items() if version not in kept),
                "states": {state: sum(island.state == state for island in self.islands) for state in STATES},
                "lag": [rank(lags, 50), rank(lags, 95), lags[-1]] if lags else None}

    def lags(self):
        return [self.newest - island.served for island in self.islands if island.state in SERVING]

    @property
    def in_flight(self):
        return sum(island.in_flight for island in self.islands)

    def fleet(self, brief):
        """GET /v1/fleet."""
        lags = self.lags()
        served = sorted({island.served for island in self.islands if island.state in SERVING}, reverse=True)
        return {
            "gateway": {"instance": self.instance, "started_at": text_time(BEGIN_MS), "in_flight": self.in_flight,
                        "queued": self.queued},
            "runs": [{"run": self.run, "newest": self.newest,
                      "served": {"islands": len(lags), "fraction_newest": lags.count(0) / max(1, len(lags))},
                      "versions": [{"version": version, "islands": lags.count(self.newest - version)} for version in served]}],
            "islands": [self._island(island, brief) for island in self.islands]}

    def _island(self, island, brief):
        update = island.update and self._last_update(island.update, brief)
        broken = island.state == "suspect"
        return {"id": island.id, "url": "http://10.0.0.1:8000", "source": "registered", "run": island.run,
                "state": island.state, "reason": island.reason, "served": island.served, "target": island.target,
                "newest": self.newest, "lag": self.newest - island.served, "in_flight": island.in_flight,
                "reported_in_flight": island.in_flight, "waiting": 0, "share": 1.0,
                "breaker": "open" if broken else "closed", "failures": 5 if broken else 0, "last_seen_ms": 200,
                "last_update": update}

    @staticmethod
    def _last_update(update, brief):
        times = {f"{phase}_ms": ms for phase, ms in zip(PHASES, update["ms"])}
        whole = {**update, **times}
        del whole["ms"]
        return {key: whole[key] for key in ("to", "ok", "ended_at", "stage_ms", "closed_ms")} if brief else whole

    def history(self, since_s, after):
        """GET /v1/fleet/history."""
        name, _, number = after.rpartition(".")
        fine = since_s <= 1800
        known = int(number) if name == self.instance and number.isdigit() and int(number) <= self.sequence else None
        if known is not None and fine and self.sequence - known > FINE:
            known = None
        begin, from_ms = known or 0, self.now - since_s * 1000
        samples = self.samples[-FINE:] if fine else self.samples[EVERY_COARSE - 1::EVERY_COARSE]
        return {
            "gateway": self.instance, "now": self.now, "cursor": f"{self.instance}.{self.sequence}",
            "reset": known is None, "interval_ms": STEP_MS if fine else STEP_MS * EVERY_COARSE,
            "samples": [sample for sequence, sample in samples if sequence > begin and sample["t"] >= from_ms],
            "timelines": self._timelines(begin, from_ms),
            "updates": [{"seen": seen, "id": name, "run": run, **{key: value for key, value in update.items() if key != "ended_at"}}
                        for sequence, seen, name, run, update in self.updates if sequence > begin and seen >= from_ms][-200:],
            "update_summaries": self._summaries(begin, from_ms), "phases": list(PHASES),
            "versions": [facts for sequence, facts in self.facts if sequence > begin]}

    def _timelines(self, begin, from_ms):
        lines = {}
        for sequence, t, name, run, version in self.changes:
            line = lines.setdefault(name, {"id": name, "run": run, "changes": []})
            if t <= from_ms:
                line["changes"].clear()
            if sequence > begin:
                line["changes"].append([t, version])
        return [line for line in lines.values() if line["changes"]]

    def _summaries(self, begin, from_ms):
        targets = {}
        for sequence, seen, _, run, update in self.updates:
            if seen >= from_ms:
                targets.setdefault((run, update["to"]), []).append((sequence, seen, update))
        summaries = []
        for (run, to), updates in targets.items():
            if updates[-1][0] <= begin:
                continue
            middle = [sorted(update["ms"][phase] for *_, update in updates)[(len(updates) - 1) // 2] for phase in range(len(PHASES))]
            summaries.append({"run": run, "to": to, "seen": updates[-1][1], "updates": len(updates),
                              "failed": sum(not update["ok"] for *_, update in updates),
                              "fetched_bytes": updates[0][2]["fetched_bytes"], "ms": middle})
        return sorted(summaries, key=lambda each: -each["seen"])[:60]
