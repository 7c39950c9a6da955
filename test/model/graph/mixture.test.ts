// Experts: how their weights are stacked, what is refused, ties of the router, and what the canary sees of them.
import { cpSync, existsSync, mkdtempSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import { beyond, prove, readCanary } from '../../../dist/model/onnx/canary.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { loadOracleModel, tokenStats } from '../../oracle/llama.js';
import { readSafetensors } from '../../oracle/safetensors.js';
import { changePolicy } from '../../support/changed-policy.js';
import {
  type Json,
  randomTensors,
  safetensors,
  type TensorType,
  type TestTensor,
  writeCheckpoint,
} from '../../support/checkpoints.js';
import { differences, FAMILIES } from '../../support/family-checks.js';
import { temporaryFolder } from '../../support/program.js';

const home = await temporaryFolder();
const TEMPLATE = { close: '\u0001', open: '', closer: '\u0002' };
const QWEN3 = FAMILIES.Qwen3Moe as Json;
const EXPERTS = 'model.layers.0.mlp.experts';

const fresh = () => mkdtempSync(join(home, 'at-'));
type Tensors = Map<string, TestTensor>;

function checkpointOf(
  config: Json,
  change: (tensors: Tensors) => void = () => {},
  dtype: TensorType = 'F32',
) {
  const tensors = randomTensors(config, dtype);
  change(tensors);
  return writeCheckpoint(join(fresh(), 'checkpoint'), config, { tensors });
}

const build = (checkpoint: string) => buildPolicyFolder(checkpoint, join(fresh(), 'policy'), TEMPLATE);

/** As transformers has them in memory: one tensor a layer, an expert's gate before its `up`. */
function join3d(tensors: Tensors): void {
  const layers = new Set([...tensors.keys()].flatMap((name) => /^.+\.experts(?=\.)/.exec(name) ?? []));
  for (const at of layers) {
    const taken = (name: string): TestTensor[] => {
      const own = tensors.get(name);
      tensors.delete(name);
      return own ? [own] : [];
    };
    const numbers = Array.from({ length: 7 }, (_, e) => e);
    for (const [name, kinds] of [
      ['gate_up_proj', ['gate', 'up']],
      ['down_proj', ['down']],
    ] as const) {
      const parts = numbers.flatMap((e) => kinds.flatMap((kind) => taken(`${at}.${e}.${kind}_proj.weight`)));
      const [{ dtype, shape }] = parts as [TestTensor];
      const [rows, width] = shape as [number, number];
      const bytes = Buffer.concat(parts.map((part) => part.bytes));
      tensors.set(`${at}.${name}`, { dtype, shape: [7, rows * kinds.length, width], bytes });
    }
  }
}

const stacked = (policy: string) => readSafetensors(join(policy, 'model.safetensors'));

describe('weights', () => {
  test.each(['F32', 'BF16'] as const)(
    '%s: rows of gate and up in turns; the same of both forms',
    async (dtype) => {
      const checkpoint = checkpointOf(QWEN3, undefined, dtype);
      const [apart, joined] = [await build(checkpoint), await build(checkpointOf(QWEN3, join3d, dtype))];
      const [found, given] = [stacked(apart.path), readSafetensors(join(checkpoint, 'model.safetensors'))];
      const { shape, data } = found.get(`${EXPERTS}.gate_up_interleaved`) as {
        shape: number[];
        data: Float64Array;
      };
      const [experts, rows, width] = shape as [number, number, number];
      expect(shape).toEqual([7, 26, 44]);
      for (let e = 0; e < experts; e++)
        for (let row = 0; row < rows; row++) {
          const from = given.get(`${EXPERTS}.${e}.${row % 2 === 0 ? 'gate' : 'up'}_proj.weight`)?.data;
          const own = data.subarray((e * rows + row) * width, (e * rows + row + 1) * width);
          const at = Math.floor(row / 2) * width;
          expect(own).toEqual(from?.subarray(at, at + width));
        }
      const bytes = ({ path }: { path: string }) => readFileSync(join(path, 'model.safetensors'));
      expect(bytes(apart).equals(bytes(joined))).toBe(true);
    },
  );

  const half = (bytes: Buffer) => bytes.subarray(0, bytes.length / 2);
  test.each<[string, (tensors: Tensors) => void, RegExp]>([
    [
      'one is missing',
      (all) => all.delete(`${EXPERTS}.3.up_proj.weight`),
      /experts\.3\.up_proj\.weight is missing/,
    ],
    [
      'one is too many',
      (all) => all.set(`${EXPERTS}.7.up_proj.weight`, all.get(`${EXPERTS}.3.up_proj.weight`) as TestTensor),
      /experts\.7\.up_proj\.weight has no place/,
    ],
    [
      'one has another shape',
      (all) =>
        all.set(`${EXPERTS}.2.down_proj.weight`, {
          ...(all.get(`${EXPERTS}.2.down_proj.weight`) as TestTensor),
          shape: [13, 44],
        }),
      /experts\.2\.down_proj\.weight has shape \[13, 44\].*\[44, 13\]/,
    ],
    [
      'one is of another type',
      (all) =>
        all.set(`${EXPERTS}.5.gate_proj.weight`, {
          ...(all.get(`${EXPERTS}.5.gate_proj.weight`) as TestTensor),
          dtype: 'BF16',
          bytes: half((all.get(`${EXPERTS}.5.gate_proj.weight`) as TestTensor).bytes),
        }),
      /experts\.5\.gate_proj\.weight is bf16, .*experts\.0\.gate_proj\.weight f32/,
    ],
    [
      'the router is missing',
      (all) => all.delete('model.layers.2.mlp.gate.weight'),
      /layers\.2\.mlp\.gate\.weight is missing/,
    ],
    [
      'both forms',
      (all) => {
        const own = new Map(all);
        join3d(all);
        for (const [name, each] of own) if (name.includes('experts.1.')) all.set(name, each);
      },
      /experts\.1\..* has no place/,
    ],
  ])('%s: refused by name before anything is written', async (_, change, message) => {
    const out = join(fresh(), 'policy');
    await expect(buildPolicyFolder(checkpointOf(QWEN3, change), out, TEMPLATE)).rejects.toThrow(message);
    expect(existsSync(out)).toBe(false);
  });

  test('a file that is cut off, and one that would be its own source', async () => {
    const [checkpoint, out] = [checkpointOf(QWEN3), join(fresh(), 'policy')];
    await expect(buildPolicyFolder(checkpoint, checkpoint, TEMPLATE)).rejects.toThrow(/written anew/);
    truncateSync(join(checkpoint, 'model.safetensors'), 50_000);
    await expect(buildPolicyFolder(checkpoint, out, TEMPLATE)).rejects.toThrow(
      /model\.safetensors: not a sound/,
    );
    expect(existsSync(out)).toBe(false);
  });

  test.each<[Json, string]>([
    [{ num_experts_per_tok: 8 }, '"num_experts_per_tok":8'],
    [{ num_experts_per_tok: undefined }, '"num_experts":7'],
    [{ moe_intermediate_size: undefined }, 'one is missing'],
    [{ num_local_experts: 8 }, '"num_local_experts":8'],
    [{ architectures: ['Qwen2MoeForCausalLM'] }, 'one is missing'],
    [{ architectures: ['Qwen3ForCausalLM'] }, 'its family has none'],
    [{ use_sliding_window: true, sliding_window: 0 }, 'sliding_window is 0'],
    [{ decoder_sparse_step: 2 }, 'layers.0.mlp.gate_proj.weight is missing'],
  ])('config.json: %j', async (more, message) => {
    const checkpoint = checkpointOf(QWEN3);
    writeFileSync(join(checkpoint, 'config.json'), JSON.stringify({ ...QWEN3, ...more }));
    await expect(build(checkpoint)).rejects.toThrow(message);
  });

  test('num_local_experts, as transformers 5 writes it, says the same', async () => {
    const checkpoint = checkpointOf(QWEN3);
    const { num_experts, ...rest } = QWEN3;
    writeFileSync(
      join(checkpoint, 'config.json'),
      JSON.stringify({ ...rest, num_local_experts: num_experts }),
    );
    expect((await build(checkpoint)).architecture).toMatchObject({ mixture: { experts: 7, layers: [0, 2] } });
  });
});

// ------ an adapter

test('an adapter of experts is merged before they are stacked; of a tensor of all of them it is refused by name', async () => {
  const name = 'model.layers.2.mlp.experts.4.up_proj';
  const adapter = fresh();
  const numbers = (count: number) =>
    Buffer.from(Float32Array.from({ length: count }, (_, i) => Math.sin(i)).buffer);
  const tensors: [string, TestTensor][] = [
    [`base_model.model.${name}.lora_A.weight`, { dtype: 'F32', shape: [2, 44], bytes: numbers(88) }],
    [`base_model.model.${name}.lora_B.weight`, { dtype: 'F32', shape: [13, 2], bytes: numbers(26) }],
  ];
  writeFileSync(join(adapter, 'adapter_model.safetensors'), safetensors(tensors));
  writeFileSync(
    join(adapter, 'adapter_config.json'),
    JSON.stringify({ peft_type: 'LORA', lora_alpha: 3, r: 2 }),
  );
  const [checkpoint, out] = [checkpointOf(QWEN3), join(fresh(), 'policy')];
  await buildPolicyFolder(checkpoint, out, TEMPLATE, { adapter });
  const given = readSafetensors(join(checkpoint, 'model.safetensors')).get(`${name}.weight`)
    ?.data as Float64Array;
  const found = stacked(out).get('model.layers.2.mlp.experts.gate_up_interleaved')?.data as Float64Array;
  for (let row = 0; row < 13; row++)
    for (let i = 0; i < 44; i++) {
      const added = [0, 1].reduce((sum, j) => sum + Math.sin(row * 2 + j) * Math.sin(j * 44 + i), 0);
      const expected = (given[row * 44 + i] as number) + (3 / 2) * added;
      expect(found[(4 * 26 + 2 * row + 1) * 44 + i]).toBeCloseTo(expected, 5);
    }
  const untouched = readSafetensors(join(checkpoint, 'model.safetensors')).get(
    `${EXPERTS}.0.gate_proj.weight`,
  );
  expect(stacked(out).get(`${EXPERTS}.gate_up_interleaved`)?.data.subarray(0, 44)).toEqual(
    untouched?.data.subarray(0, 44),
  );
  await expect(
    buildPolicyFolder(checkpointOf(QWEN3, join3d), join(fresh(), 'policy'), TEMPLATE, { adapter }),
  ).rejects.toThrow(/experts\.4\.up_proj\.weight is no matrix of the checkpoint/);
});

// ------ the router

const ids = Int32Array.from({ length: 60 }, (_, i) => (i * 37 + 11) % 131);
async function scoresOf(checkpoint: string) {
  await using session = await ModelSession.open(await build(checkpoint));
  const [scores] = await session.run([{ ids, promptLength: 1, branches: [] }]);
  return scores?.logprobs as Float32Array;
}

describe('ties of the router', () => {
  /** Rows of the router, and where asked experts, of one are those of another. */
  const alike = (from: number, to: number, isWhole: boolean) => (tensors: Tensors) => {
    for (const [name, { bytes, shape }] of tensors) {
      const row = bytes.length / (shape[0] as number);
      if (name.endsWith('mlp.gate.weight')) bytes.copy(bytes, to * row, from * row, (from + 1) * row);
      const other = tensors.get(name.replace(`experts.${from}.`, `experts.${to}.`));
      if (isWhole && name.includes(`experts.${from}.`)) bytes.copy(other?.bytes as Buffer);
    }
  };

  test.each([2, 3])(
    'twins, of %i experts each: whichever is taken, the numbers are the same',
    async (chosen) => {
      const config = { ...QWEN3, num_experts_per_tok: chosen };
      const checkpoint = checkpointOf(config, alike(1, 5, true));
      const expected = tokenStats(loadOracleModel(checkpoint), [...ids]).logprobs.slice(1);
      expect(differences(await scoresOf(checkpoint), expected).most).toBeLessThan(1e-4);
    },
  );

  test('equal rows of the router before unlike experts: every token has one of the two, and no third', async () => {
    const config = { ...QWEN3, num_hidden_layers: 1, mlp_only_layers: [], num_experts_per_tok: 1 };
    const checkpoint = checkpointOf(config, alike(1, 5, false));
    // of equals the oracle takes the first: once as they are, once exchanged
    const model = loadOracleModel(checkpoint);
    const exchanged = new Map(model.tensors);
    for (const [name, tensor] of model.tensors)
      if (/experts\.[15]\./.test(name))
        exchanged.set(
          name.replace(/experts\.([15])/, (_, e) => `experts.${e === '1' ? 5 : 1}`),
          tensor,
        );
    const both = [model, { ...model, tensors: exchanged }].map((each) =>
      tokenStats(each, [...ids]).logprobs.slice(1),
    );
    const found = await scoresOf(checkpoint);
    const off = Array.from(found, (p, t) => both.map((own) => Math.abs(p - (own[t] as number))));
    for (const each of off) expect(Math.min(...each)).toBeLessThan(1e-4);
    // and they are not the same
    expect(off.filter((each) => Math.max(...each) > 0.01).length).toBeGreaterThan(3);
  });
});

// ------ the canary

type Placed = { data_offsets: [number, number]; shape: number[] };

describe('the canary', () => {
  const config: Json = {
    ...QWEN3,
    num_experts: 24,
    num_experts_per_tok: 2,
    num_hidden_layers: 2,
    mlp_only_layers: [],
  };
  test('has a token for every expert, and sees each of them that is another', async () => {
    const lines: string[] = [];
    const policy = await buildPolicyFolder(checkpointOf(config), join(fresh(), 'policy'), TEMPLATE, {
      log: (line) => lines.push(line),
    });
    expect(lines.filter((line) => line.includes('experts'))).toEqual([]);
    const canary = await readCanary(policy);
    const file = readFileSync(join(policy.path, 'model.safetensors'));
    const header = JSON.parse(file.toString('utf8', 8, 8 + Number(file.readBigUInt64LE(0)))) as Record<
      string,
      Placed
    >;
    for (const layer of [0, 1])
      for (let e = 0; e < 24; e += 5) {
        const copy = join(fresh(), 'policy');
        cpSync(policy.path, copy, { recursive: true });
        const [from, to] = (header[`model.layers.${layer}.mlp.experts.down_proj`] as Placed).data_offsets;
        const size = (to - from) / 24;
        const start = 8 + Number(file.readBigUInt64LE(0)) + from + e * size;
        writeFileSync(join(copy, 'model.safetensors'), Buffer.from(file).fill(0, start, start + size));
        await using session = await ModelSession.openUnproved({ ...policy, path: copy });
        const { findings } = await prove(session, canary, 'routed');
        expect(beyond(findings), `expert ${e} of layer ${layer}`).not.toEqual([]);
      }
  });

  test('of too few tokens says which experts it does not show', async () => {
    const lines: string[] = [];
    const many = {
      ...config,
      num_experts: 130,
      num_experts_per_tok: 1,
      max_position_embeddings: 16,
      vocab_size: 40,
    };
    const policy = await buildPolicyFolder(
      checkpointOf(many),
      join(fresh(), 'policy'),
      { close: '\u0001', open: '', closer: '\u0002' },
      {
        log: (line) => lines.push(line),
      },
    );
    expect(lines.join()).toMatch(/canary: no token of it goes to \d+ experts/);
    const { unread = [] } = await readCanary(policy);
    expect(lines.join()).toContain(`${unread.length} experts`);
    expect(new Set(unread.map(([layer]) => layer))).toEqual(new Set([0, 1]));
  });

  test('does not believe a policy whose gate and up do not stand in turns', async () => {
    const policy = await build(checkpointOf(QWEN3));
    await changePolicy(policy.path, 'model.safetensors', (file) => {
      const start = 8 + Number(file.readBigUInt64LE(0));
      const header = JSON.parse(file.toString('utf8', 8, start)) as Record<string, Placed>;
      const {
        data_offsets: [from],
        shape: [experts, rows, width],
      } = header[`${EXPERTS}.gate_up_interleaved`] as {
        data_offsets: [number, number];
        shape: [number, number, number];
      };
      const size = 4 * width;
      const whole = Buffer.from(file);
      for (let e = 0; e < experts; e++)
        for (let row = 0; row < rows; row++) {
          const to = (row % 2) * (rows / 2) + Math.floor(row / 2);
          const at = (r: number) => start + from + (e * rows + r) * size;
          file.copy(whole, at(to), at(row), at(row) + size);
        }
      return whole;
    });
    await expect(ModelSession.open(await openPolicyFolder(policy.path))).rejects.toThrow(
      /does not give the numbers of its canary/,
    );
  });
});
