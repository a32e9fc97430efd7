"""A plot as SVG, by hand: how many of some times are at most as long as the horizontal axis says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import log10

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 56, 50
SHORTEST, LONGEST = 0.1, 1000.0
COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7c3aed")
POINTS = 200
TEXT = 'font-family="sans-serif" font-size="12" fill="#333"'


def distribution(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """Cumulative shares over a logarithmic axis of seconds, one line for each name."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {TEXT}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        *_axes(),
    ]
    for number, (name, values) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{_line(values)}"/>')
        x = LEFT + number * (WIDTH - LEFT - RIGHT) / len(lines)
        parts.append(f'<rect x="{x:.0f}" y="34" width="12" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18:.0f}" y="40">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _axes() -> Iterator[str]:
    for seconds in (0.1, 1, 10, 60, 100, 1000):
        x = _x(seconds)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{seconds:g} s</text>'
    for percent in range(0, 101, 25):
        y = _y(percent / 100)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'


def _line(values: Sequence[float]) -> str:
    """The share of values that are at most as long, at points that are evenly spread over the shares."""
    ordered = sorted(values)
    shares = [number / POINTS for number in range(1, POINTS + 1)]
    at = [(ordered[max(0, int(len(ordered) * share) - 1)], share) for share in shares]
    return " ".join(f"{_x(value):.1f},{_y(share):.1f}" for value, share in at)


def _x(seconds: float) -> float:
    share = log10(min(max(seconds, SHORTEST), LONGEST) / SHORTEST) / log10(LONGEST / SHORTEST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
