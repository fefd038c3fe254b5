/** The page's Content-Security-Policy: it allows only what one configuration needs. */

/** The shape of config.json; `storage` only where audio is not at Google's own address. */
export interface SiteConfig {
  readonly api: string;
  readonly appCheck?: object | null;
  readonly firebase?: object | null;
  readonly firestoreEmulator?: string | null;
  readonly signIn?: object | null;
  /** Address of the socket that takes recordings while they are spoken. */
  readonly live?: string | null;
  readonly storage?: string;
}

const APP_CHECK = "https://content-firebaseappcheck.googleapis.com";
const ACCOUNTS = ["https://identitytoolkit.googleapis.com", "https://securetoken.googleapis.com"];
const RECAPTCHA = "https://www.google.com/recaptcha/";
const RECAPTCHA_FRAMES = [RECAPTCHA, "https://recaptcha.google.com/recaptcha/"];
const RECAPTCHA_SCRIPTS = [RECAPTCHA, "https://www.gstatic.com/recaptcha/"];
const LOCAL_CLOUD = ["http://127.0.0.1:*", "http://localhost:*"];
const LOCAL_SOCKETS = ["ws://127.0.0.1:*", "ws://localhost:*"];

/** The policy for a site; null stands for the local cloud, whose ports are not known beforehand. */
export function contentSecurityPolicy(config: SiteConfig | null): string {
  const api = config === null ? LOCAL_CLOUD : [new URL(config.api).origin];
  const others = config === null ? LOCAL_SOCKETS : services(config);
  const attested = isAttested(config);
  return Object.entries({
    "default-src": ["'none'"],
    "base-uri": ["'none'"],
    "connect-src": ["'self'", ...api, ...others],
    "font-src": ["'self'"],
    "form-action": ["'none'"],
    ...(attested ? { "frame-src": RECAPTCHA_FRAMES } : {}),
    "img-src": ["'self'", ...api],
    "manifest-src": ["'self'"],
    "media-src": ["blob:"],
    // reCAPTCHA does not support trusted types: its script adds other scripts by their URL.
    ...(attested ? {} : { "require-trusted-types-for": ["'script'"] }),
    "script-src": ["'self'", ...(attested ? RECAPTCHA_SCRIPTS : [])],
    "style-src": ["'self'"],
    "worker-src": ["'self'"],
  })
    .map(([directive, sources]) => `${directive} ${sources.join(" ")}`)
    .join("; ");
}

function services(config: SiteConfig): string[] {
  const storage = new URL(config.storage ?? "https://storage.googleapis.com").origin;
  const live = config.live ? [new URL(config.live).origin] : [];
  const attestation = isAttested(config) ? [APP_CHECK, RECAPTCHA] : [];
  const accounts = config.signIn ? ACCOUNTS : [];
  return [storage, ...live, ...firestore(config), ...accounts, ...attestation];
}

function firestore({ firebase, firestoreEmulator }: SiteConfig): string[] {
  if (firestoreEmulator) return [`http://${firestoreEmulator}`];
  return firebase ? ["https://firestore.googleapis.com"] : [];
}

/** Whether the page loads reCAPTCHA for Firebase App Check; it does not need it for a fixed token. */
function isAttested(config: SiteConfig | null): boolean {
  return Boolean(config?.appCheck) && !("token" in (config?.appCheck ?? {}));
}
