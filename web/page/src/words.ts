/** Every sentence of the page, in Japanese and English. */

export type Language = "en" | "ja";

const en = {
  language: "en",
  otherLanguage: "日本語",
  headlineStart: (name: string) => `Your words, in ${name}’s voice.`,
  headlineRecording: "Listening…",
  headlineBusy: (name: string) => `Becoming ${name}…`,
  headlineDone: (name: string) => `You, as ${name}.`,
  leadStart: (min: string, max: string) =>
    `Press record and say a sentence of ${min} to ${max} seconds.`,
  leadRecording: "Speak as you like. Press again when you have finished.",
  leadBusy: "It takes a moment.",
  leadDone: "Compare the two, keep it, or say something else.",
  leadType: "Type a sentence, then press the button.",
  headlineBusyText: (name: string) => `${name} is about to speak…`,
  headlineDoneText: (name: string) => `${name} says it.`,
  leadDoneText: "Listen again, keep it, or type something else.",
  modeSpeak: "Speak",
  modeType: "Type",
  mode: "Speak or type",
  text: "Your text",
  textHint: "Type what is to be said.",
  textLength: (count: string, most: string) => `${count} of ${most} characters`,
  textMissing: "Type a sentence first.",
  textTooLong: (most: string) => `The text may have at most ${most} characters: shorten it.`,
  wishes: "How it is spoken",
  speed: "Speed",
  intonation: "Intonation",
  volume: "Volume",
  pauses: "Pauses",
  style: "Style",
  usual: "Back to the usual way",
  say: "Say it",
  sayAgain: "Say it like this",
  typeAgain: "Change the text",
  record: "Record",
  stop: "Stop",
  cancel: "Cancel",
  play: "Play",
  pause: "Pause",
  tryAgain: "Try again",
  recordAgain: "Record again",
  convertAgain: "Convert again",
  hearAs: (name: string) => `Hear it as ${name}`,
  typeInstead: "Type instead",
  cannotSpeak: (name: string) =>
    `${name} only speaks typed text. Type, or choose another character.`,
  cannotType: (name: string) =>
    `${name} cannot speak typed text. Speak, or choose another character.`,
  textOnly: "typed text only",
  speechOnly: "no typed text",
  download: "Download",
  downloadWav: "WAV",
  share: "Share",
  madeInThisVisit: "Made in this visit",
  deleteNow: "Delete now",
  deleted: "Deleted. Nothing of it is kept.",
  notDeleted: "It could not be deleted just now. Please try once more.",
  dropHint: " or drop one here",
  chooseFile: "Choose an audio file",
  dropHere: "Drop your recording",
  character: "Character",
  searchCharacters: (count: string) => `Search ${count} characters`,
  charactersFound: (count: string) =>
    count === "0" ? "No character is called that." : `Found: ${count}`,
  terms: "Terms of use",
  credits: "Credits",
  pitch: "Pitch",
  pitchAuto: "Automatic",
  pitchByHand: "By hand",
  semitones: (shift: string) => `${shift} semitones`,
  comparison: "Compare the two voices",
  hear: "Hear the character while you speak",
  hearingEnded: "The character cannot be heard just now; go on speaking.",
  hearHint: "With headphones only: loudspeakers would be recorded, too. The result sounds better.",
  you: "You",
  seconds: (value: string) => `${value} s`,
  sampleOf: (name: string) => `Hear ${name}`,
  sample: (name: string) => `Hello, I am ${name}. Say something, and I say it after you.`,
  sampleFailed: "This sample cannot be heard just now. Please try again.",
  playOf: (name: string) => `Play: ${name}`,
  pauseOf: (name: string) => `Pause: ${name}`,
  waitingForMicrophone: "Waiting for the microphone…",
  recordingStarted: (max: string) => `Recording, up to ${max} seconds.`,
  secondsLeft: (left: string) => `${left} seconds left.`,
  stageUploading: "Sending",
  stageQueued: "Queued",
  stageConverting: "Converting",
  stageDone: "Done",
  offlineWaiting: "You are offline. It goes on by itself as soon as you are back.",
  inLine: (seconds: string) =>
    `Many people are here just now. It is your turn in about ${seconds} seconds; nothing is lost.`,
  resultReady: (name: string) => `Done. You are hearing ${name}.`,
  code: (code: string) => `Code: ${code}`,
  loading: "One moment…",
  verifyTitle: "Was this made here?",
  verifyHow: "Choose a sound of at most a minute. Nothing of it is kept.",
  verifyBusy: "Looking for our signs…",
  verifyFailed: "This file could not be checked. It must be a sound of at most a minute and 10 MB.",
  verifyLater: "Just now the file cannot be checked. Please try again.",
  privacy:
    "Recordings, texts and results are erased after a day, or at once with “Delete now”. What you hear is synthetic speech.",
  problems: {
    microphone_refused: [
      "The microphone is blocked.",
      "Allow it for this page in the browser’s address bar, then press Try again. Or choose an audio file.",
    ],
    no_microphone: [
      "No microphone was found.",
      "Connect one and press Try again, or choose an audio file.",
    ],
    microphone_busy: [
      "The microphone does not answer.",
      "Another program may be using it. Close that one and press Try again.",
    ],
    insecure: [
      "Recording needs a secure address.",
      "Browsers give the microphone only to pages opened with https. You can still choose an audio file.",
    ],
    unsupported_browser: [
      "This browser cannot record.",
      "Use a current browser, or choose an audio file.",
    ],
    too_short: ["That was too short.", "Speak for at least a second."],
    too_long: [
      "That is too long.",
      "At most ten seconds are converted. Cut the file, or record a sentence.",
    ],
    too_large: ["That file is too large.", "Choose a short audio file of a few megabytes at most."],
    silent: [
      "Nothing was to be heard.",
      "Check that the right microphone is chosen and not muted, then record again.",
    ],
    unsupported: [
      "This file cannot be read as audio.",
      "Choose a WAV, MP3, M4A, OGG, FLAC or WebM file, or record a sentence.",
    ],
    network: [
      "The connection broke off.",
      "Your recording is still here. It is tried again as soon as you are online, or press Try again.",
    ],
    upload_expired: [
      "The upload came too late.",
      "Its address was valid for some minutes only. Your recording is still here: press Try again.",
    ],
    link_expired: [
      "The link to the result has expired.",
      "Your recording is still here: press Try again and it is converted anew.",
    ],
    rate_limited: ["A little slower, please.", "Wait a moment, then press Try again."],
    crowded: [
      "Too many people are here just now.",
      "Nothing is lost: wait a minute, then press Try again.",
    ],
    unknown_voice: [
      "This voice has been deleted.",
      "Press Try again to convert the recording anew.",
    ],
    unknown_character: [
      "This character is not here any more.",
      "Choose another one: the list is up to date again.",
    ],
    text_too_long: ["That is too long to be said.", "Shorten the text and try again."],
    nothing_to_say: ["There is nothing to be said.", "Type at least one word."],
    text_unreadable: [
      "This text cannot be read aloud.",
      "Write it in the character’s language, without unusual signs.",
    ],
    wrong_character: [
      "This character cannot do that.",
      "Choose another character, or speak instead of typing.",
    ],
    timed_out: ["It takes too long.", "Your recording is still here: press Try again."],
    server: ["Something went wrong on our side.", "Your recording is still here: press Try again."],
    page: ["The service cannot be reached.", "Check your connection, then press Try again."],
  },
} as const;

/** The same keys and parameters as in English, with other words. */
type Translated<T> = T extends string
  ? string
  : T extends (...args: infer A) => string
    ? (...args: A) => string
    : { readonly [K in keyof T]: Translated<T[K]> };

export type Words = Translated<typeof en>;
export type ProblemKey = keyof Words["problems"];

const ja: Words = {
  language: "ja",
  otherLanguage: "English",
  headlineStart: (name) => `あなたのことばを、${name}の声で。`,
  headlineRecording: "聞いています…",
  headlineBusy: (name) => `${name}の声に変えています…`,
  headlineDone: (name) => `${name}になった、あなたの声。`,
  leadStart: (min, max) => `録音ボタンを押して、${min}〜${max}秒ほど話してください。`,
  leadRecording: "自由に話してください。終わったらもう一度押します。",
  leadBusy: "少しだけお待ちください。",
  leadDone: "聞き比べたり、保存したり、もう一度話してみてください。",
  leadType: "文を入力して、ボタンを押してください。",
  headlineBusyText: (name) => `${name}が話します…`,
  headlineDoneText: (name) => `${name}が話しました。`,
  leadDoneText: "もう一度聞いたり、保存したり、別の文を入力したりできます。",
  modeSpeak: "話す",
  modeType: "入力する",
  mode: "話すか入力するか",
  text: "読み上げる文",
  textHint: "読み上げてほしい文を入力してください。",
  textLength: (count, most) => `${count} / ${most}文字`,
  textMissing: "先に文を入力してください。",
  textTooLong: (most) => `${most}文字までです。短くしてください。`,
  wishes: "話し方",
  speed: "話す速さ",
  intonation: "抑揚",
  volume: "音量",
  pauses: "間の長さ",
  style: "スタイル",
  usual: "元に戻す",
  say: "話してもらう",
  sayAgain: "この設定で話してもらう",
  typeAgain: "文を変える",
  record: "録音",
  stop: "停止",
  cancel: "中止",
  play: "再生",
  pause: "一時停止",
  tryAgain: "もう一度",
  recordAgain: "録音し直す",
  convertAgain: "この設定で変換し直す",
  hearAs: (name) => `${name}の声で聞く`,
  typeInstead: "文を入力する",
  cannotSpeak: (name) =>
    `${name}は入力した文だけを話します。文を入力するか、別のキャラクターを選んでください。`,
  cannotType: (name) =>
    `${name}は入力した文を話せません。録音するか、別のキャラクターを選んでください。`,
  textOnly: "入力した文のみ",
  speechOnly: "文の入力は不可",
  download: "ダウンロード",
  downloadWav: "WAV",
  share: "共有",
  madeInThisVisit: "今回作った音声",
  deleteNow: "今すぐ削除",
  deleted: "削除しました。データは残っていません。",
  notDeleted: "削除できませんでした。もう一度お試しください。",
  dropHint: "か、ここにドロップ",
  chooseFile: "音声ファイルを選ぶ",
  dropHere: "ここにドロップ",
  character: "キャラクター",
  searchCharacters: (count) => `${count}人のキャラクターを検索`,
  charactersFound: (count) =>
    count === "0" ? "見つかりませんでした。" : `${count}人見つかりました`,
  terms: "利用規約",
  credits: "クレジット",
  pitch: "声の高さ",
  pitchAuto: "自動",
  pitchByHand: "手動",
  semitones: (shift) => `${shift} 半音`,
  comparison: "二つの声を聞き比べる",
  hear: "話しながらキャラクターの声を聞く",
  hearingEnded: "今は声を聞けませんが、そのまま話してください。",
  hearHint:
    "ヘッドホンをお使いください。スピーカーの音は録音に入ります。仕上がりの声はもっときれいです。",
  you: "あなた",
  seconds: (value) => `${value}秒`,
  sampleOf: (name) => `${name}の声を聞く`,
  sample: (name) => `こんにちは、${name}です。あなたの言葉を、わたしの声で話します。`,
  sampleFailed: "この見本は今は聞けません。もう一度お試しください。",
  playOf: (name) => `再生：${name}`,
  pauseOf: (name) => `一時停止：${name}`,
  waitingForMicrophone: "マイクの準備をしています…",
  recordingStarted: (max) => `録音中です。最長${max}秒です。`,
  secondsLeft: (left) => `残り${left}秒です。`,
  stageUploading: "送信",
  stageQueued: "順番待ち",
  stageConverting: "変換",
  stageDone: "完了",
  offlineWaiting: "オフラインです。つながり次第、自動で続きます。",
  inLine: (seconds) =>
    `ただいま混み合っています。あと${seconds}秒ほどで順番が来ます。内容は失われません。`,
  resultReady: (name) => `できました。${name}の声を再生しています。`,
  code: (code) => `コード：${code}`,
  loading: "お待ちください…",
  verifyTitle: "ここで作られた音声ですか？",
  verifyHow: "1分以内の音声ファイルを選んでください。ファイルは保存されません。",
  verifyBusy: "印を探しています…",
  verifyFailed: "このファイルは確認できません。1分以内、10MB以下の音声ファイルを選んでください。",
  verifyLater: "今は確認できません。もう一度お試しください。",
  privacy:
    "録音、入力した文、変換結果は1日で消去されます。「今すぐ削除」ですぐに消すこともできます。再生されるのは合成音声です。",
  problems: {
    microphone_refused: [
      "マイクの使用が許可されていません。",
      "アドレスバーからこのページのマイクを許可して「もう一度」を押すか、音声ファイルを選んでください。",
    ],
    no_microphone: [
      "マイクが見つかりません。",
      "マイクを接続して「もう一度」を押すか、音声ファイルを選んでください。",
    ],
    microphone_busy: [
      "マイクが応答しません。",
      "ほかのアプリが使っているかもしれません。閉じてから「もう一度」を押してください。",
    ],
    insecure: [
      "録音には安全な接続が必要です。",
      "マイクは https のページでのみ使えます。音声ファイルを選ぶことはできます。",
    ],
    unsupported_browser: [
      "このブラウザーでは録音できません。",
      "新しいブラウザーを使うか、音声ファイルを選んでください。",
    ],
    too_short: ["短すぎました。", "1秒以上話してください。"],
    too_long: ["長すぎます。", "変換できるのは10秒までです。短く切るか、録音してください。"],
    too_large: ["ファイルが大きすぎます。", "数メガバイトまでの短い音声を選んでください。"],
    silent: [
      "音が入っていませんでした。",
      "マイクの選択とミュートを確かめて、録音し直してください。",
    ],
    unsupported: [
      "音声として読み取れないファイルです。",
      "WAV、MP3、M4A、OGG、FLAC、WebM のファイルを選ぶか、録音してください。",
    ],
    network: [
      "接続が途切れました。",
      "録音は残っています。つながり次第やり直します。「もう一度」でもやり直せます。",
    ],
    upload_expired: [
      "送信の期限が切れました。",
      "送信先は数分間だけ有効です。録音は残っています。「もう一度」を押してください。",
    ],
    link_expired: [
      "結果のリンクの期限が切れました。",
      "録音は残っています。「もう一度」で変換し直します。",
    ],
    rate_limited: ["少し間をあけてください。", "しばらく待ってから「もう一度」を押してください。"],
    crowded: [
      "ただいま大変混み合っています。",
      "内容は残っています。1分ほど待ってから「もう一度」を押してください。",
    ],
    unknown_voice: ["この音声は削除されています。", "「もう一度」で録音を変換し直します。"],
    unknown_character: [
      "このキャラクターは使えなくなりました。",
      "一覧を更新しました。別のキャラクターを選んでください。",
    ],
    text_too_long: ["文が長すぎます。", "短くして、もう一度お試しください。"],
    nothing_to_say: ["読み上げるものがありません。", "一語以上入力してください。"],
    text_unreadable: [
      "この文は読み上げられません。",
      "キャラクターの言語で、特殊な記号を使わずに書いてください。",
    ],
    wrong_character: [
      "このキャラクターではできません。",
      "別のキャラクターを選ぶか、入力せずに話してください。",
    ],
    timed_out: ["時間がかかりすぎています。", "録音は残っています。「もう一度」を押してください。"],
    server: ["サーバーで問題が起きました。", "録音は残っています。「もう一度」を押してください。"],
    page: ["サービスに接続できません。", "接続を確かめて「もう一度」を押してください。"],
  },
};

export const WORDS: Readonly<Record<Language, Words>> = { en, ja };

/** The first of the visitor's languages that the page has; English if it has none of them. */
export function preferredLanguage(languages: readonly string[]): Language {
  for (const language of languages) {
    const base = language.toLowerCase().split("-")[0];
    if (base === "ja" || base === "en") return base;
  }
  return "en";
}
