"""The empty curve of the page, as Bokeh's own description of it; the page fills it.

Laws
----
* Bokeh is imported only to make a page; without it one line says what to install.
* The browser's half of Bokeh comes from the installed package, and only its base: nothing is
  fetched, and no part is loaded that draws what the page does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bokeh.models.renderers import GlyphRenderer
    from bokeh.plotting import figure

MISSING = "the page needs Bokeh: pip install scrapy-adaptive[report]"

CLOCK = "%H:%M:%S"

HEIGHT = 320
"""Pixels."""


def check_bokeh() -> None:
    """Nothing, where Bokeh is installed.

    Raises:
        ValueError: it is not.
    """
    try:
        import bokeh  # noqa: F401
    except ImportError:
        raise ValueError(MISSING) from None


def browser_code() -> str:
    """Bokeh's code for the browser.

    Raises:
        ValueError: Bokeh is not installed.
    """
    check_bokeh()
    from bokeh.resources import Resources

    return str(Resources(mode="inline", components=["bokeh"], minified=True).js_raw[0])


def empty_curve() -> Any:
    """What `Bokeh.embed.embed_item` takes; its parts are found by their names.

    Raises:
        ValueError: Bokeh is not installed.
    """
    check_bokeh()
    from bokeh.embed import json_item

    plot = _figure()
    _draw_pauses(plot)
    _draw_rates(plot)
    _draw_refusals(plot)
    return json_item(plot)


def _figure() -> figure:
    from bokeh.models import (
        BoxZoomTool,
        Range1d,
        ResetTool,
        TimedeltaTicker,
        TimedeltaTickFormatter,
    )
    from bokeh.plotting import figure as new_figure

    zoom = BoxZoomTool(dimensions="width")
    plot = new_figure(
        name="figure",
        height=HEIGHT,
        sizing_mode="stretch_width",
        tools=[zoom, ResetTool()],
        active_drag=zoom,
        toolbar_location=None,
        x_range=Range1d(start=0, end=1000, name="time", min_interval=2000),
        y_range=Range1d(start=0, end=1, name="rate"),
        # What is behind the page shows through, light or dark.
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=44,
    )
    plot.extra_y_ranges = {"strip": Range1d(start=0, end=1)}
    for axis, grid, name in (
        (plot.xaxis[0], plot.xgrid[0], "x-axis"),
        (plot.yaxis[0], plot.ygrid[0], "y-axis"),
    ):
        axis.name, grid.name = name, f"{name}-grid"
        axis.minor_tick_line_color = None
        axis.major_label_text_font_size = "12px"
        axis.axis_label_text_font_size = "12px"
        axis.axis_label_text_font_style = "normal"
    plot.xaxis[0].ticker = TimedeltaTicker()
    plot.xaxis[0].formatter = TimedeltaTickFormatter(minutes=CLOCK, hourmin=CLOCK, hours=CLOCK)
    plot.xaxis[0].axis_label = "time since the crawl began"
    plot.yaxis[0].axis_label = "pages a second"
    plot.xgrid[0].visible = False
    return plot


def _hover(
    plot: figure, renderer: GlyphRenderer[Any], *tips: tuple[str, str], **options: Any
) -> None:
    from bokeh.models import HoverTool

    plot.add_tools(HoverTool(renderers=[renderer], tooltips=list(tips), **options))


def _draw_pauses(plot: figure) -> None:
    from bokeh.models import ColumnDataSource, VStrip

    source = ColumnDataSource({"from": [], "to": [], "by": []}, name="breaks")
    glyph = VStrip(
        x0="from",
        x1="to",
        name="pauses-glyph",
        fill_alpha=0.14,
        line_color=None,
        hatch_pattern="right_diagonal_line",
        hatch_alpha=0.45,
        hatch_scale=8,
    )
    _hover(plot, plot.add_glyph(source, glyph), ("paused", "@by"))


def _draw_rates(plot: figure) -> None:
    from bokeh.models import ColumnDataSource, Quad, Step

    source = ColumnDataSource({"at": [], "to": [], "served": [], "limit": []}, name="rates")
    # Not VAreaStep: Bokeh 3.9.2 never ends drawing an empty one.
    area = Quad(
        left="at",
        right="to",
        bottom=0,
        top="served",
        name="area-glyph",
        fill_alpha=0.16,
        line_color=None,
    )
    served = Step(x="at", y="served", mode="after", line_width=2, name="served-glyph")
    limit = Step(
        x="at", y="limit", mode="after", line_width=1.6, line_dash=[6, 4], name="limit-glyph"
    )
    steps = plot.add_glyph(source, area)
    plot.add_glyph(source, served)
    plot.add_glyph(source, limit)
    tips = (
        ("at", "@at{%H:%M:%S}"),
        ("served", "@served{0.[00]}/s"),
        ("pace limit", "@limit{0.[00]}/s"),
    )
    _hover(plot, steps, *tips, mode="vline", formatters={"@at": "datetime"})


def _draw_refusals(plot: figure) -> None:
    from bokeh.models import ColumnDataSource, Segment

    source = ColumnDataSource({"at": [], "low": [], "high": [], "count": []}, name="refusals")
    glyph = Segment(x0="at", x1="at", y0="low", y1="high", line_width=1.6, name="refused-glyph")
    ticks = plot.add_glyph(source, glyph, y_range_name="strip")
    _hover(plot, ticks, ("refused", "@count"))
