// Asks the service at the address in argv[2] as OpenAI's own package does; prints what came.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: process.argv[3], maxRetries: 0 });
const text = "こんにちは。今日はいい天気ですね。";
const models = (await client.models.list()).data.map((each) => each.id);
const asked = { model: "tts-1", voice: "alloy", input: text, response_format: "wav" };
const wave = await (await client.audio.speech.create(asked)).arrayBuffer();
const refused = await client.audio.speech
  .create({ ...asked, voice: "nobody" })
  .catch((error) => ({ status: error.status, param: error.param }));
console.log(JSON.stringify({ models, bytes: wave.byteLength, refused }));
