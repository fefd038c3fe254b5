/** Fails if what a visitor loads first is too large, or contains the Firestore SDK. */
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET_BYTES = 40_000;
/** Everything that the browser loads to show the page: HTML, style, script and the typeface. */
const FIRST_LOAD_BYTES = 120_000;
const dist = new URL("../dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));

/** The chunk and everything that it imports statically; dynamic imports do not count. */
function chunks(name, seen = new Set()) {
  if (seen.has(name)) return seen;
  seen.add(name);
  for (const other of manifest[name].imports ?? []) chunks(other, seen);
  return seen;
}

const loaded = [...chunks("index.html")];
const own = loaded.map((name) => manifest[name].file);
const compressed = (file) => gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length;
const latin = readdirSync(new URL("assets/", dist)).filter((name) => name.includes("-latin-wght-"));
const typefaces = latin.map((name) => readFileSync(new URL(`assets/${name}`, dist)).length);
const sum = (sizes) => sizes.reduce((all, size) => all + size, 0);
const total = sum(own.map(compressed));
const shown = ["index.html", ...loaded.flatMap((name) => manifest[name].css ?? [])];
const first = total + sum(shown.map(compressed)) + sum(typefaces);
const later = Object.entries(manifest).find(([name]) =>
  name.endsWith("/firestoreListener.js"),
)?.[1];

console.log(`The page's own JavaScript: ${total} bytes compressed, in ${own.length} file(s).`);
console.log(`What is loaded first: ${first} bytes.`);
if (first >= FIRST_LOAD_BYTES) throw new Error(`Over the budget of ${FIRST_LOAD_BYTES} bytes.`);
if (total >= BUDGET_BYTES) throw new Error(`Over the budget of ${BUDGET_BYTES} bytes.`);
if (!later?.isDynamicEntry || own.includes(later.file)) {
  throw new Error("The Firestore SDK is not apart: it must be imported dynamically only.");
}
