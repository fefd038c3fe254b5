/** The language that the visitor has chosen, or that the browser prefers. */
import { type Language, preferredLanguage, type Words } from "./words.js";

const CHOSEN_LANGUAGE = "voice-avatar-language";

export function initialLanguage(): Language {
  try {
    const chosen = localStorage.getItem(CHOSEN_LANGUAGE);
    if (chosen === "en" || chosen === "ja") return chosen;
  } catch {
    // Storage can be switched off; then the browser's languages decide at every visit.
  }
  return preferredLanguage(navigator.languages);
}

export function remember(language: Language): void {
  try {
    localStorage.setItem(CHOSEN_LANGUAGE, language);
  } catch {
    // Storage is switched off: the choice lasts until the page is closed.
  }
}

/** Lists languages such as `en` and `ja` by their names in the page's language. */
export function listLanguages(
  codes: readonly string[],
  { language }: Words,
  type: "conjunction" | "disjunction",
): string {
  const names = new Intl.DisplayNames(language, { type: "language" });
  return new Intl.ListFormat(language, { type }).format(
    codes.map((code) => names.of(code) ?? code),
  );
}
