import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { contentSecurityPolicy, type SiteConfig } from "./tools/contentSecurityPolicy.js";

/**
 * With PAGE_CONFIG (the JSON of config.json) the build is for that site: the file is written beside
 * the page, and the policy names just its origins. Without it the build is the local cloud's, where
 * the api function answers /config.json and every service has its own port on this machine.
 */
function site(): Plugin {
  const text = process.env["PAGE_CONFIG"] ?? "";
  const config = text === "" ? null : (JSON.parse(text) as SiteConfig);
  return {
    name: "voice-avatar-site",
    apply: "build",
    transformIndexHtml() {
      const content = contentSecurityPolicy(config);
      const policy = { "http-equiv": "Content-Security-Policy", content };
      return [{ tag: "meta", attrs: policy, injectTo: "head-prepend" }];
    },
    generateBundle() {
      if (config === null) return;
      this.emitFile({ type: "asset", fileName: "config.json", source: `${text}\n` });
    },
  };
}

/** Writes the service worker, which names the files that the page needs to open. */
function shell(): Plugin {
  return {
    name: "voice-avatar-shell",
    apply: "build",
    generateBundle(_options, bundle) {
      const chunks = Object.values(bundle).filter((each) => each.type === "chunk");
      const entry = chunks.find(({ name, isEntry }) => isEntry && name === "index");
      const names = new Set([entry?.fileName, ...(entry?.imports ?? [])]);
      const loaded = chunks.filter(({ fileName }) => names.has(fileName));
      const styles = loaded.flatMap((each) => [...(each.viteMetadata?.importedCss ?? [])]);
      const others = /^assets\/(hearingWorklet-.*\.js|.*-latin-wght-.*\.woff2)$/;
      const files = [
        ...loaded.map(({ fileName }) => fileName),
        ...styles,
        ...Object.keys(bundle).filter((name) => others.test(name)),
      ];
      const all = ["./", "config.json", "favicon.svg", "manifest.webmanifest", ...files];
      const source = readFileSync(new URL("tools/shell.js", import.meta.url), "utf8");
      const named = source.replace(
        "/* global SHELL, ",
        `const SHELL = ${JSON.stringify(all)};\n/* global `,
      );
      this.emitFile({ type: "asset", fileName: "shell.js", source: named });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [site(), shell()],
  build: {
    assetsInlineLimit: 0,
    manifest: true,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: Object.fromEntries(
        ["index", "own"].map((name) => [
          name,
          fileURLToPath(new URL(`${name}.html`, import.meta.url)),
        ]),
      ),
    },
    target: ["chrome111", "firefox128", "safari16.4"],
  },
});
