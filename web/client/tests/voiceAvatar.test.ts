import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  type ConvertProgress,
  type ServerErrorCode,
  type Surroundings,
  VoiceAvatar,
  type VoiceAvatarConfig,
  VoiceAvatarError,
  type VoiceUpdate,
} from "../src/voiceAvatar.js";
import {
  CREATED,
  DONE,
  FakeClock,
  FakeFirestore,
  FakeNetwork,
  FIREBASE,
  json,
  RESULT,
  VOICE_ID,
} from "./fakes.js";

const POST = "POST /api/v1/voices";
const WAIT = `GET /api/v1/conversion/${VOICE_ID}`;
const DELETE = `DELETE /api/v1/voices/${VOICE_ID}`;
const VOICE = { voiceId: VOICE_ID, document: `voices/${VOICE_ID}` };
const RECORDING = new Blob(["speech"], { type: "audio/webm;codecs=opus" });
const OPTIONS = { contentType: "audio/webm;codecs=opus" };

function client(
  parts: Partial<Surroundings>,
  firebase: typeof FIREBASE | null = FIREBASE,
): VoiceAvatar {
  const nothing = new FakeNetwork({});
  return new VoiceAvatar(
    { api: "https://api.example/", firebase },
    { fetch: nothing.fetch, pause: new FakeClock().pause, put: async () => undefined, ...parts },
  );
}

/** Lets everything happen that waits for nothing from outside. */
const everythingElse = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

async function failure(work: Promise<unknown>): Promise<VoiceAvatarError> {
  const error: unknown = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (error instanceof VoiceAvatarError) return error;
  throw new Error(`Expected a VoiceAvatarError, got ${String(error)}`);
}

describe("createVoice", () => {
  test("announces what will be uploaded and how it is to be converted", async () => {
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    const voice = await client({ fetch: network.fetch }).createVoice({
      character: "mei",
      pitchShift: -3,
      outputFormat: "mp3",
      contentType: "audio/webm;codecs=opus",
    });
    expect(await network.requests[0]?.json()).toEqual({
      character: "mei",
      pitch_shift: -3,
      output_format: "mp3",
      content_type: "audio/webm;codecs=opus",
    });
    expect(voice.upload.headers).toEqual({ "Content-Type": "audio/webm;codecs=opus" });
    expect(voice.upload.expiresAt.getUTCFullYear()).toBe(2999);
  });

  test("sends the secret of an own character with that character alone", async () => {
    const own = "own-abcdefghijklmnopqrstuvwxyz";
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    const avatar = new VoiceAvatar(
      { api: "https://api.example/", ownCharacterKey: (id) => (id === own ? "a secret" : null) },
      { fetch: network.fetch },
    );
    for (const character of [own, "own-bbbbbbbbbbbbbbbbbbbbbbbbbb", "mei"])
      await avatar.createVoice({ ...OPTIONS, character });
    const sent = network.requests.map(({ headers }) => headers.get("own-character-key"));
    expect(sent).toEqual(["a secret", null, null]);
  });

  test("gives a problem's code, status and Retry-After", async () => {
    const problem = { code: "rate_limited", detail: "Too many voices." };
    const network = new FakeNetwork({ [POST]: json(429, problem, { "Retry-After": "7" }) });
    const error = await failure(client({ fetch: network.fetch }).createVoice(OPTIONS));
    expect(error).toMatchObject({
      code: "rate_limited",
      status: 429,
      retryAfter: 7,
      message: "Too many voices.",
    });
  });

  test("calls an unreachable service a network error", async () => {
    const network = new FakeNetwork({ [POST]: new TypeError("Failed to fetch") });
    const error = await failure(client({ fetch: network.fetch }).createVoice(OPTIONS));
    expect(error).toMatchObject({ code: "network", message: "api.example could not be reached." });
  });

  test("says that an unreachable service may have refused a page of another site", async () => {
    const network = new FakeNetwork({ [POST]: new TypeError("Failed to fetch") });
    const there = { fetch: network.fetch, origin: "http://localhost:5173" };
    const error = await failure(client(there).createVoice(OPTIONS));
    expect(error).toMatchObject({ code: "network" });
    expect(error).toHaveProperty(
      "message",
      expect.stringContaining("does not allow pages of http://localhost:5173"),
    );
    const atHome = { fetch: network.fetch, origin: "https://api.example" };
    const message = "api.example could not be reached.";
    expect(await failure(client(atHome).createVoice(OPTIONS))).toMatchObject({ message });
  });

  test("refuses an answer that the API does not promise", async () => {
    const network = new FakeNetwork({ [POST]: json(201, { voice_id: VOICE_ID }) });
    const error = await failure(client({ fetch: network.fetch }).createVoice(OPTIONS));
    expect(error).toMatchObject({
      code: "bad_response",
      message: 'The answer has no object "upload".',
    });
  });
});

test("characters have absolute addresses, and none that is not http", async () => {
  const entry = {
    id: "mei",
    name: { ja: "メイ", en: "Mei" },
    credit: "Team",
    licence: { name: "CC BY 3.0", url: "https://licence.example/by" },
    terms_url: "javascript:alert(1)",
    forbidden_uses: ["adult"],
    colour: "#ff0000",
    portrait_url: "/portraits/mei.svg",
    limits: { min_seconds: 1, max_seconds: 10 },
    takes: "both",
    text: {
      max_characters: 200,
      styles: [{ id: 3, name: "Calm", speaker: null }],
      languages: ["ja", "en"],
    },
  };
  const network = new FakeNetwork({ "GET /api/v1/characters": json(200, { characters: [entry] }) });
  const [character] = await client({ fetch: network.fetch }).characters();
  expect(character).toMatchObject({
    portraitUrl: "https://api.example/portraits/mei.svg",
    termsUrl: null,
    forbiddenUses: ["adult"],
    licence: { name: "CC BY 3.0", url: "https://licence.example/by" },
    limits: { minSeconds: 1, maxSeconds: 10 },
    takes: "both",
    text: {
      maxCharacters: 200,
      styles: [{ id: 3, name: "Calm", speaker: null }],
      languages: ["ja", "en"],
    },
  });
});

test("a character of an older service takes speech alone", async () => {
  const entry = { id: "mei", name: { en: "Mei" } };
  const network = new FakeNetwork({ "GET /api/v1/characters": json(200, { characters: [entry] }) });
  const [character] = await client({ fetch: network.fetch }).characters();
  expect(character).toMatchObject({ takes: "speech", text: null, forbiddenUses: [] });
});

test("upload refuses a recording over the limit before a byte is sent", async () => {
  const network = new FakeNetwork({ [POST]: json(201, CREATED) });
  const avatar = client({
    fetch: network.fetch,
    put: () => Promise.reject(new Error("nothing may be sent")),
  });
  const voice = await avatar.createVoice(OPTIONS);
  const error = await failure(avatar.upload(voice, new Blob(["x".repeat(1001)])));
  expect(error.code).toBe("too_large");
});

describe("watch, listening to the document", () => {
  test("tells each change once and resolves with the result", async () => {
    const firestore = new FakeFirestore();
    const updates: VoiceUpdate[] = [];
    const result = client({ loadListen: firestore.load }).watch(VOICE, {
      onUpdate: (update) => updates.push(update),
    });
    expect(await firestore.listened).toBe(`voices/${VOICE_ID}`);
    firestore.write(
      { status: "waiting" },
      { status: "waiting" },
      { status: "queued" },
      { status: "converting", stage: "decode" },
      { status: "converting", stage: "network" },
      { status: "done", result: { ...RESULT, url_expires_at: { toDate: () => new Date(0) } } },
    );
    expect(await result).toEqual({
      url: RESULT.url,
      urlExpiresAt: new Date(0),
      contentType: "audio/mpeg",
      bytes: 3,
      seconds: 1.5,
      sha256: "ab",
    });
    expect(updates.map(({ status, stage }) => stage ?? status)).toEqual([
      "waiting",
      "queued",
      "decode",
      "network",
      "done",
    ]);
    expect(firestore.subscriptions).toBe(0);
  });

  test("rejects with the voice's own code when it failed", async () => {
    const firestore = new FakeFirestore();
    const result = client({ loadListen: firestore.load }).watch(VOICE);
    await firestore.listened;
    firestore.write({
      status: "failed",
      error: { code: "silent", message: "Nothing to be heard." },
    });
    expect(await failure(result)).toMatchObject({
      code: "silent",
      message: "Nothing to be heard.",
    });
  });

  test("rejects when the voice is deleted meanwhile", async () => {
    const firestore = new FakeFirestore();
    const result = client({ loadListen: firestore.load }).watch(VOICE);
    await firestore.listened;
    firestore.write({ status: "waiting" }, null);
    expect((await failure(result)).code).toBe("unknown_voice");
  });

  test("an abort rejects with its own reason and ends the subscription", async () => {
    const firestore = new FakeFirestore();
    const abort = new AbortController();
    const result = client({ loadListen: firestore.load }).watch(VOICE, { signal: abort.signal });
    await firestore.listened;
    abort.abort();
    await expect(result).rejects.toHaveProperty("name", "AbortError");
    expect(firestore.subscriptions).toBe(0);
  });

  test("gives up after the caller's time", async () => {
    const firestore = new FakeFirestore();
    const clock = new FakeClock((seconds) => seconds === 30);
    const result = client({ loadListen: firestore.load, pause: clock.pause }).watch(VOICE, {
      seconds: 30,
    });
    expect((await failure(result)).code).toBe("timed_out");
  });
});

describe("watch, waiting on the API", () => {
  test("never loads the SDK where no Firebase project is configured", async () => {
    const network = new FakeNetwork({ [WAIT]: json(200, DONE) });
    const loadListen = () => Promise.reject(new Error("must not be loaded"));
    const result = await client({ fetch: network.fetch, loadListen }, null).watch(VOICE);
    expect(result.url).toBe(RESULT.url);
  });

  test("takes over when the SDK cannot be loaded", async () => {
    const network = new FakeNetwork({ [WAIT]: json(200, DONE) });
    const loadListen = () => Promise.reject(new TypeError("import failed"));
    expect((await client({ fetch: network.fetch, loadListen }).watch(VOICE)).url).toBe(RESULT.url);
  });

  test("takes over when the listener fails", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [WAIT]: json(200, DONE) });
    const result = client({ fetch: network.fetch, loadListen: firestore.load }).watch(VOICE);
    await firestore.listened;
    firestore.fail(new Error("permission-denied"));
    expect((await result).url).toBe(RESULT.url);
    expect(firestore.subscriptions).toBe(0);
  });

  test("takes over when loading the SDK stalls", async () => {
    const network = new FakeNetwork({ [WAIT]: json(200, DONE) });
    const clock = new FakeClock((seconds) => seconds === 10);
    const loadListen = () => new Promise<never>(() => undefined);
    const avatar = client({ fetch: network.fetch, loadListen, pause: clock.pause });
    expect((await avatar.watch(VOICE)).url).toBe(RESULT.url);
  });

  test("takes over when the listener stays silent", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [WAIT]: json(200, DONE) });
    const clock = new FakeClock((seconds) => seconds === 10);
    const avatar = client({ fetch: network.fetch, loadListen: firestore.load, pause: clock.pause });
    expect((await avatar.watch(VOICE)).url).toBe(RESULT.url);
  });

  test("is asked beside a listener that says nothing more after the first change", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [WAIT]: json(200, DONE) });
    const clock = new FakeClock();
    let seconds15 = (): void => undefined;
    const pause = (seconds: number, signal: AbortSignal): Promise<void> =>
      seconds === 15
        ? new Promise((resolve) => (seconds15 = resolve))
        : clock.pause(seconds, signal);
    const result = client({ fetch: network.fetch, loadListen: firestore.load, pause }).watch(VOICE);
    await firestore.listened;
    await everythingElse();
    firestore.write({ status: "queued" });
    seconds15();
    await everythingElse();
    expect(network.asked(WAIT)).toHaveLength(0);
    seconds15();
    expect((await result).url).toBe(RESULT.url);
  });

  test("does not end a listener that may still hear when the API is out of reach", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [WAIT]: new TypeError("offline") });
    const clock = new FakeClock((seconds) => seconds < 100 && seconds !== 10);
    const parts = { fetch: network.fetch, loadListen: firestore.load, pause: clock.pause };
    const result = client(parts).watch(VOICE);
    await firestore.listened;
    firestore.write({ status: "queued" });
    await everythingElse();
    expect(network.asked(WAIT).length).toBeGreaterThan(6);
    const expires = { toDate: () => new Date(0) };
    firestore.write({ status: "done", result: { ...RESULT, url_expires_at: expires } });
    expect((await result).url).toBe(RESULT.url);
  });

  test("asks again after Retry-After as often as the answer is 504", async () => {
    const later = json(504, { code: "still_converting" }, { "Retry-After": "2" });
    const network = new FakeNetwork({
      [WAIT]: [...Array<Response>(9).fill(later), json(200, DONE)],
    });
    const clock = new FakeClock((seconds) => seconds === 2);
    await client({ fetch: network.fetch, pause: clock.pause }, null).watch(VOICE);
    expect(network.asked(WAIT)).toHaveLength(10);
    expect(clock.pauses.filter((seconds) => seconds === 2)).toHaveLength(9);
  });

  test("comes back a little later than a crowded service asks for, for as long as it takes", async () => {
    const crowded = json(503, { code: "unavailable" }, { "Retry-After": "20" });
    const network = new FakeNetwork({
      [WAIT]: [...Array<Response>(9).fill(crowded), json(200, DONE)],
    });
    const clock = new FakeClock((seconds) => seconds < 100);
    const surroundings = { fetch: network.fetch, pause: clock.pause, random: () => 0.5 };
    await client(surroundings, null).watch(VOICE);
    expect(clock.pauses).toEqual([300, ...Array<number>(9).fill(25)]);
  });

  test("outlasts a broken connection, with longer and longer pauses", async () => {
    const broken = new TypeError("Failed to fetch");
    const network = new FakeNetwork({ [WAIT]: [broken, broken, broken, json(200, DONE)] });
    const clock = new FakeClock((seconds) => seconds < 100);
    await client({ fetch: network.fetch, pause: clock.pause }, null).watch(VOICE);
    expect(clock.pauses).toEqual([300, 1, 2, 4]);
  });

  test("gives up on a service that stays down", async () => {
    const network = new FakeNetwork({ [WAIT]: new TypeError("Failed to fetch") });
    const clock = new FakeClock((seconds) => seconds < 100);
    const error = await failure(
      client({ fetch: network.fetch, pause: clock.pause }, null).watch(VOICE),
    );
    expect(error.code).toBe("network");
    expect(network.asked(WAIT)).toHaveLength(7);
  });

  test("rejects with the voice's own code when it failed", async () => {
    const network = new FakeNetwork({ [WAIT]: json(422, { code: "too_short", detail: "0.3 s" }) });
    const error = await failure(client({ fetch: network.fetch }, null).watch(VOICE));
    expect(error).toMatchObject({ code: "too_short", status: 422 });
  });
});

describe("convert", () => {
  test("announces the voice while the recording still lasts", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    const steps: string[] = [];
    let finish: (recording: Blob) => void = () => undefined;
    const recording = new Promise<Blob>((resolve) => {
      finish = resolve;
    });
    const sent: Blob[] = [];
    const put: Surroundings["put"] = async (_target, blob) => {
      sent.push(blob);
      firestore.write({ status: "queued" }, { status: "done", result: RESULT });
    };
    const onProgress = (progress: ConvertProgress): void => {
      steps.push(progress.step === "update" ? progress.update.status : progress.step);
    };
    const outcome = client({ fetch: network.fetch, loadListen: firestore.load, put }).convert(
      recording,
      {
        ...OPTIONS,
        onProgress,
      },
    );
    await firestore.listened;
    expect(steps).toEqual(["created"]);
    expect(sent).toEqual([]);
    finish(RECORDING);
    expect((await outcome).result.url).toBe(RESULT.url);
    expect(sent).toEqual([RECORDING]);
    expect(steps).toEqual(["created", "queued", "done", "uploaded"]);
    expect(network.asked(DELETE)).toEqual([]);
  });

  test("deletes the voice when there will be no recording", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({
      [POST]: json(201, CREATED),
      [DELETE]: new Response(null, { status: 204 }),
    });
    let refuse: (error: Error) => void = () => undefined;
    const recording = new Promise<Blob>((_, reject) => {
      refuse = reject;
    });
    const outcome = client({ fetch: network.fetch, loadListen: firestore.load }).convert(
      recording,
      OPTIONS,
    );
    await firestore.listened;
    refuse(new Error("no microphone"));
    await expect(outcome).rejects.toThrow("no microphone");
    expect(network.asked(DELETE)).toHaveLength(1);
    expect(firestore.subscriptions).toBe(0);
  });

  test("deletes the voice when it is aborted", async () => {
    const firestore = new FakeFirestore();
    const abort = new AbortController();
    const network = new FakeNetwork({
      [POST]: json(201, CREATED),
      [DELETE]: new Response(null, { status: 204 }),
    });
    const put: Surroundings["put"] = async () => abort.abort();
    const outcome = client({ fetch: network.fetch, loadListen: firestore.load, put }).convert(
      RECORDING,
      {
        ...OPTIONS,
        signal: abort.signal,
      },
    );
    await expect(outcome).rejects.toHaveProperty("name", "AbortError");
    expect(network.asked(DELETE)).toHaveLength(1);
  });

  test("keeps a voice whose conversion failed, so that its error can be read", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    const avatar = client({ fetch: network.fetch, loadListen: firestore.load });
    const onProgress = (progress: ConvertProgress): void => {
      if (progress.step !== "uploaded") return;
      firestore.write({ status: "failed", error: { code: "corrupt", message: "Broken file." } });
    };
    const outcome = avatar.convert(RECORDING, { ...OPTIONS, onProgress });
    expect((await failure(outcome)).code).toBe("corrupt");
    expect(network.asked(DELETE)).toEqual([]);
  });

  test("takes a refused second upload for the answer to the first that got lost", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    const put: Surroundings["put"] = async () => {
      await firestore.listened;
      firestore.write({ status: "done", result: RESULT });
      throw new VoiceAvatarError("already_uploaded", "There already.");
    };
    const outcome = client({ fetch: network.fetch, loadListen: firestore.load, put }).convert(
      RECORDING,
      OPTIONS,
    );
    expect((await outcome).voice.voiceId).toBe(VOICE_ID);
  });
});

describe("a crowded service", () => {
  const CROWDED = { code: "unavailable", detail: "Many visitors are here." };
  const crowded = (seconds: number): Response =>
    json(503, CROWDED, { "Retry-After": `${seconds}` });
  const PATIENT = new FakeClock((seconds) => seconds < 200);

  function inLine(parts: Partial<Surroundings>): VoiceAvatar {
    return client({ pause: PATIENT.pause, random: () => 1, ...parts }, null);
  }

  test("lets a recording wait in line, and the page knows for how long", async () => {
    const refusals = [crowded(10), json(429, { code: "rate_limited" }, { "Retry-After": "4" })];
    const network = new FakeNetwork({
      [POST]: [...refusals, json(201, CREATED)],
      [WAIT]: json(200, DONE),
    });
    const waits: number[] = [];
    const sent: Blob[] = [];
    const put: Surroundings["put"] = async (_target, blob) => void sent.push(blob);
    const onProgress = (progress: ConvertProgress): void => {
      if (progress.step === "in_line") waits.push(progress.seconds);
    };
    const avatar = inLine({ fetch: network.fetch, put });
    const { result } = await avatar.convert(RECORDING, { ...OPTIONS, onProgress });
    expect(result.url).toBe(RESULT.url);
    expect(waits).toEqual([15, 6]);
    expect(sent).toEqual([RECORDING]);
  });

  test("lets a text wait in line", async () => {
    const network = new FakeNetwork({
      [POST]: [crowded(10), json(201, { ...CREATED, upload: null })],
      [WAIT]: json(200, DONE),
    });
    const waits: number[] = [];
    await inLine({ fetch: network.fetch }).speak("a", {
      onProgress: (progress) => {
        if (progress.step === "in_line") waits.push(progress.seconds);
      },
    });
    expect(waits).toEqual([15]);
    expect(network.asked(POST)).toHaveLength(2);
  });

  test("lets an upload wait in line, and keeps the recording", async () => {
    const network = new FakeNetwork({ [POST]: json(201, CREATED), [WAIT]: json(200, DONE) });
    const sent: Blob[] = [];
    const put: Surroundings["put"] = async (_target, blob) => {
      sent.push(blob);
      if (sent.length < 3) throw new VoiceAvatarError("unavailable", "busy", { status: 503 });
    };
    await inLine({ fetch: network.fetch, put }).convert(RECORDING, OPTIONS);
    expect(sent).toEqual([RECORDING, RECORDING, RECORDING]);
  });

  test("is given up after two minutes", async () => {
    const network = new FakeNetwork({ [POST]: crowded(30) });
    const clock = new FakeClock((seconds) => seconds < 200);
    const avatar = inLine({ fetch: network.fetch, pause: clock.pause });
    const error = await failure(avatar.convert(RECORDING, OPTIONS));
    expect(error).toMatchObject({ code: "unavailable", retryAfter: 30 });
    expect(clock.pauses).toEqual([45, 45, 30]);
  });

  test("is given up at once where it asks for more patience than there is", async () => {
    const network = new FakeNetwork({ [POST]: crowded(600) });
    const error = await failure(inLine({ fetch: network.fetch }).convert(RECORDING, OPTIONS));
    expect(error.retryAfter).toBe(600);
    expect(network.asked(POST)).toHaveLength(1);
  });

  test("without a time to come back is asked less and less often", async () => {
    const network = new FakeNetwork({ [POST]: json(503, CROWDED) });
    const clock = new FakeClock((seconds) => seconds < 200);
    const avatar = inLine({ fetch: network.fetch, pause: clock.pause, random: () => 0 });
    await failure(avatar.convert(RECORDING, OPTIONS));
    expect(clock.pauses).toEqual([1, 2, 4, 8, 16, 30, 30]);
  });

  test("is not asked again by a visitor who has gone", async () => {
    const network = new FakeNetwork({ [POST]: crowded(10) });
    const visit = new AbortController();
    const clock = new FakeClock();
    const outcome = inLine({ fetch: network.fetch, pause: clock.pause }).convert(RECORDING, {
      ...OPTIONS,
      signal: visit.signal,
      onProgress: () => visit.abort(),
    });
    await expect(outcome).rejects.toHaveProperty("name", "AbortError");
    expect(network.asked(POST)).toHaveLength(1);
  });

  test("is not asked again what it has refused for good", async () => {
    const network = new FakeNetwork({ [POST]: json(422, { code: "unknown_character" }) });
    const error = await failure(inLine({ fetch: network.fetch }).convert(RECORDING, OPTIONS));
    expect(error.code).toBe("unknown_character");
    expect(network.asked(POST)).toHaveLength(1);
  });
});

describe("speak", () => {
  const SPOKEN = { ...CREATED, upload: null };

  test("sends the text with its wishes and resolves with the result", async () => {
    const firestore = new FakeFirestore();
    const network = new FakeNetwork({ [POST]: json(201, { ...SPOKEN, unread: "Korean" }) });
    const steps: string[] = [];
    const outcome = client({ fetch: network.fetch, loadListen: firestore.load }).speak(
      "こんにちは",
      {
        character: "mei",
        speed: 1.2,
        outputFormat: "mp3",
        onProgress: ({ step }) => steps.push(step),
      },
    );
    await firestore.listened;
    firestore.write({ status: "queued" }, { status: "done", result: RESULT });
    expect(await outcome).toMatchObject({
      voice: { unread: "Korean" },
      result: { url: RESULT.url },
    });
    expect(steps).toEqual(["created", "update", "update"]);
    expect(await network.requests[0]?.json()).toEqual({
      text: "こんにちは",
      character: "mei",
      speed: 1.2,
      output_format: "mp3",
    });
  });

  test("has the service's own reason for a text that it refuses", async () => {
    const refusal = { code: "text_too_long", detail: "At most 200 characters are spoken." };
    const network = new FakeNetwork({ [POST]: json(422, refusal) });
    const code: ServerErrorCode = "text_too_long";
    expect(await failure(client({ fetch: network.fetch }).speak("…"))).toMatchObject({
      code,
      message: refusal.detail,
    });
  });

  test.each([
    ["aborted", 1],
    ["failed", 0],
  ])("when %s, the voice is deleted %i times", async (end, deletions) => {
    const firestore = new FakeFirestore();
    const abort = new AbortController();
    const network = new FakeNetwork({
      [POST]: json(201, SPOKEN),
      [DELETE]: new Response(null, { status: 204 }),
    });
    const outcome = client({ fetch: network.fetch, loadListen: firestore.load }).speak("a", {
      signal: abort.signal,
    });
    outcome.catch(() => undefined);
    await firestore.listened;
    if (end === "aborted") abort.abort();
    else firestore.write({ status: "failed", error: { code: "text_unreadable", message: "No." } });
    await expect(outcome).rejects.toBeInstanceOf(Error);
    expect(network.asked(DELETE)).toHaveLength(deletions);
  });
});

describe("download", () => {
  const parsed = {
    url: RESULT.url,
    urlExpiresAt: null,
    contentType: "audio/mpeg",
    bytes: 3,
    seconds: 1.5,
    sha256: null,
  };

  test("gives the audio the type that the service tells of it", async () => {
    const network = new FakeNetwork({ "GET /result": new Response("mp3") });
    const blob = await client({ fetch: network.fetch }).download(parsed);
    expect(await blob.text()).toBe("mp3");
    expect(blob.type).toBe("audio/mpeg");
  });

  test.each([400, 403, 404])(
    "calls an address that answers %i expired, says what helps, and asks nobody for another",
    async (status) => {
      const network = new FakeNetwork({ "GET /result": new Response("expired", { status }) });
      const error = await failure(client({ fetch: network.fetch }).download(parsed));
      expect(error).toMatchObject({ code: "link_expired", status });
      expect(error.message).toMatch(/convert the recording again/);
      expect(network.requests).toHaveLength(1);
    },
  );
});

describe("for a visitor who is signed in", () => {
  const signedIn = (network: FakeNetwork, token: () => Promise<string | null>): VoiceAvatar =>
    new VoiceAvatar(
      { api: "https://api.example", token },
      { fetch: network.fetch, pause: new FakeClock().pause, put: async () => undefined },
    );
  const authorizations = (network: FakeNetwork): (string | null)[] =>
    network.requests.map((request) => request.headers.get("authorization"));

  test("every request to the API carries a token of its own moment, and signed addresses none", async () => {
    const network = new FakeNetwork({
      [POST]: json(201, CREATED),
      [WAIT]: json(200, DONE),
      "GET /result": new Response("mp3"),
      [DELETE]: new Response(null, { status: 204 }),
    });
    let asked = 0;
    const avatar = signedIn(network, async () => `token-${++asked}`);
    const { voice, result } = await avatar.convert(RECORDING, OPTIONS);
    await avatar.download(result);
    await avatar.deleteVoice(voice.voiceId);
    expect(authorizations(network)).toEqual([
      "Bearer token-1",
      "Bearer token-2",
      null,
      "Bearer token-3",
    ]);
    expect(network.asked(POST)[0]?.headers.get("content-type")).toBe("application/json");
  });

  test("an anonymous one is announced without a token", async () => {
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    await signedIn(network, async () => null).createVoice(OPTIONS);
    expect(authorizations(network)).toEqual([null]);
  });

  test("a token that cannot be had fails the call with its own reason, and nothing is asked", async () => {
    const network = new FakeNetwork({});
    const avatar = signedIn(network, () => Promise.reject(new Error("signed out")));
    await expect(avatar.createVoice(OPTIONS)).rejects.toThrow("signed out");
    expect(network.requests).toEqual([]);
  });

  test("a token that the API refuses has a code of its own", async () => {
    const refusal = { code: "token_refused", detail: "Sign in again: it has expired." };
    const network = new FakeNetwork({ [POST]: json(401, refusal) });
    const error = await failure(signedIn(network, async () => "old").createVoice(OPTIONS));
    const code: ServerErrorCode = "token_refused";
    expect(error).toMatchObject({ code, status: 401 });
  });

  test("a listener of the caller's is used, and the SDK of the client's own is not loaded", async () => {
    const firestore = new FakeFirestore();
    const avatar = new VoiceAvatar(
      { api: "https://api.example", firebase: FIREBASE, listen: await firestore.load() },
      {
        fetch: new FakeNetwork({}).fetch,
        loadListen: () => Promise.reject(new Error("must not be loaded")),
        pause: new FakeClock().pause,
      },
    );
    const result = avatar.watch(VOICE);
    expect(await firestore.listened).toBe(VOICE.document);
    firestore.write({ status: "done", result: RESULT });
    expect((await result).url).toBe(RESULT.url);
    expect(firestore.subscriptions).toBe(0);
  });
});

describe("a connection that dies without a word", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const RESULT_TO_FETCH = {
    url: RESULT.url,
    urlExpiresAt: new Date(RESULT.url_expires_at),
    contentType: RESULT.content_type,
    bytes: 3,
    seconds: 1.5,
    sha256: "ab",
  };
  const silent = (): Promise<Response> => new Promise(() => undefined);

  test.each([
    ["the list of characters", 30, (client: VoiceAvatar) => client.characters()],
    ["a new voice", 30, (client: VoiceAvatar) => client.createVoice({ contentType: "audio/webm" })],
    ["a verification", 130, (client: VoiceAvatar) => client.verify(new Blob(["x"]))],
    ["a download", 60, (client: VoiceAvatar) => client.download(RESULT_TO_FETCH)],
    ["a deletion", 30, (client: VoiceAvatar) => client.deleteVoice(VOICE_ID)],
  ])("ends %s after %d seconds", async (_, seconds, call) => {
    const client = new VoiceAvatar({ api: "https://api.example" }, { fetch: silent });
    const outcome = expect(call(client)).rejects.toMatchObject({
      code: "network",
      message: expect.stringContaining(`did not answer within ${seconds} seconds`) as string,
    });

    await vi.advanceTimersByTimeAsync(seconds * 1000);
    await outcome;
  });

  test("ends an answer whose body does not come", async () => {
    const body = new ReadableStream();
    const client = new VoiceAvatar(
      { api: "https://api.example" },
      { fetch: () => Promise.resolve(new Response(body, { status: 200 })) },
    );
    const outcome = expect(client.characters()).rejects.toMatchObject({ code: "network" });

    await vi.advanceTimersByTimeAsync(30_000);
    await outcome;
  });

  test("leaves no timer behind when the answer comes", async () => {
    const network = new FakeNetwork({ "GET /api/v1/characters": json(200, { characters: [] }) });
    await new VoiceAvatar({ api: "https://api.example" }, { fetch: network.fetch }).characters();

    expect(vi.getTimerCount()).toBe(0);
  });
});

test("deleting a voice that is gone already is no error", async () => {
  const network = new FakeNetwork({ [DELETE]: json(404, { code: "unknown_voice" }) });
  await client({ fetch: network.fetch }).deleteVoice(VOICE_ID);
  expect(network.asked(DELETE)[0]?.keepalive).toBe(true);
});

describe("where the API asks for App Check", () => {
  const HEADER = "x-firebase-appcheck";
  const sent = (network: FakeNetwork): (string | null)[] =>
    network.requests.map((request) => request.headers.get(HEADER));
  const page = (network: FakeNetwork, config: Partial<VoiceAvatarConfig>, load = neverLoaded) =>
    new VoiceAvatar(
      { api: "https://api.example", ...config },
      { fetch: network.fetch, loadAppCheck: load, pause: new FakeClock().pause },
    );
  const neverLoaded = (): Promise<() => Promise<string>> =>
    Promise.reject(new Error("the SDK was loaded"));

  test("requests about voices carry a token of their own moment, and the characters none", async () => {
    const network = new FakeNetwork({
      "GET /api/v1/characters": json(200, { characters: [] }),
      [POST]: json(201, CREATED),
      [DELETE]: new Response(null, { status: 204 }),
    });
    let asked = 0;
    const avatar = page(network, { appCheck: async () => `token-${++asked}` });
    await avatar.characters();
    const voice = await avatar.createVoice(OPTIONS);
    await avatar.deleteVoice(voice.voiceId);
    expect(sent(network)).toEqual([null, "token-1", "token-2"]);
  });

  test("Firebase's SDK is loaded once, for the first request that needs it", async () => {
    const network = new FakeNetwork({
      "GET /api/v1/characters": json(200, { characters: [] }),
      [POST]: () => json(201, CREATED),
    });
    const loaded: unknown[] = [];
    const load = async (...given: unknown[]): Promise<() => Promise<string>> => {
      loaded.push(given);
      return async () => "of Google";
    };
    const appCheck = { appId: "1:2:web:3", siteKey: "s" };
    const avatar = page(network, { firebase: FIREBASE, appCheck }, load);
    await avatar.characters();
    expect(loaded).toEqual([]);
    await avatar.createVoice(OPTIONS);
    await avatar.createVoice(OPTIONS);
    expect(loaded).toEqual([[FIREBASE, appCheck]]);
    expect(sent(network)).toEqual([null, "of Google", "of Google"]);
  });

  test("an SDK that could not be loaded is loaded again for the next request", async () => {
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    let tries = 0;
    const load = async (): Promise<() => Promise<string>> => {
      if (++tries === 1) throw new Error("offline");
      return async () => "later";
    };
    const appCheck = { appId: "1:2:web:3", siteKey: "s" };
    const avatar = page(network, { firebase: FIREBASE, appCheck }, load);
    await expect(avatar.createVoice(OPTIONS)).rejects.toThrow("offline");
    expect(network.requests).toEqual([]);
    await avatar.createVoice(OPTIONS);
    expect(sent(network)).toEqual(["later"]);
  });

  test("the local cloud's token is sent as it is", async () => {
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    await page(network, { appCheck: { token: "local" } }).createVoice(OPTIONS);
    expect(sent(network)).toEqual(["local"]);
  });

  test("without it no such header is sent", async () => {
    const network = new FakeNetwork({ [POST]: json(201, CREATED) });
    await page(network, { firebase: FIREBASE }).createVoice(OPTIONS);
    expect(sent(network)).toEqual([null]);
  });

  test("a site key without a Firebase project is a mistake of the configuration", () => {
    const appCheck = { appId: "1:2:web:3", siteKey: "s" };
    expect(() => page(new FakeNetwork({}), { appCheck })).toThrow(/needs firebase/);
  });

  test("a page that is refused learns it by a code of its own", async () => {
    const refusal = { code: "app_check_refused", detail: "Only pages of this site may call." };
    const network = new FakeNetwork({ [POST]: json(401, refusal) });
    const avatar = page(network, { appCheck: { token: "old" } });
    const code: ServerErrorCode = "app_check_refused";
    expect(await failure(avatar.createVoice(OPTIONS))).toMatchObject({ code, status: 401 });
  });
});

describe("was this made here", () => {
  const FOUND = {
    verdict: "copy",
    sentences: { en: "Made here.", ja: "ここで作られました。" },
    credentials: { state: "missing", made_with: "", character: "", issuer: "", signed_at: "" },
    watermark: { state: "found", bits: 17, chance: 1e-9 },
  };

  test.each([
    ["audio/wav", "audio/wav"],
    ["", "application/octet-stream"],
    ["text/html", "application/octet-stream"],
  ])("a file of the type %j is sent as %s, and the answer is read", async (type, sent) => {
    const network = new FakeNetwork({ "POST /api/v1/verifications": json(200, FOUND) });
    const avatar = new VoiceAvatar({ api: "https://api.example" }, { fetch: network.fetch });
    const found = await avatar.verify(new Blob(["RIFF"], { type }));
    expect(found).toMatchObject({ verdict: "copy", watermark: { bits: 17 } });
    expect(found.credentials.forbiddenUses).toEqual([]);
    expect(network.requests[0]?.headers.get("content-type")).toBe(sent);
  });

  test("a file that is no sound rejects with the service's code", async () => {
    const problem = { code: "unsupported_format", detail: "The file is no sound." };
    const network = new FakeNetwork({ "POST /api/v1/verifications": json(422, problem) });
    const avatar = new VoiceAvatar({ api: "https://api.example" }, { fetch: network.fetch });
    const refusal = avatar.verify(new Blob(["x"]));
    expect(await failure(refusal)).toMatchObject({ code: "unsupported_format", status: 422 });
  });
});
