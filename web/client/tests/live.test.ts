import { createHash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import {
  type ConvertOptions,
  type ConvertProgress,
  record,
  type RecordingSource,
  type Surroundings,
  VoiceAvatar,
  type VoiceResult,
} from "../src/voiceAvatar.js";
import {
  CREATED,
  FakeClock,
  FakeFirestore,
  FakeLive,
  FakeNetwork,
  type FakeSocket,
  FIREBASE,
  json,
  RESULT,
  until,
  VOICE_ID,
} from "./fakes.js";

const LIVE = {
  url: "wss://live.example/live",
  ticket: "t1",
  expires_at: "2999-01-01T00:00:00Z",
};
const CONTENT_TYPE = "audio/webm;codecs=opus";
const DELETE = `DELETE /api/v1/voices/${VOICE_ID}`;

/** A visitor who speaks, and what became of it. */
class Conversation {
  readonly live = new FakeLive();
  readonly firestore = new FakeFirestore();
  readonly network: FakeNetwork;
  readonly progress: ConvertProgress[] = [];
  readonly uploads: Blob[] = [];
  readonly clock = new FakeClock();
  #speech!: ReadableStreamDefaultController<Blob>;
  readonly #stream = new ReadableStream<Blob>({ start: (speech) => void (this.#speech = speech) });

  constructor(created: object = { ...CREATED, live: LIVE }) {
    this.network = new FakeNetwork({
      "POST /api/v1/voices": json(201, created),
      [DELETE]: new Response(null, { status: 204 }),
    });
  }

  say(text: string): void {
    this.#speech.enqueue(new Blob([text]));
  }

  finish(): void {
    this.#speech.close();
  }

  fail(error: Error): void {
    this.#speech.error(error);
  }

  start(
    options: Partial<ConvertOptions> = {},
    around: Partial<Surroundings> = {},
    source: RecordingSource = this.#stream,
  ): Promise<{ result: VoiceResult }> {
    const avatar = new VoiceAvatar(
      { api: "https://api.example", firebase: FIREBASE },
      {
        fetch: this.network.fetch,
        loadListen: this.firestore.load,
        openSocket: this.live.openSocket,
        pause: this.clock.pause,
        put: async (_, recording) => {
          this.uploads.push(recording);
          await this.firestore.listened;
          this.firestore.write({ status: "done", result: RESULT });
        },
        ...around,
      },
    );
    const outcome = avatar.convert(source, {
      contentType: CONTENT_TYPE,
      onProgress: (progress) => this.progress.push(progress),
      ...options,
    });
    outcome.catch(() => undefined);
    return outcome;
  }

  /** The first connection, on which the visitor has said "hel". */
  async begin(): Promise<FakeSocket> {
    this.say("hel");
    return await this.socket();
  }

  async socket(index = 0): Promise<FakeSocket> {
    await until(() => this.live.sockets[index]?.types.includes("start") ?? false);
    return this.live.sockets[index] as FakeSocket;
  }

  /** Speaks a sentence to its end. */
  async speak(): Promise<FakeSocket> {
    const socket = await this.begin();
    this.say("lo");
    this.finish();
    await until(() => socket.types.includes("end"));
    return socket;
  }

  get steps(): string[] {
    return this.progress.map(({ step }) => step);
  }
}

function audio(text: string): ArrayBuffer {
  return new TextEncoder().encode(text).buffer;
}

function done(socket: FakeSocket): void {
  socket.answer({ type: "done", voice_id: VOICE_ID, status: "done", result: RESULT });
}

describe("a recording that comes in slices", () => {
  test("is not sent to a socket that is closing", async () => {
    const conversation = new Conversation();
    void conversation.start();
    const socket = await conversation.begin();
    await until(() => socket.sent.length === 2);
    socket.readyState = socket.CLOSING;
    conversation.say("lo");
    conversation.finish();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await socket.text()).toBe("hel");
    expect(socket.types).toEqual(["start"]);
  });

  test("is sent while it is spoken, and announced in full at its end", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start();
    await until(() => conversation.steps.includes("created"));
    expect(conversation.live.opened).toEqual([]);
    const socket = await conversation.begin();
    expect(conversation.live.opened).toEqual([[LIVE.url, "voice-avatar.live.v1"]]);
    await until(() => socket.sent.length === 2);
    expect(socket.sent[0]).toEqual({
      type: "start",
      ticket: "t1",
      content_type: CONTENT_TYPE,
      hear: false,
    });
    expect(await socket.text()).toBe("hel");
    conversation.say("lo");
    conversation.finish();
    await until(() => socket.types.includes("end"));
    const sha256 = createHash("sha256").update("hello").digest("hex");
    expect(await socket.text()).toBe("hello");
    expect(socket.sent.at(-1)).toEqual({ type: "end", bytes: 5, sha256 });
    done(socket);
    await outcome;
    expect(socket.closedByClient).toBe(true);
    expect(conversation.uploads).toEqual([]);
    await until(() => conversation.firestore.subscriptions === 0);
  });

  test("has its audio before its result, and nothing is downloaded", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start();
    const socket = await conversation.speak();
    socket.answer({ type: "converted", content_type: "audio/mpeg", bytes: 3 });
    socket.answer(audio("mp"));
    expect(conversation.steps).not.toContain("converted");
    socket.answer(audio("3"));
    const [told] = conversation.progress.slice(-1);
    expect(told?.step === "converted" && (await told.audio.text())).toBe("mp3");
    done(socket);
    const { result } = await outcome;
    expect(result.url).toBe(RESULT.url);
    const downloaded = await new VoiceAvatar({ api: "https://api.example" }).download(result);
    expect([await downloaded.text(), downloaded.type]).toEqual(["mp3", "audio/mpeg"]);
    expect(conversation.steps).toEqual(["created", "uploaded", "converted"]);
  });

  test("keeps its audio when the document is done before the socket says so", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start();
    const socket = await conversation.speak();
    socket.answer({ type: "converted", content_type: "audio/mpeg", bytes: 3 });
    socket.answer(audio("mp3"));
    conversation.firestore.write({ status: "done", result: RESULT });
    expect(await (await outcome).result.audio?.text()).toBe("mp3");
    expect(socket.closedByClient).toBe(true);
  });

  test("has its audio although the document is done before it has come", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start();
    const socket = await conversation.speak();
    conversation.firestore.write({ status: "done", result: RESULT });
    await until(() => conversation.clock.pauses.includes(0.5));
    socket.answer({ type: "converted", content_type: "audio/mpeg", bytes: 3 });
    socket.answer(audio("mp3"));
    expect(await (await outcome).result.audio?.text()).toBe("mp3");
  });

  test("is done without its audio when the socket keeps that back", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start(
      {},
      { pause: new FakeClock((seconds) => seconds === 0.5).pause },
    );
    await conversation.speak();
    conversation.firestore.write({ status: "done", result: RESULT });
    expect((await outcome).result.audio).toBeUndefined();
  });

  test("is cut into messages that the service takes", async () => {
    const conversation = new Conversation();
    void conversation.start();
    conversation.say("x".repeat(70_000));
    const socket = await conversation.socket();
    await until(() => socket.sent.length === 4);
    const sizes = socket.sent.flatMap((each) => (each instanceof Blob ? [each.size] : []));
    expect(sizes).toEqual([32_768, 32_768, 4464]);
  });

  test("fails with the voice's own code, and the voice is kept", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start();
    const socket = await conversation.speak();
    socket.answer({ type: "failed", code: "silent", message: "Nothing was to be heard." });
    await expect(outcome).rejects.toMatchObject({ code: "silent" });
    expect(conversation.network.asked(DELETE)).toEqual([]);
    expect(conversation.uploads).toEqual([]);
  });

  test.each([
    ["that breaks off", (c: Conversation) => c.fail(new Error("unplugged")), "unplugged"],
    ["that is aborted", () => undefined, "aborted"],
  ])("%s ends the socket without an end, and the voice is deleted", async (_, end, message) => {
    const conversation = new Conversation();
    const abort = new AbortController();
    const outcome = conversation.start({ signal: abort.signal });
    const socket = await conversation.begin();
    end(conversation);
    if (message === "aborted") abort.abort();
    await expect(outcome).rejects.toThrow(message);
    expect(socket.closedByClient).toBe(true);
    expect(socket.types).toEqual(["start"]);
    expect(conversation.network.asked(DELETE)).toHaveLength(1);
  });
});

describe("the character is heard while the visitor speaks", () => {
  test("in numbered samples, where the caller wants it", async () => {
    const heard: unknown[] = [];
    const conversation = new Conversation();
    void conversation.start({ onHeard: (sound) => heard.push(sound) });
    const socket = await conversation.begin();
    expect(socket.sent[0]).toMatchObject({ hear: true });
    socket.answer(new Uint8Array([0xc0, 0x5d, 0, 0, 1, 0, 0xff, 0xff]).buffer);
    expect(heard).toEqual([{ firstSample: 24_000, samples: new Int16Array([1, -1]) }]);
  });
});

test("the caller learns that hearing ends, and the recording goes on", async () => {
  const conversation = new Conversation();
  const outcome = conversation.start({ onHeard: () => undefined });
  const socket = await conversation.begin();
  socket.answer({ type: "hearing_ended", reason: "busy" });
  expect(conversation.progress.at(-1)).toEqual({ step: "hearing_ended", reason: "busy" });
  await conversation.speak();
  done(socket);
  await outcome;
});

describe("a socket that does not work leads to the upload of the same bytes", () => {
  const passing = (): Partial<Surroundings> => ({
    pause: new FakeClock((seconds) => seconds < 10).pause,
  });

  async function uploaded(conversation: Conversation, outcome: Promise<unknown>): Promise<void> {
    await outcome;
    const [recording, ...others] = conversation.uploads;
    expect(others).toEqual([]);
    expect([await recording?.text(), recording?.type]).toEqual(["hello", CONTENT_TYPE]);
    expect(conversation.steps).toContain("uploaded");
    expect(conversation.network.asked(DELETE)).toEqual([]);
  }

  test.each([
    ["it is refused for good", 1, (socket: FakeSocket) => socket.break(1008)],
    ["the service is busy", 1, (socket: FakeSocket) => socket.break(1013)],
    ["it breaks twice", 2, (socket: FakeSocket) => socket.break()],
    ["it is restarted twice", 2, (socket: FakeSocket) => socket.break(1012)],
    [
      "it says so",
      1,
      (socket: FakeSocket) => socket.answer({ type: "retry", reason: "mismatch", stored: false }),
    ],
    ["it answers nonsense", 1, (socket: FakeSocket) => socket.answer("{")],
  ])("%s", async (_, connections, fault) => {
    const conversation = new Conversation();
    conversation.live.accept = (socket) => {
      socket.onopen?.();
      fault(socket);
    };
    const outcome = conversation.start();
    conversation.say("hello");
    conversation.finish();
    await uploaded(conversation, outcome);
    expect(conversation.live.sockets).toHaveLength(connections);
  });

  test("the page's policy forbids it", async () => {
    const conversation = new Conversation();
    const forbid = (): never => {
      throw new DOMException("blocked", "SecurityError");
    };
    const outcome = conversation.start({}, { openSocket: forbid });
    conversation.say("hello");
    conversation.finish();
    await uploaded(conversation, outcome);
  });

  test("it never opens", async () => {
    const conversation = new Conversation();
    conversation.live.accept = () => undefined;
    const outcome = conversation.start({}, passing());
    conversation.say("hello");
    conversation.finish();
    await uploaded(conversation, outcome);
  });

  test("it falls silent after the end", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start({}, passing());
    await conversation.speak();
    await uploaded(conversation, outcome);
  });

  test("the network does not keep up", async () => {
    const conversation = new Conversation();
    const outcome = conversation.start();
    conversation.say("hel");
    const socket = await conversation.socket();
    socket.bufferedAmount = 300_000;
    conversation.say("lo");
    await until(() => socket.closedByClient);
    conversation.finish();
    await uploaded(conversation, outcome);
  });

  test("a socket that moves slowly is waited for", async () => {
    const conversation = new Conversation();
    let seconds = 0;
    const outcome = conversation.start(
      {},
      {
        pause: (length, signal) => {
          if (length > 1) return new FakeClock().pause(length, signal);
          const [socket] = conversation.live.sockets;
          seconds += 1;
          if (socket !== undefined && seconds < 20) socket.bufferedAmount = 100 - seconds;
          if (socket !== undefined && seconds === 20) done(socket);
          return Promise.resolve();
        },
      },
    );
    await conversation.speak();
    await outcome;
    expect(conversation.uploads).toEqual([]);
  });
});

test("a connection that is lost is replaced by one that sends everything again", async () => {
  const conversation = new Conversation();
  const outcome = conversation.start();
  const first = await conversation.begin();
  await until(() => first.sent.length === 2);
  first.break(1012);
  const second = await conversation.socket(1);
  conversation.say("lo");
  conversation.finish();
  await until(() => second.types.includes("end"));
  expect(await second.text()).toBe("hello");
  done(second);
  await outcome;
  expect(conversation.uploads).toEqual([]);
});

test("a recording that is stored although its connection ends is not uploaded", async () => {
  const conversation = new Conversation();
  const outcome = conversation.start();
  const socket = await conversation.speak();
  socket.answer({ type: "retry", reason: "restarting", stored: true });
  await until(() => conversation.steps.includes("uploaded"));
  conversation.firestore.write({ status: "done", result: RESULT });
  expect((await outcome).result.url).toBe(RESULT.url);
  expect([conversation.uploads, conversation.live.sockets.length]).toEqual([[], 1]);
});

test.each([
  ["the service offers no socket", { ...CREATED, live: null }],
  ["the offer cannot be understood", { ...CREATED, live: { url: 1 } }],
])("where %s, no socket is opened", async (_, created) => {
  const conversation = new Conversation(created);
  const outcome = conversation.start();
  conversation.say("hello");
  conversation.finish();
  await outcome;
  expect(conversation.live.sockets).toEqual([]);
  expect(conversation.uploads).toHaveLength(1);
});

class Recorder extends EventTarget {
  state = "recording";
  readonly tracks = [{ stop: vi.fn() }];
  readonly stream = { getTracks: () => this.tracks };
  readonly start = vi.fn();
  stop(): void {
    this.state = "inactive";
  }
  give(text: string): void {
    this.dispatchEvent(Object.assign(new Event("dataavailable"), { data: new Blob([text]) }));
  }
  record(): ReadableStream<Blob> {
    return record(this as unknown as MediaRecorder);
  }
}

test.each([
  ["before", ["give", "stop"]],
  ["after", ["stop", "give"]],
])("a recorder's slices end when it stops, with the data %s that", async (_, order) => {
  const recorder = new Recorder();
  const reader = recorder.record().getReader();
  expect(recorder.start).toHaveBeenCalledWith(100);
  recorder.give("a");
  recorder.stop();
  for (const step of order) {
    if (step === "give") recorder.give("b");
    else recorder.dispatchEvent(new Event("stop"));
  }
  expect((await reader.read()).value?.size).toBe(1);
  expect((await reader.read()).value?.size).toBe(1);
  expect((await reader.read()).done).toBe(true);
});

test("an abort turns the microphone of a recorder off", async () => {
  const recorder = new Recorder();
  const conversation = new Conversation();
  const abort = new AbortController();
  const outcome = conversation.start({ signal: abort.signal }, {}, recorder.record());
  recorder.give("a");
  await conversation.socket();
  abort.abort();
  await expect(outcome).rejects.toThrow();
  await until(() => recorder.tracks[0]?.stop.mock.calls.length === 1);
  expect(recorder.state).toBe("inactive");
});

test("an empty recording is refused with the service's code, and nothing is sent", async () => {
  const conversation = new Conversation({ ...CREATED, live: null });
  const outcome = conversation.start({}, {}, new Blob([]));
  await expect(outcome).rejects.toMatchObject({ code: "no_audio" });
  expect(conversation.uploads).toEqual([]);
});

test("a damaged recording's result tells how much is missing", async () => {
  const conversation = new Conversation({ ...CREATED, live: null });
  const outcome = conversation.start(
    {},
    {
      put: async () => {
        await conversation.firestore.listened;
        const input = { seconds: 2.8, damaged: true, missing_seconds: 2.4 };
        conversation.firestore.write({ status: "done", input, result: RESULT });
      },
    },
  );
  conversation.say("hello");
  conversation.finish();
  expect((await outcome).result.missingSeconds).toBe(2.4);
});
