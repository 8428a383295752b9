// The dashboard: asks the gateway every 2 s while somebody looks, and draws what it says.

import { BadAnswer, Unauthorized, ask, hasToken, keepToken } from "./api.js";
import { element, setText } from "./dom.js";
import { FactFigures } from "./facts.js";
import { ago, milliseconds, number } from "./format.js";
import { Model } from "./model.js";
import { IslandTable } from "./table.js";
import { startTheme } from "./theme.js";
import { TimePlot } from "./time_plot.js";
import { Totals } from "./totals.js";
import { UpdateFigures } from "./updates.js";
import { VersionsFigure } from "./versions.js";

const POLL_MS = 2000;
const GAP_SAMPLES = 3.5; // longer without a sample is shown as a gap

const at = (id) => document.getElementById(id);

const model = new Model(Number(at("window").value));
const totals = new Totals(at("totals"), at("status"));
const table = new IslandTable();
const versions = new VersionsFigure();
const updates = new UpdateFigures();
const facts = new FactFigures();
const lag = new TimePlot("lag", {
  label: "Lag over time", kind: "nested", format: number, whole: true,
  series: [
    { key: "max", label: "highest", colour: "var(--p5)", dash: "2 3" },
    { key: "p95", label: "p95", colour: "var(--p4)", dash: "7 4" },
    { key: "p50", label: "median", colour: "var(--p0)", dash: "" },
  ],
});
const requests = new TimePlot("requests", {
  label: "Requests a second over time, by how they ended", kind: "stack", format: number,
  series: [
    { key: "served", label: "served", colour: "var(--served)" },
    { key: "refused", label: "refused", colour: "var(--refused)", pattern: "dots" },
    { key: "shed", label: "shed (429)", colour: "var(--shed)", pattern: "hatch" },
    { key: "abandoned", label: "client went away", colour: "var(--abandoned)" },
    { key: "failed", label: "failed", colour: "var(--failed)", pattern: "cross" },
  ],
});
const load = new TimePlot("load", {
  label: "Requests in flight and queued over time", kind: "lines", format: number,
  series: [
    { key: "in_flight", label: "in flight", colour: "var(--p0)", dash: "" },
    { key: "queued", label: "queued", colour: "var(--p4)", dash: "7 4" },
  ],
});
const latency = new TimePlot("latency", {
  label: "Time to the first byte over time", kind: "lines", format: milliseconds, log: true,
  series: [
    { key: "first99", label: "first byte p99", colour: "var(--p5)", dash: "2 3" },
    { key: "first50", label: "first byte median", colour: "var(--p0)", dash: "" },
    { key: "added99", label: "added p99", colour: "var(--p2)", dash: "7 4" },
  ],
});

function draw() {
  if (!model.fleet) return;
  const now = model.now;
  const time = { from: model.from, to: now, gap: model.intervalMs * GAP_SAMPLES };
  totals.draw(model);
  table.draw(model.islands, now);
  versions.draw(model.runSamples, model.lines, time);
  lag.draw(model.runSamples.map(({ t, run }) => ({ t, p50: run.lag?.[0] ?? null, p95: run.lag?.[1] ?? null, max: run.lag?.[2] ?? null })), time);
  requests.draw(model.samples.map((sample) => ({ t: sample.t, ...sample.requests })), time);
  load.draw(model.samples.map(({ t, in_flight, queued }) => ({ t, in_flight, queued })), time);
  latency.draw(model.samples.map(latencyPoint), time);
  updates.draw(model);
  facts.draw(model.facts);
  summarise();
  at("totals").dataset.cursor = model.cursor; // what is drawn
}

function latencyPoint({ t, first_byte_ms: first, added_ms: added }) {
  return { t, first50: first?.[0] ?? null, first99: first?.[1] ?? null, added99: added?.[1] ?? null };
}

function summarise() {
  const now = model.totals();
  setText(lag.summary, now.lag ? `Now: median ${number(now.lag.p50)}, p95 ${number(now.lag.p95)}, highest ${number(now.lag.max)}.` : "Nobody serves.");
  const share = now.received > 0 ? `${number(model.countOf("retried"))} were sent to another island, ${number(now.failed)} failed.` : "None yet.";
  setText(requests.summary, `${number(now.received)} in the time shown; ${share}`);
  setText(load.summary, `Now: ${number(model.fleet.gateway.in_flight)} in flight, ${number(model.fleet.gateway.queued)} queued.`);
  const sample = model.samples.at(-1);
  setText(latency.summary, sample?.added_ms ? `Now the gateway adds ${milliseconds(sample.added_ms[0])}, p99 ${milliseconds(sample.added_ms[1])}.` : "");
}

function showRuns() {
  const names = model.fleet.runs.map((run) => run.run);
  at("run-label").hidden = names.length < 2;
  const shown = [...at("run").options].map((option) => option.value);
  if (shown.join("\n") !== names.join("\n")) at("run").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  at("run").value = model.run;
}

// What the page knows of the connection.
let lastAnswer = null;
let timer = null;
let asking = false;
let paused = false;
let again = false;

function connection(state, text) {
  at("connection").dataset.state = state;
  setText(at("connection").querySelector("span"), text);
}

async function poll() {
  clearTimeout(timer);
  if (asking) {
    again = true;
    return;
  }
  if (paused || document.hidden || at("ask").open) return;
  asking = true;
  try {
    await refresh();
    lastAnswer = performance.now();
    at("lost").hidden = true;
    connection("live", "live");
  } catch (error) {
    failed(error);
  }
  asking = false;
  if (paused) connection("paused", "paused");
  timer = setTimeout(poll, again ? 0 : POLL_MS);
  again = false;
}

async function refresh() {
  const wanted = model.sinceMs;
  const after = model.cursor ? `&after=${encodeURIComponent(model.cursor)}` : "";
  const [fleet, history] = await Promise.all([ask("/v1/fleet?brief=1"), ask(`/v1/fleet/history?since_s=${wanted / 1000}${after}`)]);
  if (wanted !== model.sinceMs) return; // another window was chosen meanwhile
  model.setFleet(fleet);
  model.addHistory(history);
  setText(at("gateway"), fleet.gateway.instance);
  showRuns();
  draw();
}

function failed(error) {
  if (error instanceof Unauthorized) {
    askForToken();
    return;
  }
  // The alert is said aloud, so its text stays the same; the age is told beside it.
  const what = error instanceof BadAnswer ? `The gateway answered ${error.status}` : "No answer from the gateway";
  setText(at("lost"), `${what}: trying again every 2 s. What is shown is old.`);
  at("lost").hidden = false;
  connection("lost", lastAnswer === null ? "connection lost" : `connection lost, last answer ${ago(performance.now() - lastAnswer)}`);
}

function askForToken() {
  at("lost").hidden = true;
  connection("lost", "token needed");
  if (hasToken()) setText(at("ask-why"), "The gateway does not accept this token.");
  if (!at("ask").open) at("ask").showModal();
}

at("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(at("token").value);
  at("token").value = "";
  at("ask").close();
});
at("ask").addEventListener("close", poll);
at("window").addEventListener("change", () => {
  model.forget(Number(at("window").value));
  poll();
});
at("run").addEventListener("change", () => {
  model.run = at("run").value;
  draw();
});
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  setText(at("pause"), paused ? "Go on" : "Pause");
  if (paused && !asking) connection("paused", "paused");
  poll();
});
document.addEventListener("visibilitychange", poll);
startTheme(at("theme"), draw);
poll();
