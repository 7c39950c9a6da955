// run.json: what a run is. Its identity is a hash of all that decides the bytes, and stands in everything the run makes.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { dataError, usageError } from '../errors.js';
import { MAX_SHARDS } from '../io/files/chunks.js';
import { readJson } from '../io/files/json-file.js';
import { runPaths } from '../io/files/run-paths.js';
import { InputPrintSchema } from '../io/read/unchanged.js';
import { FORMATS } from '../io/write/output.js';

/** Of run.json, the records and what else lies in a run folder. */
export const RUN_FORMAT = 3;

/** The commands that make runs. */
export const COMMANDS = ['score', 'segment', 'sample'] as const;
export type RunCommand = (typeof COMMANDS)[number];

/** A file as it lay there: enough to notice that it was written since. */
const FileStampSchema = z.object({ bytes: z.int(), mtime_ms: z.number(), inode: z.number() });
export type FileStamp = Readonly<z.infer<typeof FileStampSchema>>;

const DescriptionSchema = z.object({
  format: z.literal(RUN_FORMAT),
  /** {@link runIdentity} of the rest */
  run: z.string().regex(/^[0-9a-f]{64}$/),
  rredcot: z.string(),
  command: z.enum(COMMANDS),
  /** the resolved configuration, as in the output's metadata */
  config: z.record(z.string(), z.unknown()),
  /** sha256 of the policy's files; null without a policy */
  policy: z.record(z.string(), z.string()).nullable(),
  /** of the policy; null without one */
  vocab: z.int().positive().nullable(),
  /** how the policy is run, as far as the last digits depend on it; null without a policy */
  passes: z.object({ precision: z.string() }).nullable(),
  /** format of the chunks */
  output: z.enum(FORMATS),
  inputs: z.array(InputPrintSchema).min(1),
  shards: z.int().min(1).max(MAX_SHARDS),
  rows_per_chunk: z.int().min(1),
  /** the process that began the run */
  made_by: z.object({ host: z.string(), pid: z.int(), at: z.string() }),
  /** the policy's files when the run began; what has another stamp later is hashed again */
  policy_files: z.record(z.string(), FileStampSchema).nullable(),
});

/** What `run.json` says. */
export type RunDescription = Readonly<z.infer<typeof DescriptionSchema>>;

/** What has to be the same in every attempt at a run. */
export type SameRun = Omit<RunDescription, 'format' | 'run' | 'made_by' | 'policy_files'>;

/** A run as it is asked for, before anybody has counted the rows that say how large a chunk is. */
export type AskedRun = Omit<SameRun, 'rows_per_chunk'> & { readonly rows_per_chunk: number | undefined };

/** Rows of the output that a trace of the input becomes. */
export function rowsPerTrace({ command, config }: Pick<RunDescription, 'command' | 'config'>): number {
  return command === 'sample' && typeof config.samples === 'number' ? config.samples : 1;
}

/** What has to be the same, of all that is known of a run. */
export function sameOf(run: SameRun): SameRun {
  const { rredcot, command, config, policy, vocab, passes, output, inputs, shards, rows_per_chunk } = run;
  return { rredcot, command, config, policy, vocab, passes, output, inputs, shards, rows_per_chunk };
}

/**
 * The hash of everything that decides the bytes of a run's chunks. Time, host and the number of shards are not in it: where
 * they differ, the bytes are the same.
 */
export function runIdentity(run: SameRun): string {
  const { shards: _, inputs, ...same } = sameOf(run);
  const contents = inputs.map(({ path, bytes, head, tail, etag }) => ({ path, bytes, head, tail, etag }));
  return createHash('sha256')
    .update(JSON.stringify({ ...same, inputs: contents }))
    .digest('hex');
}

/**
 * The same of a run whose chunks may have no size yet, and as it is cut into shards: it names the folder in which a file is made, where
 * chunks lie by their shards.
 */
export function askedIdentity(asked: AskedRun): string {
  const { shards, rows_per_chunk: rows } = asked;
  const whole = runIdentity({ ...asked, rows_per_chunk: rows ?? 0 });
  return shards === 1 ? whole : createHash('sha256').update(`${whole}/${shards}`).digest('hex');
}

/**
 * Reads what a folder's run is.
 * @throws RredcotError: exit 2 where there is none that this version reads, 65 where it was changed since it was written
 */
export async function readRunDescription(folder: string): Promise<RunDescription> {
  const { run: path } = runPaths(folder);
  const found = await readJson<{ format?: unknown }>(path);
  const again = 'name the folder of a run, or start it again with --overwrite';
  if (found === undefined || found?.format !== RUN_FORMAT)
    throw usageError(
      `${path}: ${found === undefined ? 'is missing or damaged' : `has format ${found?.format}`}, expected a run.json of format ${RUN_FORMAT}`,
      again,
    );
  const parsed = DescriptionSchema.safeParse(found);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw usageError(`${path}: ${issue?.path.join('.')}: ${issue?.message}: no run says that`, again);
  }
  if (runIdentity(parsed.data) !== parsed.data.run)
    throw dataError(
      `${path}: was changed since it was written: what it says is not the run that it names`,
      'put it back as it was, or start again with --overwrite',
    );
  return parsed.data;
}

/** The first place where two JSON values differ, as half a sentence. */
export function firstDifference(found: unknown, wanted: unknown, path = ''): string | undefined {
  if (typeof found === 'object' && typeof wanted === 'object' && found !== null && wanted !== null) {
    const [a, b] = [found as Record<string, unknown>, wanted as Record<string, unknown>];
    for (const key of new Set([...Object.keys(b), ...Object.keys(a)])) {
      const difference = firstDifference(a[key], b[key], path === '' ? key : `${path}.${key}`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  if (found === wanted) return undefined;
  const text = (value: unknown) => (value === undefined ? 'not set' : JSON.stringify(value));
  return `${nameOfField(path)} is ${text(found)}, here it is ${text(wanted)}`;
}

/** Keys that are not called as their flag is. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  rule: '--sigma',
  chatTemplateArgs: '--chat-template-arg',
  weights: '--no-policy',
};

/** `maxSegments` → `--max-segments`, `rule` → `--sigma`. */
export function flagOfKey(key: string): string {
  return OTHER_NAMES[key] ?? `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

const FIELDS: Readonly<Record<string, string>> = {
  rows_per_chunk: '--rows-per-chunk',
  shards: 'the number of shards (--shard, --workers)',
  output: '--format',
};

/** How a field of run.json is called in a message. */
export function nameOfField(path: string): string {
  const [, key] = /^config\.([^.]+)/.exec(path) ?? [];
  const [, flag, own] = /^config\.(prover|calibration)\.(?:files\.)?(.+)/.exec(path) ?? [];
  if (own !== undefined) return `--${flag} (${own})`;
  if (key !== undefined) return key === 'command' ? path : flagOfKey(key);
  return FIELDS[path] ?? (path.startsWith('policy.') ? `--policy (${path.slice('policy.'.length)})` : path);
}
