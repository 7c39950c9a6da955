/** Every segmenter through the whole program: what is written holds together, follows from its figures, and is found wrong where it is not. */
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { beforeAll, describe, expect, it } from 'vitest';
import { HASH_KEY, sealFile, UNSEALED } from '../../dist/io/files/seal.js';
import { cutpoints, entropyShareCuts, piecesBetween } from '../oracle/segmenters.js';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, readJsonl, type ScoredRow, temporaryFolder } from '../support/program.js';

let folder: string;
let input: string;

beforeAll(async () => {
  folder = await temporaryFolder();
  input = join(folder, 'four.jsonl');
  const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 4);
  await writeFile(input, `${lines.join('\n')}\n`);
});

const thoughtEnds = ({ segments }: ScoredRow) =>
  segments.flatMap(({ kind, end }) => (kind === 'thought' ? [end as number] : []));

/** A run folder: its description is what verify holds the segments against. */
async function scored(name: string, ...flags: string[]): Promise<ScoredRow[]> {
  const out = join(folder, name);
  const asked = ['--format', 'jsonl', '--quiet', '--segmenter', ...flags];
  const run = await rredcotHere(['score', input, '-o', `${out}/`, ...asked]);
  expect(run.code, run.stderr).toBe(0);
  const verified = await rredcotHere(['verify', out, '--quiet']);
  expect(verified.code, verified.stdout).toBe(0);
  return readJsonl<ScoredRow>(join(out, 'chunks/00000-of-00001/000000.jsonl'));
}

/** The bundled policy's tokens: a character each, but for its two tags and an end token without text. */
function thoughtOf({ completion, completion_ids: ids }: ScoredRow) {
  const tokens = [...(completion.match(/<\/?think>|./gs) ?? []), ''];
  expect(tokens).toHaveLength(ids.length);
  return { tokens, thought: { start: 2, end: tokens.indexOf('</think>'), textEnd: tokens.length - 1 } };
}

describe('score and verify', () => {
  it('cutpoint: cuts where the oracle does by the figures in the file', async () => {
    const flags = ['cutpoint', '--cutpoint-every', '2', '--cutpoint-probability', '0.95'];
    const rows = await scored('cutpoint', ...flags);
    let made = 0;
    for (const row of rows) {
      const { tokens, thought } = thoughtOf(row);
      const cuts = cutpoints(row.logprobs, thought, 0.95, 2);
      made += cuts.length;
      expect(thoughtEnds(row)).toEqual(piecesBetween(cuts, tokens, thought));
    }
    expect(made).toBeGreaterThan(4);
  });

  it('entropy: cuts where the oracle does, and is merged by --max-segments', async () => {
    const rows = await scored('entropy', 'entropy', '--entropy-share', '0.1');
    for (const row of rows) {
      const { tokens, thought } = thoughtOf(row);
      const cuts = entropyShareCuts(row.entropies, thought, 0.1);
      expect(cuts.length).toBeGreaterThan(5);
      expect(thoughtEnds(row)).toEqual(piecesBetween(cuts, tokens, thought));
    }
    const three = await scored('three', 'entropy', '--max-segments', '3');
    for (const [n, row] of three.entries()) {
      expect(thoughtEnds(row)).toHaveLength(3);
      expect(thoughtEnds(rows[n] as ScoredRow)).toEqual(expect.arrayContaining(thoughtEnds(row)));
    }
  });

  it('adaptive, sentence and keyword', async () => {
    const fine = await scored('adaptive', 'adaptive', '--adaptive-limit', '1');
    const coarse = await scored('coarse', 'adaptive', '--adaptive-limit', '4');
    for (const [n, row] of coarse.entries())
      expect(thoughtEnds(row).length).toBeLessThan(thoughtEnds(fine[n] as ScoredRow).length);
    const lines = await scored('sentence', 'sentence');
    for (const row of lines) {
      const { tokens, thought } = thoughtOf(row);
      // the fixtures have a sentence a line
      const cuts = tokens.flatMap((token, t) => (token === '\n' ? [t + 1] : []));
      expect(thoughtEnds(row)).toEqual(piecesBetween(cuts, tokens, thought));
    }
    const letters = await scored('keyword', 'keyword', '--keywords', 'b,d');
    for (const row of letters) {
      const { tokens, thought } = thoughtOf(row);
      const cuts = tokens.flatMap((token, t) => (/[bd]/.test(token) && tokens[t - 1] === '\n' ? [t] : []));
      expect(thoughtEnds(row).filter((end) => end < thought.end)).toEqual(
        cuts.filter((t) => !/[a-z]/i.test(tokens[t + 1] ?? '') && t > 2 && t < thought.end),
      );
    }
  });

  it('verify finds a cut that the segmenter named in the file does not make', async () => {
    const out = join(folder, 'cut.arrow');
    const flags = ['--segmenter', 'entropy', '--entropy-threshold', '0.5'];
    expect((await rredcotHere(['score', input, '-o', out, '--quiet', ...flags])).code).toBe(0);
    expect((await rredcotHere(['verify', out, '--quiet'])).code).toBe(0);
    // another threshold in its metadata, and the hash that goes with it
    const seal = tableFromIPC(await readFile(out)).schema.metadata.get(HASH_KEY) as string;
    const bytes = (await readFile(out)).toString('latin1');
    const changed = bytes.replaceAll('"entropyThreshold":0.5', '"entropyThreshold":9.5');
    expect(changed).not.toBe(bytes);
    await writeFile(out, Buffer.from(changed.replaceAll(seal, UNSEALED), 'latin1'));
    await using file = await open(out, 'r+');
    await sealFile(file);
    const found = await rredcotHere(['verify', out, '--quiet']);
    expect(found.code).toBe(65);
    expect(found.stdout).toMatch(
      /segments\[0\] ends before token \d+, whose entropies [\d.]+ is no reason to cut/,
    );
  });
});

describe('segment', () => {
  it('cuts by the policy in one run, and refuses late segmenters without one', async () => {
    const out = join(folder, 'cut.jsonl');
    const flags = ['--segmenter', 'cutpoint', '--cutpoint-every', '2', '--cutpoint-probability', '0.95'];
    const run = await rredcotHere(['segment', input, '-o', out, '--quiet', ...flags]);
    expect(run.code, run.stderr).toBe(0);
    const rows = await readJsonl<ScoredRow>(out);
    for (const row of rows) {
      const { tokens, thought } = thoughtOf(row);
      expect(thoughtEnds(row)).toEqual(
        piecesBetween(cutpoints(row.logprobs, thought, 0.95, 2), tokens, thought),
      );
    }
    const refused = await rredcotHere(['segment', input, '--no-policy', ...flags]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /--segmenter cutpoint cuts by what a policy says.*\n {2}try: leave out --no-policy/s,
    );
  });
});
