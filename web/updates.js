// Where the time of updates went: stacked bars by phase, one an update while islands are few, else
// medians over the islands that went to a version.

import { setText } from "./dom.js";
import { Figure } from "./figure.js";
import { ago, bytes, milliseconds, number } from "./format.js";

/* global d3 */

const MOST_ISLANDS = 12; // with a bar for each update
const BARS = 12;
const BAR = 22;

const STAGING = [
  { key: "fetch", label: "fetch", colour: "var(--p0)" },
  { key: "apply", label: "apply", colour: "var(--p1)", pattern: "hatch" },
  { key: "check", label: "check", colour: "var(--p2)" },
  { key: "rest", label: "rest of staging", colour: "var(--p7)", pattern: "dots" },
  { key: "hold", label: "hold for sessions", colour: "var(--p4)", pattern: "cross" },
];
const CLOSED = [
  { key: "drain", label: "drain", colour: "var(--p0)" },
  { key: "pause", label: "pause", colour: "var(--p1)", pattern: "hatch" },
  { key: "load", label: "load", colour: "var(--p2)" },
  { key: "flush", label: "flush", colour: "var(--p3)", pattern: "dots" },
  { key: "verify", label: "verify", colour: "var(--p4)" },
  { key: "resume", label: "resume", colour: "var(--p5)", pattern: "hatch" },
  { key: "canary", label: "canary", colour: "var(--p6)" },
  { key: "own", label: "the sidecar's own", colour: "var(--p7)", pattern: "cross" },
];

/** Bars of {label, title, failed, ms: {PHASE}}, newest first. */
export function barsOf(model) {
  const many = model.islands.length > MOST_ISLANDS;
  const all = many ? model.runSummaries : model.runUpdates;
  return all.slice(-BARS).reverse().map((each) => {
    const ms = Object.fromEntries(model.phases.map((phase, index) => [phase, each.ms[index]]));
    ms.rest = Math.max(0, ms.stage - ms.fetch - ms.apply - ms.check);
    const what = many ? `→ ${each.to} (${number(each.updates)})` : `${shorten(each.id)} → ${each.to}`;
    const failed = many ? each.failed : !each.ok;
    const title = many
      ? `to ${each.to}: medians of ${each.updates} updates, ${each.failed} failed, ${bytes(each.fetched_bytes)} fetched, the last ${ago(model.now - each.seen)}`
      : `${each.id}, ${each.kind} from ${each.from} to ${each.to}, ${bytes(each.fetched_bytes)} fetched, ${ago(model.now - each.seen)}${each.error ? `: ${each.error}` : ""}`;
    return { label: what, title, failed: failed ? (many ? `${number(each.failed)} failed` : "failed") : "", ms, many };
  });
}

function shorten(id) {
  return id.length > 18 ? `${id.slice(0, 17)}…` : id;
}

class PhaseFigure extends Figure {
  constructor(id, phases, total, label) {
    super(id, { label, left: 120, right: 120, top: 2 });
    this.phases = phases;
    this.total = total;
    this.setLegend(phases);
  }

  draw(bars) {
    this.bars = bars;
    this.redraw();
  }

  redraw() {
    if (!this.bars) return;
    const { bars, phases } = this;
    this.box.left = 24 + 7 * (d3.max(bars, (bar) => bar.label.length) ?? 0);
    this.box.height = this.box.top + this.box.bottom + BAR * bars.length;
    const group = this.begin(bars.length > 0);
    if (bars.length === 0) return;
    const longest = d3.max(bars, (bar) => this.sum(bar)) || 1;
    const x = d3.scale.linear().domain([0, longest]).range([0, this.inner.width]);
    const bottom = d3.svg.axis().scale(x).orient("bottom").ticks(4).tickSize(-this.inner.height, 0).tickPadding(4).tickFormat(milliseconds);
    group.append("g").attr("class", "axis").attr("transform", `translate(0,${this.inner.height})`).call(bottom);
    bars.forEach((bar, row) => this.#bar(group.append("g").attr("class", "bar").attr("transform", `translate(0,${row * BAR})`), bar, x, phases));
    this.summary.textContent = this.#summary();
    this.xs = bars; // an index a row
    this.show();
  }

  sum(bar) {
    return d3.sum(this.phases, ({ key }) => bar.ms[key]);
  }

  // Pointer and arrow keys choose a row here, not a column; without them it is the newest.

  indexAt(event) {
    const row = Math.floor((event.clientY - this.plot.getBoundingClientRect().top - this.box.top) / BAR);
    return row >= 0 && row < (this.bars?.length ?? 0) ? row : null;
  }

  outside() {
    return -1;
  }

  show() {
    const read = this.read(Math.min(this.at ?? 0, (this.bars?.length ?? 0) - 1));
    if (!read) return;
    this.svg.selectAll("g.bar").classed("chosen", (_, index) => index === this.at);
    [...this.legend.children].forEach((item, index) => setText(item.querySelector("b"), read.values[index]));
  }

  read(index) {
    const bar = this.bars?.[index];
    return bar ? { title: bar.title, values: this.phases.map(({ key }) => milliseconds(bar.ms[key])) } : null;
  }

  #summary() {
    const sums = this.bars.map((bar) => this.sum(bar)).sort((one, other) => one - other);
    const middle = sums[Math.ceil(sums.length / 2) - 1];
    const kind = this.bars[0].many ? "Medians over islands, newest version first" : "Newest first";
    return `${kind}; half take at most ${milliseconds(middle)}.`;
  }

  #bar(group, bar, x, phases) {
    group.append("title").text(bar.title);
    group.append("text").attr("class", "row").attr("x", -8).attr("y", BAR / 2 + 4).attr("text-anchor", "end").text(bar.label);
    let begin = 0;
    for (const { key, colour, pattern } of phases) {
      const end = begin + bar.ms[key];
      for (const ink of [colour, pattern && `url(#${pattern})`]) {
        if (!ink || end <= begin) continue;
        group.append("rect").attr("data-phase", key).attr("x", x(begin)).attr("y", 3).attr("width", x(end) - x(begin)).attr("height", BAR - 6).style("fill", ink);
      }
      begin = end;
    }
    group.append("text").attr("class", bar.failed ? "fail" : "row").attr("x", x(begin) + 5).attr("y", BAR / 2 + 4)
      .text(bar.failed ? `${milliseconds(begin)} ▲ ${bar.failed}` : milliseconds(begin));
  }
}

export class UpdateFigures {
  constructor() {
    this.staging = new PhaseFigure("staging", STAGING, "stage", "Time of recent updates while serving, by phase");
    this.closed = new PhaseFigure("closed", CLOSED, "closed", "Time of recent updates with the gate closed, by phase");
  }

  draw(model) {
    const bars = barsOf(model);
    this.staging.draw(bars);
    this.closed.draw(bars);
  }
}
