// Asks the service at the address in argv[2] for everything that the client can ask for.
const { default: Client } = require("voicevox-client");

async function visit(address) {
  const client = new Client(address);
  const [speaker] = await client.fetchSpeakers();
  const style = speaker.styles[0].id;
  const query = await client.createAudioQuery("こんにちは。", style);
  const wave = await query.synthesis(style);
  const preset = {
    id: 7,
    name: "fast",
    speaker_uuid: speaker.speaker_uuid,
    style_id: style,
    speedScale: 2,
    pitchScale: 0,
    intonationScale: 1,
    volumeScale: 1,
    prePhonemeLength: 0.1,
    postPhonemeLength: 0.1,
  };
  const added = await client.addPreset(preset);
  const fast = await client.createAudioQueryFromPreset("こんにちは。", added);
  const fastWave = await fast.synthesis(style);
  const presets = await client.fetchPresets();
  await client.deletePreset(added);
  return {
    speaker: speaker.name,
    added,
    presets: presets.map((each) => each.name),
    left: (await client.fetchPresets()).length,
    bytes: wave.byteLength,
    fastBytes: fastWave.byteLength,
  };
}

visit(process.argv[2]).then((seen) => console.log(JSON.stringify(seen)));
