// Reads a run's inputs again for `verify`: whether they are what they were, and how many traces each row holds.

import { EXIT, RredcotError } from '../errors.js';
import { fileError, statIfThere } from '../io/files/file-error.js';
import { mapRow } from '../io/map/map.js';
import { withHiveKeys } from '../io/read/find-files.js';
import { readRows, resolveInputs } from '../io/read/inputs.js';
import { fileFingerprint, type InputPrint } from '../io/read/unchanged.js';
import { isBad } from '../rows.js';
import type { ExpectedTrace, RereadRow } from '../scored/check-chunk.js';
import type { Finding } from '../scored/check-rows.js';
import { codePoints } from '../scored.js';
import type { Trace } from '../trace.js';
import type { RunDescription } from './description.js';
import { resolveMapping } from './mapping.js';

/** Reads and maps the rows of the inputs that a run names again, with the run's own configuration. */
export async function* rereadRows(run: RunDescription): AsyncGenerator<RereadRow> {
  const { command, config, policy } = run;
  const inputs = withHiveKeys(await resolveInputs(run.inputs.map(({ path }) => path)));
  const given = { map: textOf(config.map), preset: textOf(config.preset) ?? 'none' };
  const { map } = await resolveMapping(inputs, given);
  const isSampled = command === 'sample';
  const needs = { prompt: policy !== null, references: command === 'score', completion: !isSampled };
  const limit = typeof config.limit === 'number' ? config.limit : Number.POSITIVE_INFINITY;
  const expectedOf = (trace: Trace) =>
    isSampled ? expectedSamples(trace, config.samples) : [expectedTrace(trace, config)];
  let taken = 0;
  for await (const row of readRows(inputs)) {
    if (taken >= limit) return;
    const found = isBad(row) ? [null] : [...mapRow(row, map, needs)];
    const expected = found.flatMap((each) => (each === null || isBad(each) ? [] : expectedOf(each)));
    yield { file: row.file, row: row.row, traces: Math.min(found.length, limit - taken), expected };
    taken += found.length;
  }
}

/** What the output has to say of a trace. */
function expectedTrace(trace: Trace, { rewardRange }: RunDescription['config']): ExpectedTrace {
  const [low, high] = Array.isArray(rewardRange) ? (rewardRange as [number, number]) : [0, 1];
  const { id, group = null, reward, isVerdict, completion } = trace;
  return {
    id,
    group,
    reward: reward === null ? null : Math.fround(isVerdict ? reward : (reward - low) / (high - low)),
    characters: completion === '' ? null : codePoints(completion),
  };
}

/** The same where every row is a completion of the trace's prompt. */
function expectedSamples({ id, group = id }: Trace, samples: unknown): ExpectedTrace[] {
  return Array.from({ length: Number(samples) }, (_, m) => ({
    id: `${id}/${m}`,
    group,
    reward: null,
    characters: null,
  }));
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Compares the inputs that a run names with what they were. */
export async function inspectInputs({ config, inputs }: RunDescription) {
  /** those that hold something else than the run has read */
  const replaced: Finding[] = [];
  /** those with another time, but the same size and the same first and last MiB */
  const touched: string[] = [];
  /** why their rows cannot be read again, as half a sentence */
  let unread: string | undefined;
  for (const print of inputs) {
    const { path } = print;
    if (print.bytes === null) {
      unread ??= `${path === '-' ? 'stdin' : path} could be read only once`;
      continue;
    }
    try {
      const present = await statIfThere(path);
      const found = present?.isFile() ? await fileFingerprint(path) : null;
      const difference = found === null ? 'it is no file any more' : differenceOf(found, print);
      if (present === null) unread ??= `${path} is gone`;
      else if (difference !== undefined)
        replaced.push({ file: path, text: `is not the input that the run has read: ${difference}` });
      else if (found?.mtime_ms !== print.mtime_ms) touched.push(path);
    } catch (error) {
      const named = fileError(error, path, 'read');
      if (!(named instanceof RredcotError) || named.exitCode !== EXIT.usage) throw named;
      unread ??= named.message;
    }
  }
  if (config.join !== undefined) unread ??= 'they were joined with another file, which is not read again';
  return { replaced, touched, unread };
}

function differenceOf(found: InputPrint, expected: InputPrint): string | undefined {
  if (found.bytes !== expected.bytes) return `${found.bytes} bytes, expected ${expected.bytes}`;
  if (found.etag !== expected.etag) return `its ETag is ${found.etag}, expected ${expected.etag}`;
  if (found.head !== expected.head) return 'its first MiB differs';
  return found.tail === expected.tail ? undefined : 'its last MiB differs';
}
