// What a process that answers one request after the other keeps open between them: policies, tokenizers, templates.

interface Closing {
  close(): Promise<void>;
}

/** By what each is; undefined in a process that does one job, which opens and closes its own. */
let shelf: Map<string, Closing> | undefined;
/** what the request under way has asked for */
const asked = new Set<string>();

/** A request begins: from the first one on, what is closed stays open for the next. */
export function beginRequest(): void {
  shelf ??= new Map();
  asked.clear();
}

/**
 * A thing, opened if there is none. Another of its kind that this request has not asked for is closed before: memory need not hold both.
 * @param what it is, as JSON tells it: path, hashes of its files, device
 */
export async function kept<T extends Closing>(kind: string, what: unknown, open: () => Promise<T>) {
  if (shelf === undefined) return open();
  let key = `${kind} ${JSON.stringify(what)}`;
  while (asked.has(key)) key += ' again'; // two that are alike at once are two
  asked.add(key);
  if (!shelf.has(key)) await closeKept((other) => other.startsWith(`${kind} `) && !asked.has(other));
  const thing = (shelf.get(key) as T | undefined) ?? (await open());
  shelf.set(key, thing);
  const close = { value: async () => {} };
  return Object.create(thing, { close, [Symbol.asyncDispose]: close }) as T;
}

/** Closes them. */
export async function closeKept(isMeant = (_key: string): boolean => true): Promise<void> {
  for (const [key, thing] of [...(shelf ?? [])].filter(([key]) => isMeant(key))) {
    shelf?.delete(key);
    await thing.close();
  }
}
