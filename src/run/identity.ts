// What a run is: all that decides its bytes, the hash of that, and where two runs differ.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { usageError } from '../errors.js';
import { jsonOf } from '../io/arrow/json.js';
import { textOf } from '../io/files/files.js';
import { runPaths } from '../io/files/run-folder.js';
import { InputPrintSchema } from '../io/read/input-file.js';
import { PartSchema } from '../io/write/facts.js';
import { FORMATS } from '../io/write/output.js';
import { shellWord } from '../printable.js';

/** Of `_run.json`, and of what parts say of themselves. */
export const RUN_FORMAT = 4;

const RunSchema = z.object({
  format: z.literal(RUN_FORMAT),
  /** hash of the rest, but for the inputs' times */
  run: z.string().regex(/^[0-9a-f]{64}$/),
  rredcot: z.string(),
  command: z.string(),
  /** the resolved configuration, as in the output's metadata */
  config: z.record(z.string(), z.unknown()),
  /** sha256 of the policy's files; null without a policy */
  policy: z.record(z.string(), z.string()).nullable(),
  /** how the policy is run, as far as the last digits depend on it; null without a policy */
  passes: z.object({ precision: z.string() }).nullable(),
  /** format of the parts */
  output: z.enum(FORMATS),
  inputs: z.array(InputPrintSchema),
  /** of rows that are made of stored ones: what is said of those, by key of the metadata */
  made: z.record(z.string(), z.string()).optional(),
  /** what has cut the rows out of a data set; null where nothing has */
  part: PartSchema.nullable(),
  rows_per_part: z.int().min(1),
  parts: z.int().min(1),
});

/** What `_run.json` says. */
export type Run = Readonly<z.infer<typeof RunSchema>>;

/** With its identity. Time, host and shards are not in it: where they differ, the bytes are the same. */
export function describeRun(facts: Omit<Run, 'format' | 'run'>): Run {
  // as it will be read: what is undefined is not there
  const plain = JSON.parse(JSON.stringify(facts)) as typeof facts;
  const run = createHash('sha256')
    .update(JSON.stringify({ ...plain, inputs: plain.inputs.map(undated) }))
    .digest('hex');
  return { format: RUN_FORMAT, run, ...plain };
}

/** Reads what a folder's run is; undefined where there is none. @throws RredcotError (exit 2) for what no run of this version has written */
export async function readRun(folder: string): Promise<Run | undefined> {
  const path = runPaths(folder).run;
  const text = await textOf(path);
  if (text === undefined) return undefined;
  const parsed = RunSchema.safeParse(jsonOf(text));
  if (parsed.success && describeRun(parsed.data).run === parsed.data.run) return parsed.data;
  const [issue] = parsed.error?.issues ?? [];
  throw usageError(
    `${path}: ${issue === undefined ? 'was changed since it was written' : `is damaged: ${issue.path.join('.')}: ${issue.message}`}`,
    'put it back as it was, or start again with --overwrite',
  );
}

/** The first thing in which a run that is there is not the one that is asked for, as half a sentence. */
export function differenceOf(found: Run, { format: _, run: __, ...wanted }: Run): string | undefined {
  const inputs = (run: Pick<Run, 'inputs'>) => ({ inputs: run.inputs.map(undated) });
  const difference = firstDifference({ ...found, ...inputs(found) }, { ...wanted, ...inputs(wanted) });
  if (difference !== undefined) return difference;
  for (const [n, { path, mtime_ms: now }] of wanted.inputs.entries()) {
    const then = found.inputs[n]?.mtime_ms;
    if (then === now) continue;
    const [before, since] = [then, now].map((ms) => new Date(ms ?? 0).toISOString());
    return `${path} is as it was on ${before}; since then it was written, on ${since} (if its rows are the same: touch -d ${before} ${shellWord(path)})`;
  }
  return undefined;
}

/** The ends and the size of an input say that it may be another one; its time, that nobody can know. */
function undated({ mtime_ms: _, ...print }: Run['inputs'][number]) {
  return print;
}

/** The first place where a JSON value differs from one that is wanted. */
export function firstDifference(found: unknown, wanted: unknown, path = ''): string | undefined {
  if (typeof found === 'object' && typeof wanted === 'object' && found !== null && wanted !== null) {
    const [a, b] = [found as Record<string, unknown>, wanted as Record<string, unknown>];
    const own = path === '' ? Object.keys(b) : [...Object.keys(a), ...Object.keys(b)];
    for (const key of new Set(own)) {
      const difference = firstDifference(a[key], b[key], path === '' ? key : `${path}.${key}`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  if (found === wanted) return undefined;
  const text = (value: unknown) => (value === undefined ? 'not set' : JSON.stringify(value));
  return `${nameOfField(path)} is ${text(found)}, here it is ${text(wanted)}`;
}

/** Fields that are not called as their flag is. */
const FLAGS: Readonly<Record<string, string>> = {
  rule: '--sigma',
  chatTemplateArgs: '--chat-template-arg',
  weights: '--no-policy',
  rows_per_part: '--rows-per-part',
  output: '--format',
};

/** How a field of `_run.json` is called in a message: `config.maxSegments` is `--max-segments`, a hash of the policy `--policy (file)`. */
function nameOfField(path: string): string {
  const [, config, key = '', tail] = /^(config\.)?(\w+)(?:\.(?:files\.)?(.+))?$/.exec(path) ?? [];
  const isFlag = config === undefined ? key === 'policy' || Object.hasOwn(FLAGS, key) : key !== 'command';
  if (!isFlag) return path;
  const flag = FLAGS[key] ?? `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  return tail === undefined ? flag : `${flag} (${tail})`;
}
