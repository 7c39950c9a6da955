// Made-up scored traces, in which a surprising token costs the reward more often than not: what a calibration is fitted to.
import type { CalibrationFile } from '../../dist/estimate/calibration.js';
import { seeded } from '../oracle/toy.js';
import type { Scene } from './scene.js';

export interface MadeTrace {
  readonly id: string;
  readonly group: string | null;
  readonly reward: number;
  /** (K+1) v̂, float32 */
  readonly values: number[];
  /** (K+1) the same of one token of the reference, which has three, float32 */
  readonly geo: number[];
  /** (K) */
  readonly ends: number[];
  /** (T) float32 */
  readonly logprobs: number[];
}

/** @param size traces a group; 1: they have none */
export function madeTraces(groups: number, size: number, seed = 1): MadeTrace[] {
  const random = seeded(seed);
  return Array.from({ length: groups * size }, (_, n) => {
    const K = 2 + Math.floor(4 * random());
    const ends = Array.from({ length: K }, (_, k) => 5 * (k + 1));
    const slip = random() < 0.4 ? Math.floor(5 * K * random()) : -1;
    const logprobs = Array.from({ length: 5 * K + 3 }, (_, t) =>
      Math.fround(t === slip ? -2.4 - 3 * random() : -0.4 * random()),
    );
    const reward = Number(random() < (slip < 0 ? 0.9 : 0.2));
    const values = [0, ...ends].map((end, k) => {
      const known = slip >= 0 && slip < end ? 0.3 : 0.6;
      return Math.fround(Math.min(1, Math.max(0, known * (0.4 + k / K) + 0.1 * (random() - 0.5))));
    });
    const group = size === 1 ? null : `g${Math.floor(n / size)}`;
    const geo = values.map((value) => Math.fround(Math.exp(Math.fround(Math.log(value)) / 3)));
    return { id: `t${n}`, group, reward, values, geo, ends, logprobs };
  });
}

/** The row of `score`'s output that such a trace stands in, as far as `calibrate` reads it. */
export function scoredLine(trace: MadeTrace, more: Readonly<Record<string, unknown>> = {}) {
  const segments = [
    ...trace.ends.map((end, k) => ({ end, kind: 'thought', value: trace.values[k + 1] })),
    { end: trace.logprobs.length, kind: 'answer', value: null },
  ];
  return {
    ...{ id: trace.id, group: trace.group, reward: trace.reward, logprobs: trace.logprobs, segments },
    value_start: trace.values[0],
    reference_logprobs: trace.values.map((value) => [Math.fround(Math.log(value))]),
    ...{ reference_tokens: [3], reference_utilities: [1], ...more },
  };
}

/** The summary that stands beside a file of such rows. */
export function summaryText(config: Readonly<Record<string, unknown>>): string {
  const counts = { traces: 0, rejects: 0, tokens: 0, sigma: 0, rejects_sha256: null };
  return JSON.stringify({ format: 2, run: '0'.repeat(64), ...counts, config });
}

/** Fits `<name>.json` to made-up rows, `<name>.jsonl`. @param more cells of a row @param config of the run that has made them */
export async function fitted(
  { done, json, write }: Pick<Scene, 'done' | 'json' | 'write'>,
  name: string,
  more: (trace: MadeTrace) => object = () => ({}),
  { config, flags = '' }: { config?: Readonly<Record<string, unknown>>; flags?: string } = {},
): Promise<CalibrationFile> {
  const made = madeTraces(12, 8).map((trace) => scoredLine(trace, more(trace) as Record<string, unknown>));
  await write(`${name}.jsonl`, made);
  if (config !== undefined) await write(`${name}.jsonl.summary.json`, summaryText(config));
  await done(`calibrate ${name}.jsonl -o ${name}.json ${flags}`);
  return json(`${name}.json`);
}
