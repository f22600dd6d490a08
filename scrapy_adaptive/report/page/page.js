// Puts the view into the page, and in a live page follows the crawl.
const EVENTS_SHOWN = 30;

class Page {
  constructor(view, curve) {
    this.curve = curve;
    this.curves = new Map();
    this.events = [];
    this.mostEvents = EVENTS_SHOWN;
    this.site = "";
    this.table = new Table(view.columns, (site) => this.select(site), (site) => view.live || this.curves.has(site));
    this.drawWords(view);
    this.merge(view);
    find("filter").oninput = (event) => {
      this.table.setFilter(event.target.value);
      this.drawEvents();
    };
    find("more-events").onclick = () => { this.mostEvents += 4 * EVENTS_SHOWN; this.drawEvents(); };
    find("curve-site").onchange = (event) => this.select(event.target.value);
    for (const button of document.querySelectorAll("[data-zoom]"))
      button.onclick = () => this.curve.zoom(button.dataset.zoom);
    if (view.live) this.follow();
  }

  // A whole view, or what of it has changed.
  merge(change) {
    if (change.fresh) {
      this.events = [];
      this.curves.clear();
      this.table.rows.clear();
    }
    if (change.headline !== undefined) put(find("headline"), change.headline);
    if (change.about !== undefined) put(find("about"), change.about);
    if (change.tiles) this.drawTiles(change.tiles);
    if (change.events) {
      this.events = [...change.events, ...this.events].slice(0, 1000);
      this.drawEvents();
    }
    for (const [site, curve] of change.curves ?? []) this.curves.set(site, curve);
    if (change.choices) this.drawChoices((this.choices = change.choices));
    if (change.curves) this.drawCurve();
    if (change.sites) this.table.merge(change.sites);
  }

  drawChoices(names) {
    const choice = find("curve-site");
    names.forEach((site, index) => {
      const option = choice.options[index] ?? make("option", choice);
      put(option, site || "the whole crawl");
      option.value = site;
    });
    while (choice.options.length > names.length) choice.lastChild.remove();
    if (!names.includes(this.site)) make("option", choice, this.site, { value: this.site });
    choice.value = this.site;
  }

  drawCurve() {
    const curve = this.curves.get(this.site);
    if (!curve) return;
    this.curve.show(curve);
    const refused = curve.refusals.reduce((sum, [, count]) => sum + count, 0);
    find("curve").setAttribute(
      "aria-label",
      `Pages a second of ${this.site || "the whole crawl"} over ${format.seconds(curve.until)}: ` +
        `${format.count(refused)} refused, ${format.count(curve.pauses.length)} pauses`,
    );
  }

  select(site) {
    // Of a site without a curve of its own the row says all there is.
    if (site && !this.curves.has(site) && !this.stream) return;
    this.site = site === this.site ? "" : site;
    this.table.select(this.site);
    this.drawChoices(this.choices);
    this.drawCurve();
    if (this.stream) this.follow();
  }

  drawTiles(tiles) {
    const parent = find("tiles");
    while (parent.children.length < tiles.length) {
      const tile = make("div", parent, "", { class: "tile" });
      for (const part of ["span", "b", "i"]) make(part, tile);
    }
    tiles.forEach(({ key, name, value, note, title }, index) => {
      const tile = parent.children[index];
      tile.title = title;
      tile.dataset.key = key;
      [name, value, note].forEach((text, part) => put(tile.children[part], text));
    });
  }

  drawEvents() {
    const list = find("events");
    list.parentElement.hidden = !this.events.length;
    const all = this.events.filter(([, site]) => this.table.matches(site));
    const found = all.slice(0, this.mostEvents);
    find("more-events").hidden = found.length === all.length;
    while (list.children.length > found.length) list.lastChild.remove();
    while (list.children.length < found.length) {
      const item = make("li", list);
      for (const part of ["time", "b", "span"]) make(part, item);
    }
    found.forEach(([at, site, text], index) => {
      const parts = list.children[index].children;
      [format.clock(at), site || "the whole crawl", text].forEach((each, part) => put(parts[part], each));
      parts[0].title = "Time since the crawl began";
    });
  }

  drawWords(view) {
    const list = find("words").querySelector("dl");
    for (const { name, title } of [...view.columns, ...view.words]) {
      make("dt", list, name);
      make("dd", list, title);
    }
    const shapes = {
      served: '<path d="M0 8H8V3H18" fill="none" stroke="var(--served)" stroke-width="2"/>',
      limit: '<path d="M0 5H18" stroke="var(--text)" stroke-width="2" stroke-dasharray="5 3"/>',
      refused: '<path d="M3 1V9M8 1V9M14 1V9" stroke="var(--refused)" stroke-width="2"/>',
      pause: '<path d="M0 0H18V10H0Z" fill="var(--pause)" opacity=".25"/><path d="M0 10L10 0M8 10L18 0" stroke="var(--pause)"/>',
    };
    for (const [key, { name, title }] of Object.entries(view.legend)) {
      const entry = make("span", find("legend"), "", { title });
      entry.insertAdjacentHTML("afterbegin", `<svg viewBox="0 0 18 10" aria-hidden="true">${shapes[key]}</svg>`);
      entry.append(name);
    }
  }

  follow() {
    this.stream?.close();
    const query = new URLSearchParams(location.search);
    query.set("site", this.site);
    this.stream = new EventSource(`events?${query}`);
    this.stream.onmessage = ({ data }) => this.merge(JSON.parse(data));
    this.stream.addEventListener("ended", () => this.stream.close());
    this.stream.onerror = () =>
      put(find("about"), "The crawl has ended or cannot be reached; this is the last that is known of it.");
  }
}

const content = (id) => JSON.parse(find(id).textContent);

Bokeh.set_log_level("warn");
Curve.start(content("plot"), find("curve")).then((curve) => {
  window.page = new Page(content("view"), curve);
  document.documentElement.dataset.ready = "yes";
});
