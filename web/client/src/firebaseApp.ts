/** A page's Firebase application: browsers keep the visitor, and the token of App Check, by its name. */
import { type FirebaseApp, getApps, initializeApp } from "firebase/app";
import type { FirebaseConfig } from "./types.js";

const NAME = "voice-avatar-visitor";

/** Returns the page's application, made at the first call. */
export function firebaseApp(firebase: FirebaseConfig): FirebaseApp {
  return getApps().find(({ name }) => name === NAME) ?? initializeApp({ ...firebase }, NAME);
}
