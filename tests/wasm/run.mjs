// Runs the wasm32-unknown-unknown program in node: `node run.mjs PROGRAM SEEDS`. Prints its results
// for seeds from 1 on, one per line; then checks its allocator, and exits with the number of the
// failed step.
import { readFile } from "node:fs/promises";
import { argv, exit } from "node:process";

const { instance } = await WebAssembly.instantiate(await readFile(argv[2]), {});
const { run, check, memory } = instance.exports;
for (let seed = 1; seed <= Number(argv[3]); seed++) {
  console.log(run(seed) >>> 0);
}
const step = check();
console.error(`${memory.buffer.byteLength / 2 ** 20} MiB of memory; step that went wrong: ${step}`);
exit(step);
