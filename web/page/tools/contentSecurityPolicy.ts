/** The page's Content-Security-Policy: nothing but what one configuration needs. */

/** The shape of config.json; `storage` only where audio does not lie on Google's own address. */
export interface SiteConfig {
  readonly api: string;
  readonly firebase?: object | null;
  readonly firestoreEmulator?: string | null;
  readonly storage?: string;
}

const LOCAL_CLOUD = ["http://127.0.0.1:*", "http://localhost:*"];

/** The policy for a site; null stands for the local cloud, whose ports are not known beforehand. */
export function contentSecurityPolicy(config: SiteConfig | null): string {
  const api = config === null ? LOCAL_CLOUD : [new URL(config.api).origin];
  const others = config === null ? [] : services(config);
  return Object.entries({
    "default-src": ["'none'"],
    "base-uri": ["'none'"],
    "connect-src": ["'self'", ...api, ...others],
    "font-src": ["'self'"],
    "form-action": ["'none'"],
    "img-src": ["'self'", ...api],
    "media-src": ["blob:"],
    "require-trusted-types-for": ["'script'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
  })
    .map(([directive, sources]) => `${directive} ${sources.join(" ")}`)
    .join("; ");
}

function services(config: SiteConfig): string[] {
  const storage = new URL(config.storage ?? "https://storage.googleapis.com").origin;
  if (config.firestoreEmulator) return [storage, `http://${config.firestoreEmulator}`];
  return config.firebase ? [storage, "https://firestore.googleapis.com"] : [storage];
}
