// Live bytes over time by allocating function: stacked areas, the largest at the bottom.

// Where a name fits into an area, in pixels: in the middle of its highest part; nowhere if it is
// too low.
function roomFor(frame, name, points) {
  const width = name.length * 6.8 + 8;
  const height = 15;
  let best = null;
  for (let from = 0; from < points.length; from += 1) {
    // The points below the name, from this one on.
    const left = frame.x(points[from].x);
    let [low, high] = [-Infinity, Infinity];
    let to = from;
    for (; to < points.length && frame.x(points[to].x) <= left + width; to += 1) {
      low = Math.max(low, frame.y(points[to].top));
      high = Math.min(high, frame.y(points[to].bottom));
    }
    if (to === points.length && frame.x(points[to - 1].x) < left + width) break;
    if (high - low >= height && (!best || high - low > best.room)) best = { x: left + 4, y: (low + high) / 2 + 4.5, room: high - low };
  }
  return best;
}

function areas(figure, trace) {
  const plot = figure.querySelector(".plot");
  const parts = trace.sites[0]?.live.length ?? 0;
  const at = (part) => ((part + 1) * trace.operations) / parts;
  const series = trace.sites.map(({ name, live }, index) => ({
    name, live, filled: true, style: index === trace.sites.length - 1 ? "requested" : `s${index}`,
  })).filter((one) => one.live.some((value) => value > 0));
  const hidden = new Set();
  const draw = () => {
    const shown = series.filter((one) => !hidden.has(one.name));
    const sums = Array.from({ length: parts }, (_, part) => shown.reduce((sum, one) => sum + one.live[part], 0));
    const y = bytesAxis("live bytes requested", Math.max(...sums, 1) * 1.04);
    const frame = new Frame(plot, heightOf(plot, 0.4), timeAxis(trace), y, "Live bytes over time, by the function that allocated them");
    const bottom = new Array(parts).fill(0);
    for (const one of shown) {
      const points = one.live.map((value, part) => ({ x: at(part), bottom: bottom[part], top: bottom[part] + value }));
      points.forEach((point, part) => { bottom[part] = point.top; });
      const outline = [...points.map((point) => [point.x, point.top]), ...points.slice().reverse().map((point) => [point.x, point.bottom])];
      frame.path(outline, { class: `stacked ${one.style}` });
      const room = roomFor(frame, one.name, points);
      if (room) frame.svg.append(svg("text", { class: "name", x: room.x, y: room.y }, one.name));
    }
    frame.hover((px) => {
      const share = (px - frame.left) / (frame.right - frame.left);
      const part = Math.min(Math.max(Math.ceil(share * parts) - 1, 0), parts - 1);
      const rows = shown.map((one) => [one.style, one.name, bytes(one.live[part])]);
      return { at: [px, 0], title: timeAxis(trace).told(share * trace.operations), rows: rows.reverse() };
    });
  };
  legend(figure, series, hidden, draw);
  return draw;
}
