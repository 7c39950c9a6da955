/** Real sessions held against the canary of their folder: a graph that is wrong is refused before anybody asks it for a row. */
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openPolicyFolder } from '../../../dist/model/onnx/folder.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { changePolicy } from '../../support/changed-policy.js';
import { temporaryFolder } from '../../support/program.js';
import { randomPolicy } from '../../support/random-policy.js';

const scratch = await temporaryFolder();
const sound = await randomPolicy(join(scratch, 'sound'), 5);
let copies = 0;

/** A copy of a folder with a file changed. */
async function changed(from: string, file: string, change: (bytes: Buffer) => Buffer | string) {
  const path = join(scratch, `copy-${++copies}`);
  cpSync(from, path, { recursive: true });
  await changePolicy(path, file, change);
  return path;
}

/** What comes of opening a session in a folder: how far it is off, or the error. */
async function opened(path: string): Promise<ModelSession['proof'] | Error> {
  try {
    await using session = await ModelSession.open(await openPolicyFolder(path));
    return session.proof;
  } catch (error) {
    return error as Error;
  }
}

/** One weight of many: the last but `back` float32 of the file becomes another number. */
const oneWeight = (value: number, back: number) => (bytes: Buffer) => {
  bytes.writeFloatLE(value, bytes.length - 4 * back);
  return bytes;
};
const jsonWith = (change: (value: never) => void) => (bytes: Buffer) => {
  const value = JSON.parse(bytes.toString());
  change(value as never);
  return JSON.stringify(value);
};

type Stored = { passes: { traces: { entropies: number[] }[] }[] };
const entropyBy = (nats: number) =>
  jsonWith(({ passes }: Stored) => {
    const entropies = passes[0]?.traces[0]?.entropies as number[];
    entropies[11] = (entropies[11] as number) + nats;
  });

describe('a session on the CPU', () => {
  test('gives the numbers of its build again, and keeps how far it was off', async () => {
    const proof = await opened(sound.path);
    for (const { off } of (proof as NonNullable<ModelSession['proof']>).findings)
      expect(off).toBeLessThan(1e-4);
    // what differs by less than the bound is float32
    const near = await changed(sound.path, 'canary.json', entropyBy(5e-4));
    expect(await opened(near)).toHaveProperty('findings');
  });

  test.each([
    [
      'an entropy is off',
      'canary.json',
      entropyBy(2e-3),
      /: entropy of token 12 of 40 is \S+, expected \S+: 2\.0e-3 nats off/,
    ],
    // a row of the head: log p of one token, and all others by the softmax
    ['one weight is another', 'model.safetensors', oneWeight(40, 3), /log p of token \d+ of \d+ is/],
    [
      'the rotary tables turn a little faster',
      'policy.json',
      jsonWith((manifest: { architecture: { ropeTheta: number } }) => {
        manifest.architecture.ropeTheta = 480;
      }),
      /log p of token \d+ of \d+ is/,
    ],
  ])('is refused where %s, with exit 69, by token and numbers', async (_, file, change, message) => {
    const path = await changed(sound.path, file, change as (bytes: Buffer) => Buffer);
    const refused = (await opened(path)) as Error;
    expect(refused).toMatchObject({
      exitCode: 69,
      message: expect.stringMatching(/: on cpu the policy does not give the numbers of its canary: /),
      hint: expect.stringContaining('rredcot policy build'),
    });
    expect(refused.message).toMatch(message);
  });

  test('is refused in one line where the canary is none', async () => {
    expect(await opened(await changed(sound.path, 'canary.json', () => '[]'))).toMatchObject({ exitCode: 2 });
    const odd = () => '{"passes": [{"split": false, "traces": [{}]}]}';
    const message = expect.stringContaining('cannot run its canary');
    const found = await opened(await changed(sound.path, 'canary.json', odd));
    expect(found).toMatchObject({ exitCode: 69, message });
  });
});
