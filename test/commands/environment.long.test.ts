// Turns with an environment through the whole program: what sample writes of them, values of mc, and modules that cannot answer.
import { resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ROOT, type ScoredRow, storedValues } from '../support/program.js';
import { openScene } from '../support/scene.js';

interface Played extends ScoredRow {
  readonly completion_mask: number[];
  readonly finish_reason: string;
  readonly samples: { exit: number; completion: string; completion_ids: number[] }[];
}
type Prompt = { readonly id: string };
type Message = { readonly role: string; readonly content: string };

const CALCULATOR = resolve(ROOT, 'examples/calculator.mjs');
const { done, expectSame, fails, joinParts, rows, text, write } = await openScene();
const messagesOf = (row: Played) => row.completion as unknown as Message[];
const spelled = (ids: readonly number[]) =>
  ids.map((id) => ['<think>', '</think>', '<|end|>'][id - 256] ?? String.fromCharCode(id)).join('');
const SAMPLE = `sample prompts.jsonl --policy policy --environment ${CALCULATOR}`;
/** A call, and what the policy was shown behind it. */
const CALL = /(\d)([-+*])(\d)<\|end\|>\n= (\d)/g;
const resultOf = (x = '', sign = '', y = '') =>
  (sign === '+' ? Number(x) + Number(y) : sign === '-' ? Number(x) - Number(y) + 10 : Number(x) * Number(y)) %
  10;
/** The calculator, which throws where the conversation is not as it was: in its order, with whole turns and right results. */
const STRICT = `import calculator from ${JSON.stringify(CALCULATOR)};
export default (asked) => {
  for (const [n, { role, content }] of asked.messages.entries()) {
    if (role !== ['user', 'assistant', 'tool'][n && 2 - (n % 2)]) throw new Error(n + ' is of the ' + role);
    if ((n === 1) !== content.startsWith('<think>\\n')) throw new Error(n + ' begins ' + content);
    if (role === 'tool' && content !== calculator({ messages: asked.messages.slice(0, n) }).messages[0].content)
      throw new Error(content + ' answers ' + asked.messages[n - 1].content);
  }
  return calculator(asked);
};`;
let played: Played[];

beforeAll(async () => {
  const prompts = (await text(resolve(ROOT, 'fixtures/calculator.jsonl'))).split('\n').slice(0, 2);
  await write('prompts.jsonl', `${prompts.join('\n')}\n`);
  await done(`policy build ${resolve(ROOT, 'models/calculator')} -o policy`);
  await done(`${SAMPLE} -n 2 --seed 1 -o played.jsonl`);
  played = await rows<Played>('played.jsonl');
});

describe('sample --environment', () => {
  it('writes turns, each answered; the mask is 0 on what the template makes of the answers, and on nothing else', () => {
    const results = played.flatMap(({ completion_ids: ids, completion_mask: mask, logprobs }) => {
      expect(mask).toHaveLength(ids.length);
      expect(logprobs.map((lp) => lp === 0)).toEqual(mask.map((bit) => bit === 0));
      const own = spelled(ids.map((id, t) => (mask[t] === 1 ? id : 0))).replaceAll('\0', '_');
      expect(own).toMatch(/^<think>[^_]*(?:<\|end\|>_{5}[^_]+)+<\|end\|>$/);
      return spelled(ids.filter((_, t) => mask[t] === 0));
    });
    for (const shown of results) expect(shown).toMatch(/^(?:\n= \d\n)+$/);
    const calls = played.flatMap((row) => [...spelled(row.completion_ids).matchAll(CALL)]);
    expect(calls.length).toBeGreaterThan(played.length);
    for (const [call, x, sign, y, result] of calls) expect(resultOf(x, sign, y), call).toBe(Number(result));
  });

  it('its messages alone are rendered to the same ids and mask; its ids are scored without a flag, with the same log p', async () => {
    const alone = played.map(({ id, prompt, completion, reward }) => ({
      id,
      prompt,
      completion,
      reward,
      answer: '1',
    }));
    await write('alone.jsonl', alone);
    await done('score alone.jsonl --policy policy --estimator surprise -o alone.out.jsonl');
    await done('score played.jsonl --policy policy -o scored.jsonl');
    const [rendered, scored] = [await rows<Played>('alone.out.jsonl'), await rows<Played>('scored.jsonl')];
    for (const [n, row] of played.entries()) {
      for (const other of [rendered[n], scored[n]])
        expect([other?.prompt_ids, other?.completion_ids, other?.completion_mask]).toEqual([
          ...[row.prompt_ids, row.completion_ids, row.completion_mask],
        ]);
      const off = row.logprobs.filter((lp, t) => !(Math.abs(lp - (scored[n]?.logprobs[t] ?? 9)) < 1e-4));
      expect(off).toEqual([]);
    }
  });

  it('is the same bytes for another batch and in shards; another seed, and an edited module, are others', async () => {
    await done(`${SAMPLE} -n 2 --seed 1 --batch 3 -o batch.jsonl`);
    await expectSame('batch.jsonl', 'played.jsonl');
    for (const shard of ['1/2', '0/2'])
      await done(`${SAMPLE} -n 2 --seed 1 --rows-per-part 1 --format jsonl -o out/ --shard ${shard}`);
    await done('verify out/');
    await joinParts('out', 'merged.jsonl');
    await expectSame('merged.jsonl', 'played.jsonl');
    await write('edited.mjs', `${await text(CALCULATOR)}\n// edited`);
    const edited = SAMPLE.replace(CALCULATOR, './edited.mjs');
    await fails(`${edited} -n 2 --seed 1 --rows-per-part 1 --format jsonl -o out/`, 2, '--environment');
    await done(`${SAMPLE} -n 2 --seed 2 -o seed.jsonl`);
    const completions = (await rows<Played>('seed.jsonl')).map(({ completion_ids: ids }) => ids);
    expect(completions).not.toEqual(played.map(({ completion_ids: ids }) => ids));
  });

  it('gives a module the row, and a seed that is the same in all turns of a completion; what it says is the reward', async () => {
    await write(
      'seeded.mjs',
      `export default ({ messages, row, seed }) => messages.length < 6
        ? { messages: [{ role: 'user', content: row.id + ' ' + seed }] } : { reward: 0.25 };`,
    );
    const line = 'sample prompts.jsonl --policy policy --environment ./seeded.mjs -n 2';
    for (const name of ['one', 'two'])
      await done(`${line} --batch ${name === 'one' ? 64 : 1} -o ${name}.jsonl`);
    await expectSame('one.jsonl', 'two.jsonl');
    const said = (await rows<Played>('one.jsonl')).map((row) => {
      expect([row.reward, row.finish_reason, row.status]).toEqual([0.25, 'stop', 'ok']);
      return messagesOf(row).flatMap(({ role, content }) => (role === 'user' ? [content] : []));
    });
    for (const own of said) expect(new Set(own).size).toBe(1);
    expect(new Set(said.flat()).size).toBe(4);
    expect(said.map(([first]) => first?.split(' ')[0])).toEqual([
      'top-0000',
      'top-0000',
      'top-0001',
      'top-0001',
    ]);
  });
});

describe('mc --environment', () => {
  const MC =
    'score played.jsonl --policy policy --limit 1 --estimator mc --mc-samples 2 --keep-samples --environment ./strict.mjs';
  it('completes every exit in turns: the conversation up to it is told to the environment, its turn whole', async () => {
    await write('strict.mjs', STRICT);
    await done(`${MC} -o mc.jsonl`);
    await done('verify mc.jsonl');
    await done(`${MC} --batch 2 -o again.jsonl`);
    const again = await rows<Played>('again.jsonl');
    for (const [n, row] of (await rows<Played>('mc.jsonl')).entries()) {
      expect(row.samples).toEqual(again[n]?.samples);
      expect(row.samples.length).toBe(2 * storedValues(row).length);
      const calls = row.samples.flatMap(({ completion }) => [...completion.matchAll(CALL)]);
      expect(calls.length).toBeGreaterThan(0);
      for (const [call, x, sign, y, result] of calls) expect(resultOf(x, sign, y), call).toBe(Number(result));
    }
  });

  it('needs messages as many as turns, of the conversation that the policy has read, and somebody who answers', async () => {
    const [row] = played as [Played];
    const bad = [
      { ...row, prompt: 'text' },
      { ...row, completion: messagesOf(row).slice(2) },
      { ...row, completion: messagesOf(row).map((each) => ({ ...each, content: `${each.content}?` })) },
      { ...row, prompt: [{ role: 'user', content: 'start 9: a+9 top?' }] },
    ];
    await write('bad.jsonl', [...bad, row]);
    const line = `score bad.jsonl --policy policy --estimator mc --mc-samples 1 --max-rejects 9 --overwrite -o bad.out.jsonl`;
    await done(`${line} --environment ${CALCULATOR}`);
    const reasons = async () => await rows<{ code: string; reason: string }>('bad.out.jsonl.rejects.jsonl');
    expect((await reasons()).map(({ code, reason }) => [code, reason])).toEqual([
      ['turns', expect.stringContaining('its prompt is text, expected messages')],
      ['turns', expect.stringMatching(/has \d turns by completion_mask and \d messages/)],
      ['turns', expect.stringContaining("completion_ids do not spell the assistant's message")],
      ['turns', expect.stringContaining("prompt_ids do not spell the user's message")],
    ]);
    await fails(line, 65, '--environment <file>');
  });
});

describe('a module that cannot answer', () => {
  const bad: readonly (readonly [what: string, code: string, why: string])[] = [
    ['throws', `throw new Error('no such tool')`, 'has no answer: no such tool'],
    ['dies', 'process.exit(3)', 'has no answer: its thread ended early'],
    ['says nothing', 'return undefined', 'gave back'],
    ['says a number', 'return 7', 'gave back the number 7'],
    [
      'speaks for the policy',
      `return { messages: [{ role: 'assistant', content: '' }] }`,
      "that is not the policy's own",
    ],
    ['says more of a message', `return { messages: [{ role: 'tool', content: '', name: 'x' }] }`, 'name'],
    ['says no message', 'return { messages: [] }', 'messages'],
    ['rewards on another scale', 'return { reward: 2 }', 'reward'],
    ['gives a function', 'return { messages: [() => 0] }', 'could not be cloned'],
  ];
  it('is told by row, with what was found and expected, and costs no other row', async () => {
    const all = await rows<Prompt>('prompts.jsonl');
    const first = all[0] as Prompt;
    const prompts = [...bad.map((_, n) => ({ ...first, id: `bad-${n}` })), ...all];
    await write('mixed.jsonl', prompts);
    const cases = bad.map(([, code], n) => `case 'bad-${n}': ${code};`).join('\n');
    await write(
      'odd.mjs',
      `import calculator from ${JSON.stringify(CALCULATOR)};
      export default async (asked) => { switch (asked.row.id) { ${cases} default: return calculator(asked); } };`,
    );
    await done(
      'sample mixed.jsonl --policy policy -n 2 --seed 1 --environment ./odd.mjs --max-rejects 9 -o mixed.out.jsonl',
    );
    const rejects = await rows<{ row: number; code: string; reason: string }>(
      'mixed.out.jsonl.rejects.jsonl',
    );
    expect(rejects.map(({ row, code, reason }) => [row, code, reason])).toEqual(
      bad.map(([, , why], n) => [n, 'environment', expect.stringContaining(why)]),
    );
    for (const { reason } of rejects) {
      expect(reason).toMatch(
        /^\.\/odd\.mjs .*\(\d messages, seed \d+\), expected \{messages: .*: --environment <file>$/,
      );
    }
    const kept = (await rows<Played>('mixed.out.jsonl')).map(({ id, completion_ids: ids }) => [id, ids]);
    expect(kept).toEqual(played.map(({ id, completion_ids: ids }) => [id, ids]));
  });

  it.each([
    ['nowhere.mjs', undefined, 'nowhere.mjs'],
    ['broken.mjs', 'export default {', '--environment ./broken.mjs: cannot be loaded'],
    ['object.mjs', 'export default {}', 'its default export is object, expected a function'],
    ['none.mjs', '', 'its default export is undefined, expected a function'],
  ])('%s ends the command before anything is done', async (name, code, why) => {
    if (code !== undefined) await write(name, code);
    await fails(`sample prompts.jsonl --policy policy --environment ./${name} -o none.jsonl`, 2, why);
  });
});
