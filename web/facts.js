// What is known of each version: patch size, density, and push over floor where the publisher says so.

import { Figure } from "./figure.js";
import { bytes, number, percent } from "./format.js";

/* global d3 */

const SHOWN = 60;
const PUSH = "isthmus.push_p50";
const FLOOR = "isthmus.floor";

class FactFigure extends Figure {
  /** `value` of a version's facts, null if unknown; `kind`: "bars" or "points"; `base`: a line to compare with. */
  constructor(id, { value, kind, format, colour, base, ...rest }) {
    super(id, { height: 150, ...rest });
    Object.assign(this, { value, kind, format, base, colour });
    this.setLegend([{ label: "Version" }, { label: rest.unit, colour, ...(kind === "points" ? { dash: "" } : {}) }]);
  }

  draw(facts) {
    this.facts = facts.filter((each) => this.value(each) !== null).slice(-SHOWN);
    this.redraw();
  }

  read(index) {
    const facts = this.facts?.[index];
    return facts ? { title: `Version ${facts.version}`, values: [String(facts.version), this.format(this.value(facts))] } : null;
  }

  redraw() {
    if (!this.facts) return;
    const { facts, value } = this;
    const group = this.begin(facts.length > 0);
    if (facts.length === 0) return;
    const { width, height } = this.inner;
    const x = d3.scale.ordinal().domain(facts.map((each) => each.version)).rangeBands([0, width], 0.25);
    const highest = Math.max(d3.max(facts, value), this.base ?? 0) || 1;
    const y = d3.scale.linear().domain([0, highest]).nice(4).range([height, 0]);
    this.axes(group, x, y, { format: this.format, bottom: this.#versionAxis(x) });
    if (this.kind === "bars") this.#bars(group, x, y);
    else this.#points(group, x, y);
    if (this.base !== undefined) {
      group.append("line").attr("class", "cursor").attr("x2", width).attr("y1", y(this.base)).attr("y2", y(this.base));
    }
    this.cursor(group, facts.map((each) => x(each.version)), x.rangeBand());
    const last = facts.at(-1);
    const middle = d3.median(facts, value);
    this.summary.textContent = `Version ${last.version}: ${this.format(value(last))}; median of ${facts.length}: ${this.format(middle)}.`;
  }

  #versionAxis(x) {
    const versions = x.domain();
    const wide = 16 + 7 * String(versions.at(-1)).length;
    const every = Math.ceil((versions.length * wide) / this.inner.width);
    return d3.svg.axis().scale(x).orient("bottom").tickSize(0, 0).tickPadding(6).tickValues(versions.filter((_, index) => (versions.length - 1 - index) % every === 0));
  }

  #bars(group, x, y) {
    for (const each of this.facts) {
      const top = y(this.value(each));
      group.append("rect").attr("data-version", each.version).attr("x", x(each.version)).attr("y", top).attr("width", x.rangeBand())
        .attr("height", this.inner.height - top).style("fill", this.colour);
    }
  }

  #points(group, x, y) {
    const at = (each) => x(each.version) + x.rangeBand() / 2;
    const line = d3.svg.line().x(at).y((each) => y(this.value(each)));
    group.append("path").attr("class", "line").attr("d", line(this.facts)).style("stroke", this.colour);
    for (const each of this.facts) {
      group.append("circle").attr("data-version", each.version).attr("cx", at(each)).attr("cy", y(this.value(each))).attr("r", 3).style("fill", this.colour);
    }
  }
}

function density({ changed, elements }) {
  return changed === null || !elements ? null : changed / elements;
}

/** How far the optimizer pushes a weight, in halves of the served format's spacing there; null if the publisher did not say both. */
export function pushOverFloor({ meta }) {
  const [push, floor] = [PUSH, FLOOR].map((key) => Number.parseFloat(meta?.[key]));
  return push >= 0 && floor > 0 ? push / floor : null;
}

export class FactFigures {
  constructor() {
    this.patches = new FactFigure("patches", { label: "Patch size of each version", unit: "patch", kind: "bars", value: (each) => each.patch_bytes, format: bytes, colour: "var(--p0)", left: 64 });
    this.density = new FactFigure("density", { label: "Share of elements that changed in each version", unit: "changed", kind: "points", value: density, format: percent, colour: "var(--p5)", left: 64 });
    this.push = new FactFigure("push", { label: "The optimizer's push over the floor of the served format, of each version", unit: "push ÷ floor", kind: "points", value: pushOverFloor, format: (value) => `${number(value)} ×`, colour: "var(--p2)", base: 1, left: 64 });
  }

  draw(facts) {
    this.patches.draw(facts);
    this.density.draw(facts);
    this.push.node.hidden = !facts.some((each) => pushOverFloor(each) !== null);
    if (!this.push.node.hidden) this.push.draw(facts);
  }
}
