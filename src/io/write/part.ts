// Rows that are a part of a data set: what has cut them out of it, as their file says it, in JSON and in words.
import { z } from 'zod';

/** The key of a file's metadata under which stands what has cut its rows out; beside JSON lines the summary has it as `part`. */
export const PART_KEY = 'rredcot.part';

/** How it is stored. */
export const PartSchema = z.discriminatedUnion('by', [
  z.object({ by: z.literal('limit'), limit: z.number() }),
  /** with what the file was before */
  z.looseObject({ by: z.literal('filter'), where: z.array(z.string()) }),
  /** chunks of a run, or files of a merged one, together the whole; `of` is null where nobody has counted them */
  z.object({ by: z.literal('pieces'), pieces: z.number(), of: z.number().nullable() }),
]);

/** What has cut rows out of a data set: their groups may lack traces. */
export type Part = Readonly<z.infer<typeof PartSchema>>;

/** What metadata, or a summary, say of it; null for what no rredcot has written there. */
export function parsePart(stored: unknown): Part | null | undefined {
  if (stored === undefined) return undefined;
  try {
    return PartSchema.parse(typeof stored === 'string' ? JSON.parse(stored) : stored);
  } catch {
    return null;
  }
}

/** What has befallen a file, as words after its name. */
export function partText(part: Part): string {
  if (part.by === 'filter') return 'was filtered';
  if (part.by === 'limit') return `was cut by --limit ${part.limit}`;
  return `has ${part.of === null ? 'not all' : `${part.pieces} of ${part.of}`} pieces of its run`;
}

/** What has the groups whole. */
export function wholeText({ by }: Part): string {
  if (by === 'filter') return 'the file before it was filtered';
  return by === 'limit' ? 'an output without --limit' : 'the run as a whole, when it is finished';
}
