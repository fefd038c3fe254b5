/** Fails if the page's own compressed JavaScript is too large or contains the Firestore SDK. */
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET_BYTES = 40_000;
const dist = new URL("../dist/", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", dist), "utf8"));

/** The chunk and everything that it imports statically; dynamic imports do not count. */
function chunks(name, seen = new Set()) {
  if (seen.has(name)) return seen;
  seen.add(name);
  for (const other of manifest[name].imports ?? []) chunks(other, seen);
  return seen;
}

const own = [...chunks("index.html")].map((name) => manifest[name].file);
const sizes = own.map((file) => gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length);
const total = sizes.reduce((sum, size) => sum + size, 0);
const later = Object.entries(manifest).find(([name]) =>
  name.endsWith("/firestoreListener.js"),
)?.[1];

console.log(`The page's own JavaScript: ${total} bytes compressed, in ${own.length} file(s).`);
if (total >= BUDGET_BYTES) throw new Error(`Over the budget of ${BUDGET_BYTES} bytes.`);
if (!later?.isDynamicEntry || own.includes(later.file)) {
  throw new Error("The Firestore SDK is not apart: it must be imported dynamically only.");
}
