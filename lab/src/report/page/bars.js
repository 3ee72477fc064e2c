// Histograms over powers of two, and strategies as points of time and memory.

function bars(figure, bins, format, what, noun) {
  const plot = figure.querySelector(".plot");
  const total = bins.reduce((sum, bin) => sum + bin[1], 0) || 1;
  const label = (end) => (end > 2 ** 63 ? "more" : format(end));
  const x = {
    title: what, from: -0.5, to: bins.length - 0.5, format: (index) => label(bins[index][0]),
    ticks: () => bins.map((_, index) => index),
  };
  return () => {
    const y = shareAxis(`share of ${noun}`, Math.min(1, (Math.max(...bins.map((bin) => bin[1]), 1) / total) * 1.08));
    const frame = new Frame(plot, heightOf(plot, 0.5), x, y, `${what}, as a histogram`);
    const gap = frame.x(1) - frame.x(0);
    bins.forEach(([, count], index) => {
      const top = frame.y(count / total);
      const least = count ? Math.max(frame.bottom - top, 1) : 0;
      frame.svg.append(svg("rect", {
        class: "bar s0", x: frame.x(index) - gap * 0.42, width: gap * 0.84, y: frame.bottom - least, height: least,
      }));
    });
    frame.hover((px) => {
      const index = Math.round(((px - frame.left) / (frame.right - frame.left)) * bins.length - 0.5);
      const bin = bins[Math.min(Math.max(index, 0), bins.length - 1)];
      if (!bin) return null;
      const from = bin[0] > 1 ? `${label(bin[0] / 2)} to ` : "up to ";
      return {
        at: [frame.x(bins.indexOf(bin)), 0],
        title: from + label(bin[0]),
        rows: [["s0", noun, thousands(bin[1])], ["", "share", percent(bin[1] / total)]],
      };
    });
  };
}

// The points that no other dominates, by ascending x.
function front(points) {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  let least = Infinity;
  return sorted.filter((point) => {
    const better = point.y < least;
    if (better) least = point.y;
    return better;
  });
}

// points: [{ name, style, x, y, title, rows, r }]: the last three, for the hover text and the size,
// are optional; a point without a name has no label.
function scatter(figure, points, axes) {
  const plot = figure.querySelector(".plot");
  return () => {
    const [x, y] = axes(points);
    const frame = new Frame(plot, heightOf(plot, 0.36), x, y, "Time and memory of each strategy");
    const best = front(points);
    const steps = best.flatMap((point, index) => {
      const next = best[index + 1];
      return next ? [[point.x, point.y], [next.x, point.y]] : [[point.x, point.y]];
    });
    frame.path(steps, { class: "front" });
    const taken = [];
    const free = (box) => taken.every((other) => box[0] > other[1] || box[1] < other[0] || box[2] > other[3] || box[3] < other[2]);
    for (const point of points) {
      const [cx, cy] = [frame.x(point.x), frame.y(point.y)];
      taken.push([cx - 6, cx + 6, cy - 6, cy + 6]);
    }
    for (const point of points) {
      const [cx, cy] = [frame.x(point.x), frame.y(point.y)];
      frame.svg.append(svg("circle", { class: `point ${point.style}`, cx, cy, r: point.r ?? 5.5 }));
    }
    // Names of the fastest and the leanest first, then of the others that no other beats.
    for (const point of new Set([best[0], best.at(-1), ...best, ...points])) {
      if (!point?.name) continue;
      const [cx, cy] = [frame.x(point.x), frame.y(point.y)];
      const label = svg("text", { class: "name" }, point.name);
      frame.svg.append(label);
      const width = label.getComputedTextLength() + 2;
      // Positions beside, above and below the point, diagonal, and farther off; a label without a
      // position is shown only on hover.
      const [left, middle] = [-9 - width, -width / 2];
      const places = [
        [9, 4], [left, 4], [middle, -10], [middle, 19], [8, -8], [8, 17], [left, -8], [left, 17], [middle, -24], [middle, 33],
      ];
      const boxes = places.map(([dx, dy]) => [cx + dx, cx + dx + width, cy + dy - 10, cy + dy + 2]);
      const inside = (box) => box[0] > 0 && box[1] < frame.width && box[2] > 14 && box[3] < frame.bottom;
      const index = boxes.findIndex((box) => inside(box) && free(box));
      if (index < 0) {
        label.remove();
        continue;
      }
      taken.push(boxes[index]);
      label.setAttribute("x", boxes[index][0]);
      label.setAttribute("y", cy + places[index][1]);
    }
    frame.hover((px, py) => {
      const distance = (point) => Math.hypot(frame.x(point.x) - px, frame.y(point.y) - py);
      const near = points.reduce((a, b) => (distance(a) <= distance(b) ? a : b), points[0]);
      return near && {
        at: [frame.x(near.x), frame.y(near.y)],
        title: near.title ?? near.name,
        rows: [["", x.name, x.value(near.x)], ["", y.name, y.value(near.y)], ...(near.rows ?? [])],
        dots: [[near.style, frame.x(near.x), frame.y(near.y)]],
      };
    });
  };
}

// The axis begins at 0, so that lengths can be compared.
const from0 = (axis, name) => ({ ...axis, name });
const greatest = (points, key) => Math.max(...points.map((point) => point[key]), 0) * 1.1;

const nanoseconds = (value) => `${value.toFixed(1)} ns`;
const ratio = (value) => value.toFixed(2);
const decimalTicks = (to) => (about) => roundTicks(to, about, DECIMAL_STEPS);

const ratioAxis = (points, key, name, than) => {
  const to = greatest(points, key) || 1;
  return { title: `${name} (${than} = 1)`, from: 0, to, format: (value) => String(+value.toPrecision(3)), value: ratio, ticks: decimalTicks(to), name };
};

// The colour of page faults: five steps, from the fewest to the most.
function faultsStyle(points) {
  const faults = points.map((point) => point.faults);
  const [least, most] = [Math.min(...faults), Math.max(...faults)];
  return (point) => `ramp${Math.round((4 * (point.faults - least)) / (most - least || 1))}`;
}

const clouds = {
  trade: (figure, trace) => scatter(
    figure,
    trace.strategies.map((one, index) => ({ name: one.name, style: style(one.name, index), x: one.ns, y: one.resident }))
      .filter((point) => point.x && point.y),
    (points) => {
      const to = greatest(points, "x") || 1;
      const time = { title: "time (ns per pair of allocation and free)", from: 0, to, format: (value) => String(+value.toPrecision(3)), value: nanoseconds, ticks: decimalTicks(to) };
      return [from0(time, "time"), from0(bytesAxis("peak resident bytes", greatest(points, "y")), "peak resident")];
    },
  ),

  means: (figure, _, all) => scatter(
    figure,
    all.means.map((one, index) => ({ name: one.name, style: style(one.name, index), x: one.time, y: one.resident }))
      .filter((point) => point.x && point.y),
    (points) => [
      ratioAxis(points, "x", "time", all.reference), ratioAxis(points, "y", "peak resident", all.reference),
    ],
  ),

  tuned: (figure, _, all) => {
    const { memory, points } = all.tuned[figure.dataset.trace];
    const colour = faultsStyle(points);
    const key = html("div", "key");
    key.append(html("span", "", "page faults: fewest"), html("span", "ramp"), html("span", "", "most"));
    figure.querySelector(".plot").before(key);
    return scatter(
      figure,
      points.map((point) => ({
        name: point.name, style: colour(point), x: point.time, y: point.memory, title: point.candidate,
        rows: [["", "page faults", ratio(point.faults)]], r: point.name === "chosen" ? 8 : 5.5,
      })),
      (shown) => [ratioAxis(shown, "x", "time", "default"), ratioAxis(shown, "y", memory, "default")],
    );
  },
};
