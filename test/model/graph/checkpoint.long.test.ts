/** Checkpoints as they lie on disk: layouts that build, and files that lie, refused by name before anything is loaded. */
import fs from 'node:fs';
import { basename, join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { RredcotError } from '../../../dist/errors.js';
import { readCheckpoint } from '../../../dist/model/graph/checkpoint.js';
import { readSafetensorsHeader } from '../../../dist/model/graph/safetensors.js';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import { openPolicyFolder, type PolicyFolder } from '../../../dist/model/onnx/folder.js';
import type { TraceScores } from '../../../dist/model/onnx/placed.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { checkedTemplate } from '../../../dist/model/text/chat-template.js';
import { deriveExitTemplate } from '../../../dist/model/text/templates.js';
import { loadTokenizer } from '../../../dist/model/text/tokenizer.js';
import { loadOracleModel, tokenStats } from '../../oracle/llama.js';
import {
  headerBytes,
  type Json,
  LLAMA,
  randomTensors,
  SHARD,
  safetensors,
  type TestTensor,
  writeCheckpoint,
} from '../../support/checkpoints.js';
import { differences } from '../../support/family-checks.js';
import { EMBEDDED, temporaryFolder } from '../../support/program.js';
import { DELTA } from '../../support/random-policy.js';
import { editJson } from '../../support/scene.js';

const TEMPLATE = { close: '\n\n', open: 'answer: ', closer: '.' };
const IDS = Int32Array.from({ length: 20 }, (_, i) => (i * 37) % 131);
const INDEX = 'model.safetensors.index.json';
const scratch = await temporaryFolder();
let next = 0;
const fresh = () => join(scratch, String(next++));

async function failureOf(promise: Promise<unknown>): Promise<RredcotError> {
  const error: unknown = await promise.catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(RredcotError);
  expect(error).toMatchObject({ exitCode: 2, message: expect.not.stringContaining('\n') });
  return error as RredcotError;
}

/** The folder runs, and gives what the float64 pass over the checkpoint gives. */
async function expectRuns(policy: PolicyFolder, checkpoint: string): Promise<void> {
  await using session = await ModelSession.open(policy);
  const [{ logprobs }] = (await session.run([{ ids: IDS, promptLength: 1, branches: [] }])) as [TraceScores];
  const expected = tokenStats(loadOracleModel(checkpoint), [...IDS]).logprobs.slice(1);
  expect(differences(logprobs, expected).most).toBeLessThan(1e-4);
}

const inode = (path: string) => fs.statSync(path).ino;

// ------ layouts

describe('layouts', () => {
  test('shards are hard links beside the graphs, under their own names', async () => {
    const [checkpoint, out] = [writeCheckpoint(fresh(), LLAMA, { shards: 3 }), fresh()];
    const logged: string[] = [];
    const policy = await buildPolicyFolder(checkpoint, out, TEMPLATE, { log: (line) => logged.push(line) });
    expect(logged).toEqual([]);
    for (let i = 0; i < 3; i++)
      expect(inode(join(out, SHARD(i, 3)))).toBe(inode(join(checkpoint, SHARD(i, 3))));
    expect(Object.keys(policy.files).filter((name) => name.endsWith('.safetensors'))).toHaveLength(3);
    await expectRuns(policy, checkpoint);
  });

  /** models--a--b/{blobs, snapshots/<revision>} with relative links, as huggingface_hub lays them out */
  function cacheLayout(shards: number): string {
    const [plain, cache] = [writeCheckpoint(fresh(), LLAMA, { shards }), fresh()];
    const snapshot = join(cache, 'models--a--b/snapshots/0123abcd');
    fs.mkdirSync(join(cache, 'models--a--b/blobs'), { recursive: true });
    fs.mkdirSync(snapshot, { recursive: true });
    for (const [i, name] of fs.readdirSync(plain).entries()) {
      fs.renameSync(join(plain, name), join(cache, 'models--a--b/blobs', `blob${i}`));
      fs.symlinkSync(`../../blobs/blob${i}`, join(snapshot, name));
    }
    return snapshot;
  }

  test.each([1, 2])('a Hugging Face cache, %i weight files: hard links to the blobs', async (shards) => {
    const [snapshot, out] = [cacheLayout(shards), fresh()];
    const policy = await buildPolicyFolder(snapshot, out, TEMPLATE);
    for (const name of fs.readdirSync(out)) expect(fs.lstatSync(join(out, name)).isFile(), name).toBe(true);
    for (const name of Object.keys(policy.files).filter((file) => file.endsWith('.safetensors')))
      expect(inode(join(out, name))).toBe(inode(join(snapshot, name)));
    await expectRuns(policy, snapshot);
    // the cache is as it was
    expect(fs.lstatSync(join(snapshot, 'config.json')).isSymbolicLink()).toBe(true);
    const error = await failureOf(buildPolicyFolder(snapshot, snapshot, TEMPLATE));
    expect(error.message).toContain('symbolic link');
    expect(fs.existsSync(join(snapshot, 'policy.json'))).toBe(false);
  });

  test('a link to the checkpoint folder, and out = checkpoint', async () => {
    const checkpoint = writeCheckpoint(fresh(), LLAMA);
    const linked = fresh();
    fs.symlinkSync(checkpoint, linked);
    const policy = await buildPolicyFolder(linked, linked, TEMPLATE);
    await expectRuns(policy, checkpoint);
    // again, over itself
    await expectRuns(await buildPolicyFolder(checkpoint, linked, TEMPLATE), checkpoint);
    const graphs = ['policy.onnx', 'policy.cuda.onnx'];
    const own = ['canary', 'config', 'policy', 'tokenizer', 'tokenizer_config'].map((name) => `${name}.json`);
    expect(fs.readdirSync(checkpoint).sort()).toEqual([...graphs, ...own, 'model.safetensors'].sort());
  });

  const memory = '/dev/shm';
  const other =
    fs.existsSync(memory) &&
    fs.statSync(memory).dev !== fs.statSync(scratch).dev &&
    fs.statfsSync(memory).bavail > 1000;
  test.skipIf(!other)('another file system: copies, and says so (skipped where there is none)', async () => {
    const checkpoint = writeCheckpoint(fresh(), LLAMA);
    const out = await temporaryFolder(memory);
    const logged: string[] = [];
    const policy = await buildPolicyFolder(checkpoint, out, TEMPLATE, { log: (line) => logged.push(line) });
    expect(logged.join('\n')).toMatch(
      /model\.safetensors: copied \(1 MB\), it cannot be linked to .*: it lies on another file system/,
    );
    await expectRuns(policy, checkpoint);
  });

  test('a target that cannot be written, or that holds another checkpoint, is refused', async () => {
    const checkpoint = writeCheckpoint(fresh(), LLAMA);
    const file = fresh();
    fs.writeFileSync(file, '');
    const unwritable = await failureOf(buildPolicyFolder(checkpoint, join(file, 'out'), TEMPLATE));
    expect(unwritable.message).toContain('cannot be written');
    const another = writeCheckpoint(fresh(), LLAMA, { seed: 2 });
    const before = inode(join(another, 'model.safetensors'));
    const taken = await failureOf(buildPolicyFolder(checkpoint, another, TEMPLATE));
    expect(taken.message).toContain('another checkpoint');
    expect(inode(join(another, 'model.safetensors'))).toBe(before);
  });

  test('an interrupted build leaves no policy.json', async () => {
    const [checkpoint, out] = [writeCheckpoint(fresh(), LLAMA), fresh()];
    await buildPolicyFolder(checkpoint, out, TEMPLATE);
    fs.rmSync(join(out, 'policy.onnx'));
    fs.mkdirSync(join(out, 'policy.onnx')); // what cannot be replaced by a file
    await failureOf(buildPolicyFolder(checkpoint, out, TEMPLATE));
    expect(fs.existsSync(join(out, 'policy.json'))).toBe(false);
  });

  test('a tied head that is stored as well, old rotary buffers, both index and single file', async () => {
    const tied = { ...LLAMA, tie_word_embeddings: true };
    const tensors = randomTensors(tied, 'BF16');
    tensors.set('lm_head.weight', tensors.get('model.embed_tokens.weight') as TestTensor);
    const frequencies = { dtype: 'F32', shape: [5], bytes: Buffer.alloc(20) } as const;
    tensors.set('model.layers.0.self_attn.rotary_emb.inv_freq', frequencies);
    const checkpoint = writeCheckpoint(fresh(), tied, { tensors });
    fs.writeFileSync(join(checkpoint, INDEX), 'not even JSON');
    await expectRuns(await buildPolicyFolder(checkpoint, fresh(), TEMPLATE), checkpoint);
  });

  test('a policy.json that names a file outside its folder is refused', async () => {
    const out = fresh();
    fs.cpSync(EMBEDDED, out, { recursive: true });
    const more = { '../secret': '' };
    await editJson(join(out, 'policy.json'), ({ files }) => Object.assign(files as object, more));
    expect((await failureOf(openPolicyFolder(out))).message).toContain('../secret');
  });
});

// ------ files that lie

describe('refused before anything is loaded', () => {
  const config = (more: Json) => writeCheckpoint(fresh(), { ...LLAMA, ...more });
  const refused = async (checkpoint: string, message: string | RegExp) => {
    const out = fresh();
    const error = await failureOf(buildPolicyFolder(checkpoint, out, TEMPLATE));
    expect(error.message).toMatch(message);
    expect(error.hint).toBeTruthy();
    expect(fs.existsSync(out)).toBe(false); // nothing was begun
    return error;
  };

  const scaled = (rope_scaling: Json) => ({ rope_scaling });
  const LLAMA3 = { rope_type: 'llama3', factor: 8, original_max_position_embeddings: 64 };
  test.each<[Json, RegExp]>([
    [{ architectures: ['MixtralForCausalLM'] }, /MixtralForCausalLM/],
    [{ num_local_experts: 8 }, /num_local_experts/],
    [{ architectures: ['Gemma2ForCausalLM'] }, /Gemma2ForCausalLM/],
    [{ auto_map: { AutoModelForCausalLM: 'm.M' } }, /auto_map/],
    [{ quantization_config: { quant_method: 'gptq' } }, /are quantized \(gptq\)/],
    [{ hidden_act: 'gelu_pytorch_tanh' }, /hidden_act/],
    // biases of attention are Qwen2's alone
    [{ attention_bias: true }, /attention_bias/],
    [{ mlp_bias: true }, /mlp_bias/],
    [scaled({ type: 'dynamic', factor: 2 }), /rope_scaling: rope type "dynamic"/],
    [{ rope_parameters: { rope_type: 'yarn', factor: -1 } }, /rope_parameters: .*factor/],
    [scaled({ type: 'linear', factor: 2, x: 1 }), /rope_scaling: .*x/],
    [scaled({ type: 'linear', rope_type: 'yarn', factor: 2 }), /"yarn".*"linear"/],
    [{ ...scaled({ type: 'linear' }), rope_parameters: { rope_theta: 1 } }, /both/],
    [{ partial_rotary_factor: 0.5 }, /partial_rotary_factor is 0.5, expected 1/],
    [{ ...DELTA, layer_types: null }, /partial_rotary_factor is 0.5, no even number of heads of 10/],
    [scaled({ ...LLAMA3, low_freq_factor: 4, high_freq_factor: 1 }), /low_freq_factor must be below/],
    [{ architectures: ['Qwen3ForCausalLM'], layer_types: ['full_attention'] }, /layer_types names 1 of 2/],
    [{ layer_types: ['full_attention', 'linear_attention'] }, /layer_types names linear_attention, which/],
    [
      { ...DELTA, partial_rotary_factor: 0.4, layer_types: ['linear_attention', 'sliding_attention'] },
      /names sliding_attention, which/,
    ],
    [
      { ...DELTA, partial_rotary_factor: 0.4, layer_types: null, linear_num_value_heads: 5 },
      /5 value heads are no multiple of 2 key/,
    ],
    [
      { ...DELTA, partial_rotary_factor: 0.4, layer_types: null },
      /layers\.0\.linear_attn\.in_proj_qkv\.weight is missing/,
    ],
    // what does not fit the weights
    [{ intermediate_size: 54 }, /gate_proj.weight has shape \[53, 44\].*54/],
    [{ num_hidden_layers: 3 }, /layers\.2\..* is missing/],
    [{ num_hidden_layers: 1 }, /layers\.1\..*no place in a LlamaForCausalLM/],
    [{ architectures: ['Qwen2ForCausalLM'] }, /q_proj.bias is missing/],
    [{ architectures: ['Qwen3ForCausalLM'] }, /q_norm.weight is missing/],
    [{ tie_word_embeddings: true }, /tie_word_embeddings: true.*lm_head/],
  ])('config.json: %j', async (more, message) => {
    const checkpoint = writeCheckpoint(fresh(), LLAMA);
    await editJson(join(checkpoint, 'config.json'), (config) => Object.assign(config, more));
    await refused(checkpoint, message);
  });

  test('of a model that also sees what only reads is read; a tensor that is there under both names is refused', async () => {
    const config: Json = { ...LLAMA, ...DELTA, partial_rotary_factor: 0.4, num_hidden_layers: 3 };
    const all = [...randomTensors(config, 'F32')];
    const [, norm] = all.find(([name]) => name === 'model.norm.weight') as [string, TestTensor];
    const renamed = all.map(([name, tensor]): [string, TestTensor] => [
      name.replace('model.', 'model.language_model.'),
      tensor,
    ]);
    const { architectures: _, ...text_config } = config;
    const sees = {
      architectures: ['Qwen3_5ForConditionalGeneration'],
      text_config,
      tie_word_embeddings: false,
    };
    const others = ['model.visual.norm.weight', 'mtp.norm.weight'].map((name) => [name, norm] as const);
    const tensors = new Map([...renamed, ...others]);
    const { weights } = await readCheckpoint(writeCheckpoint(fresh(), sees, { tensors, shards: 2 }));
    expect([...weights.keys()].sort()).toEqual(all.map(([name]) => name).sort());
    tensors.set('model.norm.weight', norm);
    await refused(writeCheckpoint(fresh(), sees, { tensors }), /tensor model\.norm\.weight is there twice/);
    const more = new Map([...all, ['model.extra.weight', norm] as const]);
    await refused(writeCheckpoint(fresh(), config, { tensors: more }), /model\.extra\.weight has no place/);
  });

  test('a head that is neither tied nor stored', async () => {
    const tensors = randomTensors({ ...LLAMA, tie_word_embeddings: true }, 'F32');
    await refused(writeCheckpoint(fresh(), LLAMA, { tensors }), /lm_head.weight is missing/);
  });

  test('no weights, or no checkpoint', async () => {
    const checkpoint = config({});
    fs.rmSync(join(checkpoint, 'model.safetensors'));
    await refused(checkpoint, /no model\.safetensors and no model\.safetensors\.index\.json/);
    await refused(fresh(), /not a checkpoint/);
  });

  test.each([
    [
      'pytorch_model-00001-of-00002.bin',
      /weights of PyTorch/,
      /M\.from_pretrained\('\S+'\)\.save_pretrained/,
    ],
    ['consolidated.00.pth', /weights of PyTorch/, /torch\.load/],
    [
      'model_world_size_8_rank_3.pt',
      /verl's shards of FSDP/,
      /verl\.model_merger merge --backend fsdp --local_dir '/,
    ],
    ['dist_ckpt/', /verl's shards of Megatron/, /--backend megatron/],
    [
      'zero_to_fp32.py',
      /DeepSpeed ZeRO/,
      /^python '\S+\/zero_to_fp32\.py' '\S+' '\S+' --safe_serialization$/,
    ],
    ['bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt', /DeepSpeed ZeRO/, /\/\.\.\/zero_to_fp32\.py'/],
    ['pytorch_model_fsdp_0/', /shards of FSDP/, /^accelerate merge-weights '\S+\/pytorch_model_fsdp_0' '/],
    ['iter_0000100/', /a checkpoint of Megatron/, /export_ckpt\('/],
    ['model-Q4_K_M.gguf', /weights in GGUF/, /gguf_file='model-Q4_K_M\.gguf'/],
    ['weights.00.safetensors', /weights of MLX/, /^mlx_lm\.convert .*--dequantize$/],
    ['tokenizer.model', /no tokenizer\.json beside it/, /T\.from_pretrained\('\S+'\)\.save_pretrained/],
  ])(
    '%s in the place of weights or tokenizer is named, with the line that mends it',
    async (name, what, line) => {
      const folder = config({});
      for (const each of fs.readdirSync(folder)) if (each !== 'config.json') fs.rmSync(join(folder, each));
      if (name.endsWith('/')) fs.mkdirSync(join(folder, name));
      else fs.writeFileSync(join(folder, name), '');
      expect((await refused(folder, what)).hint).toMatch(line);
    },
  );

  test('an adapter, alone or beside weights; a line for a shell has nothing in it that is no name', async () => {
    for (const [base, shown] of [
      ['some/base', 'some/base'],
      ["x'; rm -rf ~; '", '<its base model>'],
      [undefined, '<its base model>'],
    ] as const)
      for (const folder of [config({}), config({})]) {
        if (shown !== base) fs.rmSync(join(folder, 'model.safetensors'));
        const adapter = JSON.stringify({ base_model_name_or_path: base, r: 8 });
        fs.writeFileSync(join(folder, 'adapter_config.json'), adapter);
        fs.writeFileSync(join(folder, 'adapter_model.safetensors'), '');
        const { hint } = await refused(folder, `an adapter of ${shown}, which goes into its base`);
        expect(hint).toContain(`policy build '${shown}' --adapter`);
      }
  });

  test.each(['model.safetensors', 'tokenizer.json', 'config.json'])(
    '%s as a pointer of Git LFS',
    async (name) => {
      const folder = config({});
      const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n';
      fs.writeFileSync(join(folder, name), pointer);
      await refused(folder, `${name}: a pointer of Git LFS`);
    },
  );

  test.each(['MixtralForCausalLM', 'LlavaForConditionalGeneration'])(
    '%s: its graph is not written, and what goes in without one',
    async (name) => {
      const folder = config({ architectures: [name] });
      const { hint } = await refused(folder, `config.json: ${name}: its graph is not written`);
      expect(hint).toContain('--estimator given');
      expect(hint).toMatch(/^python -m rredcot\.export \S+ -o <folder>, if transformers has it/);
    },
  );

  // ------ the index

  const NORM = 'model.norm.weight';

  const inFile = (file: unknown) => (map: Record<string, unknown>) => Object.assign(map, { [NORM]: file });

  test.each<[string, (map: Record<string, unknown>) => unknown, RegExp]>([
    ...['../model.safetensors', '/etc/passwd', '..\\model.safetensors', 'model.bin', 'nul\0.safetensors'].map(
      (file) =>
        [
          JSON.stringify(file),
          inFile(file),
          /index\.json: .* expected a \.safetensors file beside it/,
        ] as never,
    ),
    ['no file', inFile(7), /index\.json: .*weight_map/],
    ['a missing one', inFile('missing.safetensors'), /missing\.safetensors: weights cannot be read/],
    [
      'the wrong one',
      (map) => inFile(map[NORM] === SHARD(0, 2) ? SHARD(1, 2) : SHARD(0, 2))(map),
      new RegExp(`tensor ${NORM} is in .*, the index has it in model-`),
    ],
    ['a tensor less', (map) => delete map[NORM], /the index has it in no file/],
    ['nothing', (map) => Object.keys(map).map((key) => delete map[key]), /is empty .* at weight_map/],
  ])('an index that names %s', async (_, change, message) => {
    const checkpoint = writeCheckpoint(fresh(), LLAMA, { shards: 2 });
    await editJson(join(checkpoint, INDEX), ({ weight_map }) => change(weight_map as Json));
    await refused(checkpoint, message);
  });

  // ------ links

  test('links into the checkpoint, and hard links, are fine', async () => {
    const [checkpoint, elsewhere] = [writeCheckpoint(fresh(), LLAMA), fresh()];
    const path = join(checkpoint, 'model.safetensors');
    fs.renameSync(path, elsewhere);
    fs.linkSync(elsewhere, path);
    expect((await readCheckpoint(checkpoint)).files).toHaveLength(1);
    fs.renameSync(path, join(checkpoint, 'inside'));
    fs.symlinkSync('inside', path);
    expect(basename((await readCheckpoint(checkpoint)).files[0]?.path ?? '')).toBe('inside');
  });

  test("a snapshot that links to another repository's blobs, or to its own but not as a snapshot", async () => {
    const cache = fresh();
    for (const repository of ['models--a--b', 'models--c--d'])
      fs.mkdirSync(join(cache, repository, 'blobs'), { recursive: true });
    for (const [folder, target] of [
      ['models--a--b/snapshots/1', '../../../models--c--d/blobs/w'],
      ['models--a--b/elsewhere/1', '../../blobs/w'],
      ['models--a--b/snapshots/2', '../../blobs/../../models--c--d/blobs/w'],
    ] as const) {
      const checkpoint = writeCheckpoint(join(cache, folder), LLAMA);
      const path = join(checkpoint, 'model.safetensors');
      for (const repository of ['models--a--b', 'models--c--d'])
        fs.cpSync(path, join(cache, repository, 'blobs/w'));
      fs.rmSync(path);
      fs.symlinkSync(target, path);
      await refused(checkpoint, /outside its folder/);
    }
  });
});

// ------ headers

describe('safetensors headers', () => {
  const path = join(scratch, 'header.safetensors');

  test('fuzz: whatever a header says, it is refused or every range lies inside the file', async () => {
    const sound = safetensors(randomTensors({ ...LLAMA, num_hidden_layers: 1 }, 'F16'));
    const headerLength = Number(sound.readBigUInt64LE(0));
    const header = JSON.parse(sound.toString('utf8', 8, 8 + headerLength)) as Record<string, Json>;
    const data = sound.subarray(8 + headerLength);
    const names = Object.keys(header).slice(1);
    const anyNumber = fc.oneof(
      fc.constantFrom(0, 1, -1, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 63, 1e308, data.length),
      fc.nat(2 * data.length),
      fc.double(),
    );
    const anyEntry = fc.record(
      {
        dtype: fc.oneof(fc.constantFrom('F32', 'F16', 'BF16', 'I64', 'f16'), fc.jsonValue()),
        shape: fc.oneof(fc.array(anyNumber, { maxLength: 5 }), fc.jsonValue()),
        data_offsets: fc.oneof(fc.tuple(anyNumber, anyNumber), fc.array(anyNumber), fc.jsonValue()),
      },
      { requiredKeys: [] },
    );
    const anyFile = fc.oneof(
      // entries replaced
      fc
        .dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), anyEntry, { maxKeys: 3 })
        .map((entries) => Buffer.concat([headerBytes(JSON.stringify({ ...header, ...entries })), data])),
      // a length field that says something else, a file cut short
      fc.tuple(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), fc.nat(sound.length)).map(([length, end]) => {
        const file = Buffer.from(sound.subarray(0, Math.max(end, 8)));
        file.writeBigUInt64LE(length >> (length & 63n));
        return file;
      }),
      // bytes of the header changed
      fc
        .array(fc.tuple(fc.nat(headerLength + 7), fc.nat(255)), { minLength: 1, maxLength: 4 })
        .map((changes) => {
          const file = Buffer.from(sound);
          for (const [at, byte] of changes) file[at] = byte;
          return file;
        }),
    );
    let [taken, refused] = [0, 0];
    await fc.assert(
      fc.asyncProperty(anyFile, async (bytes) => {
        fs.writeFileSync(path, bytes);
        const found = await readSafetensorsHeader(path).catch((error: unknown) => error);
        if (!(found instanceof Map)) {
          refused++;
          expect(found).toBeInstanceOf(RredcotError);
          return;
        }
        taken++;
        const begin = 8 + Number(bytes.readBigUInt64LE(0));
        const ranges = [...found.values()].sort((a, b) => a.offset - b.offset || a.length - b.length);
        let free = begin;
        for (const { offset, length } of ranges) {
          expect(offset).toBeGreaterThanOrEqual(free);
          free = offset + length;
        }
        expect(free).toBeLessThanOrEqual(bytes.length);
      }),
      { numRuns: 400, seed: 20 },
    );
    expect(taken).toBeGreaterThan(5);
    expect(refused).toBeGreaterThan(130);
  });
});

// ------ exit templates

describe('the exit template of a checkpoint', () => {
  const PLAIN = { close: '\n\n', open: '**Final Answer**\n\\boxed{', closer: '}' };
  const THINKING = { ...PLAIN, close: '\n</think>\n\n' };
  const [withToken, without] = [writeCheckpoint(fresh(), LLAMA), writeCheckpoint(fresh(), LLAMA)];
  beforeAll(() =>
    editJson(join(without, 'tokenizer.json'), (spec) => {
      const tokens = spec.added_tokens as { content: string }[];
      spec.added_tokens = tokens.filter(({ content }) => content !== '</think>');
    }),
  );
  const derive = async (folder: string) =>
    deriveExitTemplate(await loadTokenizer(folder), await checkedTemplate(folder));
  const setConfig = (chat_template: unknown) =>
    editJson(join(without, 'tokenizer_config.json'), (config) => {
      delete (config.added_tokens_decoder as Json)['257'];
      Object.assign(config, { chat_template });
    });

  test('</think> as one token', async () => {
    expect(await derive(withToken)).toEqual(THINKING);
  });

  test('no </think> anywhere', async () => {
    await setConfig(undefined);
    expect(await derive(without)).toEqual(PLAIN);
    await setConfig('{{ messages[0].content }}');
    expect(await derive(without)).toEqual(PLAIN);
  });

  test('</think> as several tokens, named in the chat template: text, list, file of its own', async () => {
    await setConfig("{{ content.split('</think>')[-1] }}");
    expect((await loadTokenizer(without)).encode('</think>').length).toBeGreaterThan(1);
    expect(await derive(without)).toEqual(THINKING);
    await setConfig([{ name: 'default', template: '<think>\n</think>' }]);
    expect(await derive(without)).toEqual(THINKING);
    await setConfig(undefined);
    fs.writeFileSync(join(without, 'chat_template.jinja'), '<think>\n</think>');
    expect(await derive(without)).toEqual(THINKING);
    const policy = await buildPolicyFolder(without, fresh());
    expect(policy.exitTemplate).toEqual(THINKING);
    expect(fs.existsSync(join(policy.path, 'chat_template.jinja'))).toBe(true);
    fs.rmSync(join(without, 'chat_template.jinja'));
  });

  test('a tokenizer with more ids than config.json, and an empty template, are refused', async () => {
    expect((await failureOf(buildPolicyFolder(withToken, fresh()))).message).toMatch(
      /close the id 257, config.json has a vocabulary of 131/,
    );
    const empty = await failureOf(buildPolicyFolder(withToken, fresh(), { close: '', open: '' }));
    expect(empty.message).toContain('empty before the answer');
  });
});
