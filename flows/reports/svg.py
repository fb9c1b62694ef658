"""Drawings as SVG in `data:` addresses, which both of Prefect's user interfaces show, offline too."""

import base64
from collections.abc import Sequence
from html import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
INK = "#222"


def drawing(width: int, height: int, parts: Sequence[str]) -> str:
    """Return the address of a drawing on white."""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>'
    )
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def text(x: float, y: float, words: str, colour: str = INK) -> str:
    """Return words whose baseline begins at a point."""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}">{escape(words)}</text>'


def line(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Return a line through points."""
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="2"/>'


def dot(x: float, y: float, colour: str, radius: float = 4) -> str:
    """Return a filled circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}" fill-opacity="0.8"/>'


def box(x: float, y: float, side: float, colour: str, opacity: float) -> str:
    """Return a filled square with a thin border."""
    fill = f'fill="{colour}" fill-opacity="{opacity:.2f}"'
    return f'<rect x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}" {fill} stroke="#ccc"/>'


def scaled(value: float, low: float, high: float, start: float, end: float) -> float:
    """Return where a value of [low, high] lies between start and end; the middle when low is high."""
    share = (value - low) / (high - low) if high > low else 0.5
    return start + share * (end - start)
