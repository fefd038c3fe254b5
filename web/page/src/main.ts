/** Composition root of the page. */
import "@fontsource-variable/bricolage-grotesque/wght.css";
import "./style.css";
import { VoiceAvatar } from "@voice-avatar/client";
import { Account } from "./account.js";
import { part } from "./elements.js";
import { acceptFiles } from "./files.js";
import { initialLanguage, remember } from "./language.js";
import { keyOfKept } from "./own/keeping.js";
import { Page } from "./page.js";
import { keepShell } from "./shell.js";
import { siteConfig } from "./site.js";
import { Verifying } from "./verifying.js";

async function main(): Promise<void> {
  let language = initialLanguage();
  const config = await siteConfig();
  const account = new Account(config);
  // Most visitors have never signed in, and load nothing for it.
  const identity = account.isUsed ? account.identity() : {};
  const avatar = new VoiceAvatar({ ...config, ...identity, ownCharacterKey: keyOfKept });
  const page = new Page(avatar, language, {
    canHear: Boolean(config.live),
    operator: config.operator ?? {},
  });
  part("#own-voice", HTMLElement).hidden = !config.ownCharacters;
  const verifying = new Verifying(avatar, language);
  part("#language", HTMLButtonElement).addEventListener("click", () => {
    language = language === "ja" ? "en" : "ja";
    remember(language);
    page.speak(language);
    verifying.speak(language);
  });
  acceptFiles(part("#file", HTMLInputElement), ([file]) => void page.takeFile(file));
  await page.open();
  await keepShell();
}

void main();
