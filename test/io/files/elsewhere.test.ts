import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addressError } from '../../../src/io/files/remote-paths.js';
import { resolveInputs } from '../../../src/io/read/inputs.js';
import { assertHere } from '../../../src/io/write/target.js';
import { assertModelFolder } from '../../../src/model/text/untrusted-files.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const refused = (message: unknown, hint: unknown = expect.anything()) => ({ exitCode: 2, message, hint });

describe('an address', () => {
  it.each([
    ['https://huggingface.co/datasets/o/d/tree/main', 'hf download o/d --repo-type dataset --local-dir d'],
    ['hf://Qwen/Qwen3-0.6B', 'hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B, then'],
    ['gs://bucket/rows', 'download it first, then'],
  ])('%s is no input, and the hint gets it', (address, hint) =>
    expect(resolveInputs([address])).rejects.toMatchObject(
      refused(`${address}: is an address that is not opened here`, expect.stringContaining(hint)),
    ),
  );

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
  const asked = (path: string) => assertModelFolder(path, 'a checkpoint', 'give one');

  it('is there, or is told from a file and from nothing; it may be called like a model', async () => {
    const folder = await temporaryFolder();
    mkdirSync(join(folder, 'Qwen/Qwen3'), { recursive: true });
    for (const path of [folder, join(folder, 'Qwen/Qwen3')]) await asked(path);
    const file = join(folder, 'model.safetensors');
    writeFileSync(file, '');
    await expect(asked(file)).rejects.toMatchObject(refused(`${file}: is a file, expected a checkpoint`));
    for (const none of [join(folder, 'none'), './Qwen/none'])
      await expect(asked(none)).rejects.toMatchObject(
        refused(`${none}: no such folder, expected a checkpoint`, 'give one'),
      );
  });

  it.each([
    ...['Qwen/Qwen3-0.6B', 'hf://Qwen/Qwen3-0.6B', 'https://huggingface.co/Qwen/Qwen3-0.6B/tree/main'].map(
      (name) =>
        [
          name,
          /^hf download Qwen\/Qwen3-0\.6B --local-dir Qwen3-0\.6B .*policy build Qwen3-0\.6B -o/,
        ] as const,
    ),
    ['s3://bucket/policy', /download it first/],
    ['hf://datasets/o/d', /--repo-type dataset/],
  ] as const)('is downloaded first, then built: %s', (name, hint) =>
    expect(asked(name)).rejects.toMatchObject(
      refused(
        expect.stringMatching(/has to be downloaded first$|is not opened here$/),
        expect.stringMatching(hint),
      ),
    ),
  );
});
