// A figure with a plot, a legend that tells values, and a cursor for pointer and arrow keys.

import { element, onResize, setText, swatch } from "./dom.js";

/* global d3 */

export class Figure {
  /** `label` says what can be read; heights are in pixels. */
  constructor(id, { label, height = 170, left = 52, right = 10, top = 8, bottom = 20 }) {
    this.node = document.getElementById(id);
    this.box = { height, left, right, top, bottom };
    this.summary = this.node.querySelector(".summary");
    this.plot = element("div", { class: "plot", tabindex: "0", role: "group", "aria-label": `${label}. Arrow keys read values.` });
    this.svg = d3.select(this.plot).append("svg").attr("aria-hidden", "true");
    this.empty = element("p", { class: "empty" }, "Nothing yet.");
    this.legend = element("ul", { class: "legend" });
    this.reading = element("p", { class: "unseen", role: "status" });
    this.node.append(this.plot, this.empty, this.legend, this.reading);
    this.at = null; // index under the cursor
    this.#listen();
    onResize(this.plot, () => this.redraw());
  }

  get width() {
    return Math.max(120, this.plot.clientWidth);
  }

  get inner() {
    const { left, right, top, bottom, height } = this.box;
    return { width: this.width - left - right, height: height - top - bottom };
  }

  redraw() {}

  /** What is at an index: {title, values: [text…]} in the order of the legend; null: nothing. */
  read() {
    return null;
  }

  /** Where arrow keys begin: behind the last. */
  outside(last) {
    return last + 1;
  }

  /** Empties the drawing and returns its group; false for `some` says that there is nothing to draw. */
  begin(some) {
    this.empty.hidden = some;
    this.plot.hidden = !some;
    this.legend.hidden = !some;
    this.svg.attr("height", this.box.height).attr("width", this.width).attr("viewBox", `0 0 ${this.width} ${this.box.height}`);
    this.svg.selectAll("*").remove();
    return this.svg.append("g").attr("transform", `translate(${this.box.left},${this.box.top})`);
  }

  axes(group, x, y, { format, values = y.ticks(4), bottom = this.#timeAxis(x) }) {
    const { width, height } = this.inner;
    const left = d3.svg.axis().scale(y).orient("left").tickValues(values).tickSize(-width, 0).tickPadding(6).tickFormat(format);
    group.append("g").attr("class", "axis").call(left);
    group.append("g").attr("class", "axis").attr("transform", `translate(0,${height})`).call(bottom);
  }

  #timeAxis(x) {
    const count = Math.max(2, Math.floor(this.inner.width / 90));
    return d3.svg.axis().scale(x).orient("bottom").ticks(count).tickSize(3, 0).tickPadding(4)
      .tickFormat(d3.time.format.multi([["%H:%M:%S", (t) => t.getSeconds()], ["%H:%M", () => true]]));
  }

  /** Places the cursor; `xs` are the pixels of the indices. */
  cursor(group, xs, step = 0) {
    this.xs = xs;
    this.step = step;
    this.mark = group.append("line").attr("class", "cursor").attr("y1", 0).attr("y2", this.inner.height).style("display", "none");
    this.show();
  }

  /** Series: [{label, colour, pattern, dash}]. Values come from read(). */
  setLegend(series) {
    const labels = series.map((each) => each.label).join("\n");
    if (this.labels !== labels) {
      this.labels = labels;
      this.legend.replaceChildren(...series.map((each) => element("li", {}, each.colour ? swatch(each) : "", element("span", {}, each.label), element("b"))));
    }
    this.show();
  }

  #listen() {
    this.plot.addEventListener("pointermove", (event) => {
      this.at = this.indexAt(event);
      this.show();
    });
    this.plot.addEventListener("pointerleave", () => this.#leave());
    this.plot.addEventListener("blur", () => this.#leave());
    this.plot.addEventListener("keydown", (event) => this.#key(event));
  }

  /** The index that a pointer is at. */
  indexAt(event) {
    const x = event.clientX - this.plot.getBoundingClientRect().left - this.box.left;
    return nearest(this.xs ?? [], x - this.step / 2);
  }

  #leave() {
    this.at = null;
    this.show();
  }

  #key(event) {
    const last = (this.xs?.length ?? 0) - 1;
    const from = this.at ?? this.outside(last);
    const steps = { ArrowLeft: from - 1, ArrowUp: from - 1, ArrowRight: from + 1, ArrowDown: from + 1, Home: 0, End: last };
    if (last < 0 || !(event.key in steps)) return;
    event.preventDefault();
    this.at = Math.min(last, Math.max(0, steps[event.key]));
    this.show();
    const read = this.read(this.at);
    if (read) setText(this.reading, `${read.title}: ${this.#labelled(read.values)}`);
  }

  #labelled(values) {
    return [...this.legend.children].map((item, index) => `${item.querySelector("span").textContent} ${values[index]}`).join(", ");
  }

  show() {
    const last = (this.xs?.length ?? 0) - 1;
    if (last < 0 || !this.mark) return;
    if (this.at !== null && this.at > last) this.at = last;
    const x = this.xs[this.at ?? last] + this.step / 2;
    this.mark.style("display", this.at === null ? "none" : null).attr("x1", x).attr("x2", x);
    const read = this.read(this.at ?? last);
    if (!read) return;
    [...this.legend.children].forEach((item, index) => setText(item.querySelector("b"), read.values[index] ?? ""));
  }
}

function nearest(xs, x) {
  let best = null;
  xs.forEach((each, index) => {
    if (best === null || Math.abs(each - x) < Math.abs(xs[best] - x)) best = index;
  });
  return best;
}
