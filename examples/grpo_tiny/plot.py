"""Curves between 0 and 1 as an SVG, with no library."""

import html
import pathlib

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 320, 46, 34, 34
COLOURS = ("#1f6feb", "#d9480f", "#2b8a3e", "#862e9c")


def draw(file, title, unit, curves):
    """curves: name to [(x, y)], y from 0 to 1; x in units named `unit`."""
    last = max(x for points in curves.values() for x, _ in points)

    def place(x, y):
        return (LEFT + x / last * (WIDTH - LEFT - 10),
                HEIGHT - BOTTOM - y * (HEIGHT - BOTTOM - TOP))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
             _text(LEFT, 16, title)]
    for tenth in range(0, 11, 2):
        left, y = place(0, tenth / 10)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{WIDTH - 10}" stroke="#ddd"/>')
        parts.append(_text(left - 6, y + 4, f"{tenth / 10:.1f}", "end"))
        x, bottom = place(last * tenth / 10, 0)
        parts.append(_text(x, bottom + 18, f"{last * tenth / 10:g}", "middle"))
    parts.append(_text(WIDTH - 10, HEIGHT - 4, unit, "end"))
    for (name, points), (number, colour) in zip(curves.items(), enumerate(COLOURS)):
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                     'stroke-width="1.6"/>')
        parts.append(_text(LEFT + 300 + 130 * number, 16, name, colour=colour))
    pathlib.Path(file).write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _text(x, y, text, anchor="start", colour="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
            f"{html.escape(text)}</text>")
