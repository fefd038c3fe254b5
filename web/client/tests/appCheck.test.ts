/** What Firebase App Check costs: an assessment for each token, which the SDK keeps by the app's name. */
import { beforeEach, expect, test, vi } from "vitest";
import type { FirebaseConfig } from "../src/types.js";

interface App {
  readonly name: string;
  readonly options: Partial<FirebaseConfig> & { readonly appId?: string };
}

const sdk = vi.hoisted(() => ({
  apps: [] as App[],
  checked: [] as { app: App; isTokenAutoRefreshEnabled: boolean }[],
  listening: [] as { app: App; database: string }[],
}));

vi.mock("firebase/app", () => ({
  getApps: () => sdk.apps,
  initializeApp: (options: App["options"], name: string) => {
    const app = { name, options };
    sdk.apps.push(app);
    return app;
  },
  deleteApp: () => Promise.resolve(),
}));
vi.mock("firebase/app-check", () => ({
  ReCaptchaEnterpriseProvider: vi.fn(),
  initializeAppCheck: (app: App, options: { isTokenAutoRefreshEnabled: boolean }) => {
    sdk.checked.push({ ...options, app });
    return app;
  },
  getToken: ({ name }: App) => Promise.resolve({ token: `of ${name}` }),
}));
vi.mock("firebase/firestore", () => ({
  doc: () => ({}),
  getFirestore: (app: App, database: string) => sdk.listening.push({ app, database }),
  onSnapshot: () => () => undefined,
}));

const FIREBASE = { projectId: "p", apiKey: "k", databaseId: "voices" };
const APP_CHECK = { appId: "1:2:web:3", siteKey: "site" };

beforeEach(() => {
  for (const list of Object.values(sdk)) list.length = 0;
  vi.resetModules();
});

async function loadPage(): Promise<string> {
  sdk.apps.length = 0;
  vi.resetModules();
  const { createAppCheck } = await import("../src/appCheck.js");
  return await createAppCheck(FIREBASE, APP_CHECK)();
}

test("the token of one page load serves the next one", async () => {
  expect(await loadPage()).toBe(await loadPage());
  expect(sdk.checked.map(({ isTokenAutoRefreshEnabled }) => isTokenAutoRefreshEnabled)).toEqual([
    false,
    false,
  ]);
});

test("Firestore is asked under the same App Check, in the database of the configuration", async () => {
  const { createAppCheck } = await import("../src/appCheck.js");
  const { createListen } = await import("../src/firestoreListener.js");
  await createAppCheck(FIREBASE, APP_CHECK)();

  createListen(FIREBASE, null, APP_CHECK)(
    "voices/v",
    () => undefined,
    () => undefined,
  );

  expect(sdk.listening).toEqual([{ app: sdk.checked[0]?.app, database: "voices" }]);
  expect(sdk.apps).toHaveLength(1);
});

test("without App Check the listener has an application of its own, without an app's id", async () => {
  const { createListen } = await import("../src/firestoreListener.js");

  createListen(FIREBASE, null, null)(
    "voices/v",
    () => undefined,
    () => undefined,
  );

  expect(sdk.listening[0]?.app.options.appId).toBeUndefined();
  expect(sdk.checked).toEqual([]);
});
