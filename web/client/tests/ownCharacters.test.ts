import { describe, expect, test } from "vitest";
import { OwnCharacters } from "../src/ownCharacters.js";
import type { Listen } from "../src/types.js";
import type { Surroundings } from "../src/voiceAvatar.js";
import { CREATED, FakeNetwork, json } from "./fakes.js";

const ID = "own-abcdefghijklmnopqrstuvwxyz";
const OWNER = { characterId: ID, key: "a secret" };
const PATH = `/api/v1/own-characters/${ID}`;
const STATE = {
  character_id: ID,
  document: `own_character_states/${ID}`,
  name: "Ada",
  status: "training",
  sentence: "Today is",
  recordings: [{ recording_id: "1", kind: "speech", bytes: 7 }],
  stage: "reading",
  share: 0.5,
  error: null,
  expires_at: "2999-01-01T00:00:00Z",
  is_usable: false,
  visibility: "private",
  allowed_visibilities: ["private", "link"],
  keeps_recordings: false,
  can_train_again: false,
};

function client(network: FakeNetwork, parts: Partial<Surroundings> = {}): OwnCharacters {
  return new OwnCharacters({ api: "https://api.example" }, { fetch: network.fetch, ...parts });
}

describe("the client of an owner", () => {
  test("begins a character with the terms that its owner agrees to", async () => {
    const created = { character_id: ID, key: "a secret", sentence: "Today is" };
    const network = new FakeNetwork({ "POST /api/v1/own-characters": json(201, created) });
    const begun = await client(network).begin({
      name: "Ada",
      language: "en",
      owner: "Ada Example",
      contact: "ada@example.org",
      isMyOwnVoice: true,
      noPublicFigureNoMinor: true,
    });
    expect(begun).toEqual({ ...OWNER, sentence: "Today is" });
    expect(await network.requests[0]?.json()).toEqual({
      name: "Ada",
      language: "en",
      owner: "Ada Example",
      contact: "ada@example.org",
      is_my_own_voice: true,
      no_public_figure_no_minor: true,
    });
  });

  test("lists the characters of an account, which need no key", async () => {
    const listed = {
      character_id: ID,
      name: "Ada",
      language: "ja",
      status: "ready",
      is_usable: true,
      visibility: "link",
      created_at: "2026-11-24T12:00:00Z",
    };
    const network = new FakeNetwork({
      "GET /api/v1/own-characters": json(200, { characters: [listed] }),
      [`GET ${PATH}`]: json(200, STATE),
    });
    const owner = client(network);
    expect(await owner.list()).toEqual([
      {
        characterId: ID,
        name: "Ada",
        language: "ja",
        status: "ready",
        isUsable: true,
        visibility: "link",
        createdAt: new Date("2026-11-24T12:00:00Z"),
      },
    ]);
    await owner.show({ characterId: ID, key: null });
    expect(network.requests[1]?.headers.has("own-character-key")).toBe(false);
  });

  test("uploads a recording to its signed address, with the key and the recording's type", async () => {
    const answer = { recording_id: "r1", upload: CREATED.upload };
    const network = new FakeNetwork({ [`POST ${PATH}/recordings`]: json(201, answer) });
    const uploads: [string, Blob][] = [];
    const put: Surroundings["put"] = (target, recording) => {
      uploads.push([target.url, recording]);
      return Promise.resolve();
    };
    const recording = new Blob(["speech"], { type: "audio/webm" });
    expect(await client(network, { put }).bring(OWNER, "speech", recording)).toBe("r1");
    expect(uploads).toEqual([["https://storage.example/upload", recording]]);
    const [asked] = network.requests;
    expect(asked?.headers.get("own-character-key")).toBe("a secret");
    expect(asked?.headers.get("content-type")).toBe("application/json");
    expect(await asked?.json()).toEqual({ kind: "speech", content_type: "audio/webm" });
  });

  test("changes what the owner wants changed, and nothing else", async () => {
    const shared = { ...STATE, visibility: "link", keeps_recordings: true, name: "Eve" };
    const network = new FakeNetwork({
      [`PATCH ${PATH}`]: [json(200, shared), json(200, STATE)],
      [`POST ${PATH}/again`]: json(200, { ...STATE, status: "collecting", is_usable: true }),
    });
    const owner = client(network);
    const state = await owner.change(OWNER, { name: "Eve", visibility: "link" });
    expect(state).toMatchObject({ name: "Eve", visibility: "link", keepsRecordings: true });
    expect(state.allowedVisibilities).toEqual(["private", "link"]);
    await owner.change(OWNER, { keepsRecordings: false });
    const [first, second] = await Promise.all(
      network.requests.map((each) => each.json() as Promise<unknown>),
    );
    expect(first).toEqual({ name: "Eve", visibility: "link" });
    expect(second).toEqual({ keeps_recordings: false });
    expect(network.requests[0]?.headers.get("own-character-key")).toBe("a secret");
    expect(await owner.again(OWNER)).toMatchObject({ status: "collecting", isUsable: true });
  });

  test("tells how a character was measured, and fetches what can be compared", async () => {
    const likeness = { converted: 0.87, recorded: 0.97, reachable: null };
    const others = { converted: 0.7, before: 0.53, left: 0.6 };
    const unused = { another_voice: 12.5 };
    const card = { seconds: 200, unused, likeness, likeness_of_others: others, words: null };
    const sound = new Response("sound", { headers: { "content-type": "audio/wav" } });
    const network = new FakeNetwork({
      [`GET ${PATH}/card`]: json(200, { ...card, sounds: ["other-1-original"] }),
      [`GET ${PATH}/card/other-1-original`]: sound,
    });
    const owner = client(network);
    expect(await owner.card(OWNER)).toEqual({
      seconds: 200,
      unused,
      likeness,
      likenessOfOthers: { converted: 0.7, before: 0.53 },
      words: null,
      sounds: ["other-1-original"],
    });
    expect(await (await owner.cardSound(OWNER, "other-1-original")).text()).toBe("sound");
    const keys = network.requests.map(({ headers }) => headers.get("own-character-key"));
    expect(keys).toEqual(["a secret", "a secret"]);
  });

  test("sends no byte of a recording that is too large", async () => {
    const answer = { recording_id: "r1", upload: { ...CREATED.upload, max_bytes: 3 } };
    const network = new FakeNetwork({ [`POST ${PATH}/recordings`]: json(201, answer) });
    const put = (): Promise<void> => Promise.reject(new Error("sent"));
    const bringing = client(network, { put }).bring(OWNER, "consent", new Blob(["four"]));
    await expect(bringing).rejects.toMatchObject({ code: "too_large" });
  });

  test("tells how far a character is, and why a training failed", async () => {
    const error = { code: "another_voice", message: "Two.", recordings: ["r1"] };
    const failed = { ...STATE, status: "failed", stage: null, share: null, error };
    const network = new FakeNetwork({
      [`GET ${PATH}`]: json(200, failed),
      [`POST ${PATH}/training`]: json(202, STATE),
    });
    const state = await client(network).train(OWNER);
    expect(state).toMatchObject({ status: "training", stage: "reading", share: 0.5, error: null });
    expect(state.recordings).toEqual([{ recordingId: "1", kind: "speech", bytes: 7 }]);
    const shown = await client(network).show(OWNER);
    expect(shown.error).toMatchObject({ code: "another_voice", message: "Two." });
    expect(shown.refusedRecordings).toEqual(["r1"]);
  });

  test("waits until the training has ended, though a question is not answered", async () => {
    const ready = { ...STATE, status: "ready", stage: null, share: null };
    const network = new FakeNetwork({
      [`GET ${PATH}`]: [
        json(200, { ...STATE, status: "queued", stage: null, share: null }),
        new TypeError("no connection"),
        json(200, STATE),
        json(200, ready),
      ],
    });
    const pauses: number[] = [];
    const pause = (seconds: number): Promise<void> => {
      pauses.push(seconds);
      return Promise.resolve();
    };
    const seen: string[] = [];
    const { signal } = new AbortController();
    const final = await client(network, { pause }).wait(
      OWNER,
      ({ status }) => seen.push(status),
      signal,
    );
    expect(final.status).toBe("ready");
    expect(seen).toEqual(["queued", "training", "ready"]);
    expect(pauses).toEqual([2, 2, 2]);
  });

  test("listens to the document, and asks when it has changed", async () => {
    const ready = { ...STATE, status: "ready", stage: null, share: null };
    const network = new FakeNetwork({ [`GET ${PATH}`]: [json(200, STATE), json(200, ready)] });
    let ended = false;
    const listen: Listen = (path, onDocument) => {
      expect(path).toBe(STATE.document);
      queueMicrotask(() => onDocument({ status: "ready" }));
      return () => {
        ended = true;
      };
    };
    const waits: number[] = [];
    const pause = (seconds: number, signal: AbortSignal): Promise<void> => {
      waits.push(seconds);
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(new Error("aborted"))),
      );
    };
    const owner = new OwnCharacters(
      { api: "https://api.example", listen },
      { fetch: network.fetch, pause },
    );
    const final = await owner.wait(OWNER, () => undefined, new AbortController().signal);
    expect(final.status).toBe("ready");
    expect(network.requests).toHaveLength(2);
    expect(waits).toHaveLength(1);
    expect(ended).toBe(true);
  });

  test("asks every other second again where the listener fails", async () => {
    const ready = { ...STATE, status: "ready", stage: null, share: null };
    const network = new FakeNetwork({ [`GET ${PATH}`]: [json(200, STATE), json(200, ready)] });
    const listen: Listen = (_path, _onDocument, onError) => {
      onError(new Error("not allowed"));
      return () => undefined;
    };
    const pauses: number[] = [];
    const pause = (seconds: number): Promise<void> => {
      pauses.push(seconds);
      return Promise.resolve();
    };
    const owner = new OwnCharacters(
      { api: "https://api.example", listen },
      { fetch: network.fetch, pause },
    );
    await owner.wait(OWNER, () => undefined, new AbortController().signal);
    expect(pauses).toEqual([2]);
  });

  test("ends its waiting when the character was deleted", async () => {
    const gone = json(404, { code: "unknown_own_character", detail: "There is none." });
    const network = new FakeNetwork({ [`GET ${PATH}`]: gone });
    const { signal } = new AbortController();
    const waiting = client(network).wait(OWNER, () => undefined, signal);
    await expect(waiting).rejects.toMatchObject({ code: "unknown_own_character" });
  });

  test("deletes a recording or everything, and passes a refusal on", async () => {
    const busy = json(409, { code: "own_character_busy", detail: "It is trained." });
    const network = new FakeNetwork({
      [`DELETE ${PATH}`]: new Response(null, { status: 204 }),
      [`DELETE ${PATH}/recordings/1`]: busy,
    });
    await client(network).delete(OWNER);
    expect(network.requests[0]?.headers.get("own-character-key")).toBe("a secret");
    const removing = client(network).remove(OWNER, "1");
    await expect(removing).rejects.toMatchObject({ code: "own_character_busy", status: 409 });
  });
});
