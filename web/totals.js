// The numbers at the top, and what is said aloud when they change for the worse or the better.

import { element, setText } from "./dom.js";
import { milliseconds, number, percent } from "./format.js";

const OF = {
  islands: "Islands that serve",
  newest: "Newest version",
  lag: "Lag, median",
  rate: "Requests / s",
  flight: "In flight",
  queued: "Queued",
  first: "First byte, median",
  failed: "Failed requests",
};

export class Totals {
  constructor(list, status) {
    this.status = status;
    this.parts = {};
    for (const [key, label] of Object.entries(OF)) {
      const value = element("dd", { class: "value", id: `total-${key}` }, "–");
      const detail = element("dd", { class: "detail" });
      const group = element("div", {}, element("dt", {}, label), value, detail);
      this.parts[key] = { group, value, detail };
      list.append(group);
    }
  }

  draw(model) {
    const totals = model.totals();
    const { gateway } = model.fleet;
    const run = model.runNow;
    this.#set("islands", `${number(totals.serving)} of ${number(totals.islands)}`, statesText(totals.states), totals.serving < totals.islands ? "bad" : "good");
    this.#set("newest", run?.newest ? String(run.newest) : "–", run ? `${percent(run.served.fraction_newest)} of islands serve it` : "");
    this.#set("lag", totals.lag ? number(totals.lag.p50) : "–", totals.lag ? `p95 ${number(totals.lag.p95)}, highest ${number(totals.lag.max)} versions` : "");
    this.#set("rate", totals.requests ? number(totals.requests.received) : "–", totals.requests?.tokens > 0 ? `${number(totals.requests.tokens)} tokens/s` : "");
    this.#set("flight", number(gateway.in_flight), "");
    this.#set("queued", number(gateway.queued), "", gateway.queued > 0 ? "" : "good");
    this.#set("first", totals.firstByte ? milliseconds(totals.firstByte[0]) : "–", totals.firstByte ? `p99 ${milliseconds(totals.firstByte[1])}` : "");
    this.#set("failed", number(totals.failed), `of ${number(totals.received)} in the time shown`, totals.failed > 0 ? "bad" : "good");
    this.#tell(model, totals);
  }

  #set(key, value, detail, mood = "") {
    const part = this.parts[key];
    setText(part.value, value);
    setText(part.detail, detail);
    part.group.className = mood;
  }

  /** Only what calls for somebody is said: which islands serve, and failures. */
  #tell(model, { serving, islands, states, failed }) {
    const text = `${serving} of ${islands} islands serve, ${states.suspect ?? 0} suspect, ${failed > 0 ? "requests failed" : "no request failed"}.`;
    setText(this.status, text);
  }
}

function statesText(states) {
  const order = ["ready", "staging", "committing", "draining", "suspect", "gone"];
  return order.filter((state) => states[state]).map((state) => `${number(states[state])} ${state}`).join(", ");
}
