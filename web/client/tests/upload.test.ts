import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { SignedUpload } from "../src/types.js";
import { put } from "../src/upload.js";

/** A request of which the test says when something of its body is sent. */
class FakeRequest {
  static last: FakeRequest;
  readonly upload: { onprogress?: (event: { loaded: number }) => void } = {};
  onabort?: () => void;
  onloadend?: () => void;

  constructor() {
    FakeRequest.last = this;
  }

  open(): void {}
  setRequestHeader(): void {}
  send(): void {}

  abort(): void {
    this.onabort?.();
    this.onloadend?.();
  }
}

const TARGET: SignedUpload = {
  method: "PUT",
  url: "https://storage.test/recording",
  headers: {},
  expiresAt: new Date(2030, 0, 1),
  maxBytes: 1000,
};

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("an upload that stands still for 30 seconds ends, one that goes on does not", async () => {
  const ended = vi.fn();
  const upload = put(TARGET, new Blob(["speech"]), undefined, undefined).catch(ended);

  await vi.advanceTimersByTimeAsync(29_000);
  FakeRequest.last.upload.onprogress?.({ loaded: 3 });
  await vi.advanceTimersByTimeAsync(29_000);
  expect(ended).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(2_000);
  await upload;

  expect(ended.mock.calls[0]?.[0]).toMatchObject({ code: "network" });
});
