// Runs the program of wasm32-unknown-unknown in node: `node run.mjs PROGRAM SEEDS`. Prints what it answers for seeds
// from 1 on, one a line; then has it check its allocator, and ends with the number of the step that went wrong.
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
