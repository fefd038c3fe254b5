/** Firebase App Check's side of the client, apart from it so that the SDK is loaded only when needed. */
import { initializeApp } from "firebase/app";
import { getToken, initializeAppCheck, ReCaptchaEnterpriseProvider } from "firebase/app-check";
import type { FirebaseConfig } from "./types.js";

/** What the page proves itself with: a token that the SDK keeps fresh. */
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
