// Lines, or stacked areas, over time.

import { Figure } from "./figure.js";

/* global d3 */

export class TimePlot extends Figure {
  /** `series`: [{key, label, colour, pattern, dash}]; `kind`: "lines", "stack", or "nested": shaded steps, highest first. */
  constructor(id, { kind, series, format, whole = false, log = false, ...rest }) {
    super(id, rest);
    Object.assign(this, { kind, series, format, whole, log });
    this.setLegend(series);
  }

  /** `points`: [{t, KEY: number or null}]; a gap longer than `gap` breaks lines. */
  draw(points, { from, to, gap }) {
    this.data = { points, from, to, gap };
    this.redraw();
  }

  redraw() {
    if (!this.data) return;
    const { points, from, to } = this.data;
    const group = this.begin(points.length > 0);
    if (points.length === 0) return;
    const { width, height } = this.inner;
    const x = d3.time.scale().domain([from, to]).range([0, width]);
    const y = this.#scale().range([height, 0]);
    const values = this.log ? powersOfTen(y.domain()) : y.ticks(this.whole ? Math.min(4, y.domain()[1]) : 4);
    this.axes(group, x, y, { format: this.format, values });
    if (this.kind === "stack") this.#stack(group, x, y);
    else this.#lines(group, x, y);
    this.cursor(group, points.map((point) => x(point.t)));
  }

  read(index) {
    const point = this.data?.points[index];
    if (!point) return null;
    return { title: new Date(point.t).toLocaleTimeString("en-GB"), values: this.series.map(({ key }) => (point[key] === null ? "–" : this.format(point[key]))) };
  }

  #scale() {
    const highest = this.#highest() || 1;
    if (!this.log) return d3.scale.linear().domain([0, highest]).nice(4);
    const lowest = d3.min(this.data.points, (point) => d3.min(this.series, ({ key }) => point[key] || null)) || highest / 10;
    return d3.scale.log().domain([10 ** Math.floor(Math.log10(lowest)), 10 ** Math.ceil(Math.log10(highest) + 0.01)]).clamp(true);
  }

  #highest() {
    const of = this.kind === "stack"
      ? (point) => d3.sum(this.series, ({ key }) => point[key])
      : (point) => d3.max(this.series, ({ key }) => point[key]);
    return d3.max(this.data.points, of);
  }

  /** Runs of points without a gap between them. */
  #pieces() {
    const pieces = [];
    let last = null;
    for (const point of this.data.points) {
      if (last === null || point.t - last > this.data.gap) pieces.push([]);
      pieces.at(-1).push(point);
      last = point.t;
    }
    return pieces;
  }

  #lines(group, x, y) {
    for (const { key, colour, dash } of this.series) {
      const shape = (path) => path.defined((point) => point[key] !== null).x((point) => x(point.t)).interpolate(this.kind === "nested" ? "step-after" : "linear");
      const line = shape(d3.svg.line()).y((point) => y(Math.max(point[key], y.domain()[0])));
      const area = shape(d3.svg.area()).y0(y.range()[0]).y1((point) => y(point[key]));
      for (const piece of this.#pieces()) {
        if (this.kind === "nested") group.append("path").attr("class", "shade").attr("d", area(piece)).style("fill", colour);
        group.append("path").attr("class", "line").attr("data-series", key).attr("d", line(piece))
          .attr("stroke-dasharray", dash || null).style("stroke", colour);
      }
    }
  }

  #stack(group, x, y) {
    const layers = d3.layout.stack().values((layer) => layer.values);
    for (const piece of this.#pieces()) {
      const stacked = layers(this.series.map((series) => ({ series, values: piece.map((point) => ({ x: point.t, y: point[series.key] })) })));
      const area = d3.svg.area().x((each) => x(each.x)).y0((each) => y(each.y0)).y1((each) => y(each.y0 + each.y));
      for (const { series, values } of stacked) {
        if (!values.some((each) => each.y > 0)) continue;
        const inks = [series.colour, series.pattern && `url(#${series.pattern})`].filter(Boolean);
        for (const ink of inks) group.append("path").attr("data-series", series.key).attr("d", area(values)).style("fill", ink);
      }
    }
  }
}

function powersOfTen([low, high]) {
  return d3.range(Math.round(Math.log10(low)), Math.round(Math.log10(high)) + 1).map((power) => 10 ** power);
}
