/**
 * The real CUDA provider takes every heavy node of the graphs, in both precisions, for every family and head size, and reads nothing
 * back from the device but what a run gives; no GPU needed (fake-cuda.ts). Opt-in, for the provider is no dependency: RREDCOT_CUDA_PROVIDER names the folder with
 * libonnxruntime_providers_cuda.so and libonnxruntime_providers_shared.so of onnxruntime 1.29.0 (CONTRIBUTING.md).
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import type { Architecture } from '../../../dist/model/graph/architecture.js';
import { buildHeadGraph } from '../../../dist/model/graph/head.js';
import { Graph, MICROSOFT, serialiseModel } from '../../../dist/model/graph/onnx.js';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import { weightsIn } from '../../../dist/model/onnx/folder.js';
import { type Json, LLAMA, writeCheckpoint } from '../../support/checkpoints.js';
import { buildFakeCuda } from '../../support/fake-cuda.js';
import { EMBEDDED, ROOT, temporaryFolder } from '../../support/program.js';
import { DELTA } from '../../support/random-policy.js';

const provider = process.env.RREDCOT_CUDA_PROVIDER;
const scratch = await temporaryFolder();

const WIDE: Json = { ...LLAMA, hidden_size: 64, intermediate_size: 96 };
const qwen3 = { architectures: ['Qwen3ForCausalLM'], num_attention_heads: 4, num_key_value_heads: 2 };
const SHAPES: Record<string, Json> = {
  ...Object.fromEntries(
    [8, 10, 64, 80, 96, 100, 128, 256].map((head_dim) => [
      `Llama, heads of ${head_dim}`,
      { ...WIDE, head_dim },
    ]),
  ),
  'Mistral, a window': { ...WIDE, architectures: ['MistralForCausalLM'], head_dim: 32, sliding_window: 9 },
  'Mistral, heads of 20': { ...WIDE, architectures: ['MistralForCausalLM'], head_dim: 20, sliding_window: 9 },
  'Qwen2, tied, heads of 64': {
    ...WIDE,
    architectures: ['Qwen2ForCausalLM'],
    head_dim: 64,
    tie_word_embeddings: true,
  },
  'Qwen2, heads of 10': { ...WIDE, architectures: ['Qwen2ForCausalLM'] },
  'Qwen3, heads of 128': { ...WIDE, ...qwen3, head_dim: 128 },
  'Qwen3, heads of 10': { ...WIDE, ...qwen3 },
  'Qwen3-MoE': {
    ...{ ...WIDE, ...qwen3, architectures: ['Qwen3MoeForCausalLM'], head_dim: 32, norm_topk_prob: true },
    ...{ num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32 },
  },
  'Qwen3.5, delta nets': {
    ...{ ...WIDE, ...DELTA, head_dim: 32, num_hidden_layers: 3 },
    ...{ linear_key_head_dim: 128, linear_value_head_dim: 128 },
  },
  'Qwen2-MoE': {
    ...{ ...WIDE, architectures: ['Qwen2MoeForCausalLM'], num_experts: 8, num_experts_per_tok: 2 },
    ...{ moe_intermediate_size: 32, shared_expert_intermediate_size: 48 },
  },
};

/**
 * Opens graphs on cuda:0, runs each once over two tokens, and prints which heavy nodes ran on the CPU; no
 * numbers, for which the canary asks. Shape arithmetic may well stay on the CPU. And how many copies from the device a run makes: the host waits for each.
 */
const OPEN = `
  import { mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
  import { InferenceSession, Tensor } from 'onnxruntime-node';
  const HEAVY = /^(Fused)?(Gemm|MatMul)$|Softmax$|Attention$|^(MoE|TopK|ScatterElements|CausalConvWithState)$/;
  const sizes = { S: 2, M: 1024, T: 0, P: 0, Q: 0, L: 0 };
  const reads = () => statSync(process.env.FAKE_CUDA_READS, { throwIfNoEntry: false })?.size ?? 0;
  const said = {};
  for (const path of process.argv.slice(2)) {
    const folder = mkdtempSync('profile-');
    const session = await InferenceSession.create(path, {
      executionProviders: [{ name: 'cuda', deviceId: 0 }],
      logSeverityLevel: 3,
      enableProfiling: true,
      profileFilePrefix: folder + '/graph',
    });
    const feeds = session.inputMetadata.map(({ name, type, shape }) => {
      const dims = shape.map((dim) => (typeof dim === 'number' ? dim : (sizes[dim] ?? 1)));
      const size = dims.reduce((product, dim) => product * dim, 1);
      const zeros = type === 'int64' ? new BigInt64Array(size) : new Float32Array(size);
      return [name, new Tensor(type, name.endsWith('_to') ? BigInt64Array.of(1n, 0n) : zeros, dims)];
    });
    // on the CPU, a node reads what kernels that do nothing have left
    const before = reads();
    const scores = ['entropies', 'logprobs'];
    const wanted = session.outputNames.includes('entropies') ? scores : session.outputNames;
    const run = session.run(Object.fromEntries(feeds), wanted);
    const error = await run.then(() => [], ({ message }) => [message]);
    const read = reads() - before;
    session.endProfiling();
    const events = JSON.parse(readFileSync(folder + '/' + readdirSync(folder)[0], 'utf8'));
    const nodes = events.filter(({ cat, args }) => cat === 'Node' && HEAVY.test(args?.op_name ?? '') && args.provider);
    const onCpu = nodes.filter(({ args }) => args.provider === 'CPUExecutionProvider');
    const wrong = nodes.length === 0 ? ['none'] : [...error, ...new Set(onCpu.map(({ args }) => args.op_name))];
    said[path] = { wrong, read };
  }
  console.log(JSON.stringify(said));
`;

/** The two nodes of a delta net, as the graphs have them: in a graph, where their lengths come from is for kernels to say, and these do nothing. */
function deltaNet(): Graph {
  const g = new Graph('net');
  const [heads, size, tokens, channels] = [2, 128, 3, 768];
  const x = g.input('x', 'f32', [1, channels, tokens]);
  const past = g.input('past', 'f32', [1, channels, 3]);
  const taps = g.input('taps', 'f32', [channels, 1, 4]);
  const outputs = ['convolved', 'past_after'];
  g.node('CausalConvWithState', [x, taps, '', past], { activation: 'silu' }, { ...MICROSOFT, outputs });
  const rows = g.node('Transpose', ['convolved'], { perm: [0, 2, 1] });
  const part = (n: number) =>
    g.node('Slice', [rows, g.ints([n * heads * size]), g.ints([(n + 1) * heads * size]), g.ints([2])]);
  const state = g.input('state', 'f32', [1, heads, size, size]);
  const [decay, rate] = ['decay', 'rate'].map((name) => g.input(name, 'f32', [1, tokens, heads])) as [
    string,
    string,
  ];
  g.node(
    'LinearAttention',
    [part(0), part(1), part(2), state, decay, rate],
    { q_num_heads: heads, kv_num_heads: heads, update_rule: 'gated_delta' },
    { ...MICROSOFT, outputs: ['attended', 'state_after'] },
  );
  g.output('entropies', 'attended', 'f32', [1, tokens, heads * size]);
  g.output('logprobs', 'state_after', 'f32', [1, heads, size, size]);
  return g;
}

/** A copy of the program with the provider beside ONNX Runtime. */
function programWith(providerFolder: string): string {
  const program = join(scratch, 'program');
  const modules = join(program, 'node_modules');
  mkdirSync(modules, { recursive: true });
  cpSync(join(ROOT, 'dist'), join(program, 'dist'), { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(program, 'package.json'));
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (name !== 'onnxruntime-node') symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
  const native = 'bin/napi-v6/linux/x64';
  const runtime = join(ROOT, 'node_modules/onnxruntime-node');
  for (const part of ['package.json', 'dist', native])
    cpSync(join(runtime, part), join(modules, 'onnxruntime-node', part), { recursive: true });
  for (const part of ['cuda', 'shared']) {
    const file = `libonnxruntime_providers_${part}.so`;
    symlinkSync(join(providerFolder, file), join(modules, 'onnxruntime-node', native, file));
  }
  return program;
}

describe.skipIf(provider === undefined)(
  'node placement on the real CUDA provider (skipped where RREDCOT_CUDA_PROVIDER names none)',
  () => {
    it('is on the GPU for every shape in both precisions, and the two outputs alone are read back; not of a float32 graph', async () => {
      const libraries = join(scratch, 'libraries');
      mkdirSync(libraries);
      buildFakeCuda(join(provider as string, 'libonnxruntime_providers_cuda.so'), libraries);
      const program = programWith(provider as string);
      const graphs = [join(EMBEDDED, 'policy.cuda.onnx')];
      const template = { close: 'a', open: 'b', closer: 'c' };
      for (const [shape, config] of Object.entries(SHAPES))
        for (const [dtype, cudaPrecision] of [
          ['F32', 'f16'],
          ['BF16', 'bf16'],
        ] as const) {
          const folder = join(scratch, `${shape}, ${cudaPrecision}`);
          writeCheckpoint(`${folder}, checkpoint`, config, { dtype });
          const built = await buildPolicyFolder(`${folder}, checkpoint`, folder, template, { cudaPrecision });
          // a teacher's head, which is made where it is asked for
          const parts = [built.architecture as Architecture, await weightsIn(built), cudaPrecision] as const;
          const head = join(folder, 'head.onnx');
          writeFileSync(head, serialiseModel(buildHeadGraph(...parts, true)));
          graphs.push(join(folder, 'policy.cuda.onnx'), head);
        }
      const net = join(scratch, 'net.onnx');
      writeFileSync(net, serialiseModel(deltaNet()));
      // the check itself must be able to fail: the same folder with the float32 graph in the CUDA graph's place
      const float32 = join(scratch, 'float32');
      cpSync(join(scratch, 'Llama, heads of 64, bf16'), float32, { recursive: true });
      writeFileSync(join(program, 'open.mjs'), OPEN);
      const printed = execFileSync(
        process.execPath,
        ['open.mjs', ...graphs, net, join(float32, 'policy.onnx')],
        {
          cwd: program,
          encoding: 'utf8',
          env: { ...process.env, LD_LIBRARY_PATH: libraries, FAKE_CUDA_READS: join(scratch, 'reads') },
        },
      );
      const said = JSON.parse(printed) as Record<string, { wrong: string[]; read: number }>;
      expect(Object.keys(said)).toHaveLength(3 + 4 * Object.keys(SHAPES).length);
      expect(said[net], 'a delta net').toMatchObject({ wrong: [] });
      for (const graph of graphs) {
        // it comes to CUDA's own first kernel of them
        if (/delta nets.*policy\.cuda/.test(graph)) {
          expect(said[graph]?.wrong.join()).toMatch(/CausalConvWithState.* input length must be positive/);
          continue;
        }
        const read = graph.endsWith('policy.cuda.onnx') ? { read: 2 } : {};
        expect(said[graph], graph).toMatchObject({ wrong: [], ...read });
      }
      expect(said[join(float32, 'policy.onnx')]?.wrong.join()).toContain('GroupQueryAttention');
    });
  },
);
