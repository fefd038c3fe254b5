/** The client's listener in Cloud Firestore: a module of its own, to load the SDK only when needed. */
import { deleteApp, type FirebaseApp, initializeApp } from "firebase/app";
import {
  connectFirestoreEmulator,
  doc,
  type Firestore,
  getFirestore,
  onSnapshot,
} from "firebase/firestore";
import { firebaseApp } from "./firebaseApp.js";
import type { FirebaseConfig, Listen, RecaptchaConfig } from "./types.js";

/**
 * A listener that owns one Firebase application, and deletes it when its subscription ends. Under App
 * Check it uses the page's own application, whose requests carry the token.
 */
export function createListen(
  firebase: FirebaseConfig,
  emulator: string | null,
  appCheck: RecaptchaConfig | null,
): Listen {
  if (appCheck !== null) {
    const app = firebaseApp({ ...firebase, appId: appCheck.appId });
    return listenAs(app, emulator, firebase.databaseId);
  }
  return (path, onDocument, onError) => {
    const app = initializeApp({ ...firebase }, `voice-avatar-${crypto.randomUUID()}`);
    const unsubscribe = listenAs(app, emulator, firebase.databaseId)(path, onDocument, onError);
    return () => {
      unsubscribe();
      void deleteApp(app);
    };
  };
}

/** A listener as the user who is signed in to an application, which has no Firestore yet. */
export function listenAs(
  app: FirebaseApp,
  emulator: string | null,
  databaseId = "(default)",
): Listen {
  const firestore = getFirestore(app, databaseId);
  if (emulator !== null) {
    const { hostname, port } = new URL(`http://${emulator}`);
    connectFirestoreEmulator(firestore, hostname, Number(port));
  }
  return listenIn(firestore);
}

/** A listener in the caller's Firestore, as the user who is signed in to that application. */
export function listenIn(firestore: Firestore): Listen {
  return (path, onDocument, onError) =>
    onSnapshot(
      doc(firestore, path),
      { includeMetadataChanges: true },
      (snapshot) => {
        // While offline the SDK reports its cache, which is empty at first: not the server's data.
        if (snapshot.metadata.fromCache) return;
        onDocument(snapshot.data() ?? null);
      },
      onError,
    );
}
