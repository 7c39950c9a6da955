// What a process that answers one request after the other keeps open between them: policies, tokenizers, templates.

interface Closing {
  close(): Promise<void>;
}

/** By what each is; undefined in a process that does one job, which opens and closes its own. */
let shelf: Map<string, { readonly kind: string; readonly thing: Closing }> | undefined;
/** what the request under way has asked for */
const asked = new Set<string>();

/** From now on what is closed stays open for the next request. */
export function keepOpen(): void {
  shelf = new Map();
}

/**
 * The thing that is called for, opened if there is none. Another of its kind that this request has not asked for is closed before: the
 * policy has changed, and memory need not hold both.
 * @param what it is, as JSON tells it: path, hashes of its files, device
 */
export async function kept<T extends Closing>(
  kind: string,
  what: unknown,
  open: () => Promise<T>,
): Promise<T> {
  if (shelf === undefined) return open();
  let key = JSON.stringify([kind, what]);
  while (asked.has(key)) key += ' again'; // two that are alike at once are two
  asked.add(key);
  let found = shelf.get(key)?.thing as T | undefined;
  if (found === undefined) {
    await closeKept((key, ofKind) => ofKind === kind && !asked.has(key));
    found = await open();
    shelf.set(key, { kind, thing: found });
  }
  const close = { value: async () => {} };
  return Object.create(found, { close, [Symbol.asyncDispose]: close });
}

/** A request is answered, and the next may ask for the same. */
export function requestEnds(): void {
  asked.clear();
}

/** Closes them. */
export async function closeKept(isMeant = (_key: string, _kind: string): boolean => true): Promise<void> {
  for (const [key, { kind, thing }] of shelf ?? []) {
    if (!isMeant(key, kind)) continue;
    shelf?.delete(key);
    await thing.close();
  }
}
