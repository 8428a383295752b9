// What the page knows: the fleet now, and its history put together from the gateway's answers
// (docs/gateway.md, GET /v1/fleet/history). No DOM.

import { quantile } from "./format.js";

const UPDATES = 200;
const SUMMARIES = 60;
const VERSIONS = 200;
export const SERVING = new Set(["ready", "staging", "committing"]);

export class Model {
  constructor(sinceSeconds) {
    this.fleet = null;
    this.run = null;
    this.forget(sinceSeconds);
  }

  /** Begins anew with another window. */
  forget(sinceSeconds) {
    this.sinceMs = sinceSeconds * 1000;
    this.cursor = "";
    this.now = 0;
    this.intervalMs = 2000;
    this.phases = [];
    this.clear();
  }

  clear() {
    this.samples = [];
    this.timelines = new Map();
    this.updates = [];
    this.summaries = new Map();
    this.versions = new Map();
  }

  get from() {
    return this.now - this.sinceMs;
  }

  setFleet(fleet) {
    this.fleet = fleet;
    const names = fleet.runs.map((run) => run.run);
    if (!names.includes(this.run)) this.run = names[0] ?? null;
  }

  addHistory(answer) {
    if (answer.reset) this.clear();
    this.cursor = answer.cursor;
    this.now = answer.now;
    this.intervalMs = answer.interval_ms;
    this.phases = answer.phases;
    for (const sample of answer.samples) this.samples.push(sample);
    for (const line of answer.timelines) this.#addTimeline(line);
    this.updates = [...this.updates, ...answer.updates].slice(-UPDATES);
    for (const each of answer.update_summaries) this.summaries.set(`${each.to} ${each.run}`, each);
    for (const each of answer.versions) this.versions.set(`${each.version} ${each.run}`, each);
    this.#prune();
  }

  #addTimeline(line) {
    const known = this.timelines.get(line.id);
    if (known && known.run === line.run) known.changes.push(...line.changes);
    else this.timelines.set(line.id, { run: line.run, changes: line.changes });
  }

  #prune() {
    const from = this.from;
    const keep = this.samples.findIndex((sample) => sample.t >= from);
    this.samples.splice(0, keep < 0 ? this.samples.length : keep);
    for (const [id, line] of this.timelines) {
      const later = line.changes.findIndex((change) => change[0] > from);
      line.changes.splice(0, Math.max(0, (later < 0 ? line.changes.length : later) - 1));
      if (line.changes.length === 1 && line.changes[0][1] === 0 && line.changes[0][0] < from) this.timelines.delete(id);
    }
    this.summaries = newest(this.summaries, SUMMARIES, (one, other) => other.seen - one.seen);
    this.versions = newest(this.versions, VERSIONS, (one, other) => other.version - one.version);
  }

  /** The run's part of each sample: [{t, run: {…}}]; those without it are left out. */
  get runSamples() {
    return this.samples.flatMap((sample) => {
      const run = sample.runs.find((each) => each.run === this.run);
      return run ? [{ t: sample.t, run }] : [];
    });
  }

  /** Islands of the run, and those of which nobody knows the run yet. */
  get islands() {
    return (this.fleet?.islands ?? []).filter((island) => !island.run || island.run === this.run);
  }

  get runNow() {
    return this.fleet?.runs.find((each) => each.run === this.run) ?? null;
  }

  /** [id, changes] of the run's islands, by id. */
  get lines() {
    return [...this.timelines]
      .filter(([, line]) => line.run === this.run)
      .map(([id, line]) => [id, line.changes])
      .sort(([one], [other]) => compareNames(one, other));
  }

  get runUpdates() {
    return this.updates.filter((update) => update.run === this.run && update.seen >= this.from);
  }

  get runSummaries() {
    return [...this.summaries.values()].filter((each) => each.run === this.run && each.seen >= this.from)
      .sort((one, other) => one.to - other.to);
  }

  /** Facts of the run's versions, oldest first. */
  get facts() {
    return [...this.versions.values()].filter((each) => each.run === this.run).sort((one, other) => one.version - other.version);
  }

  /** Numbers over the run's islands, as they are now. */
  totals() {
    const islands = this.islands;
    const states = {};
    for (const island of islands) states[island.state] = (states[island.state] ?? 0) + 1;
    const serving = islands.filter((island) => SERVING.has(island.state) && island.served);
    const lags = serving.map((island) => island.lag).filter((lag) => lag !== null).sort((one, other) => one - other);
    return {
      islands: islands.length - (states.gone ?? 0),
      serving: serving.length,
      states,
      lag: lags.length === 0 ? null : { p50: quantile(lags, 50), p95: quantile(lags, 95), max: lags.at(-1) },
      requests: this.samples.at(-1)?.requests ?? null,
      firstByte: this.samples.at(-1)?.first_byte_ms ?? null,
      failed: this.countOf("failed"),
      received: this.countOf("received"),
    };
  }

  /** How many of the window's requests: rates times what each sample stands for. */
  countOf(name) {
    const seconds = this.intervalMs / 1000;
    return Math.round(this.samples.reduce((sum, sample) => sum + sample.requests[name] * seconds, 0));
  }
}

/** Names as people order them: island-9 before island-10. */
const collator = new Intl.Collator("en", { numeric: true });
export function compareNames(one, other) {
  return collator.compare(one, other) || (one < other ? -1 : one > other ? 1 : 0);
}

function newest(map, limit, order) {
  if (map.size <= limit) return map;
  return new Map([...map].sort(([, one], [, other]) => order(one, other)).slice(0, limit));
}
