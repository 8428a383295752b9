// Which version islands serve over time: a lane an island while they are few; else areas of islands
// a version, and below a strip that shows how far behind each island was.

import { element, paint, swatch } from "./dom.js";
import { Figure } from "./figure.js";
import { number } from "./format.js";

/* global d3 */

const MOST_LANES = 24;
const LANE = 22;
const COLOURS = 6;
const STRIP_HEIGHT = 250;
const LAG_STEPS = [0, 1, 2, 4, 8, Number.MAX_VALUE]; // the last lag of each shade
const LAG_LABELS = ["0", "1", "2", "3–4", "5–8", "more"];

export function versionColour(version) {
  return `var(--v${version % COLOURS})`;
}

export class VersionsFigure extends Figure {
  constructor() {
    super("versions", { label: "Versions that islands serve over time", height: 220, left: 52 });
    this.strip = element("div");
    this.canvas = element("canvas", { role: "img", "aria-label": "How far behind the newest version each island was over time" });
    const legend = element("ul", { class: "legend" });
    LAG_LABELS.forEach((label, index) => legend.append(element("li", {}, swatch({ colour: `var(--l${index})` }), element("span", {}, label))));
    legend.append(element("li", {}, swatch({ colour: "var(--l-none)", pattern: "hatch" }), element("span", {}, "gets no requests")));
    this.stripTitle = element("p", { class: "rowtitle" });
    this.strip.append(this.stripTitle, this.canvas, legend);
    this.strip.hidden = true;
    this.node.append(this.strip);
  }

  /** `samples`: Model.runSamples; `lines`: Model.lines. */
  draw(samples, lines, { from, to, gap }) {
    this.data = { samples, lines, from, to, gap };
    this.redraw();
  }

  redraw() {
    if (!this.data) return;
    const lanes = this.data.lines.length <= MOST_LANES;
    this.strip.hidden = lanes || this.data.lines.length === 0;
    if (lanes) this.#lanes();
    else this.#bands();
    this.#summarise();
  }

  #summarise() {
    const last = this.data.samples.at(-1)?.run;
    if (!last) return;
    const parts = last.versions.slice(0, 4).map(([version, islands]) => `${number(islands)} on ${version}`);
    const rest = last.serving - d3.sum(last.versions.slice(0, 4), ([, islands]) => islands);
    this.summary.textContent = `Now: ${parts.join(", ") || "nobody serves"}${rest > 0 ? `, ${number(rest)} on others` : ""}.`;
  }

  read(index) {
    const sample = this.data?.samples[index];
    if (!sample) return null;
    const title = new Date(sample.t).toLocaleTimeString("en-GB");
    const versions = sample.run.versions.map(([version, islands]) => `${islands} on ${version}`).join(", ");
    return { title, values: [`${title}: ${versions || "nobody serves"}`] };
  }

  #lanes() {
    const { samples, lines, from, to } = this.data;
    const widest = d3.max(lines, ([id]) => id.length) ?? 0;
    this.box.left = Math.min(200, 24 + 7 * widest);
    this.box.height = this.box.top + this.box.bottom + LANE * Math.max(1, lines.length);
    const group = this.begin(lines.length > 0);
    if (lines.length === 0) return;
    const x = d3.time.scale().domain([from, to]).range([0, this.inner.width]).clamp(true);
    this.axes(group, x, d3.scale.linear().range([0, 0]), { format: () => "", values: [] });
    lines.forEach(([id, changes], row) => this.#lane(group.append("g").attr("transform", `translate(0,${row * LANE})`), id, changes, x));
    this.setLegend([{ label: "Islands at" }]);
    this.cursor(group, samples.map((sample) => x(sample.t)));
  }

  #lane(group, id, changes, x) {
    const shown = id.length > 24 ? `${id.slice(0, 23)}…` : id;
    group.append("text").attr("class", "row").attr("x", -8).attr("y", LANE / 2 + 4).attr("text-anchor", "end").text(shown).append("title").text(id);
    changes.forEach(([t, version], index) => {
      const begin = x(t);
      const width = x(changes[index + 1]?.[0] ?? this.data.to) - begin;
      if (width <= 0) return;
      const box = group.append("rect").attr("class", version === 0 ? "idle" : "band").attr("data-version", version)
        .attr("x", begin).attr("y", 2).attr("width", width).attr("height", LANE - 4).attr("rx", 2);
      if (version !== 0) box.style("fill", versionColour(version));
      box.append("title").text(version === 0 ? `${id} got no requests` : `${id} served ${version}`);
      const text = String(version);
      if (version !== 0 && width > 10 + 7 * text.length) inside(group, text, begin + width / 2, LANE / 2 + 4, version);
    });
  }

  #bands() {
    const { samples, from, to } = this.data;
    this.box.left = 52;
    this.box.height = 220;
    const group = this.begin(samples.length > 0);
    if (samples.length === 0) return;
    const { width, height } = this.inner;
    const x = d3.time.scale().domain([from, to]).range([0, width]);
    const y = d3.scale.linear().domain([0, d3.max(samples, ({ run }) => run.serving) || 1]).nice(4).range([height, 0]);
    this.axes(group, x, y, { format: number });
    for (const layer of layersOf(samples)) this.#band(group, layer, x, y);
    this.setLegend([{ label: "Islands at" }]);
    this.cursor(group, samples.map((sample) => x(sample.t)));
    this.#drawStrip();
  }

  #band(group, { version, values }, x, y) {
    const area = d3.svg.area().x((each) => x(each.t)).y0((each) => y(each.y0)).y1((each) => y(each.y0 + each.y));
    const path = group.append("path").attr("class", "band").attr("data-version", version).attr("d", area(values));
    path.style("fill", version === 0 ? "var(--abandoned)" : versionColour(version)).append("title").text(version === 0 ? "other versions" : `version ${version}`);
    const highest = values.reduce((one, other) => (other.y > one.y ? other : one));
    const full = values.filter((each) => each.y > highest.y * 0.6);
    const wide = x(full.at(-1).t) - x(full[0].t);
    if (version === 0 || y(0) - y(highest.y) < 16 || wide < 8 + 7 * String(version).length) return;
    const middle = full[Math.floor(full.length / 2)];
    inside(group, String(version), x(middle.t), y(middle.y0 + middle.y / 2) + 4, version);
  }

  /** One row of pixels an island, or the worst of several; the shade is the lag. */
  #drawStrip() {
    const { lines, from, to } = this.data;
    const rows = Math.min(lines.length, 2 * STRIP_HEIGHT);
    const columns = Math.max(1, Math.min(900, Math.round(this.inner.width)));
    const grid = lagGrid(this.data, rows, columns);
    this.stripTitle.textContent = `Lag of ${number(lines.length)} islands, in versions, a row each in the order of their names${lines.length > rows ? "; of islands that share a row the worst" : ""}`;
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.canvas.style.height = `${lines.length < STRIP_HEIGHT ? rows * Math.max(1, Math.floor(STRIP_HEIGHT / rows)) : STRIP_HEIGHT}px`;
    this.canvas.style.imageRendering = "pixelated";
    this.canvas.style.marginLeft = `${this.box.left}px`;
    this.canvas.style.width = `${this.inner.width}px`;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const shades = [...LAG_STEPS.keys()].map((index) => channels(paint(`--l${index}`)));
    const none = channels(paint("--l-none"));
    grid.forEach((lag, cell) => {
      if (lag === UNKNOWN) return;
      const hatched = lag === NOBODY && (Math.floor(cell / columns) + cell) % 4 === 0;
      const shade = lag === NOBODY ? none : shades[LAG_STEPS.findIndex((most) => lag <= most)];
      image.data.set([...shade, hatched ? 110 : 255], cell * 4);
    });
    context.putImageData(image, 0, 0);
  }
}

const UNKNOWN = -1;
const NOBODY = Infinity; // worse than any lag

/** The worst lag of each row of islands at each column of time. */
function lagGrid({ lines, samples, from, to }, rows, columns) {
  const grid = new Float64Array(rows * columns).fill(UNKNOWN);
  const newest = newestByColumn(samples, from, to, columns);
  const column = (t) => Math.max(0, Math.min(columns, Math.floor(((t - from) / (to - from)) * columns)));
  lines.forEach(([, changes], index) => {
    const row = Math.floor((index * rows) / lines.length) * columns;
    changes.forEach(([t, version], place) => {
      const end = place + 1 < changes.length ? column(changes[place + 1][0]) : columns;
      for (let at = column(t); at < end; at += 1) {
        const lag = version === 0 ? NOBODY : Math.max(0, newest[at] - version);
        if (lag > grid[row + at]) grid[row + at] = lag;
      }
    });
  });
  return grid;
}

function newestByColumn(samples, from, to, columns) {
  const newest = new Float64Array(columns);
  let next = 0;
  for (let column = 0; column < columns; column += 1) {
    const end = from + ((column + 1) / columns) * (to - from);
    while (next + 1 < samples.length && samples[next + 1].t <= end) next += 1;
    newest[column] = samples[next]?.run.newest ?? 0;
  }
  return newest;
}

/** Layers [{version, values: [{t, y0, y}]}], oldest version first; 0 is all others. */
function layersOf(samples) {
  const layers = new Map();
  samples.forEach(({ t, run }, index) => {
    let y0 = 0;
    const add = (version, y) => {
      if (!layers.has(version)) layers.set(version, new Map());
      layers.get(version).set(index, { t, y0, y });
      y0 += y;
    };
    if (run.others > 0) add(0, run.others);
    for (const [version, islands] of [...run.versions].reverse()) add(version, islands);
  });
  const floors = samples.map(({ run }) => [...run.versions].reverse().map(([version, islands]) => [version, islands]));
  return [...layers].sort(([one], [other]) => one - other).map(([version, values]) => ({ version, values: withEdges(version, values, samples, floors) }));
}

/** The layer's points, and where it begins and ends a point of no height. */
function withEdges(version, values, samples, floors) {
  const indices = [...values.keys()];
  const first = Math.max(0, indices[0] - 1);
  const last = Math.min(samples.length - 1, indices.at(-1) + 1);
  const points = [];
  for (let index = first; index <= last; index += 1) {
    points.push(values.get(index) ?? { t: samples[index].t, y0: below(version, samples[index].run.others, floors[index]), y: 0 });
  }
  return points;
}

function below(version, others, floor) {
  return d3.sum(floor.filter(([each]) => each < version), ([, islands]) => islands) + (version > 0 ? others : 0);
}

function inside(group, text, x, y, version) {
  const dark = [1, 4, 5].includes(version % COLOURS);
  group.append("text").attr("class", dark ? "inside dark" : "inside").attr("x", x).attr("y", y).attr("text-anchor", "middle").text(text);
}

function channels(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}
