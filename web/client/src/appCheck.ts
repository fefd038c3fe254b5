/** Firebase App Check, in a module of its own so that its SDK is loaded only when it is needed. */
import { initializeApp } from "firebase/app";
import { getToken, initializeAppCheck, ReCaptchaEnterpriseProvider } from "firebase/app-check";
import type { FirebaseConfig } from "./types.js";

/** Returns a function that returns a valid token; the SDK renews it when it expires. */
export function createAppCheck(
  firebase: FirebaseConfig,
  { appId, siteKey }: { readonly appId: string; readonly siteKey: string },
): () => Promise<string> {
  const app = initializeApp({ ...firebase, appId }, `voice-avatar-${crypto.randomUUID()}`);
  const appCheck = initializeAppCheck(app, {
    provider: new ReCaptchaEnterpriseProvider(siteKey),
    isTokenAutoRefreshEnabled: true,
  });
  return async () => (await getToken(appCheck)).token;
}
