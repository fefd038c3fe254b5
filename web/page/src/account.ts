/** Who the visitor is, on sites where visitors can sign in. */
import type { VoiceAvatarConfig } from "@voice-avatar/client";
import type { SignIn } from "@voice-avatar/client/sign-in";
import type { SignInWays, SiteConfig } from "./site.js";

const PLACE = "voice-avatar-signed-in";

export class Account {
  readonly #config: SiteConfig;
  #loading: Promise<SignIn> | null = null;

  constructor(config: SiteConfig) {
    this.#config = config;
  }

  /** How visitors can sign in; null where they cannot. */
  get ways(): SignInWays | null {
    const { signIn, firebase } = this.#config;
    return signIn && firebase && (signIn.email || signIn.anonymous) ? signIn : null;
  }

  /** Loads Firebase Authentication, and what this browser remembers of its visitor. */
  async open(): Promise<SignIn> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = null;
      throw error;
    });
    return await this.#loading;
  }

  /** Whether somebody has signed in with this browser. */
  get isUsed(): boolean {
    return this.ways !== null && isRemembered();
  }

  /** What lets a client speak as the visitor; nothing is loaded before it speaks. */
  identity(): Pick<VoiceAvatarConfig, "token" | "listen"> {
    return {
      token: async () => (await this.open()).token(),
      listen: (path, onDocument, onError) => {
        let [isEnded, stop] = [false, (): void => undefined];
        this.open().then(({ listen }) => {
          if (!isEnded) stop = listen(path, onDocument, onError);
        }, onError);
        return () => {
          isEnded = true;
          stop();
        };
      },
    };
  }

  async #load(): Promise<SignIn> {
    const { firebase, firestoreEmulator, authEmulator } = this.#config;
    if (!firebase) throw new TypeError("signIn needs firebase: the project of the accounts.");
    const { SignIn } = await import("@voice-avatar/client/sign-in");
    const emulators = { auth: authEmulator ?? null, firestore: firestoreEmulator ?? null };
    return await SignIn.open(firebase, emulators);
  }
}

/** Remembers that somebody has signed in with this browser, or not any more. */
export function rememberSignedIn(isSignedIn: boolean): void {
  try {
    if (isSignedIn) localStorage.setItem(PLACE, "yes");
    else localStorage.removeItem(PLACE);
  } catch {
    // Storage is switched off: the first page then knows its visitor not.
  }
}

function isRemembered(): boolean {
  try {
    return localStorage.getItem(PLACE) !== null;
  } catch {
    return false;
  }
}
