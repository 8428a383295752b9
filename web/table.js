// The islands as a table: sorted by a column, filtered, in pages. What islands say of themselves is
// put in as text only.

import { element, setText } from "./dom.js";
import { ago, milliseconds, number } from "./format.js";
import { compareNames } from "./model.js";

const PAGE = 50;
const ORDER = ["suspect", "draining", "committing", "staging", "ready", "gone"]; // of states: those to look at first
const SIGNS = { ready: "●", staging: "◐", committing: "◆", draining: "▽", suspect: "▲", gone: "○" };

const COLUMNS = [
  { key: "id", label: "Island", class: "name", text: (island) => island.id, value: (island) => island.id },
  { key: "state", label: "State", class: "state", text: (island) => `${SIGNS[island.state] ?? "?"} ${island.state}`, value: (island) => ORDER.indexOf(island.state) },
  { key: "served", label: "Version", class: "number", text: (island) => versionText(island), value: (island) => island.served ?? 0 },
  { key: "lag", label: "Lag", class: "number", text: (island) => number(island.lag), value: (island) => island.lag ?? -1 },
  { key: "in_flight", label: "In flight", class: "number", text: (island) => number(island.in_flight), value: (island) => island.in_flight },
  { key: "waiting", label: "Waiting", class: "number", text: (island) => number(island.waiting), value: (island) => island.waiting ?? 0 },
  { key: "breaker", label: "Breaker", class: "breaker", text: (island) => (island.failures > 0 ? `${island.breaker}, ${island.failures} failed` : island.breaker), value: (island) => `${island.breaker} ${island.failures}` },
  { key: "last_update", label: "Last update", class: "update", text: (island, now) => updateText(island.last_update, now), value: (island) => Date.parse(island.last_update?.ended_at) || 0 },
  { key: "reason", label: "Reason", class: "reason", text: (island) => island.reason ?? "", value: (island) => island.reason ?? "" },
];

function versionText({ served, target }) {
  if (!served) return target ? `– → ${target}` : "–";
  return target ? `${served} → ${target}` : String(served);
}

function updateText(update, now) {
  if (!update) return "–";
  const when = ago(now - Date.parse(update.ended_at));
  return update.ok ? `to ${update.to}, ${when}, gate closed ${milliseconds(update.closed_ms)}` : `to ${update.to} failed, ${when}`;
}

export class IslandTable {
  constructor() {
    for (const id of ["columns", "rows", "filter", "state", "count", "previous", "next"]) this[id] = document.getElementById(id);
    this.sort = { key: "state", down: false };
    this.page = 0;
    this.islands = [];
    this.lines = [];
    this.columns.append(...COLUMNS.map((column) => this.#header(column)));
    for (const control of [this.filter, this.state]) control.addEventListener("input", () => this.#turn(0));
    this.previous.addEventListener("click", () => this.#turn(this.page - 1));
    this.next.addEventListener("click", () => this.#turn(this.page + 1));
  }

  draw(islands, now) {
    this.islands = islands;
    this.now = now;
    this.redraw();
  }

  #header(column) {
    const button = element("button", { type: "button" }, column.label, element("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      this.sort = { key: column.key, down: this.sort.key === column.key && !this.sort.down };
      this.#turn(0);
    });
    return element("th", { scope: "col", class: column.class === "number" ? "number" : "", "data-column": column.key }, button);
  }

  #turn(page) {
    this.page = page;
    this.redraw();
  }

  redraw() {
    const chosen = this.#chosen();
    const pages = Math.max(1, Math.ceil(chosen.length / PAGE));
    this.page = Math.max(0, Math.min(this.page, pages - 1));
    const shown = chosen.slice(this.page * PAGE, (this.page + 1) * PAGE);
    this.#headers();
    this.#fill(shown);
    const first = this.page * PAGE + 1;
    const range = chosen.length > PAGE ? `${number(first)} to ${number(first + shown.length - 1)} of ${number(chosen.length)}` : number(chosen.length);
    setText(this.count, `${range} of ${number(this.islands.length)} islands`.replace(/^(.* of .*) of .*$/, chosen.length === this.islands.length ? "$1 islands" : "$&"));
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
  }

  #chosen() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = this.state.value;
    const matches = (island) => {
      const text = [island.id, island.state, versionText(island), island.reason ?? ""].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const { value } = COLUMNS.find((column) => column.key === this.sort.key);
    const sign = this.sort.down ? -1 : 1;
    return this.islands.filter((island) => (state === "" || island.state === state) && matches(island))
      .sort((one, other) => sign * compare(value(one), value(other)) || compareNames(one.id, other.id));
  }

  #headers() {
    for (const header of this.columns.children) {
      const sorted = header.dataset.column === this.sort.key;
      if (sorted) header.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
      setText(header.querySelector("span"), sorted ? (this.sort.down ? " ▼" : " ▲") : "");
    }
  }

  /** Rows are kept and their texts changed, so that selections stay. */
  #fill(islands) {
    while (this.lines.length < islands.length) {
      const cells = COLUMNS.map((column) => element("td", { class: column.class }));
      this.lines.push({ row: element("tr", {}, ...cells), cells });
    }
    islands.forEach((island, index) => {
      const { row, cells } = this.lines[index];
      if (!row.isConnected) this.rows.append(row);
      COLUMNS.forEach((column, place) => setText(cells[place], column.text(island, this.now)));
      cells[1].dataset.state = island.state;
      cells[6].classList.toggle("bad", island.breaker !== "closed");
    });
    for (const { row } of this.lines.slice(islands.length)) row.remove();
  }
}

function compare(one, other) {
  return typeof one === "string" ? compareNames(one, other) : one - other;
}
