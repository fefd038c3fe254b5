interface ImportMetaEnv {
  /** The api's address: `VITE_API=http://127.0.0.1:8080 npm run dev`. */
  readonly VITE_API: string;
}
