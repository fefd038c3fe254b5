import { record, VoiceAvatar } from "@voice-avatar/client";

const avatar = new VoiceAvatar({ api: import.meta.env.VITE_API }); // the api's address

const [button, audio] = [document.querySelector("button")!, document.querySelector("audio")!];

button.addEventListener("click", async () => {
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  // What the browser can record.
  const types = ["audio/webm;codecs=opus", "audio/mp4"];
  const contentType = types.find((type) => MediaRecorder.isTypeSupported(type)) ?? "audio/webm";
  const recorder = new MediaRecorder(microphone, { mimeType: contentType });
  setTimeout(() => recorder.stop(), 5000);
  // Sent while the visitor speaks; a Blob or a promise of one works, too.
  const { result } = await avatar.convert(record(recorder), { contentType });
  audio.src = URL.createObjectURL(await avatar.download(result));
});
