/** Composition root of the page. */
import "@fontsource-variable/bricolage-grotesque/wght.css";
import "./style.css";
import { VoiceAvatar, type VoiceAvatarConfig } from "@voice-avatar/client";
import { part } from "./elements.js";
import { acceptFiles } from "./files.js";
import { Page } from "./page.js";
import { keepShell } from "./shell.js";
import { Verifying } from "./verifying.js";
import { type Language, preferredLanguage } from "./words.js";

/** `live`: the address of the service that takes recordings while they are spoken, if there is one. */
type SiteConfig = VoiceAvatarConfig & { readonly live?: string | null };

const CHOSEN_LANGUAGE = "voice-avatar-language";

/** How long the settings may take; without them the api is at the page's own origin. */
const CONFIG_MILLISECONDS = 20_000;

async function main(): Promise<void> {
  let language = initialLanguage();
  const config = await siteConfig();
  const avatar = new VoiceAvatar(config);
  const page = new Page(avatar, language, { canHear: Boolean(config.live) });
  const verifying = new Verifying(avatar, language);
  part("#language", HTMLButtonElement).addEventListener("click", () => {
    language = language === "ja" ? "en" : "ja";
    remember(language);
    page.speak(language);
    verifying.speak(language);
  });
  acceptFiles((file) => void page.takeFile(file));
  await page.open();
  await keepShell();
}

/** Reads `config.json` beside the page; without an `api` in it, the api is the page's own origin. */
async function siteConfig(): Promise<SiteConfig> {
  const response = await fetch("./config.json", {
    cache: "no-cache",
    signal: AbortSignal.timeout(CONFIG_MILLISECONDS),
  }).catch(() => null);
  // Some hosts answer with the page itself instead of 404.
  const answer: unknown = response?.ok ? await response.json().catch(() => null) : null;
  const config = (answer ?? {}) as Partial<SiteConfig>;
  return { ...config, api: new URL(config.api || ".", location.href).href };
}

function initialLanguage(): Language {
  try {
    const chosen = localStorage.getItem(CHOSEN_LANGUAGE);
    if (chosen === "en" || chosen === "ja") return chosen;
  } catch {
    // Storage can be switched off; then the browser's languages decide at every visit.
  }
  return preferredLanguage(navigator.languages);
}

function remember(language: Language): void {
  try {
    localStorage.setItem(CHOSEN_LANGUAGE, language);
  } catch {
    // Storage is switched off: the choice lasts until the page is closed.
  }
}

void main();
