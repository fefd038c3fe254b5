/** The client's listener in Cloud Firestore: a module of its own, to load the SDK only when needed. */
import { deleteApp, type FirebaseApp, initializeApp } from "firebase/app";
import {
  connectFirestoreEmulator,
  doc,
  type Firestore,
  initializeFirestore,
  memoryLocalCache,
  onSnapshot,
} from "firebase/firestore";
import type { FirebaseConfig, Listen } from "./types.js";

/** A listener that owns one Firebase application, and deletes it when its subscription ends. */
export function createListen(firebase: FirebaseConfig, emulator: string | null): Listen {
  return (path, onDocument, onError) => {
    const app = initializeApp({ ...firebase }, `voice-avatar-${crypto.randomUUID()}`);
    const unsubscribe = listenAs(app, emulator)(path, onDocument, onError);
    return () => {
      unsubscribe();
      void deleteApp(app);
    };
  };
}

/** A listener as the user who is signed in to an application, which has no Firestore yet. */
export function listenAs(app: FirebaseApp, emulator: string | null): Listen {
  const firestore = initializeFirestore(app, { localCache: memoryLocalCache() });
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
