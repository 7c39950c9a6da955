// The real engines in the place of the policy's graph, where RREDCOT_VLLM_PYTHON or RREDCOT_SGLANG_PYTHON names a Python that has one; killed and started
// again in the middle of a run. SGLang's kernels need a libcuda.so.1 to be found, on a CPU one whose functions do nothing.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as after } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, PROVER, type ScoredRow, start } from '../../support/program.js';
import { fixtureRows, openScene, type Scene } from '../../support/scene.js';

const PORT = 18_347;
const SERVER = `http://127.0.0.1:${PORT}`;
const QUIET = { OMP_NUM_THREADS: '1', VLLM_NO_USAGE_STATS: '1', HF_HUB_OFFLINE: '1' };
const ENGINES = [
  {
    kind: 'vllm',
    python: process.env.RREDCOT_VLLM_PYTHON,
    command: `-m vllm.entrypoints.openai.api_server --model ${EMBEDDED} --block-size 32 --max-model-len 4096 --max-logprobs 32 --gpu-memory-utilization 0.3 --enforce-eager --enable-prompt-tokens-details`,
    env: { VLLM_CPU_KVCACHE_SPACE: '1' },
    block: 32,
  },
  {
    kind: 'sglang',
    python: process.env.RREDCOT_SGLANG_PYTHON,
    command: `-m sglang.launch_server --model-path ${EMBEDDED} --device cpu --attention-backend torch_native --disable-cuda-graph --disable-overlap-schedule --max-total-tokens 16384`,
    env: { SGLANG_USE_CPU_ENGINE: '1' },
    block: 1,
  },
];

async function isUp(): Promise<void> {
  while (
    !(await fetch(`${SERVER}/v1/models`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await after(500);
}

describe.each(ENGINES)('$kind', ({ kind, python = '', command, env, block }) => {
  let server: ChildProcess;
  let scene: Scene;
  const serve = () => {
    const args = [...command.split(' '), ...'--dtype float32 --host 127.0.0.1 --port'.split(' '), `${PORT}`];
    // a process group: an engine is several processes
    server = spawn(python, args, {
      env: { ...process.env, ...QUIET, ...env },
      stdio: 'ignore',
      detached: true,
    });
  };
  const kill = async (): Promise<void> => {
    process.kill(-(server.pid as number), 'SIGKILL');
    await once(server, 'exit');
  };
  const live = (output: string) =>
    `score traces.jsonl --estimator pr --policy-url ${SERVER} --engine ${kind} --engine-patience 240 --concurrency 1 --rows-per-part 2 -o ${output}`;
  async function expectSame(found: string, expected: string, most: number): Promise<void> {
    const [rows, others] = [await scene.rows<ScoredRow>(found), await scene.rows<ScoredRow>(expected)];
    const numbers = ({ logprobs, segments, sigma }: ScoredRow) => [
      ...logprobs,
      ...sigma,
      ...segments.map(({ value }) => value as number),
    ];
    expect(rows.map(({ id }) => id)).toEqual(others.map(({ id }) => id));
    for (const [n, row] of rows.entries()) {
      const other = numbers(others[n] as ScoredRow);
      const far = numbers(row).map((x, i) => Math.abs(x - (other[i] as number)));
      expect(Math.max(...far)).toBeLessThan(most);
    }
  }

  describe.skipIf(python === '')(python === '' ? 'skipped: no Python has it' : python, () => {
    beforeAll(async () => {
      serve();
      scene = await openScene();
      await scene.write('traces.jsonl', await fixtureRows(0, 12));
      await scene.done(`policy build ${PROVER} -o prover --exit-template ${EMBEDDED}/exit_template.json`);
      await scene.done('score traces.jsonl --estimator pr -o graph.jsonl');
      await isUp();
    }, 300_000);
    afterAll(kill);

    it('gives the rows of the graph, and computes an exit from its last whole block on', async () => {
      const { stderr } = await scene.done(live('live.jsonl'));
      await expectSame('live.jsonl', 'graph.jsonl', 1e-4);
      expect(stderr).toMatch(/noise of [\d.e-]+ nats/);
      const rows = await scene.rows<ScoredRow>('live.jsonl');
      const tokens = rows.reduce((sum, row) => sum + row.prompt_ids.length + row.completion_ids.length, 0);
      const answers = rows.reduce((sum, row) => sum + (row.segments.length + 1) * 3, 0);
      // by its own count, the proof's too
      const [, asked, cached] = /([\d,]+) tokens asked, ([\d,]+) of them cached/.exec(stderr) ?? [];
      const computed = Number(asked?.replaceAll(',', '')) - Number(cached?.replaceAll(',', ''));
      expect(computed).toBeLessThan(tokens + block * answers + 4000);
    }, 120_000);

    it('is a teacher, of which KL is at least what it tells', async () => {
      const taught = (teacher: string, output: string) =>
        `score traces.jsonl --limit 4 --estimator surprise --policy prover --teacher ${teacher} -o ${output}`;
      const { stderr } = await scene.done(taught(SERVER, 'served.jsonl'));
      await scene.done(taught(EMBEDDED, 'exact.jsonl'));
      expect(stderr).toContain('kl is a lower bound');
      type Taught = Readonly<Record<'kl' | 'teacher_logprobs', number[]>>;
      const exact = await scene.rows<Taught>('exact.jsonl');
      for (const [n, row] of (await scene.rows<Taught>('served.jsonl')).entries())
        for (const [t, kl] of row.kl.entries()) {
          const { kl: most = [], teacher_logprobs: own = [] } = exact[n] ?? {};
          expect(Math.abs((row.teacher_logprobs[t] as number) - (own[t] as number))).toBeLessThan(1e-4);
          expect(kl).toBeLessThan((most[t] as number) + 1e-4);
          expect(kl).toBeGreaterThan((most[t] as number) - 0.1);
        }
    }, 120_000);

    it('is killed in the middle and comes back: the same rows', async () => {
      const { end } = start(live('again.jsonl').split(' '), { cwd: scene.folder });
      while (!existsSync(scene.at('.again.jsonl.run/part-00000.jsonl'))) await after(20);
      await kill();
      serve();
      const { code, stderr } = await end;
      expect(code, stderr).toBe(0);
      expect(stderr).toContain('it is asked again');
      await expectSame('again.jsonl', 'live.jsonl', 1e-5);
    }, 300_000);
  });
});
