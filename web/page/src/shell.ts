/** Keeps the page itself on the device, so that it opens without the internet, too. */

interface ScriptAddresses {
  readonly createPolicy: (
    name: string,
    rules: { createScriptURL: (address: string) => string },
  ) => { createScriptURL: (address: string) => string };
}

/** Registers the service worker of the built page; without one, the page needs the internet. */
export async function keepShell(): Promise<void> {
  if (!import.meta.env.PROD || !("serviceWorker" in navigator)) return;
  // The page's policy forbids addresses of scripts that are plain texts.
  const { trustedTypes } = window as { trustedTypes?: ScriptAddresses };
  const policy = trustedTypes?.createPolicy("shell", { createScriptURL: (address) => address });
  const address = policy?.createScriptURL("./shell.js") ?? "./shell.js";
  await navigator.serviceWorker.register(address).catch(() => undefined);
}
