// Checks a running process reward model: alone, by prefixes and in batches it has to say the same, and what others say.
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { type Difference, Largest } from './check.js';
import type { PrmReads } from './prm-session.js';

const PLACES = 8;

/**
 * Reads ids (T) once, then each of its prefixes by itself, then all of them in one batch, where most are padded.
 * Differences are of P(right).
 */
export async function compareReadings(session: PrmReads, ids: Int32Array): Promise<Difference[]> {
  const rows = [...new Set(Array.from({ length: PLACES }, (_, i) => rowAt(i, ids.length)))];
  const [whole] = (await session.read([{ ids, rows: Int32Array.from(rows) }])) as [Float32Array];
  const prefixes = rows.map((row) => ({ ids: ids.slice(0, row + 1), rows: Int32Array.of(row) }));
  const [prefix, batch] = [new Largest('prefix − whole, P'), new Largest('batch − alone, P')];
  const together = await session.read(prefixes);
  for (const [i, own] of prefixes.entries()) {
    const [alone] = (await session.read([own])) as [Float32Array];
    prefix.add(alone, whole.subarray(i, i + 1), rows[i] as number);
    batch.add(together[i] as Float32Array, alone, rows[i] as number);
  }
  return [prefix.result(), batch.result()];
}

function rowAt(i: number, length: number): number {
  return Math.round((i * (length - 1)) / (PLACES - 1));
}

const ReferenceFile = z.object({
  ids: z.array(z.number().int().nonnegative()).min(1),
  correct: z.array(z.number().min(0).max(1)).min(1),
  tolerance: z.number().positive().optional(),
});

/** What another implementation says of a token sequence: P(right) at every token, (T) each. */
export interface PrmReference {
  readonly ids: Int32Array;
  readonly correct: readonly number[];
  readonly tolerance: number | undefined;
}

/** @throws RredcotError (exit 2) where the file is not {ids, correct} of one length */
export async function readPrmReference(path: string, vocab: number): Promise<PrmReference> {
  const fail = (reason: string): never => {
    throw usageError(
      `${path}: ${reason.replaceAll(/\s*\n\s*/g, ' ')}`,
      'make one with examples/make_reference.py: {"ids": (T), "correct": (T)}',
    );
  };
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    return fail(`cannot be read as JSON (${(cause as Error).message})`);
  }
  const parsed = ReferenceFile.safeParse(value);
  if (!parsed.success) return fail(z.prettifyError(parsed.error));
  const { ids, correct, tolerance } = parsed.data;
  if (correct.length !== ids.length)
    return fail(`has ${correct.length} numbers in correct, expected ${ids.length}`);
  const beyond = ids.find((id) => id >= vocab);
  if (beyond !== undefined) return fail(`has the id ${beyond}, the model's vocabulary has ${vocab} tokens`);
  return { ids: Int32Array.from(ids), correct, tolerance };
}

export async function comparePrmReference(
  session: PrmReads,
  { ids, correct }: PrmReference,
): Promise<Difference[]> {
  const [found] = (await session.read([{ ids, rows: Int32Array.from(ids.keys()) }])) as [Float32Array];
  const difference = new Largest('model − reference, P');
  difference.add(found, correct, 0);
  return [difference.result()];
}
