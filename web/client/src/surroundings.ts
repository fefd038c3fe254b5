/** What the client uses from outside; tests pass stand-ins. */
import type { FirebaseConfig, Listen, RecaptchaConfig } from "./types.js";
import { put } from "./upload.js";
import { pause } from "./waiting.js";

export interface Surroundings {
  readonly fetch: typeof fetch;
  /** The origin of the page, null outside of one. */
  readonly origin: string | null;
  /** Resolves to the Firestore listener; called only when a Firebase project is configured. */
  readonly loadListen: (
    firebase: FirebaseConfig,
    emulator: string | null,
    appCheck: RecaptchaConfig | null,
  ) => Promise<Listen>;
  /** Resolves to what gets App Check's tokens; called before the first request that needs one. */
  readonly loadAppCheck: (
    firebase: FirebaseConfig,
    appCheck: RecaptchaConfig,
  ) => Promise<() => Promise<string>>;
  /** Uploads a recording to its signed address. */
  readonly put: typeof put;
  /** Opens a WebSocket; may throw where the page's policy forbids the address. */
  readonly openSocket: (url: string, protocol: string) => WebSocket;
  /** Resolves after that many seconds; rejects with the signal's reason. */
  readonly pause: (seconds: number, signal: AbortSignal) => Promise<void>;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
}

export const BROWSER: Surroundings = {
  fetch: (input, init) => fetch(input, init),
  origin: "location" in globalThis ? location.origin : null,
  loadListen: async (firebase, emulator, appCheck) =>
    (await import("./firestoreListener.js")).createListen(firebase, emulator, appCheck),
  loadAppCheck: async (firebase, appCheck) =>
    (await import("./appCheck.js")).createAppCheck(firebase, appCheck),
  put,
  openSocket: (url, protocol) => new WebSocket(url, protocol),
  pause,
  random: () => Math.random(),
};
