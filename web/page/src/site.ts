/** The settings of the site. */
import type { VoiceAvatarConfig } from "@voice-avatar/client";

export type SiteConfig = VoiceAvatarConfig & {
  /** The address of the service that takes recordings while they are spoken, if there is one. */
  readonly live?: string | null;
  /** Whether visitors may make characters of their own voice. */
  readonly ownCharacters?: boolean;
  /** The operator, as the page names it beside the button that records. */
  readonly operator?: Operator | null;
  /** How visitors can sign in; none can if it is missing. */
  readonly signIn?: SignInWays | null;
  /** Address of Firebase Authentication's emulator. */
  readonly authEmulator?: string | null;
};

/** How visitors can sign in: with e-mail address and password, or without an account. */
export interface SignInWays {
  readonly email: boolean;
  readonly anonymous: boolean;
}

export interface Operator {
  readonly name?: string | null;
  /** An e-mail address, or the address of a page. */
  readonly contact?: string | null;
  /** The address of the privacy policy. */
  readonly privacy?: string | null;
}

/** How long the settings may take; without them the api is at the page's own origin. */
const CONFIG_MILLISECONDS = 20_000;

/** Reads `config.json` beside the page; without an `api` in it, the api is the page's own origin. */
export async function siteConfig(): Promise<SiteConfig> {
  const response = await fetch("./config.json", {
    cache: "no-cache",
    signal: AbortSignal.timeout(CONFIG_MILLISECONDS),
  }).catch(() => null);
  // Some hosts answer with the page itself instead of 404.
  const answer: unknown = response?.ok ? await response.json().catch(() => null) : null;
  const config = (answer ?? {}) as Partial<SiteConfig>;
  return { ...config, api: new URL(config.api || ".", location.href).href };
}
