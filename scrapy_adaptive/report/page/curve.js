// The curve: Bokeh draws it, this says what and in which colours.
const STRIP = 0.08;
const MOST_BINS = 300;

// The steps of a curve between two instants, neighbours taken together until there are few enough.
function binned(curve, begin, end) {
  const least = (end - begin) / MOST_BINS;
  const bins = [];
  let open = null;
  curve.at.forEach((from, index) => {
    const to = curve.at[index + 1] ?? curve.until;
    if (to < begin || from > end) return;
    if (!open) bins.push((open = { from, to, pages: 0, limit: null }));
    open.pages += curve.served[index] * (to - from);
    open.limit = curve.limit[index];
    open.to = to;
    if (to - open.from >= least) open = null;
  });
  return bins;
}

class Curve {
  static async start(plot, element) {
    await Bokeh.embed.embed_item(plot, element);
    return new Curve(Bokeh.documents[0]);
  }

  constructor(document) {
    this.model = (name) => document.get_model_by_name(name);
    this.range = this.model("time");
    this.end = 1000;
    this.curve = null;
    let waiting = 0;
    const later = () => { clearTimeout(waiting); waiting = setTimeout(() => this.draw(), 30); };
    for (const side of ["start", "end"]) this.range.properties[side].change.connect(later);
    this.paint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    // A finger scrolls the page; a mouse marks the time to look at.
    if (matchMedia("(pointer: coarse)").matches) this.model("figure").toolbar.active_drag = null;
  }

  paint() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["x-axis", "y-axis"]) {
      const axis = this.model(name);
      axis.major_label_text_color = axis.axis_label_text_color = color("soft");
      axis.axis_line_color = axis.major_tick_line_color = color("line");
      this.model(`${name}-grid`).grid_line_color = color("line");
    }
    const lines = { served: "served", limit: "text", refused: "refused" };
    for (const [name, use] of Object.entries(lines))
      this.model(`${name}-glyph`).line_color = { value: color(use) };
    this.model("area-glyph").fill_color = { value: color("served") };
    const pauses = this.model("pauses-glyph");
    pauses.fill_color = pauses.hatch_color = { value: color("pause") };
  }

  // Times of the page are seconds since the crawl began; the axis counts milliseconds.
  show(curve) {
    this.curve = curve;
    this.model("refusals").data = {
      at: curve.refusals.map(([second]) => second * 1000),
      count: curve.refusals.map(([, count]) => count),
      low: curve.refusals.map(() => 0.004),
      high: curve.refusals.map(() => STRIP * 0.75),
    };
    this.model("breaks").data = {
      from: curve.pauses.map(([from]) => from * 1000),
      to: curve.pauses.map(([, to]) => to * 1000),
      by: curve.pauses.map(([, , by]) => by),
    };
    const followed = this.range.start === 0 && this.range.end === this.end;
    this.end = curve.until * 1000;
    this.range.bounds = [0, this.end];
    if (followed || this.range.start >= this.end) this.all();
    this.draw();
  }

  // The rates of the time that is shown, in as much detail as can be seen.
  draw() {
    if (!this.curve) return;
    const bins = binned(this.curve, this.range.start / 1000, this.range.end / 1000);
    for (const bin of bins) bin.rate = bin.pages / (bin.to - bin.from);
    // A step is drawn up to the next instant: the last one needs its end.
    if (bins.length) bins.push({ ...bins.at(-1), from: bins.at(-1).to });
    const served = bins.map(({ rate }) => rate);
    const limit = bins.map((bin) => bin.limit ?? NaN);
    const [at, to] = [bins.map(({ from }) => from * 1000), bins.map((bin) => bin.to * 1000)];
    this.model("rates").data = { at, to, served, limit };
    const limits = limit.filter(Number.isFinite);
    const usual = [...served].sort((a, b) => a - b)[Math.floor(0.98 * (served.length - 1))] || 0;
    const [peak, least] = [Math.max(0, ...served), Math.max(usual, ...limits)];
    const top = 1.12 * (peak > 4 * least ? least : Math.max(peak, least)) || 1;
    const rates = this.model("rate");
    [rates.start, rates.end] = [-STRIP * top, top];
  }

  all() { this.setRange(0, this.end); }

  setRange(start, end) {
    this.range.start = Math.max(0, start);
    this.range.end = Math.min(this.end, end);
  }

  zoom(how) {
    const { start, end } = this.range;
    const [middle, width] = [(start + end) / 2, end - start];
    const half = { in: width / 4, out: width }[how];
    if (how === "all") this.all();
    else if (half) this.setRange(middle - half, middle + half);
    else {
      const wanted = how === "left" ? -width / 2 : width / 2;
      const step = Math.max(-start, Math.min(this.end - end, wanted));
      this.setRange(start + step, end + step);
    }
  }
}
