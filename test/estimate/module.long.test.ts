// An estimator in one file, which nobody else knows: in help, output, summary, card, verify, redistribute; and the built-in ones in the same form.
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ESTIMATORS } from '../../dist/estimate/registry.js';
import { ROOT, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const MODULE = `export default {
  name: 'halving', scores: 'nothing', onRewardScale: true,
  card: 'one minus a power of a factor',
  flags: [['--factor <x>', 'of halving: the factor (default: 0.5)']],
  of: ({ exits }, { factor = '0.5' }) => Array.from(exits, (_, k) => 1 - Number(factor) ** (k + 1)),
};`;

const { config, done: ends, fails, rows, text, write } = await openScene();
const done = async (line: string) => (await ends(line)).said;

beforeAll(async () => {
  await write('halving.mjs', MODULE);
  await write('traces.jsonl', await fixtureRows(0, 8));
  await done('score traces.jsonl --estimator ./halving.mjs --factor 0.25 -o scored.jsonl');
});

describe("a module of the user's own", () => {
  it('gives the values, which are the baseline too, since it says that they are on the scale', async () => {
    for (const row of await rows('scored.jsonl')) {
      const values = storedValues(row);
      for (const [k, value] of values.entries()) expect(value).toBeCloseTo(1 - 0.25 ** (k + 1), 6);
      expect(row.baseline).toBe(0.75);
    }
  });

  it('is in help, configuration, summary, card, verify and redistribute', async () => {
    expect(await done('score --estimator ./halving.mjs --help')).toMatch(
      /--factor <x> +of halving: the factor/,
    );
    expect(await done('score --help')).not.toMatch(/--factor/);
    expect(await config('scored.jsonl')).toMatchObject({
      ...{ estimator: 'halving', factor: '0.25', estimatorModule: expect.stringMatching(/^[0-9a-f]{64}$/) },
      estimatorFacts: { scores: 'nothing', onRewardScale: true },
    });
    expect(await done('summary scored.jsonl')).toContain('range of v̂');
    await done('score traces.jsonl --estimator ./halving.mjs -o card/');
    expect(await text('card/README.md')).toContain(
      '- value of a state, `halving`: one minus a power of a factor',
    );
    for (const path of ['scored.jsonl', 'card'])
      expect(await done(`verify ${path}`)).toContain('nothing found');
    await done('redistribute scored.jsonl --sigma rudder -o rudder.jsonl');
    expect(await done('verify rudder.jsonl')).toContain('nothing found');
  });

  it('is another run when its file or its flags are others', async () => {
    await done('score traces.jsonl --estimator ./halving.mjs -o twice/');
    await write('other.mjs', `${MODULE.replace("'halving'", "'halving-2'")} // another`);
    for (const flags of ['./halving.mjs --factor 0.1', './other.mjs'])
      await fails(`score traces.jsonl --estimator ${flags} -o twice/`, 2, /factor|estimator/);
  });

  it('is read anew where its file has changed', async () => {
    await write('changing.mjs', MODULE);
    await done('score traces.jsonl --estimator ./changing.mjs -o before.jsonl');
    await write('changing.mjs', MODULE.replace('1 - Number', '0.1 + 0 * Number'));
    await done('score traces.jsonl --estimator ./changing.mjs -o after.jsonl');
    for (const row of await rows('after.jsonl'))
      for (const value of storedValues(row)) expect(value).toBeCloseTo(0.1, 6);
  });

  it.each([
    ['nowhere.mjs', undefined, 'nowhere.mjs'],
    ['broken.mjs', 'export default {', 'cannot be loaded'],
    ['empty.mjs', '', 'default export'],
    ['misspelt.mjs', MODULE.replace('scores:', 'score:'), 'scores'],
    ['taken.mjs', MODULE.replace("'halving'", "'pr'"), 'calls itself pr'],
    [
      'short.mjs',
      MODULE.replace("'halving'", "'short'").replace('Array.from(exits,', 'Array.from([0],'),
      'gave 1 values',
    ],
    ['nan.mjs', MODULE.replace("'halving'", "'nan'").replace('1 - Number', 'NaN * Number'), 'NaN'],
  ])('%s is refused and says why', async (name, module, expected) => {
    if (module !== undefined) await write(name, module);
    await fails(`score traces.jsonl --estimator ./${name} -o no.jsonl`, 2, expected);
  });
});

describe('a module that fails is its writer’s, who is told where: exit 2', () => {
  const own = (body: string) =>
    `export default {\n  name: 'broken', scores: 'nothing', card: 'nothing',\n  ${body} };`;
  const open = (body: string) => own(`setUp: () => ({ open: () => ({ ${body} }) }),`);
  it.each([
    ['of', own('of: () => null.x,'), /broken\.mjs:3: TypeError: .*reading 'x'/],
    [
      'of that is a promise, and fails',
      own('of: async () => null.x,'),
      /broken\.mjs:3: TypeError: .*reading 'x'/,
    ],
    [
      'of that is a promise',
      own('of: async () => [0.5],'),
      /--estimator broken: of gives a promise, expected numbers/,
    ],
    ['values that are a promise', open('values: async () => null.x,'), /broken\.mjs:3: TypeError/],
    ['a function that it calls', own('of: ({ exits }) => exits.map((e) => e.a.b),'), /broken\.mjs:3: /],
    ['setUp', own('setUp: () => null.x,'), /broken\.mjs:3: /],
    ['ask', open('ask: () => null.x, values: () => [],'), /broken\.mjs:3: /],
    ['values', open('values: () => null.x,'), /broken\.mjs:3: /],
    ['columns', own('of: () => [], columns: () => null.x,'), /broken\.mjs:3: /],
    ['its first lines', '\nthrow new Error("early");', /broken\.mjs:2: cannot be loaded: early/],
    ['its first lines, with a text', '\nthrow "early";', /broken\.mjs: cannot be loaded: early/],
    ['what it throws, a text', own('of: () => { throw "no"; },'), /\.\/broken\.mjs: throws the text "no"/],
    [
      'what it throws, nothing',
      open('ask: () => { throw null; }, values: () => [],'),
      /broken\.mjs: throws null/,
    ],
    ['no values', own('of: () => undefined,'), /broken gave 0 values/],
    ['a setUp that gives nothing', own('setUp: () => {},'), /its setUp gives no object with a function open/],
    ['no function', own(''), /expected a function of, or setUp, fromStored or fromTokens/],
    ['no card', own('of: () => [],').replace("card: 'nothing',", ''), /what a value of it is, in words/],
  ])('%s', async (_, module, why) => {
    await write('broken.mjs', module);
    await fails('score traces.jsonl --estimator ./broken.mjs -o broken.jsonl --overwrite', 2, why);
  });
});

describe('every estimator', () => {
  it('has a sentence for the card, and its flags in help', async () => {
    for (const { name, card, flags = [], creditFlags = [] } of ESTIMATORS.filter(
      ({ config }) => !config?.estimatorModule,
    )) {
      const help = (await done(`score --estimator ${name} --help`)).replaceAll(/\s+/g, ' ');
      expect(card.length, name).toBeGreaterThan(20);
      expect(help).toContain(name);
      for (const [flag] of [...flags, ...creditFlags]) expect(help).toContain(flag);
    }
  });

  it('is told when a flag is given that it does not have', async () => {
    const usages = ESTIMATORS.flatMap(({ flags = [], creditFlags = [], config }) =>
      config?.estimatorModule ? [] : [...flags, ...creditFlags].map(([usage]) => usage),
    );
    expect(usages.length).toBeGreaterThan(10);
    for (const usage of new Set(usages)) {
      const [flag, value] = usage.split(' ');
      const why = new RegExp(`${flag} has no meaning with --estimator pr[\\s\\S]*add --estimator`);
      await fails(
        `score traces.jsonl --estimator pr ${flag} ${value === undefined ? '' : 3} -o no.jsonl`,
        2,
        why,
      );
    }
  });
});

it('the example of the docs is one', async () => {
  const own = join(ROOT, 'examples/own_estimator.mjs');
  expect((await text(own)).split('\n').length).toBeLessThanOrEqual(30);
  await done(`score traces.jsonl --estimator ${own} -o warning.jsonl`);
  for (const row of await rows('warning.jsonl')) {
    const lowest = Math.min(
      0,
      ...(row.logprobs as number[]).slice(
        0,
        row.segments.findLast(({ kind }) => kind === 'thought')?.end ?? 0,
      ),
    );
    expect(storedValues(row).at(-1)).toBeCloseTo(Math.max(0.01, Math.exp(lowest)), 5);
  }
});
