import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { RredcotError } from '../../../src/errors.js';
import { addressError, assertHere } from '../../../src/io/files/remote-paths.js';
import { resolveInputs } from '../../../src/io/read/inputs.js';
import { assertModelFolder } from '../../../src/model/text/untrusted-files.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

async function refusal(of: Promise<unknown>): Promise<RredcotError> {
  const error = await of.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RredcotError);
  return error as RredcotError;
}

describe('an address', () => {
  it.each([
    ['https://huggingface.co/datasets/o/d/tree/main', 'hf download o/d --repo-type dataset --local-dir d'],
    ['hf://Qwen/Qwen3-0.6B', 'hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B, then'],
    ['gs://bucket/rows', 'download it first, then'],
  ])('%s is no input, and the hint gets it', async (address, hint) => {
    const { message, exitCode, hint: found } = await refusal(resolveInputs([address]));
    expect(message).toBe(`${address}: is an address that is not opened here`);
    expect([exitCode, found]).toEqual([2, expect.stringContaining(hint)]);
  });

  it('is none without //, and of a file on this machine', () => {
    for (const path of ['rows.jsonl', 'a:b', 'C:\\rows.jsonl', 'file:///rows.jsonl'])
      expect(addressError(path)).toBeUndefined();
  });
});

it.each([
  ['s3://bucket/out/', 'out/, and upload that when it is done'],
  ['gs://bucket/a.jsonl', 'a.jsonl, and upload that when it is done'],
])('an address is no output: %s', (address, hint) => {
  const message = `${address}: is an address, which is not written here`;
  expect(() => assertHere(address)).toThrow(expect.objectContaining({ message, hint, exitCode: 2 }));
  expect(() => assertHere('out/a:b.parquet')).not.toThrow();
});

describe("a model's folder", () => {
  const refused = (path: string) => refusal(assertModelFolder(path, 'a checkpoint', 'give one'));

  it('is there, or is told from a file and from nothing', async () => {
    const folder = await temporaryFolder();
    await assertModelFolder(folder, 'a checkpoint', 'give one');
    const file = join(folder, 'model.safetensors');
    writeFileSync(file, '');
    expect(await refused(file)).toMatchObject({ message: `${file}: is a file, expected a checkpoint` });
    const none = join(folder, 'none');
    expect(await refused(none)).toMatchObject({
      message: `${none}: no such folder, expected a checkpoint`,
      hint: 'give one',
    });
  });

  it.each(['Qwen/Qwen3-0.6B', 'hf://Qwen/Qwen3-0.6B', 'https://huggingface.co/Qwen/Qwen3-0.6B/tree/main'])(
    'is downloaded from the Hub first, then built: %s',
    async (name) => {
      const { message, hint } = await refused(name);
      expect(message).toMatch(
        /^.*: no such folder; a model of the Hugging Face Hub has to be downloaded first$/,
      );
      expect(hint).toMatch(
        /^hf download Qwen\/Qwen3-0\.6B --local-dir Qwen3-0\.6B .*policy build Qwen3-0\.6B -o/,
      );
    },
  );

  it('may be called like a model, and lie elsewhere', async () => {
    const folder = await temporaryFolder();
    mkdirSync(join(folder, 'Qwen/Qwen3'), { recursive: true });
    await assertModelFolder(join(folder, 'Qwen/Qwen3'), 'a checkpoint', 'give one');
    expect((await refused('./Qwen/none')).message).toBe('./Qwen/none: no such folder, expected a checkpoint');
    expect((await refused('s3://bucket/policy')).hint).toContain('download it first');
    expect((await refused('hf://datasets/o/d')).hint).toContain('--repo-type dataset');
  });
});
