import { defineConfig } from "vite";

/** One script for the browser tests; they say where it goes with `--outDir`. */
export default defineConfig({
  publicDir: false,
  build: {
    lib: { entry: "tests/harness.ts", formats: ["iife"], name: "unused", fileName: "harness" },
    minify: false,
  },
});
