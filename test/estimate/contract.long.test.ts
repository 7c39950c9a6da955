// What holds of every estimator that a policy or a second model runs for, in one form: its values from their formula in float64, verify, redistribute, refusals.
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { align, pieceBags } from '../../dist/estimate/alignment.js';
import { askedValue } from '../oracle/ask.js';
import { looValues, type OracleTrace } from '../oracle/attribution.js';
import { oracleFeatures, oracleFold } from '../oracle/calibration.js';
import { taught } from '../oracle/distill.js';
import {
  continuationLogprobs,
  fork,
  loadOracleModel,
  type OracleModel,
  tokenStats,
} from '../oracle/llama.js';
import { oracleSibling } from '../oracle/siblings.js';
import { changePolicy } from '../support/changed-policy.js';
import { exitTemplate, tokenIds } from '../support/oracle-comparison.js';
import { EMBEDDED, type FixtureRow, PROVER, type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { fitted, type MadeTrace } from '../support/scored-traces.js';

type Row = ScoredRow &
  Readonly<
    Record<
      | 'hint_logprobs'
      | 'contrast_logprobs'
      | 'teacher_logprobs'
      | 'teacher_entropies'
      | 'kl'
      | 'token_advantage'
      | 'value_prior'
      | 'value_ess'
      | 'sigma_share'
      | 'sigma_rudder',
      number[]
    >
  >;

interface Case {
  readonly name: string;
  readonly flags?: string;
  readonly config?: object;
  /** v̂(s_0..K), by its formula; where that takes too long, what is known of them */
  readonly values: (row: Row, fixture: FixtureRow, all: readonly Row[]) => ArrayLike<number> | undefined;
  /** rows that are held against it, and how near they are */
  readonly checked?: readonly number[];
  readonly within?: number;
  /** flags of another credit, which follows from the file */
  readonly rule?: string;
  /** the values alone are looked at: the rest is that of the case before */
  readonly isVariant?: true;
  /** what a file of it becomes with `--estimator pr`, and the other way round: the same bytes, nearly the same numbers, or why not */
  readonly toPr?: Passage;
  readonly fromPr?: Passage;
  /** flags that do not go together; an estimator that is not named is this one */
  readonly refused?: readonly (readonly [flags: string, why: string])[];
}
type Passage = 'same' | 'near' | { readonly refused: string };

const scene = await openScene();
const { at, config, done, expectSame, fails, rows, write } = scene;
const CALIBRATED = '--calibration calibration.json';
const QUESTION = '\n</think>\nright? ';
const K = 3;
const TAIL = 16;
const sum = (list: ArrayLike<number>) => Array.from(list).reduce((a, b) => a + b, 0);
const running = (list: readonly number[]) => [0, ...list.map((_, k) => sum(list.slice(0, k + 1)))];
const thoughts = (row: ScoredRow) => row.segments.filter(({ kind }) => kind === 'thought');
/** the bundled policy begins a thought behind its tag and a newline */
const exitsOf = (row: ScoredRow) => [2, ...thoughts(row).map(({ end }) => end as number)];

let fixtures: FixtureRow[];
let policy: OracleModel;
let prover: OracleModel;
let template: Awaited<ReturnType<typeof exitTemplate>>;

beforeAll(async () => {
  // another policy of the same task, with a template beside its weights: `policy build` takes it along
  await cp(PROVER, at('told'), { recursive: true });
  await write('told/hint_template.json', '{"text": "hint {answer}\\n"}');
  await done(`policy build told -o prover --exit-template ${join(PROVER, 'exit_template.json')}`);
  // a policy with another tokenizer
  await cp(at('prover'), at('odd'), { recursive: true });
  await changePolicy(at('odd'), 'tokenizer.json', (spec) => String(spec).replace('"<think>"', '"<THINK>"'));
  await write('hint.json', '{"text": "hint {answer}\\n"}');
  await write('peer.json', '{"text": "hint {peer}\\n"}');
  await write('ask.json', JSON.stringify({ question: QUESTION, yes: 'y', no: 'n' }));
  await write('words.json', JSON.stringify({ question: QUESTION, yes: 'yes', no: 'nono' }));
  await write('alike.json', JSON.stringify({ question: QUESTION, yes: 'not wrong', no: 'not' }));
  await write('none.json', '{"text": "no place"}');
  // top-0000 was in the fit, top-0001 was not
  const inFit = ({ group }: MadeTrace) => (group === 'g3' ? { group: 'top-0000' } : {});
  calibration = (await fitted(scene, 'calibration', inFit)) as unknown as typeof calibration;
  // a group of eight, of which one is wrong and one completion was drawn five times, and two of the next
  fixtures = await fixtureRows(0, 10);
  await write('traces.jsonl', fixtures);
  await done('score traces.jsonl --estimator pr --sigma rudder,share -o pr.jsonl');
  policy = loadOracleModel(EMBEDDED);
  prover = loadOracleModel(PROVER);
  template = await exitTemplate();
});

/** A trace and its reference, as attributions are taken of them. */
function attributed(row: Row, { prompt_ids: prompt, completion_ids: own, answer }: FixtureRow): OracleTrace {
  const exits = exitsOf(row).map((exit) => prompt.length + exit);
  const scored = [...tokenIds(answer), ...template.closer];
  const ids = [...template.close, ...template.open, ...scored];
  const thought = [...prompt, ...own].slice(0, exits.at(-1));
  return { ids: thought, exits, references: [{ ids, scored: scored.length, utility: 1 }] };
}

/** By a policy that reads a hint behind the prompt. */
function posterior(
  model: OracleModel,
  row: Row,
  { prompt_ids: prompt, completion_ids: own, answer }: FixtureRow,
  told: readonly number[] = tokenIds(answer),
  wrong?: readonly number[],
) {
  const read = (hint: readonly number[], column: readonly number[]) => {
    const before = [...prompt, ...tokenIds('hint '), ...hint, ...tokenIds('\n')];
    const { logprobs } = tokenStats(model, [...before, ...own]);
    const hinted = logprobs.subarray(before.length);
    for (const [t, lp] of hinted.entries()) expect(Math.abs((column[t] as number) - lp)).toBeLessThan(1e-3);
    return hinted;
  };
  const hinted = read(told, row.hint_logprobs);
  const other = wrong === undefined ? Float64Array.from(row.logprobs) : read(wrong, row.contrast_logprobs);
  expect(row.reference_utilities).toEqual([]);
  return exitsOf(row).map(
    (exit) => 1 / (1 + Math.exp(sum(other.slice(2, exit)) - sum(hinted.slice(2, exit)))),
  );
}

/** Set against what most of the group's wrong completions answered; where none did the answer's digit and one more. */
function contrasted(model: OracleModel, row: Row, fixture: FixtureRow) {
  const wrong = fixtures.filter(({ group, reward, completion }) => {
    return group === fixture.group && reward === 0 && completion !== fixture.completion;
  });
  const answers = wrong.map(({ completion }) => /answer: (.*)\n/.exec(completion)?.[1] as string);
  const count = (own: string) => answers.filter((answer) => answer === own).length;
  const [most] = answers.toSorted((a, b) => count(b) - count(a));
  const told = most ?? `${(Number(fixture.answer) + 1) % 10}`;
  expect(told).not.toBe(fixture.answer);
  expect(row.status).toBe('ok');
  return posterior(model, row, fixture, undefined, tokenIds(told));
}

/** By a hint that is the text of the shortest right completion of the group, not the trace's own; of equal ones the first that follows it. */
function mated(row: Row, fixture: FixtureRow) {
  const place = fixtures.indexOf(fixture);
  const peers = [...fixtures.slice(place + 1), ...fixtures.slice(0, place)].filter(
    ({ group, reward, completion }) =>
      group === fixture.group && reward === 1 && completion !== fixture.completion,
  );
  const scores = peers.map((peer) => -peer.completion.length);
  const { completion_ids: ids } = peers[scores.indexOf(Math.max(...scores))] as FixtureRow;
  // without its end token
  return posterior(policy, row, fixture, ids.slice(0, ids.at(-1) === 258 ? -1 : undefined));
}

/** By what the policy answers to a question. */
function asked(yes: string, no: string, row: Row, { prompt_ids: prompt, completion_ids: own }: FixtureRow) {
  const { state } = tokenStats(policy, [...prompt, ...own]);
  const [question = [], ...answers] = [QUESTION, yes, no].map(tokenIds);
  expect(row.reference_utilities).toEqual([1, 0]);
  expect(row.reference_tokens).toEqual(answers.map(({ length }) => length));
  return exitsOf(row).map((exit) =>
    askedValue(policy, () => fork(state, prompt.length + exit), question, answers[0] ?? [], answers[1] ?? []),
  );
}

/** By the prover as a teacher, whose columns stand beside. */
function distilled(row: Row, { prompt_ids: prompt, completion_ids: own }: FixtureRow) {
  const { logprobs, entropies, kl, advantages } = taught(policy, prover, prompt, own);
  const columns = {
    teacher_logprobs: logprobs,
    teacher_entropies: entropies,
    kl,
    token_advantage: advantages,
  };
  for (const [name, expected] of Object.entries(columns)) {
    const found = row[name as keyof typeof columns];
    expect(found).toHaveLength(own.length);
    for (const [t, each] of expected.entries())
      expect(Math.abs((found[t] as number) - each), `${name}[${t}]`).toBeLessThan(
        name === 'kl' ? 1e-4 : 1e-3,
      );
  }
  expect(row.reference_utilities).toEqual([]);
  return running(thoughts(row).map(({ start, end }) => sum(advantages.slice(start ?? 0, end ?? 0))));
}

/** The best of K tries of the prover, where the policy has cut. */
function proved(row: Row, { prompt_ids: prompt, completion_ids: own, answer }: FixtureRow): number[] {
  const { state } = tokenStats(prover, [...prompt, ...own]);
  const close = [...template.close, ...template.open];
  return exitsOf(row).map((exit) => {
    const suffix = [...close, ...tokenIds(`${answer}\n`)];
    const lp = continuationLogprobs(prover, fork(state, prompt.length + exit), suffix).subarray(close.length);
    return 1 - (1 - Math.exp(sum(lp))) ** K;
  });
}

let calibration: Record<'mean' | 'sd', number[]> & { weights: number[][] };
function calibrated(row: Row): number[] {
  // a group of the fit has the weights of its fold, another one those of all
  const { weights, mean, sd } = calibration;
  const own = weights[row.group === 'top-0000' ? oracleFold('top-0000') : 5] as number[];
  const [tokens] = row.reference_tokens as [number];
  const values = row.reference_logprobs.map(([lp]) => Math.fround(Math.exp(lp as number)));
  const geo = row.reference_logprobs.map(([lp]) => Math.fround(Math.exp((lp as number) / tokens)));
  const features = oracleFeatures({ values, geo, ends: exitsOf(row).slice(1), logprobs: row.logprobs });
  return features.map((phi) => {
    const terms = phi.map((x, f) => ((x - (mean[f] as number)) / (sd[f] as number)) * (own[f + 1] as number));
    return 1 / (1 + Math.exp(-sum(terms) - (own[0] as number)));
  });
}

/** By the three peers most like the trace; of one completion the first one is the peer. */
function bySiblings(row: Row, fixture: FixtureRow, all: readonly Row[]): number[] {
  const ids = (each: Row) => (fixtures.find(({ id }) => id === each.id) as FixtureRow).completion_ids;
  const prompt = fixture.prompt_ids;
  const bags = (each: Row) =>
    pieceBags(Int32Array.from(ids(each)), 2, Int32Array.from(exitsOf(each).slice(1)));
  const { state } = tokenStats(policy, [...prompt, ...ids(row)]);
  const group = all.filter((each) => each.group === row.group);
  const drawn = (each: Row) => group.filter(({ completion }) => completion === each.completion);
  const chosen = group
    .filter((peer) => drawn(peer)[0] === peer && peer.completion !== row.completion)
    .map((peer) => ({ peer, ...align(bags(row), bags(peer)) }))
    .sort((a, b) => b.similarity - a.similarity);
  const scored = chosen.slice(0, 3).map(({ peer, states }) => {
    const { logprobs } = tokenStats(policy, [...prompt, ...ids(peer)]);
    return { peer, states, logprobs: logprobs.subarray(prompt.length) };
  });
  expect(row.baseline).toBe(row.value_prior[0]);
  expect(row.value_ess).toHaveLength(exitsOf(row).length);
  expect(Math.max(...row.value_ess)).toBeGreaterThan(1.5);
  return exitsOf(row).map((exit, k) => {
    const peers = scored.map(({ peer, states, logprobs }) => {
      const from = exitsOf(peer)[states[k] as number] as number;
      const tail = ids(peer).slice(from, from + TAIL);
      const here = sum(continuationLogprobs(policy, fork(state, prompt.length + exit), tail));
      return {
        here,
        own: sum(logprobs.subarray(from, from + TAIL)),
        reward: peer.reward as number,
        draws: drawn(peer).length,
      };
    });
    const begunAlike = chosen
      .slice(3)
      .filter(({ peer }) => ids(row).slice(0, exit).join() === ids(peer).slice(0, exit).join())
      .map(({ peer }) => peer.reward as number);
    return oracleSibling(
      row.reward as number,
      row.value_prior[k] as number,
      peers,
      begunAlike,
      drawn(row).length,
    );
  });
}

const NOT_STORED = { refused: 'do not follow from what is stored' };
const CASES: readonly Case[] = [
  {
    name: 'surprise',
    values: ({ logprobs, segments }) =>
      running(
        segments.slice(0, -1).map(({ start, end }) => -Math.min(...logprobs.slice(start ?? 0, end ?? 0))),
      ),
    within: 1e-4,
    toPr: { refused: 'surprise has scored nothing' },
    // branches share the run of pr: the last bits of what the policy says differ
    fromPr: 'near',
    refused: [
      ['--references group', 'no reference is scored'],
      ['--baseline value', 'sums of attributions'],
      ['--sigma signed', 'sums of attributions'],
      ['--steps scaled', 'sums of attributions'],
      ['--method segment', 'no expected rewards'],
    ],
  },
  {
    name: 'loo',
    config: { loo: 'deleted' },
    values: (row, fixture) => running(looValues(policy, attributed(row, fixture), 'deleted')),
    checked: [7],
    toPr: 'same',
    fromPr: NOT_STORED,
    refused: [['--loo hidden', '--loo hidden']],
  },
  {
    name: 'loo',
    flags: '--loo masked',
    isVariant: true,
    values: (row, fixture) => running(looValues(policy, attributed(row, fixture), 'masked')),
    checked: [0],
  },
  {
    name: 'posterior',
    flags: '--hint-policy prover',
    config: {
      hintTemplate: { text: 'hint {answer}\n', before: '' },
      hintPolicy: { files: expect.objectContaining({ 'hint_template.json': expect.any(String) }) },
    },
    values: (row, fixture) => posterior(prover, row, fixture),
    checked: [0, 9],
    within: 1e-3,
    toPr: { refused: 'posterior has scored nothing' },
    fromPr: NOT_STORED,
    refused: [
      ['', '--estimator posterior needs a hint template'],
      ['--hint-template none.json', 'none.json: '],
      ['--hint-template missing.json', 'missing.json'],
      ['--hint-policy prover --sigma signed', 'no values of a state'],
    ],
  },
  {
    name: 'posterior',
    flags: '--hint-template hint.json',
    isVariant: true,
    values: (row, fixture) => posterior(policy, row, fixture),
    checked: [0],
    within: 1e-3,
  },
  {
    name: 'posterior',
    flags: '--hint peer --hint-template peer.json',
    isVariant: true,
    config: { hint: 'peer', hintTemplate: { text: 'hint {peer}\n', before: '' } },
    values: (row, fixture) => mated(row, fixture),
    // one of two of the next group
    checked: [0, 8],
    within: 1e-3,
    refused: [['--hint peer --hint-template hint.json', 'hint.json: ']],
  },
  {
    name: 'posterior',
    flags: '--contrast wrong --hint-template hint.json',
    isVariant: true,
    config: { contrast: 'wrong' },
    values: (row, fixture) => contrasted(policy, row, fixture),
    // the wrong one of its group among them
    checked: [0, 1, 2, 3, 4, 5, 6, 7],
    within: 1e-3,
    refused: [['--contrast right --hint-template hint.json', '--contrast right: unknown choice']],
  },
  {
    name: 'posterior',
    flags: '--contrast wrong --hint-policy prover',
    isVariant: true,
    // the other policy reads both
    values: (row, fixture) => contrasted(prover, row, fixture),
    checked: [0],
    within: 1e-3,
  },
  {
    name: 'distill',
    flags: '--teacher prover',
    config: { teacher: { files: expect.objectContaining({ 'tokenizer.json': expect.any(String) }) } },
    values: distilled,
    checked: [0, 7],
    within: 2e-3,
    toPr: { refused: 'distill has scored nothing' },
    fromPr: NOT_STORED,
    refused: [
      ['', '--estimator distill needs a teacher'],
      ['--policy prover --teacher prover', 'has the weights of the policy itself'],
      ['--teacher odd', 'token 256 is "<think>" for the policy and "<THINK>" for the teacher'],
      ['--teacher prover --steps scaled', 'sums of attributions'],
      ['--teacher prover --estimator given', 'no policy reads the traces'],
      ['--teacher prover --estimator progress --prover prover', 'read a second time already'],
    ],
  },
  {
    name: 'ask',
    flags: '--ask-template ask.json',
    config: { askTemplate: { question: QUESTION, yes: 'y', no: 'n' } },
    values: (row, fixture) => asked('y', 'n', row, fixture),
    checked: [0, 7],
    rule: '--sigma signed,rudder --steps smoothed',
    toPr: { refused: 'ask has scored questions, and pr needs answers scored' },
    fromPr: { refused: 'pr has scored answers, and ask needs questions scored' },
    // answers of one token are one branch an exit
    refused: [
      ['', 'ask_template.json: --estimator ask needs a question'],
      ['--ask-template hint.json', 'hint.json: '],
      ['--ask-template alike.json', 'begin alike to the end of one of them'],
      ['--ask-template ask.json --references group', 'no reference is scored'],
      ['--ask-template ask.json --method segment', 'are no expected rewards'],
    ],
  },
  {
    name: 'ask',
    flags: '--ask-template words.json',
    isVariant: true,
    values: (row, fixture) => asked('yes', 'nono', row, fixture),
    checked: [0],
  },
  {
    name: 'progress',
    flags: `--prover prover --best-of ${K}`,
    config: { proverEstimator: 'pr', bestOf: K },
    values: proved,
    checked: [0, 9],
    rule: '--sigma rudder --best-of 1',
    toPr: { refused: 'were scored by the prover, not by the policy' },
    fromPr: { refused: 'by the policy, not by a prover' },
    refused: [
      ['', '--estimator progress needs a prover'],
      ['--method hierarchical', '--estimator progress needs a prover'],
      ['--method hierarchical --estimator pr', '--estimator pr has none'],
      ['--estimator pr --alpha 2', '--alpha has no meaning with --method sigma'],
      ['--prover prover --method hierarchical --beta -1', '--beta -1: expected 0 to 1000000'],
      ['--prover prover --prover-estimator joint', '--prover-estimator joint: unknown choice'],
      [
        '--prover prover --prover-estimator pr-geo --best-of 2',
        '--prover-estimator pr-geo are no probabilities',
      ],
    ],
  },
  {
    name: 'calibrated',
    flags: CALIBRATED,
    values: (row) => {
      expect(row.baseline).toBe(row.value_start);
      expect(row.status).not.toContain('value:');
      return calibrated(row);
    },
    within: 1e-5,
    toPr: 'same',
    fromPr: 'same',
    refused: [
      ['', 'needs a calibration'],
      ['--calibration gone.json', 'gone.json'],
      ['--calibration calibration.jsonl', 'is not JSON'],
    ],
  },
  {
    name: 'siblings',
    flags: `${CALIBRATED} --peer-tokens ${TAIL}`,
    config: { peers: 3, peerTokens: TAIL },
    values: bySiblings,
    checked: [0, 2],
    rule: '--sigma signed',
    toPr: 'near',
    fromPr: NOT_STORED,
    refused: [
      ['', 'needs a calibration'],
      [`${CALIBRATED} --peers 0`, '--peers 0'],
      [`${CALIBRATED} --segmenter entropy`, 'aligns pieces of text'],
      [`${CALIBRATED} --method segment`, "have the trace's own outcome in them"],
    ],
  },
];

/** Cells that differ by no more than rounding. */
const near = (value: unknown): unknown => {
  if (typeof value === 'number') return expect.closeTo(value, 3);
  if (Array.isArray(value)) return value.map(near);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, near(each)]));
};

describe.each(CASES)('$name $flags', (own) => {
  const { name, flags = '', rule, within = 1e-4 } = own;
  // of a variant no more rows are scored than are looked at
  const count = own.isVariant ? Math.max(...(own.checked ?? [2])) + 1 : 10;
  const file = `${name}-${flags.replaceAll(/\W+/g, '-')}.jsonl`;
  const score = (more: string, out: string) =>
    done(
      `score traces.jsonl ${own.isVariant ? `--limit ${count}` : ''} --estimator ${name} ${flags} ${more} -o ${out}`,
    );
  beforeAll(() => score('--sigma rudder,share', file));

  /** A file that another command has made is the one that score makes. */
  async function expectMade(made: string, fresh: string, how: 'same' | 'near' = 'same') {
    if (how === 'same') await expectSame(made, fresh);
    else expect(await rows(made)).toEqual(near(await rows(fresh)));
    expect(await config(made)).toEqual(await config(fresh));
  }

  it('has the values of its formula, at the cuts of the policy', async () => {
    const all = await rows<Row>(file);
    const pr = await rows('pr.jsonl');
    expect(all).toHaveLength(count);
    for (const n of own.checked ?? all.keys()) {
      const [row, policy] = [all[n] as Row, pr[n] as ScoredRow];
      for (const [t, lp] of row.logprobs.entries()) expect(lp).toBeCloseTo(policy.logprobs[t] as number, 4);
      expect(row.segments.map(({ end }) => end)).toEqual(policy.segments.map(({ end }) => end));
      const expected = own.values(row, fixtures[n] as FixtureRow, all);
      if (expected === undefined) continue;
      expect(storedValues(row)).toHaveLength(expected.length);
      for (const [k, value] of storedValues(row).entries())
        expect(Math.abs(value - (expected[k] as number)), `${row.id} at ${k}`).toBeLessThan(within);
    }
    expect(await config(file)).toMatchObject({ estimator: name, ...own.config });
  });

  it.skipIf(own.isVariant)('is made again with another rule as score makes it', async () => {
    if (rule !== undefined) {
      await done(`redistribute ${file} ${rule} -o again-${file}`);
      await score(rule, `fresh-${file}`);
      return expectMade(`again-${file}`, `fresh-${file}`);
    }
    // the two rules that it has the other way round, whose σ score has written too, and back
    await done(`redistribute ${file} --sigma share,rudder -o turned-${file}`);
    const [scored, turned] = [await rows<Row>(file), await rows<Row>(`turned-${file}`)];
    expect(turned.map((row) => [row.sigma, row.sigma_rudder])).toEqual(
      scored.map((row) => [row.sigma_share, row.sigma]),
    );
    await done(`redistribute turned-${file} --sigma rudder,share -o back-${file}`);
    await expectMade(`back-${file}`, file);
  });

  it.skipIf(!own.toPr)('becomes a file of pr, and one of pr it, or not', async () => {
    for (const [how, from, to, more, fresh] of [
      [own.toPr, file, 'pr', '', 'pr.jsonl'],
      [own.fromPr, 'pr.jsonl', name, name === 'calibrated' ? flags : '', file],
    ] as const) {
      const line = `redistribute ${from} --estimator ${to} ${more} -o ${to}-of-${from}`;
      if (typeof how === 'object') await fails(line, 2, how.refused);
      else if (how !== undefined) {
        await done(line);
        await expectMade(`${to}-of-${from}`, fresh, how);
      }
    }
  });

  it.skipIf(!own.refused)('says what does not go together', async () => {
    for (const [more, why] of own.refused ?? []) {
      const estimator = more.includes('--estimator') ? '' : `--estimator ${name}`;
      await fails(`score traces.jsonl ${estimator} ${more} -o no.jsonl`, 2, why);
    }
  });
});

it('what a teacher has said stays where values become others', async () => {
  await done('score traces.jsonl --estimator pr --teacher prover -o taught.jsonl');
  await done('redistribute taught.jsonl --estimator surprise -o retaught.jsonl');
  const [kept, before] = [await rows<Row>('retaught.jsonl'), await rows<Row>('taught.jsonl')];
  for (const [n, row] of kept.entries()) {
    const columns = ({ teacher_logprobs, teacher_entropies, kl }: Row) => [
      teacher_logprobs,
      teacher_entropies,
      kl,
    ];
    expect(columns(row)).toEqual(columns(before[n] as Row));
    expect(columns(row)).not.toContain(undefined);
  }
});

it('a teacher that says what the policy says is told, whatever its files are', async () => {
  await cp(EMBEDDED, at('same'), { recursive: true });
  const weights = await readFile(at('same/model.safetensors'));
  const length = Number(weights.readBigUInt64LE());
  const header = JSON.parse(weights.toString('utf8', 8, 8 + length));
  const other = Buffer.from(JSON.stringify({ __metadata__: { of: 'another run' }, ...header }));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(other.length));
  await writeFile(at('same/model.safetensors'), Buffer.concat([size, other, weights.subarray(8 + length)]));
  await done('policy build same -o same --exit-template same/exit_template.json');
  const { stderr } = await done('score traces.jsonl --estimator pr --teacher same -o same.jsonl');
  expect(stderr).toMatch(/--teacher same: says what the policy says, KL is [\d.e-]+ nats at most/);
  const told = await done('score traces.jsonl --estimator pr --teacher prover -o another.jsonl');
  expect(told.stderr).not.toContain('says what the policy says');
});

it('posterior says of a trace without a right peer that it has none, and shares its reward out evenly', async () => {
  // one group of two, both right; a wrong trace whose peer is wrong; a trace without a group
  const [wrong, right, ...others] = (await fixtureRows(7, 11)).reverse();
  const all = [
    ...others.map((row, n) => ({ ...row, group: `g${n}` })),
    ...[right, wrong].map((row) => ({ ...row, prompt_ids: right?.prompt_ids, group: 'pair', reward: 1 })),
    { ...right, id: 'alone', group: undefined },
  ];
  const bare = all.map(({ answer: _, solution: __, ...row }) => row);
  await write('bare.jsonl', bare);
  await done('score bare.jsonl --estimator posterior --hint peer --hint-template peer.json -o peers.jsonl');
  const found = await rows<Row>('peers.jsonl');
  expect(found.map(({ status }) => status)).toEqual([
    ...['hint:no-peer;uniform:flat-values', 'hint:no-peer;uniform:flat-values', 'uniform:small-return'],
    ...['uniform:small-return', 'hint:no-peer;uniform:no-baseline'],
  ]);
  for (const row of found.filter(({ status }) => status.includes('hint:no-peer'))) {
    expect(storedValues(row)).toEqual(storedValues(row).map(() => 0.5));
    expect(row.hint_logprobs).toEqual(row.logprobs);
  }
  await done('redistribute peers.jsonl --estimator surprise -o surprised.jsonl');
  expect((await rows('surprised.jsonl')).some(({ status }) => status.includes('hint:'))).toBe(false);
});
