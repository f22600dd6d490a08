// Numbers as people say them; the same words as the module `units` of the package.
const format = {
  count: (value) => value.toLocaleString("en-US"),

  // Two figures, as "%.2g" of Python.
  short: (value) => String(Number(value.toPrecision(2))),

  seconds(value) {
    if (!Number.isFinite(value)) return "ever";
    if (value < 9.95) return `${format.short(value)} s`;
    let left = value < 3600 ? Math.round(value) : Math.round(value / 60) * 60;
    const parts = [];
    for (const [size, name] of [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"]]) {
      if (left >= size) {
        const count = Math.floor(left / size);
        parts.push(`${count} ${count === 1 && name === "days" ? "day" : name}`);
        left %= size;
      } else if (parts.length) break;
    }
    return parts.slice(0, 2).join(" ");
  },

  rate(value) {
    let found = [value * 3600, "h"];
    for (const [seconds, name] of [[60, "min"], [1, "s"]])
      if (value * seconds >= 1) found = [value * seconds, name];
    const [count, unit] = found;
    return `${count >= 10 ? Math.round(count) : Number(count.toFixed(1))}/${unit}`;
  },

  // Time since the crawl began: 0:21, 1:02:03.
  clock(value) {
    const whole = Math.max(0, Math.floor(value));
    const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    const pad = (part) => String(part).padStart(2, "0");
    return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
  },

  pause: ([at, seconds, by]) =>
    `${seconds === null ? "going on" : format.seconds(seconds)}, from ${format.clock(at)}; ${by}`,

  state: (value) => `${{ crawling: "●", paused: "‖", testing: "◐", parked: "■" }[value] ?? "○"} ${value}`,

  text: String,
};

// All text goes into the page by this: nothing of it is read as HTML.
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(tag, parent, text = "", attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

const find = (id) => document.getElementById(id);
