// Lists of token ids: one after the other, and how far two begin alike.

/** Tokens with which two lists of ids begin alike. */
export function sharedTokens(a: Int32Array, b: Int32Array): number {
  const at = a.findIndex((id, t) => id !== b[t]);
  return at < 0 ? a.length : at;
}

/** Token sequences one after the other. */
export function joinIds(...parts: readonly Int32Array[]): Int32Array {
  const joined = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
