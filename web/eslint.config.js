import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import typescript from "typescript-eslint";

// Names, credits and licences are other people's texts: a page shows them as text only.
const MARKUP = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe", "srcdoc"];

export default defineConfig(
  { ignores: ["**/dist/"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [typescript.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      complexity: ["error", 12],
      "no-console": "error",
      "no-restricted-properties": ["error", ...MARKUP.map((property) => ({ property }))],
      // Numbers in sentences are numbers to the reader, too.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // An abort rejects with the signal's reason, whatever that is.
      "@typescript-eslint/prefer-promise-reject-errors": [
        "error",
        { allowThrowingAny: true, allowThrowingUnknown: true },
      ],
      // A function that returns nothing may be written in one line.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
    },
  },
  // Fakes promise what the real ones promise, and have nothing to wait for.
  { files: ["*/tests/**"], rules: { "@typescript-eslint/require-await": "off" } },
  // The README's example shows what matters, and leaves what fails to the browser's console.
  {
    files: ["example/*.ts"],
    rules: {
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: false }],
      "@typescript-eslint/no-non-null-assertion": "off",
    },
  },
  {
    files: ["page/tools/*.js"],
    languageOptions: { globals: { console: "readonly", Promise: "readonly", URL: "readonly" } },
  },
);
