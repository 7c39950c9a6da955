// What lies beside a file of rows tells how it was made, and what was taken from it: checked with the file.
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { verify } from '../../dist/commands/verify.js';
import { sigmaEss, sigmaMaxWeight } from '../../dist/estimate/sigma.js';
import { readSum, sumPath, writeSum } from '../../dist/io/files/json-file.js';
import { rejectsPath, summaryPath } from '../../dist/io/files/run-paths.js';
import { writeSummary } from '../../dist/run/summary-file.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const CONFIG = {
  ...{ command: 'score', estimator: 'pr', rule: 'share', residual: 'uniform', within: 'uniform' },
  baseline: 'value',
};
const REJECT = '{"file":"in.jsonl","row":1,"byte_offset":9,"id":"b","code":"map","reason":"no","raw":"{}"}\n';
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** Two segments of one token: the first raises v̂ from .25 to .75, the second leaves it. */
function scoredRow(sigma: readonly [number, number]) {
  const weights = Float32Array.from(sigma);
  const segment = (at: number, delta: number) => ({
    ...{ start: at, end: at + 1, char_start: at, char_end: at + 1, kind: 'thought', entropy: 1 },
    ...{ value: 0.75, delta, sigma: weights[at] },
  });
  return {
    ...{ id: 'a', group: null, prompt_ids: [1], completion: 'xy', completion_ids: [1, 2] },
    ...{ logprobs: [-0.5, -0.5], entropies: [1, 1], sigma: Array.from(weights) },
    segments: [segment(0, 0.5), segment(1, 0)],
    ...{ value_start: 0.25, reward: 1, baseline: 0.25, reference_utilities: [1] },
    reference_logprobs: [[Math.log(0.25)], [Math.log(0.75)], [Math.log(0.75)]],
    ...{ source_row: 0, source_item: null, status: 'ok' },
    ...{ sigma_ess: Math.fround(sigmaEss(weights)), sigma_max_weight: Math.fround(sigmaMaxWeight(weights)) },
  };
}

let file: string;

/** The file with all that lies beside it, each the hash of the other. */
async function written(sigma: readonly [number, number]): Promise<void> {
  const rows = `${JSON.stringify(scoredRow(sigma))}\n`;
  await writeFile(file, rows);
  await writeFile(rejectsPath(file), REJECT);
  const run = { run: sha256('run'), config: CONFIG, folder: join(file, '..'), rejectsSha256: sha256(REJECT) };
  expect(await writeSummary(file, run, { traces: 1, tokens: 2, rejects: 1 })).toBeUndefined();
  const summary = await readFile(summaryPath(file), 'utf8');
  const hashes = [[file, sha256(rows)] as const, [summaryPath(file), sha256(summary)] as const];
  await writeSum(file, new Map(hashes));
}

async function verified() {
  const [found, warned]: [string[], string[]] = [[], []];
  const ignore = () => {};
  const log = { text: ignore, record: ignore, progress: ignore, info: ignore };
  const code = await verify(
    file,
    { signal: new AbortController().signal, print: (line) => void found.push(line) },
    { ...log, warn: (_, line) => void warned.push(line) },
  );
  return { code, found: found.join('\n').replaceAll(file, 'FILE'), warned: warned.join('\n') };
}

beforeEach(async () => {
  file = join(await temporaryFolder(), 'scored.jsonl');
});

describe('a file of lines', () => {
  it('is sound, its rejects and its summary too', async () => {
    await written([0.95, 0.05]);
    expect(await verified()).toEqual({ code: 0, found: '', warned: '' });
  });

  it('has its σ computed again by the configuration in its summary', async () => {
    await written([0.5, 0.5]);
    const { code, found } = await verified();
    expect(code).toBe(65);
    expect(found).toMatch(/sigma\[0\] is 0\.5, from values, reward and baseline it is 0\.949/);
  });

  it('says so where its summary is gone', async () => {
    await written([0.5, 0.5]);
    await rm(summaryPath(file));
    const { code, warned } = await verified();
    expect(code).toBe(0);
    expect(warned).toMatch(/summary\.json is not there: σ and what it follows from are not computed again/);
  });

  it('does not trust a summary that was edited', async () => {
    await written([0.5, 0.5]);
    const summary = await readFile(summaryPath(file), 'utf8');
    await writeFile(summaryPath(file), summary.replace('"share"', '"uniform"'));
    expect((await verified()).found).toBe(
      'FILE.summary.json: is not the summary that was written: it has another hash than scored.jsonl.sha256 says',
    );
  });

  it('shows the row, where its bytes have another hash', async () => {
    await written([0.95, 0.05]);
    const rows = await readFile(file, 'utf8');
    await writeFile(file, rows.replace('"reward":1', '"reward":7'));
    expect((await verified()).found.split('\n')).toEqual([
      'FILE: is not the file that was written: its bytes have another hash than scored.jsonl.sha256',
      expect.stringMatching(/^FILE: row 0: \(id "a"\) reward is 7/),
    ]);
  });

  it.each([
    ['half of a hash', (sum: string) => sum.slice(0, 40)],
    ['nothing', () => ''],
    ['a line that is cut', (sum: string) => sum.slice(0, -3)],
  ])('is not blamed for a hash that is damaged: %s', async (_, damage) => {
    await written([0.95, 0.05]);
    await writeFile(sumPath(file), damage(await readFile(sumPath(file), 'utf8')));
    expect((await verified()).found).toBe(
      'FILE: scored.jsonl.sha256 beside it is damaged, and says no hash of it',
    );
  });
});

describe('rejects beside a file', () => {
  it.each([
    [
      'edited',
      () => writeFile(rejectsPath(file), REJECT.replace('"b"', '"c"')),
      'has changed since it was written',
    ],
    ['removed', () => rm(rejectsPath(file)), 'is missing, with 1 reject'],
  ])('are found %s', async (_, damage, text) => {
    await written([0.95, 0.05]);
    await damage();
    expect((await verified()).found).toBe(`FILE.rejects.jsonl: ${text}`);
  });
});

it('names of any kind come back as they were, spelt as sha256sum spells them', async () => {
  const folder = join(file, '..', 'a\nb');
  await mkdir(folder);
  const odd = join(folder, 'back\\slash\nline.jsonl');
  await writeSum(odd, new Map([[odd, sha256('1')]]));
  expect(await readFile(sumPath(odd), 'utf8')).toBe(`\\${sha256('1')}  back\\\\slash\\nline.jsonl\n`);
  expect([...((await readSum(odd)) ?? [])]).toEqual([['back\\slash\nline.jsonl', sha256('1')]]);
});
