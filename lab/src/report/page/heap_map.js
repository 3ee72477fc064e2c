// Heaps over time: address × time, coloured by age or size.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
// The least distance between two lines, in pixels.
const GAPS_APART = 6;
const VALUES = new Map([...DIGITS].map((digit, value) => [digit, value]));

// Decoders of a cell's values.
const ages = (trace) => (digit) => (digit / 63) ** 2 * trace.operations;
const sizes = (digit) => 2 ** (digit / 2);

const colour = (name) => {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
};

const mix = (a, b, share) => a.map((value, index) => value + (b[index] - value) * share);

// The colour at a position from 0 to 1 on the ramp.
function along(ramp, place) {
  const scaled = Math.min(Math.max(place, 0), 1) * (ramp.length - 1);
  const step = Math.min(Math.floor(scaled), ramp.length - 2);
  return mix(ramp[step], ramp[step + 1], scaled - step);
}

// The least and the greatest digit among cells with blocks.
function range(maps, layer) {
  let [least, greatest] = [63, 0];
  for (const map of maps) {
    for (let cell = 0; cell < map.fill.length; cell += 1) {
      if (VALUES.get(map.fill[cell]) < 2) continue;
      const value = VALUES.get(map[layer][cell]);
      least = Math.min(least, value);
      greatest = Math.max(greatest, value);
    }
  }
  return least <= greatest ? [least, greatest] : [0, 63];
}

// A picture with one pixel per cell, as a data URL.
function paint(map, layer, [least, greatest]) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(map.columns, 1);
  canvas.height = Math.max(map.rows, 1);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const ramp = [0, 1, 2, 3, 4].map((step) => colour(`--ramp${step}`));
  const empty = colour("--empty");
  for (let column = 0; column < map.columns; column += 1) {
    for (let row = 0; row < map.rows; row += 1) {
      const cell = column * map.rows + row;
      const fill = VALUES.get(map.fill[cell]);
      if (fill === 0) continue;
      const place = (VALUES.get(map[layer][cell]) - least) / Math.max(greatest - least, 1);
      const full = fill === 1 ? empty : mix(empty, along(ramp, place), 0.3 + (0.7 * (fill - 1)) / 62);
      image.data.set([...full, 255], ((map.rows - 1 - row) * map.columns + column) * 4);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

function heapMaps(figure, trace) {
  const drawn = trace.strategies.filter((one) => one.map?.rows);
  const maps = drawn.map((one) => one.map);
  const extents = maps.map((map) => map.rows * map.granule);
  // One common scale, unless it would make some maps too low.
  const common = Math.max(...extents) <= 6 * Math.min(...extents) ? Math.max(...extents) : 0;
  let layer = "age";
  const plot = figure.querySelector(".plot");
  const panels = drawn.map((one) => {
    const panel = html("div", "panel");
    const area = html("div", "plot");
    panel.append(html("h4", "", one.name), area);
    plot.append(panel);
    return area;
  });
  const age = ages(trace);
  const key = figure.querySelector(".key");
  const draw = () => {
    const span = range(maps, layer);
    const write = (digit) => (layer === "age" ? counted(age(digit), "operation") : bytesTick(sizes(digit)));
    key.querySelector(".least").textContent = write(span[0]);
    key.querySelector(".most").textContent = write(span[1]);
    drawn.forEach((one, index) => {
      const { map } = one;
      const extent = map.rows * map.granule;
      const y = bytesAxis("address (from the lowest block)", common || extent);
      const frame = new Frame(panels[index], heightOf(panels[index], 0.6), { ...timeAxis(trace), title: "time (operations)" }, y, `Heap of ${one.name} over time`);
      const [top, bottom] = [frame.y(extent), frame.y(0)];
      frame.svg.append(svg("image", {
        href: paint(map, layer, span), x: frame.left, width: frame.right - frame.left, y: top, height: bottom - top,
        preserveAspectRatio: "none",
      }));
      // Lines without distance would hide the rows between them.
      let below = Infinity;
      for (const gap of map.gaps) {
        const at = frame.y(gap * map.granule);
        if (below - at < GAPS_APART) continue;
        below = at;
        frame.svg.append(svg("line", { class: "gap", x1: frame.left, x2: frame.right, y1: at, y2: at }));
      }
      frame.hover((px, py) => {
        const column = Math.min(Math.floor(((px - frame.left) / (frame.right - frame.left)) * map.columns), map.columns - 1);
        const row = Math.floor(((bottom - py) / Math.max(bottom - top, 1)) * map.rows);
        if (row < 0 || row >= map.rows) return null;
        const cell = column * map.rows + row;
        const fill = VALUES.get(map.fill[cell]);
        const state = ["not used yet", "empty, was in use"][fill] ?? `${Math.round(((fill - 1) / 62) * 100)} % in use`;
        const rows = [["", "state", state]];
        if (fill > 1) {
          rows.push(["", "mean age", counted(age(VALUES.get(map.age[cell])), "operation")]);
          rows.push(["", "mean block", bytes(sizes(VALUES.get(map.size[cell])))]);
        }
        return {
          at: [px, py],
          title: `${bytes(row * map.granule)} to ${bytes((row + 1) * map.granule)}`,
          rows,
          dots: [["system", px, py]],
        };
      });
    });
  };
  for (const input of figure.querySelectorAll("input")) {
    input.addEventListener("change", () => {
      layer = input.value;
      draw();
    });
  }
  return draw;
}
