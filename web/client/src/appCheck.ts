/** Firebase App Check, in a module of its own so that its SDK is loaded only when it is needed. */
import {
  type AppCheck,
  getToken,
  initializeAppCheck,
  ReCaptchaEnterpriseProvider,
} from "firebase/app-check";
import { firebaseApp } from "./firebaseApp.js";
import type { FirebaseConfig, RecaptchaConfig } from "./types.js";

/**
 * Puts the page's application under App Check. The SDK keeps the token for the next page loads, and gets
 * another one only when one is needed and the old one has expired: each costs an assessment.
 */
export function openAppCheck(
  firebase: FirebaseConfig,
  { appId, siteKey }: RecaptchaConfig,
): AppCheck {
  return initializeAppCheck(firebaseApp({ ...firebase, appId }), {
    provider: new ReCaptchaEnterpriseProvider(siteKey),
    isTokenAutoRefreshEnabled: false,
  });
}

/** Returns a function that returns a valid token. */
export function createAppCheck(
  firebase: FirebaseConfig,
  config: RecaptchaConfig,
): () => Promise<string> {
  const appCheck = openAppCheck(firebase, config);
  return async () => (await getToken(appCheck)).token;
}
