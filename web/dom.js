// Small helpers to build what is shown. Texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children (strings or nodes). */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svgElement(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Sets a text only if it is another one, so that selections and readers are not disturbed. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The colour behind a CSS variable, as the canvas wants it. */
export function paint(name) {
  const probe = element("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** A small square or line that shows how a series is drawn. */
export function swatch({ colour, pattern, dash }) {
  const svg = svgElement("svg", { width: 18, height: 12, "aria-hidden": "true" });
  if (dash !== undefined) {
    const line = svgElement("line", { x1: 0, x2: 18, y1: 6, y2: 6, "stroke-width": 2.5, "stroke-dasharray": dash });
    line.style.stroke = colour;
    svg.append(line);
    return svg;
  }
  for (const ink of [colour, pattern && `url(#${pattern})`]) {
    if (!ink) continue;
    const box = svgElement("rect", { width: 18, height: 12, rx: 2 });
    box.style.fill = ink;
    svg.append(box);
  }
  return svg;
}

/** Calls draw() when the width of the node changes. */
export function onResize(node, draw) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) requestAnimationFrame(draw);
    width = now;
  }).observe(node);
}
