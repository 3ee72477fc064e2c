// Numbers as the command line writes them.

const thousands = (count) => Math.round(count).toLocaleString("en-US");

const percent = (share) => `${(share * 100).toFixed(1)} %`;

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(count)} B` : `${count.toFixed(1)} ${units[unit]}`;
}

// On an axis: without the decimal that says nothing.
const bytesTick = (count) => bytes(count).replace(".0 ", " ");
const percentTick = (share) => `${Math.round(share * 100)} %`;

// Numbers from 0 to `most` for the ticks of an axis: round ones, about so many.
function roundTicks(most, about, steps) {
  const rough = most / about;
  let step = steps.find((candidate) => candidate >= rough);
  step ??= steps[steps.length - 1] * Math.ceil(rough / steps[steps.length - 1]);
  const ticks = [];
  for (let tick = 0; tick <= most * 1.0001; tick += step) ticks.push(tick);
  return ticks;
}

const DECIMAL_STEPS = Array.from({ length: 60 }, (_, index) => [1, 2, 5][index % 3] * 10 ** (Math.floor(index / 3) - 3));
const BINARY_STEPS = Array.from({ length: 50 }, (_, index) => 2 ** index);

// Round numbers from `least` to `most` on a logarithmic axis: powers of ten, and between them 2 and
// 5 times those as long as they are not many more than asked for.
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
