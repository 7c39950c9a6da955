/**
 * ONNX Runtime's WebGPU provider on a device in software (swiftshader.ts), whose subgroups are too small for its attention:
 * the canary sees that, attention goes to the CPU, and then the numbers are the CPU's. Skipped where there is no SwiftShader
 * (Debian: apt-get install chromium-common).
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildPolicyFolder, buildPrmFolder } from '../../../dist/model/onnx/build.js';
import type { CanaryFinding, Proof } from '../../../dist/model/onnx/canary.js';
import { LLAMA, writeCheckpoint } from '../../support/checkpoints.js';
import {
  EMBEDDED,
  FIXTURES,
  ROOT,
  readJsonl,
  type ScoredRow,
  temporaryFolder,
} from '../../support/program.js';
import { hasSwiftshader, swiftshaderEnv } from '../../support/swiftshader.js';

const scratch = await temporaryFolder();

/** Runs Node on the device. */
function node(...args: string[]) {
  const env = swiftshaderEnv(scratch);
  const run = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', env });
  return { code: run.status, stdout: run.stdout, stderr: run.stderr };
}

/**
 * Opens folders, shows what the device's own attention gives and what `prove` makes of it; lets policies write, which they do on
 * the CPU: the provider crashes in that graph.
 */
const LOOK = `
  const { isPrmFolder, openPolicyFolder, openPrmFolder } = await import('${ROOT}dist/model/onnx/folder.js');
  const { readCanary } = await import('${ROOT}dist/model/onnx/canary.js');
  const { headOf, prove } = await import('${ROOT}dist/model/onnx/canary-passes.js');
  const { continueTraces } = await import('${ROOT}dist/model/decode/continue.js');
  const { rowKey } = await import('${ROOT}dist/model/decode/sampling.js');
  const { ModelSession } = await import('${ROOT}dist/model/onnx/session.js');
  const said = [];
  const [isOwnAsked, ...paths] = process.argv.slice(2);
  for (const path of paths) {
    const isPrm = await isPrmFolder(path);
    const folder = await (isPrm ? openPrmFolder(path) : openPolicyFolder(path));
    const session = await ModelSession.openUnproved(folder, { name: 'webgpu' });
    const own = isOwnAsked === 'own' ? await prove(headOf(folder), session, await readCanary(folder), { precision: 'f32' }) : undefined;
    const proof = await session.prove();
    let written;
    if (!isPrm) {
      await session.openDecoder();
      const starts = [{ exit: 5, key: rowKey('webgpu', 0, 0), most: 4 }];
      const how = { temperature: 1, topP: 1, stops: [], batch: 1 };
      [[written]] = await continueTraces(session, [{ ids: Int32Array.of(9, 8, 7, 6, 5), starts }], how);
    }
    said.push({ own: own?.findings, proof, written: written && [...written.ids] });
    await session.close();
  }
  console.log(JSON.stringify(said));
`;

interface Look {
  readonly own?: CanaryFinding[];
  readonly proof: Proof;
  readonly written?: number[];
}

/** @param own whether the device's own attention is asked besides */
function look(own: 'own' | '-', ...folders: string[]): Look[] {
  const script = join(scratch, 'look.mjs');
  writeFileSync(script, LOOK);
  const { code, stdout, stderr } = node(script, own, ...folders);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

const within = ({ findings }: Proof) => Math.max(...findings.map(({ off }) => off));

describe.skipIf(!hasSwiftshader)('WebGPU on SwiftShader (skipped where there is none)', () => {
  it("the canary sees that the device's own attention is wrong, and what is left of it is right", () => {
    const [{ own = [], proof, written }] = look('own', EMBEDDED) as [Look];
    expect(written).toHaveLength(4);
    expect(Math.max(...own.map(({ off }) => off))).toBeGreaterThan(0.5);
    expect(own.map(({ what }) => what)).toEqual(['log p', 'entropy', 'branch log p']);
    expect(proof.attentionOnCpu).toBe(true);
    expect(within(proof)).toBeLessThan(1e-3);
    expect(proof.leftOut).toBe(0);
  });

  it('norms of heads, windows and a process reward model are right too, wherever their attention runs', async () => {
    const template = { close: 'a', open: 'b', closer: 'c' };
    const family = join(scratch, 'family');
    // layer 0 sees all, layer 1 nine tokens
    const windows = { use_sliding_window: true, sliding_window: 9, max_window_layers: 1 };
    const qwen = { ...LLAMA, architectures: ['Qwen3ForCausalLM'], head_dim: 16, ...windows };
    writeCheckpoint(family, qwen, { dtype: 'F32' });
    await buildPolicyFolder(family, family, template);
    const heads = { architectures: ['Qwen2ForTokenClassification'], head_dim: 16 };
    const prm = join(scratch, 'prm');
    writeCheckpoint(prm, { ...LLAMA, ...heads }, { dtype: 'F32' }); // the device has no float16
    await buildPrmFolder(prm, prm);
    for (const { proof } of look('-', family, prm))
      expect(within(proof)).toBeLessThan(proof.findings.length > 1 ? 1e-3 : 1e-4);
  });

  it('score gives what the CPU gives within 1e-3 nats, says where attention runs, and keeps what the canary has shown', async () => {
    const input = join(scratch, 'one.jsonl');
    writeFileSync(input, `${readFileSync(FIXTURES, 'utf8').split('\n').slice(0, 1).join('\n')}\n`);
    const scored: ScoredRow[][] = [];
    for (const device of ['cpu', 'webgpu']) {
      const out = join(scratch, `${device}.jsonl`);
      const { code, stderr } = node('bin/rredcot.js', 'score', input, '-o', out, '--device', device);
      expect(code, stderr).toBe(0);
      if (device === 'webgpu')
        expect(stderr).toMatch(/canary: webgpu is off by .*; attention runs on the CPU/);
      scored.push(await readJsonl<ScoredRow>(out));
    }
    const [cpu, webgpu] = scored as [ScoredRow[], ScoredRow[]];
    expect(webgpu.map(({ id }) => id)).toEqual(cpu.map(({ id }) => id));
    for (const [i, row] of webgpu.entries())
      for (const kind of ['entropies', 'logprobs', 'reference_logprobs', 'sigma'] as const) {
        const [found, expected] = [row[kind].flat(), (cpu[i] as ScoredRow)[kind].flat()];
        expect(found.length).toBe(expected.length);
        for (const [t, value] of found.entries())
          expect(Math.abs(value - (expected[t] as number))).toBeLessThan(1e-3);
      }
  });
});

it('where there is no device the run ends with 69 and says what one needs', () => {
  const env = { ...process.env, VK_DRIVER_FILES: '/nonexistent', VK_ICD_FILENAMES: '/nonexistent' };
  const args = ['bin/rredcot.js', 'doctor', '--device', 'webgpu'];
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', env });
  expect(status).toBe(69);
  expect(stdout).toMatch(
    /^policy on webgpu +wrong .*\n.*fix it: --device cpu; webgpu needs a GPU with Vulkan.*lavapipe/m,
  );
});
