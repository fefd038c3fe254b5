/** Composition root of the page of own characters. */
import "@fontsource-variable/bricolage-grotesque/wght.css";
import "../style.css";
import "./own.css";
import { OwnCharacters } from "@voice-avatar/client/own-characters";
import { Account } from "../account.js";
import { part } from "../elements.js";
import { initialLanguage, remember } from "../language.js";
import { siteConfig } from "../site.js";
import { OwnPage } from "./ownPage.js";

async function main(): Promise<void> {
  let language = initialLanguage();
  const config = await siteConfig();
  const account = new Account(config);
  const identity = account.ways === null ? {} : account.identity();
  const page = new OwnPage(new OwnCharacters({ ...config, ...identity }), account, language);
  part("#language", HTMLButtonElement).addEventListener("click", () => {
    language = language === "ja" ? "en" : "ja";
    remember(language);
    page.speak(language);
  });
  if (config.ownCharacters) await page.open();
  else page.close();
}

void main();
