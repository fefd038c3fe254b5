/**
 * The service worker: answers with the page as it was built when the internet is out of reach.
 * The build writes the names of the page's files in place of SHELL.
 */
/* global SHELL, self, caches, fetch, clients */
const NAME = SHELL.join(" ");
const OWN = new Set(SHELL.map((name) => new URL(name, self.registration.scope).href));

self.addEventListener("install", (event) => {
  const keep = async () => {
    const cache = await caches.open(NAME);
    // A site may do without config.json.
    await Promise.allSettled(SHELL.map((name) => cache.add(name)));
  };
  event.waitUntil(keep());
  void self.skipWaiting();
});

self.addEventListener("activate", (event) => {
  const clean = async () => {
    for (const name of await caches.keys()) if (name !== NAME) await caches.delete(name);
    await clients.claim();
  };
  event.waitUntil(clean());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const address = request.mode === "navigate" ? self.registration.scope : request.url;
  if (request.method !== "GET" || !OWN.has(address)) return;
  // What is newer on the site comes first, so that nobody keeps an old page.
  event.respondWith(fetch(request).catch(() => caches.match(address)));
});
