#!/usr/bin/env python3
"""Draws bits per change against density: plot.py CODEC.csv OUT.svg. Standard library only.

Left: the BF16 pairs over their density, generated ones as lines, real ones as rings. Right: pairs of
other formats, one column each. Both share the vertical axis. What it draws comes from the rows that
isthmus-bench-codec calls "size".
"""

import csv
import math
import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1000, 560
TOP, BOTTOM = 70, 490
LEFT_PANEL, LABELS, RIGHT_PANEL = (56, 496), 506, (712, 984)
MAX_BITS, BITS_STEP = 60, 10
DENSITIES = (0.08, 5)  # %, the ends of the axis
DENSITY_TICKS = (0.1, 0.2, 0.5, 1, 2, 5)
MIN_CHANGES = 1000  # of a column: below that, a file is mostly names and digests
LABEL_SPACING = 15
INK, FAINT, GRID = "#222222", "#666666", "#e4e4e4"


class Series:
    """A metric of the CSV: label, colour (Okabe and Ito's, safe for the colour-blind), line."""

    def __init__(self, metric, label, colour, width=1.5, dash=""):
        self.metric, self.label, self.colour = metric, label, colour
        self.width, self.dash = width, dash
        self.is_bound = metric.startswith("entropy")


SERIES = (
    Series("u32 index + value + zstd 1", "u32 index + value + zstd", "#666666"),
    Series("row gap + column + value + zstd 1", "row, column + value + zstd", "#CC79A7"),
    Series("u16 gap + value + zstd 1", "u16 gap + value + zstd", "#009E73"),
    Series("dense XOR + zstd 1", "dense XOR + zstd", "#D55E00"),
    Series("row gap + column + difference + zstd 1", "row, column + difference + zstd", "#CC79A7",
           dash="6 3"),
    Series("direct file", "Isthmus direct", "#56B4E9", width=2.5),
    Series("entropy with one density", "entropy, one density", INK, width=1.2, dash="2 3"),
    Series("context file", "Isthmus context", "#0072B2", width=3),
    Series("entropy given the old key", "entropy given the old exponent", INK, width=1.2, dash="7 4"),
)

# Cases of the right panel, and the lines below them.
COLUMNS = (
    ("FP8 0.1 %", ("FP8",)),
    ("real FP8 37 to 38", ("FP8", "real")),
    ("BF16 embedding 90 % idle", ("BF16", "idle rows")),
    ("INT4", ("INT4",)),
    ("FP4", ("FP4",)),
)


def read_sizes(path):
    """{case: {metric: value}} of the size rows."""
    sizes = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["bench"] == "size":
                sizes.setdefault(row["case"], {})[row["metric"]] = float(row["value"])
    return sizes


def x_of(density):
    low, high = (math.log(d) for d in DENSITIES)
    left, right = LEFT_PANEL
    return left + (math.log(density) - low) / (high - low) * (right - left)


def y_of(bits):
    return BOTTOM - bits / MAX_BITS * (BOTTOM - TOP)


class Svg:
    def __init__(self):
        self.parts = []

    def line(self, x1, y1, x2, y2, colour, width=1.0):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}" stroke-width="{width}"/>')

    def path(self, points, series):
        coordinates = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = f' stroke-dasharray="{series.dash}"' if series.dash else ""
        self.parts.append(f'<polyline points="{coordinates}" fill="none" stroke="{series.colour}" '
                          f'stroke-width="{series.width}" stroke-linejoin="round"{dash}/>')

    def dot(self, x, y, colour, ring=False):
        radius, fill = (4.2, "#ffffff") if ring else (2.6, colour)
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" '
                          f'stroke="{colour}" stroke-width="1.6"/>')

    def bar(self, x, y, series, half):
        self.path([(x - half, y), (x + half, y)], series)

    def text(self, x, y, text, size=12, colour=INK, anchor="start", weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
                          f'text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>')

    def document(self):
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" '
            'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *self.parts, "</svg>\n"])


def draw_frame(svg):
    svg.text(LEFT_PANEL[0] - 40, 28, "Bits per changed element, whole patch file", 16, weight="bold")
    svg.text(LEFT_PANEL[0] - 40, 50, "BF16: lines are generated AdamW steps, rings real training steps",
             12, FAINT)
    svg.text(RIGHT_PANEL[0], 50, "Other formats and shapes", 12, FAINT)
    for bits in range(0, MAX_BITS + 1, BITS_STEP):
        for left, right in (LEFT_PANEL, RIGHT_PANEL):
            svg.line(left, y_of(bits), right, y_of(bits), GRID if bits else INK)
        svg.text(LEFT_PANEL[0] - 8, y_of(bits) + 4, str(bits), anchor="end")


def draw_densities(svg):
    for density in DENSITY_TICKS:
        x = x_of(density)
        svg.line(x, TOP, x, BOTTOM, GRID)
        svg.line(x, BOTTOM, x, BOTTOM + 5, INK)
        svg.text(x, BOTTOM + 20, f"{density:g} %", anchor="middle")
    svg.text(sum(LEFT_PANEL) / 2, BOTTOM + 42, "changed elements (logarithmic)", colour=FAINT,
             anchor="middle")


def points_of(cases, series):
    return sorted((x_of(case["density"]), y_of(case[series.metric])) for case in cases
                  if series.metric in case)


def draw_lines(svg, generated, real):
    for series in SERIES:
        points = points_of(generated, series)
        svg.path(points, series)
        if not series.dash:
            for x, y in points:
                svg.dot(x, y, series.colour)
        for x, y in points_of(real, series):
            if series.is_bound:
                svg.bar(x, y, series, 9)
            else:
                svg.dot(x, y, series.colour, ring=True)


def spread(wanted):
    """Heights at least LABEL_SPACING apart, in the same order, close to the wanted ones."""
    heights = list(wanted)
    for _ in range(200):
        for i in range(len(heights) - 1):
            lack = LABEL_SPACING - (heights[i + 1] - heights[i])
            if lack > 0:
                heights[i] -= lack / 2
                heights[i + 1] += lack / 2
    return heights


def draw_labels(svg, generated):
    ends = sorted(((points_of(generated, series)[-1], series) for series in SERIES),
                  key=lambda end: end[0][1])
    for ((x, y), series), height in zip(ends, spread([end[0][1] for end in ends])):
        svg.line(x + 4, y, LABELS - 4, height, series.colour, 0.8)
        weight = "bold" if series.label.startswith("Isthmus") else "normal"
        svg.text(LABELS, height + 4, series.label, 12, series.colour, weight=weight)


def draw_columns(svg, sizes):
    columns = [(sizes[case], lines) for case, lines in COLUMNS
               if sizes.get(case, {}).get("changed", 0) >= MIN_CHANGES]
    left, right = RIGHT_PANEL
    for i, (case, lines) in enumerate(columns):
        x = left + (i + 0.5) * (right - left) / len(columns)
        svg.line(x, TOP, x, BOTTOM, GRID)
        for series in SERIES:
            if series.metric in case:
                svg.bar(x, y_of(case[series.metric]), series, 14)
        for line, text in enumerate([*lines, density_text(case["density"])]):
            svg.text(x, BOTTOM + 18 + 14 * line, text, 11, anchor="middle")


def density_text(density):
    return f"{density:.1g} %" if density < 0.01 else f"{density:.2g} %"


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: plot.py CODEC.csv OUT.svg")
    sizes = read_sizes(sys.argv[1])
    generated = [v for case, v in sizes.items() if re.fullmatch(r"BF16 [\d.]+ %", case)]
    real = [v for case, v in sizes.items() if case.startswith("real BF16")]
    if not generated:
        raise SystemExit(f"{sys.argv[1]}: no sizes of generated BF16 pairs")
    svg = Svg()
    draw_frame(svg)
    draw_densities(svg)
    draw_lines(svg, generated, real)
    draw_labels(svg, generated)
    draw_columns(svg, sizes)
    with open(sys.argv[2], "w") as file:
        file.write(svg.document())


if __name__ == "__main__":
    main()
