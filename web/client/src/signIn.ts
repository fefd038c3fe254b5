/**
 * Visitors who sign in with Firebase Authentication: a module of its own, so that its SDK is loaded
 * only when it is needed.
 *
 * ```ts
 * const signIn = await SignIn.open(firebase);
 * await signIn.enter("ada@example.org", password);
 * const avatar = new VoiceAvatar({ api, token: () => signIn.token(), listen: signIn.listen });
 * ```
 *
 * Every failure is a {@link VoiceAvatarError} whose code is Firebase's with `_`: `auth_invalid_credential`.
 */
import { FirebaseError } from "firebase/app";
import {
  type Auth,
  browserLocalPersistence,
  connectAuthEmulator,
  createUserWithEmailAndPassword,
  indexedDBLocalPersistence,
  initializeAuth,
  sendPasswordResetEmail,
  signInAnonymously,
  signInWithEmailAndPassword,
} from "firebase/auth";
import { VoiceAvatarError } from "./errors.js";
import { firebaseApp } from "./firebaseApp.js";
import type { FirebaseConfig, Listen } from "./types.js";

/** Where Firebase's emulators are, where there are any. */
export interface Emulators {
  /** `http://host:port` of Firebase Authentication's. */
  readonly auth?: string | null;
  /** `host:port` of Firestore's. */
  readonly firestore?: string | null;
}

export class SignIn {
  readonly #auth: Auth;
  /** Listens as the visitor who is signed in. */
  readonly listen: Listen;

  private constructor(auth: Auth, listen: Listen) {
    this.#auth = auth;
    this.listen = listen;
  }

  /** Loads what this browser remembers of its visitor; once in a page. */
  static async open(firebase: FirebaseConfig, emulators: Emulators = {}): Promise<SignIn> {
    const app = firebaseApp(firebase);
    const persistence = [indexedDBLocalPersistence, browserLocalPersistence];
    const auth = initializeAuth(app, { persistence });
    if (emulators.auth) connectAuthEmulator(auth, emulators.auth, { disableWarnings: true });
    await auth.authStateReady();
    let loading: Promise<Listen> | null = null;
    const load = async (): Promise<Listen> => {
      const { listenAs } = await import("./firestoreListener.js");
      return listenAs(app, emulators.firestore ?? null, firebase.databaseId);
    };
    const listen: Listen = (path, onDocument, onError) => {
      let [isEnded, stop] = [false, (): void => undefined];
      loading ??= load();
      loading.then((begin) => {
        if (!isEnded) stop = begin(path, onDocument, onError);
      }, onError);
      return () => {
        isEnded = true;
        stop();
      };
    };
    return new SignIn(auth, listen);
  }

  /** Who is signed in: an address, or "" without an account; null if nobody is. */
  get visitor(): string | null {
    const { currentUser } = this.#auth;
    return currentUser === null ? null : (currentUser.email ?? "");
  }

  /** The token that proves who the visitor is, renewed when it expires; null if nobody is signed in. */
  async token(): Promise<string | null> {
    return await answered(this.#auth.currentUser?.getIdToken() ?? Promise.resolve(null));
  }

  /** Signs in with an account. */
  async enter(address: string, password: string): Promise<void> {
    await answered(signInWithEmailAndPassword(this.#auth, address, password));
  }

  /** Makes an account, and signs in with it. */
  async create(address: string, password: string): Promise<void> {
    await answered(createUserWithEmailAndPassword(this.#auth, address, password));
  }

  /** Signs in without an account: for this browser alone, and not for ever. */
  async enterAnonymously(): Promise<void> {
    await answered(signInAnonymously(this.#auth));
  }

  /** Lets Firebase send a message with which the password can be changed. */
  async sendPassword(address: string): Promise<void> {
    await answered(sendPasswordResetEmail(this.#auth, address));
  }

  /** Signs out. */
  async leave(): Promise<void> {
    await this.#auth.signOut();
  }
}

async function answered<T>(request: Promise<T>): Promise<T> {
  try {
    return await request;
  } catch (cause) {
    if (!(cause instanceof FirebaseError)) throw cause;
    const code = cause.code.replace(/[^a-z]+/g, "_");
    const message = "Firebase Authentication refused or could not be reached.";
    throw new VoiceAvatarError(code === "auth_network_request_failed" ? "network" : code, message, {
      cause,
    });
  }
}
