// The real vLLM in the place of the policy's graph, where RREDCOT_VLLM_PYTHON names a Python that has it; killed and started again in the middle of a run.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as after } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, type ScoredRow, start } from '../../support/program.js';
import { fixtureRows, openScene, type Scene } from '../../support/scene.js';

const { RREDCOT_VLLM_PYTHON: python = '' } = process.env;
const PORT = 18_347;
const SERVER = `http://127.0.0.1:${PORT}`;
const FLAGS =
  '--dtype float32 --block-size 32 --max-model-len 4096 --max-logprobs 32 --gpu-memory-utilization 0.3 --enforce-eager --enable-prompt-tokens-details --host 127.0.0.1';
const QUIET = {
  OMP_NUM_THREADS: '1',
  VLLM_CPU_KVCACHE_SPACE: '1',
  VLLM_NO_USAGE_STATS: '1',
  HF_HUB_OFFLINE: '1',
};

let server: ChildProcess;
async function serve(): Promise<void> {
  const args = [
    '-m',
    'vllm.entrypoints.openai.api_server',
    '--model',
    EMBEDDED,
    ...FLAGS.split(' '),
    '--port',
    `${PORT}`,
  ];
  // a process group: vLLM is several processes
  server = spawn(python, args, { env: { ...process.env, ...QUIET }, stdio: 'ignore', detached: true });
}
const kill = async (): Promise<void> => {
  process.kill(-(server.pid as number), 'SIGKILL');
  await once(server, 'exit');
};
async function isUp(): Promise<void> {
  while (
    !(await fetch(`${SERVER}/v1/models`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await after(500);
}
/** Prompt tokens that vLLM has computed, and those that it has written, by its own count. */
async function computed(): Promise<number> {
  const text = await (await fetch(`${SERVER}/metrics`)).text();
  const counts = text.matchAll(
    /^vllm:(?:prompt_tokens_by_source_total.*local_compute.*|generation_tokens_total.*) ([\d.e+]+)$/gm,
  );
  return Array.from(counts, ([, count]) => Number(count)).reduce((a, b) => a + b, 0);
}

describe.skipIf(python === '')(
  `vLLM${python === '' ? ' (skipped: RREDCOT_VLLM_PYTHON names no Python)' : ''}`,
  () => {
    let scene: Scene;
    beforeAll(async () => {
      await serve();
      scene = await openScene();
      await scene.write('traces.jsonl', await fixtureRows(0, 12));
      await scene.done('score traces.jsonl -o graph.jsonl');
      await isUp();
    }, 300_000);
    afterAll(kill);

    const live = (output: string) =>
      `score traces.jsonl --policy-url ${SERVER}/v1 --engine vllm --engine-patience 240 --concurrency 1 --rows-per-part 2 -o ${output}`;
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

    it('gives the rows of the graph, and computes an exit from its last whole block on', async () => {
      const before = await computed();
      const { stderr } = await scene.done(live('live.jsonl'));
      await expectSame('live.jsonl', 'graph.jsonl', 1e-4);
      expect(stderr).toMatch(/noise of [\d.e-]+ nats/);
      const rows = await scene.rows<ScoredRow>('live.jsonl');
      const tokens = rows.reduce((sum, row) => sum + row.prompt_ids.length + row.completion_ids.length, 0);
      const answers = rows.reduce((sum, row) => sum + (row.segments.length + 1) * 3, 0);
      const own = (await computed()) - before;
      expect(own).toBeLessThan(tokens + 32 * answers + 4000);
    }, 120_000);

    it('is killed in the middle and comes back: the same rows', async () => {
      const { end } = start(live('again.jsonl').split(' '), { cwd: scene.folder });
      while (!existsSync(scene.at('.again.jsonl.run/part-00000.jsonl'))) await after(20);
      await kill();
      await serve();
      const { code, stderr } = await end;
      expect(code, stderr).toBe(0);
      expect(stderr).toContain('it is asked again');
      await expectSame('again.jsonl', 'live.jsonl', 1e-5);
    }, 300_000);
  },
);
