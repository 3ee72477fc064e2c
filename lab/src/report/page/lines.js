// Curves: bytes and fragmentation over time, page faults over memory.

// A strategy's style in every chart: its colour, and its dashes for people who cannot tell colours.
// When the colours are used up, they begin again with other dashes.
const style = (name, index) =>
  name === "SYSTEM" ? "system" : `s${index % 8} ${["", "again", "anew"][Math.min(index >> 3, 2)]}`.trim();

// A legend whose names can be clicked to hide a curve; then calls `redraw`.
function legend(figure, series, hidden, redraw) {
  if (figure.querySelector(".legend") || series.length < 2) return;
  const list = html("div", "legend");
  for (const one of series) {
    const button = html("button", "", one.name);
    const sample = svg("svg", { viewBox: "0 0 26 8", class: "sample" });
    sample.append(one.filled
      ? svg("rect", { width: 26, height: 8, rx: 2, class: `stacked ${one.style}` })
      : svg("path", { d: "M0 4H26", class: `line ${one.style}` }));
    button.prepend(sample);
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const shown = hidden.has(one.name);
      if (shown) hidden.delete(one.name);
      else hidden.add(one.name);
      button.setAttribute("aria-pressed", String(shown));
      redraw();
    });
    list.append(button);
  }
  figure.querySelector(".plot").before(list);
}

// The last point of a curve at or before x; curves ascend in x.
function before(points, x) {
  let [low, high] = [0, points.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (points[middle][0] <= x) low = middle;
    else high = middle - 1;
  }
  return points[low];
}

// series: [{ name, style, points, area }]; axes: () => [x, y] for the visible series.
function lines(figure, series, axes, describe) {
  const plot = figure.querySelector(".plot");
  const hidden = new Set();
  const draw = () => {
    const shown = series.filter((one) => !hidden.has(one.name));
    const [x, y] = axes(shown.length ? shown : series);
    const frame = new Frame(plot, heightOf(plot, 0.34), x, y, describe);
    for (const one of shown) {
      if (!one.area || !one.points.length) continue;
      const ends = [[one.points.at(-1)[0], y.from], [one.points[0][0], y.from]];
      frame.path([...one.points, ...ends], { class: `area ${one.style}` });
    }
    for (const one of shown) frame.line(one.points, one.style);
    frame.hover((px) => {
      const share = (px - frame.left) / (frame.right - frame.left);
      const at = x.log ? x.from * (x.to / x.from) ** share : x.from + share * (x.to - x.from);
      const points = shown.filter((one) => one.points.length).map((one) => [one, before(one.points, at)]);
      if (!points.length) return null;
      return {
        at: [px, 0],
        title: x.told(at),
        rows: points.map(([one, point]) => [one.style, one.name, y.value(point[1])]),
        dots: points.map(([one, point]) => [one.style, frame.x(point[0]), frame.y(point[1])]),
      };
    });
  };
  legend(figure, series, hidden, draw);
  return draw;
}

// The values of equal parts of a run, as points.
const over = (trace, values) => values.map((value, index) => [((index + 1) * trace.operations) / values.length, value]);

// The position of a value among ascending values, as a number of steps from the first; among equal
// ones, the first.
function between(values, value) {
  const after = values.findIndex((one) => one >= value);
  if (after <= 0) return after < 0 ? values.length - 1 : 0;
  return after - 1 + (value - values[after - 1]) / (values[after] - values[after - 1]);
}

// Time in operations, and below it by the clock, if the trace has times.
function timeAxis(trace) {
  const parts = trace.clock.length - 1;
  const hasClock = parts > 0 && trace.clock[parts] > trace.clock[0];
  const seconds = (operation) => {
    const place = Math.min(Math.max((operation / trace.operations) * parts, 0), parts);
    const before = Math.min(Math.floor(place), parts - 1);
    return trace.clock[before] + (place - before) * (trace.clock[before + 1] - trace.clock[before]);
  };
  const [first, last] = [trace.clock[0], trace.clock[parts]];
  const clock = (about) => roundTicks(last, about, CLOCK_STEPS).filter((tick) => tick >= first)
    .map((tick) => [(between(trace.clock, tick) * trace.operations) / parts, durationTick(tick)]);
  return {
    ...countAxis(`time (operations${hasClock ? "; by the clock" : ": allocations, reallocations, frees"})`, trace.operations),
    told: (operation) => `${counted(operation, "operation")}${hasClock ? `, ${duration(seconds(operation))}` : ""}`,
    clock: hasClock ? clock : null,
  };
}

const most = (series) => Math.max(...series.flatMap((one) => one.points.map((point) => point[1])), 0);

const curves = {
  live: (figure, trace) => lines(
    figure,
    [{ name: "requested", style: "s0", points: over(trace, trace.requested), area: true }],
    (shown) => [timeAxis(trace), bytesAxis("live bytes requested", most(shown) * 1.04)],
    `Live bytes over time, at most ${bytes(Math.max(...trace.requested, 0))}`,
  ),

  held: (figure, trace) => lines(
    figure,
    [
      { name: "requested", style: "requested", points: over(trace, trace.requested), area: true },
      ...trace.strategies.map((one, index) => ({ ...one, style: style(one.name, index) }))
        .filter((one) => one.held)
        .map((one) => ({ name: one.name, style: one.style, points: over(trace, one.held) })),
    ],
    (shown) => [timeAxis(trace), bytesAxis("bytes held", most(shown) * 1.04)],
    "Bytes each strategy holds over time",
  ),

  fragmentation: (figure, trace) => lines(
    figure,
    trace.strategies.map((one, index) => ({ ...one, style: style(one.name, index) }))
      .filter((one) => one.held)
      .map((one) => ({
        name: one.name,
        style: one.style,
        points: over(trace, one.held.map((held, part) => Math.max(0, 1 - trace.requested[part] / held))),
      })),
    () => [timeAxis(trace), shareAxis("fragmentation: 1 − requested ÷ held", 1)],
    "Fragmentation over time",
  ),

  faults: (figure, trace) => lines(
    figure,
    trace.strategies.map((one, index) => ({ name: one.name, style: style(one.name, index), points: one.curve }))
      .filter((one) => one.points.length),
    (shown) => {
      const points = shown.flatMap((one) => one.points);
      const faults = points.length ? points.map((point) => point[1]) : [1];
      const pages = Math.max(...points.map((point) => point[0]), 2);
      return [
        { ...logAxis(`memory (pages of ${bytesTick(trace.page)})`, 1, pages), told: (at) => `${thousands(at)} pages of memory` },
        logAxis("page faults (LRU)", Math.max(1, Math.min(...faults)), Math.max(...faults)),
      ];
    },
    "Page faults under strict LRU, by size of memory",
  ),
};
