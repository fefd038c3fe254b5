/** Remembers in this tab, until it is closed, what a reload would lose. */

/** Returns what was kept under a name, or null; anything may be in it. */
export function keptInTab(name: string): unknown {
  try {
    return JSON.parse(sessionStorage.getItem(`voice-avatar-${name}`) ?? "null");
  } catch {
    // Storage is switched off, or holds something else.
    return null;
  }
}

export function keepInTab(name: string, value: unknown): void {
  try {
    sessionStorage.setItem(`voice-avatar-${name}`, JSON.stringify(value));
  } catch {
    // Storage is switched off: a reload begins anew.
  }
}
