/** The browser tests' use of the client and the Firestore SDK, without a page. */
import { deleteApp, type FirebaseApp, FirebaseError, initializeApp } from "firebase/app";
import {
  addDoc,
  collection,
  connectFirestoreEmulator,
  deleteDoc,
  doc,
  type Firestore,
  getDoc,
  getDocs,
  getFirestore,
  limit,
  onSnapshot,
  query,
  setDoc,
  updateDoc,
  where,
} from "firebase/firestore";
import { listenIn } from "@voice-avatar/client/firestore";
import {
  type ConvertProgress,
  VoiceAvatar,
  type VoiceAvatarConfig,
  VoiceAvatarError,
} from "@voice-avatar/client";

type Site = VoiceAvatarConfig & { readonly firestoreEmulator: string };

/** One of the collections of voices; the rules are the same for all of them. */
const COLLECTION = "shards/0/voices";

/** Tries everything that a visitor could do with documents; returns "ok" or the code of each. */
async function tryEverything(
  site: Site,
  voiceId: string,
  user: string | null,
): Promise<Record<string, string>> {
  const { app, firestore } = open(site, user);
  const voices = collection(firestore, COLLECTION);
  const voice = doc(voices, voiceId);
  const attempts: Record<string, () => Promise<unknown>> = {
    get: () => getDoc(voice),
    "get none": () => getDoc(doc(voices, crypto.randomUUID())),
    listen: () => new Promise((resolve, reject) => onSnapshot(voice, resolve, reject)),
    list: () => getDocs(voices),
    "list one": () => getDocs(query(voices, limit(1))),
    "query by status": () => getDocs(query(voices, where("status", "==", "done"), limit(1))),
    "query by owner": () => getDocs(query(voices, where("owner", "==", null), limit(1))),
    create: () => addDoc(voices, { status: "done" }),
    overwrite: () => setDoc(voice, { status: "done" }),
    update: () => updateDoc(voice, { status: "done" }),
    delete: () => deleteDoc(voice),
    "write below": () => addDoc(collection(voice, "notes"), {}),
    "read elsewhere": () => getDoc(doc(firestore, "settings", "secret")),
    "write elsewhere": () => setDoc(doc(firestore, "settings", "secret"), {}),
  };
  const outcomes: Record<string, string> = {};
  for (const [name, attempt] of Object.entries(attempts)) outcomes[name] = await outcomeOf(attempt);
  await deleteApp(app);
  return outcomes;
}

/**
 * Converts a recording with the client alone; returns the steps and the result. The recording
 * ends only after the listener has received the voice, as with a visitor who still speaks.
 */
async function convert(
  site: Site,
  audio: string,
  contentType: string,
): Promise<{ steps: string[]; url: string }> {
  const bytes = Uint8Array.from(atob(audio), (character) => character.charCodeAt(0));
  const steps: string[] = [];
  let stopSpeaking: (recording: Blob) => void;
  const recording = new Promise<Blob>((resolve) => {
    stopSpeaking = resolve;
  });
  const onProgress = (progress: ConvertProgress): void => {
    const step = progress.step === "update" ? progress.update.status : progress.step;
    if (steps.at(-1) !== step) steps.push(step);
    if (step === "waiting") stopSpeaking(new Blob([bytes], { type: contentType }));
  };
  const { result } = await new VoiceAvatar(site).convert(recording, { contentType, onProgress });
  return { steps, url: result.url };
}

/** Watches a voice in a Firestore with a signed-in user; returns "done" or the error's code. */
async function watch(site: Site, voiceId: string, user: string): Promise<string> {
  const { app, firestore } = open(site, user);
  const avatar = new VoiceAvatar({ api: site.api, listen: listenIn(firestore) });
  try {
    await avatar.watch({ voiceId, document: `${COLLECTION}/${voiceId}` });
    return "done";
  } catch (error) {
    if (error instanceof VoiceAvatarError) return error.code;
    throw error;
  } finally {
    await deleteApp(app);
  }
}

function open(site: Site, user: string | null): { app: FirebaseApp; firestore: Firestore } {
  const app = initializeApp({ ...site.firebase }, crypto.randomUUID());
  const firestore = getFirestore(app);
  const { hostname, port } = new URL(`http://${site.firestoreEmulator}`);
  const token = user === null ? {} : { mockUserToken: { user_id: user } };
  connectFirestoreEmulator(firestore, hostname, Number(port), token);
  return { app, firestore };
}

async function outcomeOf(attempt: () => Promise<unknown>): Promise<string> {
  try {
    await attempt();
    return "ok";
  } catch (error) {
    if (error instanceof FirebaseError) return error.code;
    throw error;
  }
}

Object.assign(window, { harness: { tryEverything, convert, watch } });
