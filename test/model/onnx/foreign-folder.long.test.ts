// What a downloaded checkpoint or policy folder cannot do: read other files, write to them, hold the program, or make it grow.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { globSync } from 'tinyglobby';
import { describe, expect, it } from 'vitest';
import { policyBuild } from '../../../dist/commands/policy-build.js';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { LLAMA, SHARD, writeCheckpoint } from '../../support/checkpoints.js';
import { ROOT, temporaryFolder } from '../../support/program.js';
import { editJson } from '../../support/scene.js';

const SECRET = '{"chat_template": "a secret of somebody else"}';
/** with room for all tokens of the embedded tokenizer */
const CONFIG = { ...LLAMA, vocab_size: 263 };
const scratch = await temporaryFolder();
const secret = join(scratch, 'secret');
fs.writeFileSync(secret, SECRET);
let count = 0;
const fresh = () => join(scratch, `${count++}`);

/** Every name of a file in the sources: what is read or written of a checkpoint or a policy folder has its name there. */
const NAMED = new Set(
  globSync('src/model/**/*.ts', { cwd: ROOT }).flatMap((path) =>
    Array.from(
      fs.readFileSync(join(ROOT, path), 'utf8').matchAll(/'([\w.]+\.(?:json|jinja|safetensors|onnx))'/g),
      ([, name]) => name as string,
    ),
  ),
);
// where there is one the folder is refused; an adapter's own folder is tested with it
for (const name of ['adapter_config.json', 'adapter_model.safetensors']) NAMED.delete(name);
const isWritten = (name: string) => /\.onnx$|^(?:policy|canary)\.json$/.test(name);
/** What a build reads of a checkpoint. */
const READS = [
  ...['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'],
  ...['chat_template.jinja', 'hint_template.json', 'ask_template.json', 'exit_template.json'],
  ...['model.safetensors', 'model.safetensors.index.json', SHARD(0, 2)],
];

/** The checkpoint in shards, with every file that a build of a policy reads. */
function checkpointOf(): string {
  const folder = writeCheckpoint(fresh(), CONFIG, { shards: 2 });
  fs.writeFileSync(join(folder, 'chat_template.jinja'), '{{ messages[0].content }}');
  fs.writeFileSync(join(folder, 'hint_template.json'), '{"text": "{answer}", "before": "x"}');
  fs.writeFileSync(join(folder, 'ask_template.json'), '{"question": "ok?", "yes": "y", "no": "n"}');
  fs.writeFileSync(join(folder, 'exit_template.json'), '{"close": "\\n", "open": "= ", "closer": "\\n"}');
  fs.writeFileSync(join(folder, 'generation_config.json'), '{"eos_token_id": 0}');
  return folder;
}

const built = (checkpoint: string, output: string) => policyBuild(checkpoint, { output }, () => {});

it('the files that are tested here are all those that the sources name', () => {
  const read = [...NAMED].filter((name) => !isWritten(name)).sort();
  const tested = new Set(READS.filter((name) => name !== SHARD(0, 2)));
  expect(read).toEqual([...tested].sort());
});

/** What may stand in place of a file. */
const REPLACEMENTS: readonly (readonly [string, (path: string) => void, RegExp])[] = [
  ['a link', (path) => fs.symlinkSync(secret, path), /links to .*secret, outside its folder/],
  ['a pipe', (path) => execFileSync('mkfifo', [path]), /is no regular file/],
  ['a folder', (path) => fs.mkdirSync(path), /is no regular file/],
  ['a device', (path) => fs.symlinkSync('/dev/zero', path), /links to \/dev\/zero, outside its folder/],
];

/** Something else stands in place of a file while it is looked at. */
async function replaced(path: string, put: (path: string) => void, look: () => Promise<void>): Promise<void> {
  const [aside, isThere] = [join(scratch, 'aside'), fs.existsSync(path)];
  if (isThere) fs.renameSync(path, aside);
  put(path);
  await look();
  fs.rmSync(path, { recursive: true });
  if (isThere) fs.renameSync(aside, path);
}

describe.each(REPLACEMENTS)('%s', (_, put, refusal) => {
  const refused = { exitCode: 2, message: expect.stringMatching(refusal) };

  it('in place of any file of a checkpoint is refused', async () => {
    const [checkpoint, out] = [checkpointOf(), fresh()];
    for (const name of READS)
      await replaced(join(checkpoint, name), put, async () => {
        await expect(built(checkpoint, out), name).rejects.toMatchObject(refused);
        expect(fs.existsSync(out), name).toBe(false);
      });
  });

  it('in place of any file of a policy folder is refused', async () => {
    const policy = await policyOf();
    const names = fs.readdirSync(policy);
    expect(names).toEqual(expect.arrayContaining([...NAMED].filter((name) => /^policy|canary/.test(name))));
    for (const name of names)
      await replaced(join(policy, name), put, async () => {
        for (const verify of [true, false])
          await expect(openPolicyFolder(policy, { verify }), name).rejects.toMatchObject(refused);
      });
    await openPolicyFolder(policy);
  });
});

it('what a build does not read may be anything', async () => {
  const checkpoint = checkpointOf();
  const own = ['special_tokens_map', 'added_tokens', 'chat_template', 'vocab'].map((name) => `${name}.json`);
  for (const name of [...[...NAMED].filter(isWritten), ...own, 'README.md'])
    execFileSync('mkfifo', [join(checkpoint, name)]);
  await built(checkpoint, fresh());
});

let policyOnce: string | undefined;
async function policyOf(): Promise<string> {
  const policy = fresh();
  if (policyOnce === undefined) {
    policyOnce = fresh();
    await built(checkpointOf(), policyOnce);
  }
  fs.cpSync(policyOnce, policy, { recursive: true });
  return policy;
}

const inside = SHARD(0, 2);

/** The policy, its graph taking weights from another name of the same length. */
async function policyReading(name: string): Promise<string> {
  const policy = await policyOf();
  const path = join(policy, 'policy.onnx');
  const bytes = fs.readFileSync(path, 'latin1').replaceAll(inside, name);
  fs.writeFileSync(path, bytes, 'latin1');
  return policy;
}
const opening = async (policy: string) => {
  const session = await ModelSession.open(await openPolicyFolder(policy, { verify: false }));
  await session.close();
};

it('a graph whose hash fits: reads no file outside of the folder, by a path or by a link', async () => {
  const beside = `${'x'.repeat(inside.length - 3)}`;
  const other = inside.replace('model', 'other');
  const byPath = await policyReading(`../${beside}`);
  const [byLink, fine] = [await policyReading(other), await policyReading(other)];
  // all of them would find the right weights
  fs.cpSync(join(fine, inside), join(fine, '..', beside));
  fs.symlinkSync(join(fine, '..', beside), join(byLink, other));
  fs.cpSync(join(fine, inside), join(fine, other));
  await expect(opening(fine)).resolves.toBeUndefined();
  for (const policy of [byPath, byLink])
    await expect(opening(policy)).rejects.toMatchObject({
      exitCode: 69,
      message: expect.stringMatching(/escapes|outside/),
    });
});

it('a build in the checkpoint itself: writes through no link that it finds there', async () => {
  const checkpoint = checkpointOf();
  const written = ['policy.json', 'policy.onnx', 'policy.cuda.onnx'];
  for (const name of [...written, ...written.map((each) => `${each}.tmp`)])
    fs.symlinkSync(secret, join(checkpoint, name));
  await buildPolicyFolder(checkpoint, checkpoint);
  expect(fs.readFileSync(secret, 'utf8')).toBe(SECRET);
  for (const name of written) expect(fs.lstatSync(join(checkpoint, name)).isFile(), name).toBe(true);
  expect(fs.readdirSync(checkpoint).filter((name) => name.startsWith('.'))).toEqual([]);
});

describe('numbers', () => {
  it.each<[Record<string, unknown>, RegExp]>([
    [{ layers: 1e9 }, /layers.*10000|10000.*layers/],
    [{ layers: 1999 }, /layers\.2\.\S+ is missing, policy\.json expects/],
    [{ vocab: 2 ** 40 }, /embed_tokens\.weight has shape .*policy\.json expects/],
    [{ heads: 2 ** 40 }, /q_proj\.weight has shape/],
    [{ hidden: 2 ** 50 }, /embed_tokens\.weight has shape/],
    [{ family: 'Qwen2ForCausalLM' }, /layers\.0\.self_attn\.q_proj\.bias is missing/],
    [{ family: 'Qwen3ForCausalLM' }, /layers\.0\.self_attn\.q_norm\.weight is missing/],
    [{ maxTokens: 1e12 }, /more than 16,777,216 tokens.*architecture\.maxTokens/],
    [{ intermediate: 2 ** 50 }, /gate_proj\.weight has shape/],
    // in layers that there are not
    [{ slidingWindow: { tokens: 4, layers: [2] } }, /slidingWindow/],
  ])('of a manifest that are not those of its weights are refused: %j', async (more, refusal) => {
    const policy = await policyOf();
    await editJson(join(policy, 'policy.json'), ({ architecture }) =>
      Object.assign(architecture as object, more),
    );
    const began = performance.now();
    const refused = { exitCode: 2, message: expect.stringMatching(refusal) };
    await expect(openPolicyFolder(policy)).rejects.toMatchObject(refused);
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  it.each([
    [{ max_position_embeddings: 1e12 }, /more than 16,777,216 tokens.*max_position_embeddings/],
    [
      { rope_scaling: { rope_type: 'yarn', factor: 1e9, original_max_position_embeddings: 256 } },
      /its rope scaling makes more than 16,777,216 tokens/,
    ],
  ])('of a config.json likewise: a context of %j', async (more, refusal) => {
    const checkpoint = writeCheckpoint(fresh(), { ...CONFIG, ...more });
    const refused = { exitCode: 2, message: expect.stringMatching(refusal) };
    await expect(buildPolicyFolder(checkpoint, fresh())).rejects.toMatchObject(refused);
  });

  it('a policy whose file list leaves the weights out is refused', async () => {
    const policy = await policyOf();
    await editJson(join(policy, 'policy.json'), (manifest) => {
      const files = Object.entries(manifest.files as object);
      manifest.files = Object.fromEntries(files.filter(([name]) => !name.endsWith('.safetensors')));
    });
    await expect(openPolicyFolder(policy)).rejects.toThrow(/embed_tokens\.weight is missing/);
  });
});
