// The whole program on a policy whose tokenizer merges template and answer, against the float64 oracle of its family.
import { beforeAll, describe, expect, it } from 'vitest';
import { loadOracleModel, tokenStats } from '../oracle/llama.js';
import { type Json, LLAMA, writeCheckpoint } from '../support/checkpoints.js';
import type { ScoredRow } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, json, rows, write } = await openScene();

/** Bytes, the embedded policy's tags, and these beside them, as ids 259, 260, … */
const MERGES = ['{-', '}}', '{}'];
const NAMED = 259;

/** Greedy is what this tokenizer does here: no text of this file has two merges that overlap. */
function ids(text: string): number[] {
  const pieces = text.match(/\{-|\}\}|\{\}|<think>|<\/think>|[\s\S]/g) ?? [];
  return pieces.map((piece) => {
    if (piece === '<think>' || piece === '</think>') return piece === '<think>' ? 256 : 257;
    return piece.length === 2 ? NAMED + MERGES.indexOf(piece) : piece.charCodeAt(0);
  });
}

const [CLOSE, OPEN, CLOSER] = ['\n</think>\n', 'is {', '}'];
const PROMPT = 'What is 4 - 7?\n';
const THOUGHT = '<think>\nTake 7 from 4.\nThat is less than nothing.\nSo three below.\n';
const COMPLETION = `${THOUGHT}</think>\nis {-3}`;

beforeAll(async () => {
  const size = NAMED + MERGES.length;
  writeCheckpoint(at('checkpoint'), { ...LLAMA, vocab_size: size, max_position_embeddings: 512 });
  const tokenizer: { model: { vocab: Json; merges: string[][] } } = await json('checkpoint/tokenizer.json');
  for (const [n, merge] of MERGES.entries()) {
    tokenizer.model.vocab[merge] = NAMED + n;
    tokenizer.model.merges.push([...merge]);
  }
  await write('checkpoint/tokenizer.json', JSON.stringify(tokenizer));
  const template = JSON.stringify({ close: CLOSE, open: OPEN, closer: CLOSER });
  await write('checkpoint/exit_template.json', template);
  await done('policy build checkpoint -o policy');
});

async function scored(references: readonly string[]): Promise<ScoredRow> {
  await write('in.jsonl', [{ id: 'a', prompt: PROMPT, completion: COMPLETION, reward: 1, references }]);
  const output = `${references.length}.parquet`;
  await done(`score in.jsonl -o ${output} --policy policy --segmenter newline`);
  return (await rows(output))[0] as ScoredRow;
}

describe('references whose tokens are merged with the template', () => {
  // the bare template ends in `{`, an empty answer in `{}`, and so every answer is scored from the brace on
  it('are scored from the brace on', async () => {
    const references = ['-3', '7', '{7}'];
    const model = loadOracleModel(at('checkpoint'));
    const row = await scored(references);
    const begin = ids(`${CLOSE}${OPEN}`).length - 1;
    const thoughts = row.segments.filter(({ kind }) => kind === 'thought');
    const exits = [ids('<think>\n').length, ...thoughts.map(({ end }) => end as number)];
    expect(exits).toHaveLength(row.reference_logprobs.length);
    const branches = references.map((answer) => ids(`${CLOSE}${OPEN}${answer}${CLOSER}`));
    expect(branches[0]).toContain(NAMED);
    expect(row.reference_tokens).toEqual(branches.map((branch) => branch.length - begin));
    for (const [k, exit] of exits.entries()) {
      const state = [...ids(PROMPT), ...ids(COMPLETION).slice(0, exit)];
      for (const [n, branch] of branches.entries()) {
        const { logprobs } = tokenStats(model, [...state, ...branch]);
        const expected = logprobs.slice(state.length + begin).reduce((sum, x) => sum + x, 0);
        expect(row.reference_logprobs[k]?.[n]).toBeCloseTo(expected, 4);
      }
    }
  });
});
