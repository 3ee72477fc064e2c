// Draws every figure of the page, and redraws it when its width or the colours change.

const all = JSON.parse(document.getElementById("data").textContent);

const kinds = {
  ...curves,
  ...clouds,
  sizes: (figure, trace) => bars(figure, trace.sizes, bytesTick, "requested size, up to", "requests"),
  lifetimes: (figure, trace) => bars(figure, trace.lifetimes, thousands, "lifetime (events), up to", "blocks freed"),
  maps: heapMaps,
  flame: flameGraph,
  areas,
};

const draws = [];
for (const figure of document.querySelectorAll("figure[data-kind]")) {
  const draw = kinds[figure.dataset.kind](figure, all.traces[figure.dataset.trace], all);
  draws.push(draw);
  draw();
  let width = figure.clientWidth;
  new ResizeObserver(() => {
    if (figure.clientWidth === width || document.documentElement.dataset.print) return;
    width = figure.clientWidth;
    requestAnimationFrame(draw);
  }).observe(figure);
}

const redraw = () => draws.forEach((draw) => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// In print everything is light, and as wide as the paper.
addEventListener("beforeprint", () => {
  document.documentElement.dataset.print = "1";
  redraw();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.print;
  redraw();
});
document.documentElement.dataset.drawn = "1";
