// Formats numbers as the command line does.

const thousands = (count) => Math.round(count).toLocaleString("en-US");

const counted = (count, noun) => `${thousands(count)} ${noun}${Math.round(count) === 1 ? "" : "s"}`;

const percent = (share) => `${(share * 100).toFixed(1)} %`;

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  // 1,048,575 bytes round to 1.0 MiB, not to 1024.0 KiB.
  while (count >= (unit ? 1023.95 : 1024) && unit + 1 < units.length) {
    count /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(count)} B` : `${count.toFixed(1)} ${units[unit]}`;
}

function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole >= 3600) return `${thousands(Math.floor(whole / 3600))} h ${Math.floor(whole / 60) % 60} min`;
  if (whole >= 60) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (seconds >= 0.9995) return `${seconds.toFixed(1)} s`;
  return `${(seconds * 1e3).toFixed(seconds >= 0.00995 ? 0 : 1)} ms`;
}

// For an axis: without a zero decimal.
const bytesTick = (count) => bytes(count).replace(".0 ", " ");
const durationTick = (seconds) => (seconds === 0 ? "0 s" : duration(seconds).replace(/\.0 | 0 min$| 0 s$/, (zero) => (zero === ".0 " ? " " : "")));
const percentTick = (share) => `${Math.round(share * 100)} %`;

// About `about` round numbers from 0 to `most`, for the ticks of an axis.
function roundTicks(most, about, steps) {
  const rough = most / about;
  let step = steps.find((candidate) => candidate >= rough);
  step ??= steps[steps.length - 1] * Math.ceil(rough / steps[steps.length - 1]);
  const ticks = [];
  for (let tick = 0; tick <= most * 1.0001; tick += step) ticks.push(tick);
  return ticks;
}

const DECIMAL_STEPS = Array.from({ length: 60 }, (_, index) => [1, 2, 5][index % 3] * 10 ** (Math.floor(index / 3) - 3));
const CLOCK_STEPS = [
  ...Array.from({ length: 14 }, (_, index) => [1, 2, 5][index % 3] * 10 ** (Math.floor(index / 3) - 4)).filter((step) => step <= 5),
  10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400,
];
const BINARY_STEPS = Array.from({ length: 50 }, (_, index) => 2 ** index);

// Round numbers from `least` to `most` for a logarithmic axis: powers of ten, and 2 and 5 times
// these unless that makes many more than `about`.
function powerTicks(least, most, about) {
  const decades = Math.log10(most / least);
  const stride = Math.max(1, Math.ceil(decades / about));
  const factors = decades * 3 <= about + 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power += stride) {
    ticks.push(...factors.map((factor) => factor * 10 ** power));
  }
  const within = ticks.filter((tick) => tick >= least * 0.999 && tick <= most * 1.001);
  return within.length > 1 ? within : [Math.ceil(least), Math.floor(most)];
}
