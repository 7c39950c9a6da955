/** Folders of process reward models: built from random checkpoints, run against the float64 pass, refused where they are none. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isPrmCheckpoint } from '../../../dist/model/graph/checkpoint.js';
import { buildPolicyFolder, buildPrmFolder } from '../../../dist/model/onnx/build.js';
import { compareReadings } from '../../../dist/model/onnx/check.js';
import { openPolicyFolder, openPrmFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { loadFamily } from '../../oracle/families.js';
import { rewardShares } from '../../oracle/prm.js';
import { seeded } from '../../oracle/toy.js';
import {
  type Json,
  LLAMA,
  randomTensors,
  type TestTensor,
  writeCheckpoint,
} from '../../support/checkpoints.js';
import { EMBEDDED } from '../../support/program.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const scratch = await temporaryFolder();
const random = seeded(5);
const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 131));
/** the smallest sizes that all families take */
const SMALL: Json = { ...LLAMA, tie_word_embeddings: undefined };
/** what TRL puts behind every step */
const STEP = '\n';

let made = 0;
function checkpointOf(config: Json, opts: Parameters<typeof writeCheckpoint>[2] = {}): string {
  return writeCheckpoint(join(scratch, `checkpoint-${made++}`), config, opts);
}
const folder = () => join(scratch, `prm-${made++}`);

describe('the numbers of the float64 pass, at every token and in a batch', () => {
  const QWEN = { ...SMALL, use_sliding_window: true, sliding_window: 9, max_window_layers: 1 };
  test.each<[string, Json, 'F32' | 'F16' | 'BF16', number | undefined]>([
    ['LlamaForTokenClassification', { rope_scaling: { type: 'linear', factor: 2 } }, 'F16', undefined],
    ['MistralForTokenClassification', { sliding_window: 7 }, 'F32', 0],
    ['Qwen2ForTokenClassification', { ...QWEN, id2label: { 0: 'bad', 1: 'neutral', 2: 'good' } }, 'BF16', 2],
    ['Qwen3ForTokenClassification', {}, 'F32', undefined],
    ['Qwen2ForTokenClassification', { ...QWEN, num_labels: 1 }, 'F32', undefined],
    ['LlamaForSequenceClassification', { num_labels: 1 }, 'BF16', undefined],
    ['MistralForSequenceClassification', { sliding_window: 7 }, 'F32', undefined],
    ['Qwen3ForSequenceClassification', {}, 'F16', undefined],
    ['Qwen2ForProcessRewardModel', { ...QWEN, id2label: undefined }, 'BF16', undefined],
  ])('%s', async (name, more, dtype, label) => {
    const path = checkpointOf({ ...SMALL, ...more, architectures: [name] }, { dtype });
    expect(await isPrmCheckpoint(path)).toBe(true);
    const choice = { stepToken: '', ...(label === undefined ? {} : { correctLabel: String(label) }) };
    const prm = await buildPrmFolder(path, folder(), choice);
    expect(await openPrmFolder(prm.path)).toEqual(prm);
    const isScore = prm.head.labels.length === 1;
    expect(prm.correct).toBe(isScore ? 0 : (label ?? 1));
    const model = loadFamily(path);
    const sequences = [31, 4, 18].map((length) => {
      const ids = randomIds(length);
      return { ids, rows: Int32Array.from(ids.keys()) };
    });
    await using session = await ModelSession.open(prm);
    const found = await session.judge(sequences);
    let changed = 0;
    for (const [i, { ids }] of sequences.entries()) {
      const expected = rewardShares(model, [...ids], prm.correct);
      // another label, or the same score read as something else
      const other = isScore
        ? expected.map((share) => Math.log(share / (1 - share)))
        : rewardShares(model, [...ids], prm.correct === 0 ? 1 : 0);
      for (const [t, share] of (found[i] as Float32Array).entries()) {
        expect(Math.abs(share - (expected[t] as number))).toBeLessThan(1e-5);
        changed = Math.max(changed, Math.abs(share - (other[t] as number)));
      }
    }
    // a label, and so a head, that is another one shows
    expect(changed).toBeGreaterThan(0.05);
    for (const { off, count } of await compareReadings(session, randomIds(40))) {
      expect(count).toBe(8);
      expect(off).toBeLessThan(1e-5);
    }
  });

  test('the head without a bias that newer libraries allow', async () => {
    const config = { ...SMALL, architectures: ['LlamaForTokenClassification'] };
    const tensors = randomTensors(config, 'F32');
    tensors.delete('score.bias');
    const path = checkpointOf(config, { tensors });
    const prm = await buildPrmFolder(path, folder());
    await using session = await ModelSession.open(prm);
    const ids = randomIds(12);
    const [found] = await session.judge([{ ids, rows: Int32Array.of(11) }]);
    expect(found?.[0]).toBeCloseTo(rewardShares(loadFamily(path), [...ids], 1)[11] as number, 5);
  });
});

describe('what config.json and the weights say', () => {
  const classifier: Json = { ...SMALL, architectures: ['LlamaForTokenClassification'] };

  test("Qwen2.5-Math-PRM's own code and the head that it was made from are no obstacle, another's code is", async () => {
    const auto_map = {
      AutoConfig: 'configuration_qwen2_rm.Qwen2RMConfig',
      AutoModel: 'modeling_qwen2_rm.Qwen2ForProcessRewardModel',
    };
    const config = { ...SMALL, architectures: ['Qwen2ForProcessRewardModel'], auto_map };
    const tensors = randomTensors(config, 'F32');
    const ofPolicy = randomTensors({ ...SMALL, architectures: ['Qwen2ForCausalLM'] }, 'F32');
    const head = ofPolicy.get('lm_head.weight') as TestTensor;
    const path = checkpointOf(config, { tensors: new Map([...tensors, ['lm_head.weight', head]]) });
    // its step token is not one of this tokenizer
    await expect(buildPrmFolder(path, folder())).rejects.toThrow(
      /the step token "<extra_0>" is 9 tokens of the tokenizer \(60, .*\), expected one of a vocabulary of 131/,
    );
    const prm = await buildPrmFolder(path, folder(), { stepToken: STEP });
    expect(prm.stepToken).toEqual({ text: STEP, id: 10 });
    const foreign = checkpointOf({ ...config, auto_map: { AutoModel: 'mine.Model' } });
    await expect(buildPrmFolder(foreign, folder())).rejects.toThrow(/auto_map/);
  });

  test('labels by name or number; which of three is right has to be said', async () => {
    const path = checkpointOf({ ...classifier, id2label: { 0: 'bad', 1: 'ok', 2: 'good' } });
    await expect(buildPrmFolder(path, folder())).rejects.toThrow(
      /3 labels apart, and nothing says which of them is right: 0 \(bad\), 1 \(ok\), 2 \(good\)/,
    );
    await expect(buildPrmFolder(path, folder(), { correctLabel: '3' })).rejects.toThrow(
      /--correct-label 3: the head has no such label/,
    );
    expect((await buildPrmFolder(path, folder(), { correctLabel: 'good' })).correct).toBe(2);
    const wide = checkpointOf({ ...classifier, num_labels: 3 });
    await expect(buildPrmFolder(wide, folder(), { correctLabel: '0' })).rejects.toThrow(
      /tensor score.weight has shape \[2, 44\], config.json expects \[3, 44\]/,
    );
  });

  test('a head that scores whole texts has one label, and no step token', async () => {
    const config: Json = { ...SMALL, architectures: ['Qwen2ForSequenceClassification'] };
    const several = checkpointOf(config, {
      tensors: randomTensors({ ...SMALL, architectures: ['Qwen2ForTokenClassification'] }, 'F32'),
    });
    await expect(buildPrmFolder(several, folder())).rejects.toThrow(
      /tensor score.weight has shape \[2, 44\], config.json expects \[1, 44\]/,
    );
    await expect(buildPrmFolder(checkpointOf(config), folder(), { stepToken: STEP })).rejects.toThrow(
      /--step-token: the head of .* gives one score/,
    );
  });

  test('the template of the checkpoint, of a file, or a plain one', async () => {
    const path = checkpointOf(classifier);
    expect((await buildPrmFolder(path, folder())).withReference).toBe(
      '{prompt}\n\nReference answer: {reference}',
    );
    writeFileSync(join(path, 'prm_template.json'), '{"with_reference": "{prompt}{reference}\\n"}');
    expect((await buildPrmFolder(path, folder())).withReference).toBe('{prompt}{reference}\n');
    const file = join(scratch, 'template.json');
    writeFileSync(file, '{"with_reference": "{reference}: {prompt}"}');
    expect((await buildPrmFolder(path, folder(), { template: file })).withReference).toBe(
      '{reference}: {prompt}',
    );
    writeFileSync(file, '{"with_reference": "{prompt}"}');
    await expect(buildPrmFolder(path, folder(), { template: file })).rejects.toThrow(
      /template.json: .*expected \{prompt\} and \{reference\} in it/,
    );
  });

  test('a folder of the other kind is refused by name, and one that was changed', async () => {
    const path = checkpointOf(classifier);
    const prm = await buildPrmFolder(path, folder());
    await expect(openPolicyFolder(prm.path)).rejects.toThrow(
      /a process reward model, which judges steps, and no policy/,
    );
    await expect(openPrmFolder(EMBEDDED)).rejects.toThrow(
      /a policy, which names tokens, and no process reward model/,
    );
    await expect(buildPolicyFolder(path, folder())).rejects.toThrow(/its head classifies and names no token/);
    expect(await isPrmCheckpoint(EMBEDDED)).toBe(false);
    const manifest = join(prm.path, 'policy.json');
    const said = readFileSync(manifest, 'utf8');
    writeFileSync(manifest, said.replace('"correct": 1', '"correct": 2'));
    await expect(openPrmFolder(prm.path)).rejects.toThrow(/names a label or a token that it does not have/);
    writeFileSync(manifest, said.replace('"bias": true', '"bias": false'));
    writeFileSync(join(prm.path, 'prm.onnx'), 'no graph');
    await expect(openPrmFolder(prm.path)).rejects.toThrow(
      /prm.onnx: is not the file that policy.json was built with/,
    );
  });
});
