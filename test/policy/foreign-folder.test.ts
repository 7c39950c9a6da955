// What a downloaded checkpoint or policy folder cannot do: read other files, write to them, hold the program, or make it grow.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { openPolicyFolder } from '../../dist/policy/folder.js';
import { buildPolicyFolder } from '../../dist/policy/making/build-policy.js';
import { PolicySession } from '../../dist/policy/run/session.js';
import { LLAMA, SHARD, writeCheckpoint } from '../support/checkpoints.js';
import { temporaryFolder } from '../support/program.js';

const SECRET = '{"chat_template": "a secret of somebody else"}';
/** with room for all tokens of the embedded tokenizer */
const CONFIG = { ...LLAMA, vocab_size: 263 };
let scratch: string;
let count = 0;
const fresh = () => join(scratch, `${count++}`);
let secret: string;

beforeAll(async () => {
  scratch = await temporaryFolder();
  secret = join(scratch, 'secret');
  writeFileSync(secret, SECRET);
});

/** The checkpoint in shards, with every file that a build reads. */
function checkpointOf(): string {
  const folder = writeCheckpoint(fresh(), CONFIG, { shards: 2 });
  writeFileSync(join(folder, 'chat_template.jinja'), '{{ messages[0].content }}');
  return folder;
}

const CHECKPOINT_FILES = [
  ...['config.json', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'],
  ...['model.safetensors.index.json', SHARD(0, 2)],
];
const POLICY_FILES = [
  ...['policy.json', 'policy.onnx', 'policy.cuda.onnx', 'tokenizer.json', 'tokenizer_config.json'],
  ...['chat_template.jinja', SHARD(0, 2)],
];

/** What may stand in place of a file. */
const REPLACEMENTS: readonly (readonly [string, (path: string) => void, RegExp])[] = [
  ['a link out of the folder', (path) => symlinkSync(secret, path), /links to .*secret, outside its folder/],
  ['a pipe', (path) => execFileSync('mkfifo', [path]), /is no regular file/],
  ['a folder', (path) => mkdirSync(path), /is no regular file/],
  ['a device', (path) => symlinkSync('/dev/zero', path), /links to \/dev\/zero, outside its folder/],
];

describe.each(REPLACEMENTS)('%s', (_, put, refusal) => {
  it.each(CHECKPOINT_FILES)('in place of %s of a checkpoint is refused', async (name) => {
    const [checkpoint, out] = [checkpointOf(), fresh()];
    rmSync(join(checkpoint, name));
    put(join(checkpoint, name));
    await expect(buildPolicyFolder(checkpoint, out)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(refusal),
    });
    expect(existsSync(out)).toBe(false);
  });

  it.each(POLICY_FILES)('in place of %s of a policy folder is refused', async (name) => {
    const policy = await policyOf();
    rmSync(join(policy, name));
    put(join(policy, name));
    for (const verify of [true, false])
      await expect(openPolicyFolder(policy, { verify })).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringMatching(refusal),
      });
  });
});

let built: string | undefined;
async function policyOf(): Promise<string> {
  if (built === undefined) {
    const folder = fresh();
    await buildPolicyFolder(checkpointOf(), folder);
    built = folder;
  }
  const policy = fresh();
  cpSync(built, policy, { recursive: true });
  return policy;
}

it("a snapshot of a Hugging Face cache is built: every file is a link to its repository's blobs", async () => {
  const repository = join(fresh(), 'models--a--b');
  const snapshot = join(repository, 'snapshots/1');
  mkdirSync(join(repository, 'blobs'), { recursive: true });
  cpSync(checkpointOf(), snapshot, { recursive: true });
  for (const name of readdirSync(snapshot)) {
    renameSync(join(snapshot, name), join(repository, 'blobs', `blob-of-${name}`));
    symlinkSync(`../../blobs/blob-of-${name}`, join(snapshot, name));
  }
  const out = fresh();
  await buildPolicyFolder(snapshot, out);
  for (const name of POLICY_FILES) expect(lstatSync(join(out, name)).isFile(), name).toBe(true);
});

describe('a graph whose hash fits', () => {
  const inside = SHARD(0, 2);

  /** The policy, its graph taking weights from another name of the same length. */
  async function policyReading(name: string): Promise<string> {
    const policy = await policyOf();
    const path = join(policy, 'policy.onnx');
    const bytes = readFileSync(path, 'latin1').replaceAll(inside, name);
    writeFileSync(path, bytes, 'latin1');
    return policy;
  }
  const opening = async (policy: string) => {
    const session = await PolicySession.open(await openPolicyFolder(policy, { verify: false }));
    await session.close();
  };

  it('reads no file outside of the folder, by a path or by a link', async () => {
    const beside = `${'x'.repeat(inside.length - 3)}`;
    const other = inside.replace('model', 'other');
    const [byPath, byLink, fine] = [
      await policyReading(`../${beside}`),
      await policyReading(other),
      await policyReading(other),
    ];
    // all of them would find the right weights
    cpSync(join(fine, inside), join(fine, '..', beside));
    symlinkSync(join(fine, '..', beside), join(byLink, other));
    cpSync(join(fine, inside), join(fine, other));
    await expect(opening(fine)).resolves.toBeUndefined();
    for (const policy of [byPath, byLink])
      await expect(opening(policy)).rejects.toMatchObject({
        exitCode: 69,
        message: expect.stringMatching(/escapes|outside/),
      });
  });
});

describe('a build in the checkpoint itself', () => {
  it('writes through no link that it finds there', async () => {
    const checkpoint = checkpointOf();
    const written = ['policy.json', 'policy.onnx', 'policy.cuda.onnx'];
    for (const name of [...written, ...written.map((each) => `${each}.tmp`)])
      symlinkSync(secret, join(checkpoint, name));
    await buildPolicyFolder(checkpoint, checkpoint);
    expect(readFileSync(secret, 'utf8')).toBe(SECRET);
    for (const name of written) expect(lstatSync(join(checkpoint, name)).isFile(), name).toBe(true);
    expect(readdirSync(checkpoint).filter((name) => name.startsWith('.'))).toEqual([]);
  });
});

describe('numbers', () => {
  const HUGE: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
    ['layers', { layers: 1e9 }, /layers.*10000|10000.*layers/],
    ['more layers than the weights', { layers: 9999 }, /layers\.2\.\S+ is missing, policy\.json expects/],
    ['a vocabulary', { vocab: 2 ** 40 }, /embed_tokens\.weight has shape .*policy\.json expects/],
    ['heads', { heads: 2 ** 40 }, /q_proj\.weight has shape/],
    ['a hidden size', { hidden: 2 ** 50 }, /embed_tokens\.weight has shape/],
    ['an MLP', { intermediate: 2 ** 50 }, /gate_proj\.weight has shape/],
    ['a window in layers that there are not', { slidingWindow: { tokens: 4, layers: [2] } }, /slidingWindow/],
  ];

  it.each(HUGE)(
    'of a manifest that are not those of its weights are refused: %s',
    async (_, more, refusal) => {
      const policy = await policyOf();
      const path = join(policy, 'policy.json');
      const manifest = JSON.parse(readFileSync(path, 'utf8')) as { architecture: object };
      manifest.architecture = { ...manifest.architecture, ...more };
      writeFileSync(path, JSON.stringify(manifest));
      const began = performance.now();
      await expect(openPolicyFolder(policy)).rejects.toMatchObject({
        exitCode: 2,
        message: expect.stringMatching(refusal),
      });
      expect(performance.now() - began).toBeLessThan(20_000);
    },
  );

  it('of a config.json likewise: 10⁹ layers', async () => {
    for (const window of [{}, { sliding_window: 3, use_sliding_window: true }]) {
      const family = { architectures: ['Qwen2ForCausalLM'] };
      const checkpoint = writeCheckpoint(fresh(), { ...CONFIG, ...family });
      const config = { ...CONFIG, ...family, ...window, num_hidden_layers: 1e9 };
      writeFileSync(join(checkpoint, 'config.json'), JSON.stringify(config));
      await expect(buildPolicyFolder(checkpoint, fresh())).rejects.toMatchObject({ exitCode: 2 });
    }
  });

  it('a policy whose file list leaves the weights out is refused', async () => {
    const policy = await policyOf();
    const path = join(policy, 'policy.json');
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as { files: Record<string, string> };
    for (const name of Object.keys(manifest.files))
      if (name.endsWith('.safetensors')) delete manifest.files[name];
    writeFileSync(path, JSON.stringify(manifest));
    await expect(openPolicyFolder(policy)).rejects.toThrow(/embed_tokens\.weight is missing/);
  });
});
