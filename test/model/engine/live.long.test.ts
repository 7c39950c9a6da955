// A server in the place of the policy's graph: vLLM and SGLang on loopback, who answer rightly, fail, or lie.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as after } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openServer } from '../../../dist/model/engine/http.js';
import { openServed } from '../../../dist/model/engine/served.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { openModel } from '../../../dist/model/onnx/open-model.js';
import { type EngineSetup, type Lies, startEngine } from '../../support/engine-server.js';
import { EMBEDDED, PROVER, type ScoredRow, start } from '../../support/program.js';
import { fixtureRows, openScene, type Scene } from '../../support/scene.js';

/** ends a completion of the embedded policy */
const END = 258;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene();
  await scene.write('traces.jsonl', await fixtureRows(0, 3));
  await scene.done('score traces.jsonl --max-segments 4 -o graph.jsonl');
});

type Engine = Awaited<ReturnType<typeof startEngine>>;
const engines: Engine[] = [];
async function engineOf(setup: Partial<EngineSetup> = {}): Promise<Engine> {
  const engine = await startEngine({ kind: 'vllm', checkpoint: EMBEDDED, ...setup });
  engines.push(engine);
  return engine;
}
afterAll(async () => {
  for (const engine of engines) await engine.kill();
});

const asked = (engine: Engine, output: string, more = '') =>
  `score traces.jsonl --max-segments 4 --policy-url ${engine.url} --engine vllm -o ${output} --overwrite ${more}`;

/** Where a list is farthest from another. */
const far = (a: readonly number[], b: readonly number[]) =>
  a.reduce((most, x, i) => Math.max(most, Math.abs(x - (b[i] as number))), a.length - b.length);

async function expectSameRows(name: string): Promise<void> {
  const [found, expected] = [await scene.rows<ScoredRow>(name), await scene.rows<ScoredRow>('graph.jsonl')];
  expect(found.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
  for (const [n, row] of found.entries()) {
    const own = expected[n] as ScoredRow;
    expect(row.segments.map(({ end }) => end)).toEqual(own.segments.map(({ end }) => end));
    expect(far(row.logprobs, own.logprobs)).toBeLessThan(1e-4);
    expect(far(row.entropies, own.entropies)).toBeLessThan(0.01);
    expect(
      far(
        row.segments.map(({ value }) => value as number),
        own.segments.map(({ value }) => value as number),
      ),
    ).toBeLessThan(1e-4);
  }
}

describe('the rows of the graph', () => {
  it.each([
    ['vLLM, one allowed token a request', { kind: 'vllm' }],
    ['vLLM that replays', { kind: 'vllm', replays: true }],
    ['SGLang', { kind: 'sglang' }],
  ] as const)('by %s', async (_, setup) => {
    const engine = await engineOf(setup);
    vi.stubEnv('RREDCOT_API_KEY', 'secret');
    const { stderr } = await scene.done(
      asked(engine, 'live.jsonl').replace('--engine vllm', `--engine ${setup.kind}`),
    );
    await expectSameRows('live.jsonl');
    expect(stderr).toMatch(/noise of [\d.e-]+ nats.*tokens asked, [1-9][\d,]* of them cached/s);
    expect(new Set(engine.seen.map(({ key }) => key))).toEqual(new Set(['Bearer secret']));
    expect(await scene.config('live.jsonl')).toMatchObject({
      engine: `${setup.kind} 0.0.0`,
      engineModel: 'policy',
    });
    // all that shapes a distribution is named, whatever the server does by default
    for (const { body } of engine.seen.filter(({ path }) => /completions|generate/.test(path)))
      expect({ ...body, ...body.sampling_params }).toMatchObject({
        temperature: 1,
        top_p: 1,
        top_k: -1,
        repetition_penalty: 1,
      });
    vi.unstubAllEnvs();
  });

  it('with each trace read once, and its exits never as a whole', async () => {
    const engine = await engineOf({ replays: true });
    await scene.done(asked(engine, 'live.jsonl'));
    const whole = engine.seen.flatMap(({ body }) => (body.prompt_logprobs === 20 ? [`${body.prompt}`] : []));
    for (const { prompt_ids, completion_ids } of await fixtureRows(0, 3))
      expect(whole.filter((ids) => ids === `${[...prompt_ids, ...completion_ids]}`)).toHaveLength(1);
    const exits = engine.seen.filter(({ path }) => path.startsWith('/inference'));
    expect(exits.length).toBeGreaterThanOrEqual(3 * 5);
  });
});

it('a folder without graphs is enough for an engine, and for nothing else', async () => {
  const engine = await engineOf({ kind: 'sglang' });
  const template = `--exit-template ${EMBEDDED}/exit_template.json`;
  await scene.done(`policy build ${EMBEDDED} -o text --tokenizer-only ${template}`);
  expect((await scene.done('policy info text')).stdout).toMatch(/graphs +none: an engine answers/);
  await scene.fails('score traces.jsonl --policy text', 2, /no graph.*--policy-url, --answers/s);
  await scene.fails('segment traces.jsonl --policy text', 2, /no graph/);
  await scene.done(`${asked(engine, 'live.jsonl').replace('vllm', 'sglang')} --policy text`);
  await expectSameRows('live.jsonl');
});

it.each(['vllm', 'sglang'] as const)(
  'samples of %s end where they are told to, that token included',
  async (kind) => {
    const { url } = await engineOf({ kind });
    const log = { info() {}, warn() {}, text() {}, record() {}, progress() {} };
    const server = openServer(new URL(url), 3, log, new AbortController().signal);
    const folder = await openPolicyFolder(EMBEDDED);
    await using opened = await openModel(folder, { name: 'cpu' }, new AbortController().signal);
    const opts = { server, naming: '--engine-model', width: 1, opened, log };
    await using engine = await openServed(kind, opts);
    const [row] = await fixtureRows(0, 1);
    const ids = Int32Array.from(row?.prompt_ids ?? []);
    const question = { name: 'one', ids, shared: ids.length, samples: 2, stop: [END] };
    const said = await engine.answer([
      { ...question, maxTokens: 200 },
      { ...question, maxTokens: 5 },
    ]);
    const [whole, cut] = said.map((each) => (each as { ids: number[][] }).ids);
    expect(whole?.map((sample) => sample.indexOf(END))).toEqual(whole?.map(({ length }) => length - 1));
    expect(cut).toEqual(whole?.map((sample) => sample.slice(0, 5)));
  },
);

const LIES: readonly (readonly [string, Lies, RegExp])[] = [
  [
    'is certain of what it may write',
    { forced: (own) => own.map(() => 0) },
    /certain of tokens that do not follow.*raw_logprobs/s,
  ],
  [
    'has a temperature of its own',
    { forced: (own) => own.map((lp) => lp / 0.5) },
    /does not say the same asked anew/,
  ],
  ['writes something else', { writes: (token) => (token + 1) % 256 }, /has written .*forced was/],
  ['reads the end of a prompt', { reads: (ids) => ids.slice(-16) }, /has read \d+ tokens, \d+ were sent/],
  [
    'gives null',
    {
      says: (said) =>
        said
          .replace(/"logprob":-[\d.e-]+/, '"logprob":null')
          .replace(/("token_logprobs":\[)[^\]]*/, '$1null'),
    },
    /NaN, expected a number/,
  ],
  ['gives log p above 0', { forced: (own) => own.map(() => 0.5) }, /0.5, expected a number up to 0/],
  ['leaves out rows', { says: (said) => said.replace(/,\{"[^}]*\}(?:,"[^}]*\})*\}\]/, ']') }, /expected \d+/],
];

it('one that caches nothing is said to cost a trace for each exit', async () => {
  const engine = await engineOf();
  engine.lie({ says: (said) => said.replace(/"cached_tokens":\d+/, '"cached_tokens":0') });
  const { stderr } = await scene.done(asked(engine, 'live.jsonl'));
  expect(stderr).toMatch(/WARN: vllm 0.0.0 caches no prefix.*--enable-prefix-caching/);
});

describe('what is refused before row 1', () => {
  it.each(LIES)('a server that %s', async (_, lies, why) => {
    const engine = await engineOf();
    engine.lie(lies);
    await scene.fails(asked(engine, 'none.jsonl'), 69, why);
  });

  it('another model', async () => {
    const engine = await engineOf({ checkpoint: PROVER });
    await scene.fails(asked(engine, 'none.jsonl'), 69, /another model than the policy's.*log p of token/);
  });

  it('a model that is not served, and an address that is none', async () => {
    const engine = await engineOf();
    await scene.fails(
      asked(engine, 'none.jsonl', '--engine-model other'),
      2,
      /serves \["policy"\].*--engine-model/s,
    );
    await scene.fails(
      asked(engine, 'none.jsonl').replace('--engine vllm', '--engine sglang'),
      69,
      /answers 404/,
    );
    await scene.fails(asked({ ...engine, url: 'localhost:8000' }, 'none.jsonl'), 2, /expected an address/);
    await scene.fails('score traces.jsonl --policy-url http://localhost:1', 2, '--engine');
  });

  it('a server that sends to another one, which nobody asks', async () => {
    let visits = 0;
    const other = createServer((_, response) => {
      visits++;
      response.end('{}');
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const sends = createServer(
      (_, response) => void response.writeHead(307, { location: `http://127.0.0.1:${port}/` }).end(),
    );
    await new Promise<void>((resolve) => sends.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(sends.address() as AddressInfo).port}`;
    await scene.fails(
      `score traces.jsonl --policy-url ${url} --engine vllm -o none.jsonl`,
      69,
      /answers 307/,
    );
    expect(visits).toBe(0);
    for (const each of [other, sends]) each.close();
  });
});

describe('a teacher', () => {
  interface Taught extends ScoredRow {
    readonly teacher_logprobs: number[];
    readonly teacher_entropies: number[];
    readonly kl: number[];
  }
  const taught = (teacher: string, output: string, more = '') =>
    `score traces.jsonl --max-segments 4 --estimator distill --teacher ${teacher} -o ${output} --overwrite ${more}`;
  let exact: readonly Taught[];
  beforeAll(async () => {
    await scene.done(`policy build ${PROVER} -o teacher --exit-template ${EMBEDDED}/exit_template.json`);
    await scene.done(taught('teacher', 'exact.jsonl'));
    exact = await scene.rows<Taught>('exact.jsonl');
  });

  /** What is told of the teacher, and KL from below. @param loss most that the bound may be off by */
  async function expectTaught(name: string, loss: number): Promise<void> {
    for (const [n, row] of (await scene.rows<Taught>(name)).entries()) {
      const own = exact[n] as Taught;
      expect(far(row.teacher_logprobs, own.teacher_logprobs)).toBeLessThan(1e-4);
      expect(far(row.teacher_entropies, own.teacher_entropies)).toBeLessThan(0.02);
      for (const [t, kl] of row.kl.entries()) {
        const least = own.kl[t] as number;
        expect(kl).toBeLessThan(least + 1e-5);
        expect(kl).toBeGreaterThan(least - loss);
      }
    }
  }

  it.each(['vllm', 'sglang'] as const)(
    'behind %s tells KL from below, and what its bound is worth',
    async (kind) => {
      const engine = await engineOf({ kind, checkpoint: PROVER });
      const { stderr } = await scene.done(taught(engine.url, 'served.jsonl'));
      await expectTaught('served.jsonl', 0.01);
      expect(stderr).toMatch(/kl is a lower bound: [\d.e-]+ % of the policy's probability/);
      expect(await scene.config('served.jsonl')).toMatchObject({
        teacher: { engine: `${kind} 0.0.0`, engineRoot: PROVER },
      });
    },
  );

  it('and a policy, each behind a server, or the policy alone', async () => {
    const [policy, teacher] = [await engineOf(), await engineOf({ checkpoint: PROVER })];
    const byServer = `--policy-url ${policy.url} --engine vllm`;
    await scene.done(taught(teacher.url, 'served.jsonl', byServer));
    await expectTaught('served.jsonl', 0.01);
    await scene.done(taught('teacher', 'served.jsonl', byServer));
    await expectTaught('served.jsonl', 0.01);
  });

  it('that spells a token otherwise is refused by name, and so is a server that is none', async () => {
    const engine = await engineOf({ checkpoint: PROVER });
    engine.lie({ spells: (ids) => ids.with(7, 3) });
    await scene.fails(taught(engine.url, 'none.jsonl'), 2, 'has another tokenizer than the policy');
    engine.lie({ spells: (ids) => ids.slice(0, -1) });
    await scene.fails(taught(engine.url, 'none.jsonl'), 2, 'has another tokenizer than the policy');
    const { lie: _, ...none } = engine;
    expect(none.seen.some(({ path }) => path === '/v1/completions')).toBe(false);
    await scene.fails(taught('http://x:y', 'none.jsonl'), 2, 'expected an address');
  });

  it('that is one of several is named behind the address', async () => {
    const engine = await engineOf({ checkpoint: PROVER });
    await scene.done(taught(`${engine.url}#policy`, 'served.jsonl'));
    await expectTaught('served.jsonl', 0.01);
    await scene.fails(
      taught(`${engine.url}#other`, 'none.jsonl'),
      2,
      /serves \["policy"\][\s\S]*#<one of them>/,
    );
  });

  it('that is the policy is told', async () => {
    const { stderr } = await scene.done(taught((await engineOf()).url, 'served.jsonl'));
    expect(stderr).toContain('says what the policy says');
  });
});

describe('what is survived', () => {
  const some = (fault: number | 'silent' | 'cut'): Lies => ({
    fails: (n) => (n % 5 === 3 && n < 60 ? fault : undefined),
  });
  it.each([
    ['too many requests', some(429)],
    ['errors that pass', some(503)],
    ['answers that are cut', some('cut')],
    ['an answer that does not come', { fails: (n: number) => (n === 12 ? ('silent' as const) : undefined) }],
  ])('%s', async (_, lies) => {
    const engine = await engineOf();
    engine.lie(lies);
    // half of it is silence
    await scene.done(asked(engine, 'live.jsonl', '--engine-patience 12'));
    await expectSameRows('live.jsonl');
  });

  /** Whether the second trace is asked about as a whole: the proof is behind. */
  async function isSecond(): Promise<(body: Readonly<Record<string, unknown>>) => boolean> {
    const [row] = await fixtureRows(1, 2);
    const ids = [...(row?.prompt_ids ?? []), ...(row?.completion_ids ?? [])];
    return ({ prompt }) => `${prompt}` === `${ids}`;
  }

  it.each([
    ['dies at work and comes back', EMBEDDED, 0, ''],
    ['comes back as another', PROVER, 69, /does not say the same since it was away/],
  ] as const)('a server that %s', async (_, checkpoint, code, why) => {
    const engine = await engineOf();
    const isNow = await isSecond();
    let isDone = false;
    engine.lie({
      fails(_, body) {
        if (isDone || !isNow(body)) return;
        isDone = true;
        void engine.kill().then(() => setTimeout(engine.restart, 700, checkpoint));
      },
    });
    await scene.fails(asked(engine, 'live.jsonl'), code, why);
    expect(isDone).toBe(true);
    if (code === 0) await expectSameRows('live.jsonl');
  });

  it.each([400, 500])(
    'a trace that it answers with %i alone is rejected, and the others are scored',
    async (status) => {
      const engine = await engineOf();
      const isNow = await isSecond();
      engine.lie({ fails: (_, body) => (isNow(body) ? status : undefined) });
      const { stderr } = await scene.done(asked(engine, 'live.jsonl'));
      expect(stderr).toContain('rejected: 1 (engine 1)');
      expect(await scene.rows('live.jsonl')).toHaveLength(2);
    },
  );

  it('a first trace that is too long for it costs no other', async () => {
    const engine = await engineOf();
    await scene.write('long.jsonl', [...(await fixtureRows(1, 3)), ...(await fixtureRows(0, 1))]);
    engine.lie({
      fails: (_, { prompt }) => (`${(prompt as number[][])?.[0]}`.split(',').length > 150 ? 400 : undefined),
    });
    const { stderr } = await scene.done(asked(engine, 'live.jsonl').replace('traces.jsonl', 'long.jsonl'));
    expect(stderr).toContain('rejected: 1 (engine 1)');
    expect(await scene.rows('live.jsonl')).toHaveLength(2);
  });

  it('SIGTERM is heard while a server is silent', async () => {
    const engine = await engineOf();
    engine.lie({ fails: () => 'silent' });
    const line = asked(engine, 'none.jsonl');
    const { child, end } = start(line.trim().split(/ +/), { cwd: scene.folder });
    while (engine.seen.length === 0) await after(50);
    const since = Date.now();
    child.kill('SIGTERM');
    expect((await end).code).toBe(75);
    expect(Date.now() - since).toBeLessThan(3000);
  });

  it('no more than patience allows', async () => {
    const engine = await engineOf();
    engine.lie({ fails: (n) => (n > 40 ? 500 : undefined) });
    const since = Date.now();
    await scene.fails(
      asked(engine, 'none.jsonl', '--engine-patience 3'),
      69,
      /no answer for 3 s.*--engine-patience/s,
    );
    expect(Date.now() - since).toBeLessThan(30_000);
  });
});
