/** Cloud Firestore's side of the client, apart from it so that the SDK is loaded only when needed. */
import { deleteApp, initializeApp } from "firebase/app";
import {
  connectFirestoreEmulator,
  doc,
  type Firestore,
  initializeFirestore,
  memoryLocalCache,
  onSnapshot,
} from "firebase/firestore";
import type { FirebaseConfig, Listen } from "./types.js";

/** A listener that owns one Firebase application, and gives it up with its subscription. */
export function createListen(firebase: FirebaseConfig, emulator: string | null): Listen {
  return (path, onDocument, onError) => {
    const app = initializeApp({ ...firebase }, `voice-avatar-${crypto.randomUUID()}`);
    const firestore = initializeFirestore(app, { localCache: memoryLocalCache() });
    if (emulator !== null) {
      const { hostname, port } = new URL(`http://${emulator}`);
      connectFirestoreEmulator(firestore, hostname, Number(port));
    }
    const unsubscribe = listenIn(firestore)(path, onDocument, onError);
    return () => {
      unsubscribe();
      void deleteApp(app);
    };
  };
}

/** A listener in a Firestore of the caller's, as whoever is signed in to its application. */
export function listenIn(firestore: Firestore): Listen {
  return (path, onDocument, onError) =>
    onSnapshot(
      doc(firestore, path),
      { includeMetadataChanges: true },
      (snapshot) => {
        // While offline the SDK reports what it has cached, at first nothing: no word of the server.
        if (snapshot.metadata.fromCache) return;
        onDocument(snapshot.data() ?? null);
      },
      onError,
    );
}
