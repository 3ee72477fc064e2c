// Flame graph: functions below their callers, as wide as their requests, callees included.

const FLAME_ROW = 19;
const FLAME_LETTER = 6.9;

const flameViews = {
  peak: ["live at the peak", bytes],
  allocated: ["allocated in all", bytes],
  leaked: ["never freed", bytes],
  temporary: ["temporary: freed before the next allocation", thousands],
};

// The tree with data for drawing: children by descending figure, depths.
function flameTree({ texts, parents, functions, modules, quiet, views }) {
  const still = new Set(quiet);
  const nodes = functions.map((text, index) => ({
    index,
    name: texts[text],
    module: modules[index] === null ? "" : texts[modules[index]],
    quiet: still.has(index),
    parent: null,
    children: [],
    depth: 0,
    figures: Object.fromEntries(views.map(([name, figures]) => [name, figures[index]])),
  }));
  parents.forEach((parent, index) => {
    const node = nodes[index + 1];
    node.parent = nodes[parent];
    node.depth = node.parent.depth + 1;
    node.parent.children.push(node);
  });
  return nodes;
}

// The colours of modules: those that allocate most have their own.
function flameStyles(nodes) {
  const sums = new Map();
  for (const node of nodes.slice(1)) {
    const own = node.children.reduce((rest, child) => rest - child.figures.allocated, node.figures.allocated);
    if (!node.quiet && node.module) sums.set(node.module, (sums.get(node.module) ?? 0) + own);
  }
  const ranked = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([module]) => module);
  return new Map(ranked.map((module, index) => [module, `s${index}`]));
}

class FlameGraph {
  constructor(figure, flame) {
    this.figure = figure;
    this.plot = figure.querySelector(".plot");
    this.nodes = flameTree(flame);
    this.styles = flameStyles(this.nodes);
    this.root = this.nodes[0];
    this.view = this.availableViews()[0] ?? "peak";
    this.zoomed = this.root;
    this.selected = this.root;
    this.words = "";
    this.controls();
  }

  availableViews() {
    return Object.keys(flameViews).filter((view) => this.root.figures[view] > 0);
  }

  // The controls above the graph.
  controls() {
    const bar = html("div", "flame-bar");
    const group = html("div", "views");
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-label", "Figure shown by the width");
    for (const view of Object.keys(flameViews)) {
      const label = html("label");
      const input = html("input");
      Object.assign(input, { type: "radio", name: `flame-${this.figure.dataset.trace}`, value: view, checked: view === this.view });
      input.disabled = this.root.figures[view] === 0;
      input.addEventListener("change", () => this.show({ view }));
      label.append(input, ` ${view}`);
      group.append(label);
    }
    this.search = html("input", "search");
    Object.assign(this.search, { type: "search", placeholder: "search functions ( / )" });
    this.search.setAttribute("aria-label", "search functions");
    this.search.addEventListener("input", () => this.show({ words: this.search.value.trim().toLowerCase() }));
    this.reset = html("button", "", "reset");
    this.reset.type = "button";
    this.reset.addEventListener("click", () => {
      this.search.value = "";
      this.show({ zoomed: this.root, selected: this.root, words: "" });
    });
    bar.append(group, this.search, this.reset);
    this.path = html("nav", "path");
    this.path.setAttribute("aria-label", "callers of the function zoomed to");
    this.status = html("p", "status");
    this.status.setAttribute("aria-live", "polite");
    this.plot.before(bar, this.key(), this.path);
    this.plot.after(this.status);
    document.addEventListener("keydown", (event) => {
      const writing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "radio";
      if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && this.figure.contains(document.activeElement)) {
        event.preventDefault();
        this.search.focus();
      }
    });
  }

  // The key to the colours.
  key() {
    const key = html("div", "key flame-key");
    const entry = (style, text) => {
      const one = html("span", "entry");
      one.append(html("i", style), html("span", "", text));
      key.append(one);
    };
    for (const [module, style] of this.styles) entry(style, module);
    if (this.nodes.some((node) => node.module && !node.quiet && !this.styles.has(node.module))) entry("other", "other modules");
    if (this.nodes.some((node) => node.quiet)) entry("still", "allocators and standard libraries");
    return key;
  }

  show(change) {
    Object.assign(this, change);
    this.draw();
  }

  figureOf(node) {
    return node.figures[this.view];
  }

  isFound(node) {
    return this.words !== "" && node.name.toLowerCase().includes(this.words);
  }

  // Bytes or blocks of the matching functions, each counted once.
  found(node = this.root) {
    if (this.isFound(node)) return this.figureOf(node);
    return node.children.reduce((sum, child) => sum + this.found(child), 0);
  }

  // Draws the zoomed function at full width, its callers above it.
  draw() {
    const width = Math.max(this.plot.clientWidth, 240);
    const held = this.plot.contains(document.activeElement);
    const boxes = [];
    for (let node = this.zoomed; node; node = node.parent) boxes.push([node, 0, width]);
    const place = (node, left, room) => {
      const children = node.children.filter((child) => this.figureOf(child) > 0)
        .sort((a, b) => this.figureOf(b) - this.figureOf(a));
      for (const child of children) {
        const wide = (room * this.figureOf(child)) / (this.figureOf(node) || 1);
        if (wide < 0.6) continue;
        boxes.push([child, left, wide]);
        place(child, left, wide);
        left += wide;
      }
    };
    place(this.zoomed, 0, width);
    this.boxes = new Map(boxes.map(([node, left, wide]) => [node, [left, wide]]));
    const height = (Math.max(...boxes.map(([node]) => node.depth)) + 1) * FLAME_ROW + 2;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: 0, "aria-label": `Flame graph, ${flameViews[this.view][0]}; arrow keys move, Enter zooms, Escape zooms out` });
    for (const [node, left, wide] of boxes) picture.append(this.cell(node, left, wide));
    picture.addEventListener("keydown", (event) => this.press(event));
    picture.addEventListener("pointerleave", () => this.tell(this.selected));
    this.plot.querySelector("svg")?.remove();
    this.plot.append(picture);
    if (held) picture.focus({ preventScroll: true });
    this.callers();
    this.tell(this.selected);
  }

  cell(node, left, wide) {
    const y = node.depth * FLAME_ROW;
    const style = node.quiet || !node.module ? "still" : (this.styles.get(node.module) ?? "other");
    const state = [
      this.isFound(node) ? "found" : "", this.words && !this.isFound(node) ? "pale" : "",
      node === this.selected && node !== this.root ? "selected" : "",
    ];
    const cell = svg("g", { class: `cell ${style} ${state.join(" ")} ${node.index % 2 ? "odd" : ""}`, "data-node": node.index });
    cell.append(svg("rect", { x: left, y: y + 1, width: Math.max(wide - 0.7, 0.5), height: FLAME_ROW - 1.5, rx: 2 }));
    const letters = Math.floor((wide - 8) / FLAME_LETTER);
    if (letters >= 3) {
      const text = node.name.length <= letters ? node.name : `${node.name.slice(0, letters - 1)}…`;
      cell.append(svg("text", { x: left + 4, y: y + 14 }, text));
    }
    cell.addEventListener("pointerenter", () => this.tell(node));
    cell.addEventListener("click", () => this.show({ zoomed: node, selected: node }));
    return cell;
  }

  // Links to the callers, by name.
  callers() {
    const names = [];
    for (let node = this.zoomed; node.parent; node = node.parent) names.unshift(node);
    const shown = names.length > 4 ? [...names.slice(0, 1), null, ...names.slice(-2)] : names;
    this.path.replaceChildren();
    for (const node of [this.root, ...shown]) {
      if (this.path.childNodes.length) this.path.append(" › ");
      if (node === null) {
        this.path.append("…");
        continue;
      }
      const button = html("button", "", node.name.length > 40 ? `${node.name.slice(0, 39)}…` : node.name);
      button.type = "button";
      button.title = node.name;
      button.disabled = node === this.zoomed;
      button.addEventListener("click", () => this.show({ zoomed: node, selected: node }));
      this.path.append(button);
    }
    this.path.hidden = this.zoomed === this.root;
  }

  // Describes a box in words.
  tell(node) {
    const [meaning, write] = flameViews[this.view];
    const all = this.figureOf(this.root) || 1;
    const name = html("b", "", node.name);
    const place = node.module && node.name.indexOf(node.module) < 0 ? ` in ${node.module}` : "";
    const share = `: ${write(this.figureOf(node))} ${meaning}, ${percent(this.figureOf(node) / all)} of all`;
    const found = this.words ? `. Found: ${write(this.found())}, ${percent(this.found() / all)}` : "";
    this.status.replaceChildren(name, `${place}${share}${found}`);
  }

  // The neighbour in an arrow key's direction.
  neighbour(key) {
    const node = this.selected;
    const shown = (one) => this.boxes.has(one);
    const byFigure = (a, b) => this.figureOf(b) - this.figureOf(a);
    if (key === "ArrowUp") return node.parent;
    const row = (parent) => parent.children.filter(shown).sort(byFigure);
    if (key === "ArrowDown") return row(node)[0];
    if (!node.parent) return undefined;
    const siblings = row(node.parent);
    return siblings[siblings.indexOf(node) + (key === "ArrowRight" ? 1 : -1)];
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      const next = this.neighbour(event.key);
      event.preventDefault();
      if (next) this.show({ selected: next });
    } else if (event.key === "Enter") {
      this.show({ zoomed: this.selected });
    } else if (event.key === "Escape") {
      const out = this.zoomed.parent ?? this.root;
      this.show({ zoomed: out, selected: out });
    } else if (event.key === "Home") {
      event.preventDefault();
      this.show({ zoomed: this.root, selected: this.root });
    }
  }
}

function flameGraph(figure, trace) {
  const graph = new FlameGraph(figure, trace.flame);
  return () => graph.draw();
}
