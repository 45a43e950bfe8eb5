"""A chart of recall (logarithmic towards 1) against throughput (logarithmic) as SVG: no library, the same picture for the same
numbers."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 480
LEFT, RIGHT, TOP, BOTTOM = 80, 180, 40, 60
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#555555", "#008b8b")
RECALL_TICKS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
LARGEST_RECALL = 0.9995


def _miss(recall):
    """Where a recall lies on the axis: each tenth of the misses takes as much room."""
    return -math.log10(1 - min(max(recall, 0.0), LARGEST_RECALL))


def _rate_ticks(least, most):
    """1, 2 and 5 times powers of ten from the one below the least to the one above the most."""
    ticks = [step * 10.0 ** power for power in range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 1)
             for step in (1, 2, 5)]
    first = max((i for i, tick in enumerate(ticks) if tick <= least), default=0)
    last = min((i for i, tick in enumerate(ticks) if tick >= most), default=len(ticks) - 1)
    return ticks[first:max(last, first + 1) + 1]


def chart(title, x_name, y_name, curves):
    """curves: {label: [(recall, rate > 0), …]}; at least one point in all."""
    points = [point for curve in curves.values() for point in curve]
    rates = _rate_ticks(min(rate for _, rate in points), max(rate for _, rate in points))
    low, high = _miss(min(recall for recall, _ in points)), _miss(LARGEST_RECALL)

    def x(recall):
        return LEFT + (_miss(recall) - low) / max(high - low, 1e-9) * (WIDTH - LEFT - RIGHT)

    def y(rate):
        share = math.log(rate / rates[0]) / math.log(rates[-1] / rates[0])
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="{TOP - 16}" font-size="14">{escape(title)}</text>']
    for tick in RECALL_TICKS:
        if _miss(tick) >= low:
            out += [f'<line x1="{x(tick):.1f}" y1="{TOP}" x2="{x(tick):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#dddddd"/>',
                    f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>']
    out.append(f'<text x="{x(1):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">1</text>')
    for tick in rates:
        out += [f'<line x1="{LEFT}" y1="{y(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y(tick):.1f}" stroke="#dddddd"/>',
                f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,g}</text>']
    out += [f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x_name)}</text>',
            f'<text x="18" y="{(TOP + HEIGHT - BOTTOM) / 2:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2:.0f})">{escape(y_name)}</text>']
    # few points last: a curve may go through them
    drawn = sorted(enumerate(curves.items()), key=lambda entry: -len(entry[1][1]))
    for number, (label, curve) in drawn:
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(recall):.1f},{y(rate):.1f}" for recall, rate in curve)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(recall):.1f}" cy="{y(rate):.1f}" r="3" fill="{colour}"><title>{escape(label)}: {recall:.4f}, '
                f'{rate:,.0f}/s</title></circle>' for recall, rate in curve]
        row = TOP + 14 + 20 * number
        out += [f'<line x1="{WIDTH - RIGHT + 14}" y1="{row - 4}" x2="{WIDTH - RIGHT + 40}" y2="{row - 4}" stroke="{colour}" stroke-width="{2 if len(curve) > 1 else 0}"/>',
                f'<circle cx="{WIDTH - RIGHT + 27}" cy="{row - 4}" r="3" fill="{colour}"/>',
                f'<text x="{WIDTH - RIGHT + 46}" y="{row}">{escape(label)}</text>']
    return "\n".join(out + ["</svg>", ""])
