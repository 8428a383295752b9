// Numbers, times and sizes as text. Pure.

const SECOND = 1000;

/** 0, 0.25, 7.3, 12,345. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** Milliseconds: 0.35 ms, 12 ms, 3.4 s, 5 min. */
export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < SECOND) return `${number(value < 10 ? Math.round(value * 100) / 100 : Math.round(value))} ms`;
  if (value < 120 * SECOND) return `${number(value / SECOND)} s`;
  return `${number(value / (60 * SECOND))} min`;
}

/** 512 B, 1.5 kB, 3.2 GB. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : number(value)} ${units[unit]}`;
}

/** A share of 1 as a percentage: 0.37 %. */
export function percent(value) {
  return value === null || value === undefined ? "–" : `${number(Number((value * 100).toPrecision(3)))} %`;
}

/** How long ago, in milliseconds: now, 12 s ago, 3 min ago. */
export function ago(value) {
  const seconds = Math.max(0, Math.round(value / SECOND));
  if (seconds < 2) return "now";
  if (seconds < 120) return `${seconds} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

/** The nearest-rank quantile of sorted numbers; null if there are none. */
export function quantile(sorted, percentile) {
  return sorted.length === 0 ? null : sorted[Math.ceil((sorted.length * percentile) / 100) - 1];
}
