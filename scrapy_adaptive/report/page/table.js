// The table of sites: sorted and filtered over all of them, drawn for the first few.
const SHOWN = 30;

class Table {
  constructor(columns, onSelect, hasCurve) {
    this.columns = columns;
    this.rows = new Map();
    this.sorted = [];
    this.key = columns.findIndex((column) => column.key === "pages");
    this.descending = true;
    this.filter = "";
    this.most = SHOWN;
    this.selected = "";
    this.onSelect = onSelect;
    this.hasCurve = hasCurve;
    this.body = find("sites").tBodies[0];
    this.makeHead();
    find("more").onclick = () => { this.most += SHOWN; this.draw(); };
    this.body.onclick = (event) => {
      const row = event.target.closest("tr");
      if (row) this.onSelect(row.dataset.site);
    };
  }

  makeHead() {
    const [row, choice] = [find("sites").tHead.rows[0], find("sort")];
    this.columns.forEach((column, index) => {
      const head = make("th", row, "", { role: "columnheader", scope: "col", title: column.title });
      head.className = this.isText(column) ? "text" : "";
      make("button", head, column.name, { type: "button" }).onclick = () => this.sortBy(index);
      make("option", choice, column.name, { value: index });
    });
    choice.value = this.key;
    choice.onchange = () => { this.key = -1; this.sortBy(Number(choice.value)); };
  }

  isText(column) { return ["text", "state", "pause"].includes(column.kind); }

  // New and changed rows: arrays in the order of the columns, the site first.
  merge(rows) {
    for (const row of rows) {
      row.found = row.filter((cell) => typeof cell === "string").join("\n").toLowerCase();
      this.rows.set(row[0], row);
    }
    this.sort();
  }

  sortBy(index) {
    this.descending = index === this.key ? !this.descending : !this.isText(this.columns[index]);
    this.key = index;
    find("sort").value = index;
    this.sort();
  }

  sort() {
    const sign = this.descending ? -1 : 1;
    const value = (row) => (Array.isArray(row[this.key]) ? row[this.key][0] : row[this.key]);
    // What is not known comes last, whichever way round.
    this.sorted = [...this.rows.values()].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    });
    this.draw();
  }

  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.most = SHOWN;
    this.draw();
  }

  matches(site) {
    const row = this.rows.get(site);
    return !this.filter || (row ? row.found : site.toLowerCase()).includes(this.filter);
  }

  draw() {
    const found = this.filter ? this.sorted.filter((row) => row.found.includes(this.filter)) : this.sorted;
    const shown = found.slice(0, this.most);
    while (this.body.rows.length > shown.length) this.body.lastChild.remove();
    while (this.body.rows.length < shown.length) this.addRow();
    shown.forEach((row, index) => this.fill(this.body.rows[index], row));
    const all = this.rows.size;
    const of = found.length === all ? format.count(all) : `${format.count(found.length)} (of ${format.count(all)})`;
    put(find("shown"), `${format.count(shown.length)} of ${of} sites shown`);
    find("more").hidden = shown.length === found.length;
    [...find("sites").tHead.rows[0].cells].forEach((head, index) => {
      const sort = index !== this.key ? "none" : this.descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", sort);
    });
  }

  addRow() {
    const line = make("tr", this.body, "", { role: "row" });
    this.columns.forEach((column, index) => {
      const cell = make("td", line, "", { role: "cell", "data-name": column.name });
      cell.className = this.isText(column) ? (column.wraps ? "text wraps" : "text") : "";
      if (index === 0) make("button", cell, "", { type: "button", title: "Show the curve of this site" });
    });
  }

  // Cells are filled in place, so that the keyboard's focus stays where it is.
  fill(line, row) {
    line.dataset.site = row[0];
    line.setAttribute("aria-selected", String(row[0] === this.selected));
    this.columns.forEach((column, index) => {
      const [cell, value] = [line.cells[index], row[index]];
      const text = value === null ? "–" : format[column.kind](value);
      put(index ? cell : cell.firstChild, text);
      if (!index) cell.firstChild.disabled = !this.hasCurve(value);
      cell.classList.toggle("none", value === null || value === 0);
      cell.classList.toggle("paused", column.kind === "state" && value !== "crawling" && value !== "done");
      cell.classList.toggle("bad", column.key === "refused" && value > 0);
    });
  }

  select(site) {
    this.selected = site;
    this.draw();
  }
}
