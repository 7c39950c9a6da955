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
 * A thing, opened if there is none. Another of its kind that this request has not asked for is closed before: memory need not hold both.
 * @param what it is, as JSON tells it: path, hashes of its files, device
 */
export async function kept<T extends Closing>(kind: string, what: unknown, open: () => Promise<T>) {
  if (shelf === undefined) return open();
  let key = JSON.stringify([kind, what]);
  while (asked.has(key)) key += ' again'; // two that are alike at once are two
  asked.add(key);
  const isHere = shelf.has(key);
  if (!isHere) await closeKept((other, ofKind) => ofKind === kind && !asked.has(other));
  const thing = isHere ? (shelf.get(key)?.thing as T) : await open();
  shelf.set(key, { kind, thing });
  const close = { value: async () => {} };
  return Object.create(thing, { close, [Symbol.asyncDispose]: close }) as T;
}

/** A request is answered, and the next may ask for the same. */
export function requestEnds(): void {
  asked.clear();
}

/** Closes them. */
export async function closeKept(isMeant = (_key: string, _kind: string): boolean => true): Promise<void> {
  for (const [key, { kind, thing }] of shelf ?? [])
    if (isMeant(key, kind)) {
      shelf?.delete(key);
      await thing.close();
    }
}
