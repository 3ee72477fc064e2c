// The frame of every chart: axes with titles and ticks, and the hover display.

function svg(name, attributes = {}, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function html(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// The height of a chart, as a share of its width; flatter on paper.
function heightOf(plot, share) {
  const wanted = plot.clientWidth * share * (document.documentElement.dataset.print ? 0.72 : 1);
  return Math.min(Math.max(wanted, 220), 380);
}

// An axis: { title, from, to, log, ticks(about), format, value }.
class Frame {
  constructor(plot, height, x, y, description) {
    plot.querySelector("svg")?.remove();
    this.plot = plot;
    this.width = Math.max(plot.clientWidth, 240);
    this.height = height;
    this.axes = { x, y };
    const yTicks = y.ticks(Math.max(3, Math.round(height / 60)));
    const widest = Math.max(...yTicks.map((tick) => y.format(tick).length), 3);
    this.left = 12 + widest * 6.6;
    this.right = this.width - 14;
    this.top = 26;
    this.bottom = height - (x.clock ? 60 : 42);
    this.svg = svg("svg", {
      viewBox: `0 0 ${this.width} ${height}`, role: "img", tabindex: 0, "aria-label": description,
    });
    const grid = svg("g", { class: "grid" });
    for (const tick of yTicks) {
      const at = this.y(tick);
      grid.append(svg("line", { x1: this.left, x2: this.right, y1: at, y2: at }));
      grid.append(svg("text", { x: this.left - 6, y: at + 4, "text-anchor": "end" }, y.format(tick)));
    }
    const about = Math.max(2, Math.round((this.right - this.left) / 110));
    this.labels(grid, x.ticks(about).map((tick) => [tick, x.format(tick)]), 0);
    if (x.clock) this.labels(grid, x.clock(about), 19);
    grid.append(svg("line", { class: "base", x1: this.left, x2: this.right, y1: this.bottom, y2: this.bottom }));
    grid.append(svg("text", { class: "title", x: 2, y: 13 }, y.title));
    grid.append(svg("text", { class: "title", x: this.right, y: height - 6, "text-anchor": "end" }, x.title));
    this.svg.append(grid);
    plot.append(this.svg);
  }

  // Labels below the chart that do not touch, `below` pixels below the first row.
  labels(grid, ticks, below) {
    let end = -Infinity;
    const row = svg("g", { class: below ? "clock" : "" });
    for (const [tick, text] of ticks) {
      const at = this.x(tick);
      const half = text.length * 3.3;
      // A label that would exceed the chart is aligned to its end.
      const anchor = at + half > this.width ? "end" : "middle";
      const middle = anchor === "end" ? this.width - 2 - half : at;
      if (middle - half < end + 8) continue;
      end = middle + half;
      const y = this.bottom + below;
      row.append(svg("line", { x1: at, x2: at, y1: below ? y + 2 : y, y2: y + 4 }));
      row.append(svg("text", { x: anchor === "end" ? this.width - 2 : at, y: y + (below ? 16 : 17), "text-anchor": anchor }, text));
    }
    grid.append(row);
  }

  static place(axis, value) {
    const f = axis.log ? Math.log : Number;
    return (f(value) - f(axis.from)) / (f(axis.to) - f(axis.from) || 1);
  }

  x(value) {
    return this.left + Frame.place(this.axes.x, value) * (this.right - this.left);
  }

  y(value) {
    return this.bottom - Frame.place(this.axes.y, value) * (this.bottom - this.top);
  }

  // A single point is a dot, since a path of one point would be invisible.
  line(points, style) {
    if (points.length !== 1) return this.path(points, { class: `line ${style}` });
    const [[cx, cy]] = points.map(([x, y]) => [this.x(x), this.y(y)]);
    return this.svg.append(svg("circle", { class: `point ${style}`, cx, cy, r: 4 }));
  }

  path(points, attributes) {
    const steps = points.map(([x, y], index) => `${index ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`);
    this.svg.append(svg("path", { d: steps.join(""), ...attributes }));
  }

  // Shows, while the pointer or the arrow keys are over the chart, what `look` returns for a place:
  // { at: [x, y], title, rows: [[style, name, value]], dots: [[style, x, y]] }, in pixels, or null.
  hover(look) {
    const mark = svg("g", { class: "mark" });
    this.svg.append(mark);
    const tip = this.plot.querySelector(".tip") ?? this.plot.appendChild(html("div", "tip"));
    tip.hidden = true;
    const hide = () => {
      mark.replaceChildren();
      tip.hidden = true;
    };
    const show = (x, y) => {
      const seen = look(Math.min(Math.max(x, this.left), this.right), Math.min(Math.max(y, this.top), this.bottom));
      if (!seen) return hide();
      mark.replaceChildren(svg("line", { x1: seen.at[0], x2: seen.at[0], y1: this.top, y2: this.bottom }));
      for (const [style, cx, cy] of seen.dots ?? []) mark.append(svg("circle", { class: style, cx, cy, r: 4 }));
      tip.replaceChildren(html("b", "", seen.title));
      for (const [style, name, value] of seen.rows) {
        const row = html("div", "row");
        row.append(html("i", style), html("span", "", name), html("span", "value", value));
        tip.append(row);
      }
      tip.hidden = false;
      const scale = this.plot.clientWidth / this.width;
      const place = seen.at[0] * scale;
      const beyond = place + 14 + tip.offsetWidth > this.plot.clientWidth;
      tip.style.left = `${Math.max(0, beyond ? place - 14 - tip.offsetWidth : place + 14)}px`;
      tip.style.top = `${this.top * scale}px`;
      return undefined;
    };
    const point = (event) => {
      const box = this.svg.getBoundingClientRect();
      const scale = this.width / box.width;
      this.cursor = (event.clientX - box.left) * scale;
      show(this.cursor, (event.clientY - box.top) * scale);
    };
    this.svg.addEventListener("pointermove", point);
    this.svg.addEventListener("pointerdown", point);
    this.svg.addEventListener("pointerleave", hide);
    this.svg.addEventListener("blur", hide);
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.cursor = Math.min(Math.max((this.cursor ?? this.left) + step * 6, this.left), this.right);
      show(this.cursor, (this.top + this.bottom) / 2);
    });
  }
}

// Axes.
const countAxis = (title, to, from = 0) => ({
  title, from, to: Math.max(to, from + 1), format: thousands, value: thousands,
  ticks: (about) => roundTicks(Math.max(to, 1), about, DECIMAL_STEPS.filter((step) => step >= 1)),
});
const bytesAxis = (title, to) => ({
  title, from: 0, to: Math.max(to, 1), format: bytesTick, value: bytes,
  ticks: (about) => roundTicks(Math.max(to, 1), about, BINARY_STEPS),
});
const shareAxis = (title, to) => ({
  title, from: 0, to, format: percentTick, value: percent,
  ticks: (about) => roundTicks(to, about, [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1]),
});
const logAxis = (title, from, to) => ({
  title, from, to: Math.max(to, from * 2), log: true, format: thousands, value: thousands,
  ticks: (about) => powerTicks(from, Math.max(to, from * 2), about),
});
