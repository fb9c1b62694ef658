"""Matplotlib figures as SVG in `data:` URLs, which both of Prefect's user interfaces show, offline too.

A figure has no background, and its ink follows the theme of the page. Matplotlib is imported by the first figure.
"""

import base64
import contextlib
import functools
import io
import re
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Given = ParamSpec("Given")

INK = "#7c7c7d"
"""Colour of all text and frame lines; a placeholder for the colours of `_THEMES`, so nothing else may use it."""
COLOURS = ("#2f80d0", "#d9700f", "#2e9c5c", "#9467bd")
"""Contrast of at least 2.5:1 against both the light and the dark page."""
_THEMES = (
    # 4.5:1 against the page. A browser that follows the system's theme may take the other colour: still 2.6:1.
    f"<style>svg{{color:{INK}}}@media(prefers-color-scheme:light){{svg{{color:#676767}}}}"
    "@media(prefers-color-scheme:dark){svg{color:#929292}}</style>"
)
_SETTINGS: dict[Any, Any] = {
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.parse_math": False,  # a `$` in a name is not a formula
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tapeline",  # reproducible bytes
}


@functools.cache
def begin_import() -> None:
    """Import Matplotlib in another thread, which takes half a second, so that the first figure need not wait for it."""
    threading.Thread(target=_import, name="drawing", daemon=True).start()


def _import() -> None:
    with contextlib.suppress(ImportError):  # which the first figure will say
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401  # imported ahead, while training runs


def grid(width: float, height: float, *, rows: int = 1, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    """Return a figure of width × height pixels and its axes, row by row; for functions decorated with `drawn`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 96, height / 96), layout="constrained")  # CSS has 96 pixels per inch
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def drawn(draw: "Callable[Given, Figure]") -> Callable[Given, str]:
    """Decorate a function that draws a figure to return the figure's `data:` URL instead, usable as an image URL."""

    @functools.wraps(draw)
    def address(*args: Given.args, **kwargs: Given.kwargs) -> str:
        import matplotlib

        with matplotlib.rc_context(_SETTINGS):
            svg = _svg(draw(*args, **kwargs))
        return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"

    return address


def _svg(figure: "Figure") -> str:
    text = io.StringIO()
    with warnings.catch_warnings():
        # The browser draws the text with its own fonts, so glyphs missing from Matplotlib's do not matter.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = re.sub(r"<metadata>.*?</metadata>", _THEMES, text.getvalue(), count=1, flags=re.DOTALL)
    svg = svg.replace(f": {INK}", ": currentColor")
    # Only one of a coordinate's six decimals is visible.
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), svg)


def logarithmic(axes: "Axes") -> None:
    """Make the horizontal axis logarithmic, with plain numbers: Matplotlib writes formulas, which are not rendered."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""  # empty where labels would be too close

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(Plain())
    axes.xaxis.set_minor_formatter(Plain())


def label(name: str, *, most: int = 48) -> str:
    """Return a name fit for a figure: printable, and shortened in the middle when it is long."""
    name = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most - most // 2 - 1) :]}"
