// What an attempt that ends early leaves of rejects, its own and another attempt's; and what a chunk's record keeps.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { type CanaryFinding, noteProof } from '../../dist/model/onnx/canary.js';
import type { Device } from '../../dist/model/onnx/device.js';
import type { Log } from '../../dist/report/log.js';
import { rejectRow } from '../../dist/rows.js';
import { openChunkWriter } from '../../dist/run/chunk-writer.js';
import { type CanaryRecord, readChunkRecord } from '../../dist/run/records.js';
import { bareRow, inputRow, temporaryFolder } from '../support/io-helpers.js';

const bad = rejectRow(inputRow({}, 1), { code: 'invalid_json', reason: 'none' });

let folder: string;
const REJECTS = 'rejects/00000-of-00001';

const writer = (assertOurs: () => Promise<void>, proofs: readonly CanaryRecord[] = []) =>
  openChunkWriter({
    proofs,
    folder,
    run: 'a'.repeat(64),
    shard: { index: 0, count: 1 },
    rowsPerChunk: 8,
    chunks: new Map(),
    leftovers: [],
    assertOurs,
    format: 'jsonl',
    ourColumns: [],
    passThrough: [],
    metadata: {},
  });

beforeEach(async () => {
  folder = await temporaryFolder();
  for (const name of ['chunks', 'rejects', 'done']) await mkdir(join(folder, name));
});

describe('abort', () => {
  it('keeps the reasons of rejects', async () => {
    const attempt = await writer(async () => {});
    await attempt.add(bareRow({ completion: 'a' }));
    await attempt.add(bad);
    await attempt.abort();
    expect(await readFile(join(folder, REJECTS, '000000.jsonl'), 'utf8')).toContain('invalid_json');
    expect(await readdir(join(folder, 'chunks/00000-of-00001'))).toEqual([]);
  });

  it.each([
    ['of another run', true, true],
    ['of another run, with no reject of its own', true, false],
    ['of an attempt that has recorded the chunk', false, true],
    ['of an attempt that has recorded the chunk, with no reject of its own', false, false],
  ])('leaves the rejects %s', async (_, isOtherRun, hasReject) => {
    const attempt = await writer(async () => {
      if (isOtherRun) throw new Error('another run');
    });
    await attempt.add(bareRow({ completion: 'a' }));
    if (hasReject) await attempt.add(bad);
    await writeFile(join(folder, REJECTS, '000000.jsonl'), 'theirs\n');
    if (!isOtherRun) await writeFile(join(folder, 'done/00000-of-00001/000000.json'), '{}');
    await attempt.abort();
    expect(await readdir(join(folder, REJECTS))).toEqual(['000000.jsonl']);
    expect(await readFile(join(folder, REJECTS, '000000.jsonl'), 'utf8')).toBe('theirs\n');
  });
});

describe('the record of a chunk', () => {
  it('keeps how far the sessions that made it were off their canaries, told when they were opened', async () => {
    const finding: CanaryFinding = {
      ...{ what: 'log p', count: 2, off: 3e-5, allowed: 1e-3, mean: 1e-5, allowedMean: 1e-3 },
      ...{ found: -1, expected: -1, place: 'token 1 of 40' },
    };
    const proof = { findings: [finding], leftOut: 0 };
    const session = (device: Device) => ({
      device,
      precision: 'f32' as const,
      proof,
    });
    const said: string[] = [];
    const log = { info: (line: string) => said.push(line), record: (what: string) => said.push(what) };
    const proofs: CanaryRecord[] = [];
    const attempt = await writer(async () => {}, proofs);
    noteProof({ proofs }, log as unknown as Log, session({ name: 'cpu' }), 'prover');
    noteProof({ proofs }, log as unknown as Log, session({ name: 'cuda', deviceId: 0 }), 'policy');
    await attempt.add(bareRow({ completion: 'a' }));
    await attempt.close();
    const run = { run: 'a'.repeat(64), shards: 1, rows_per_chunk: 8 };
    const record = await readChunkRecord(folder, run, 0);
    expect(record?.canary).toEqual([
      expect.objectContaining({ model: 'prover', device: 'cpu', off: { 'log p': 3e-5 } }),
      expect.objectContaining({ model: 'policy', device: 'cuda:0' }),
    ]);
    // people are told of devices that have something to prove
    expect(said).toEqual([
      'canary',
      'canary',
      'policy: canary: cuda:0 is off by log p 3.0e-5 nats at most (allowed 0.001)',
    ]);
  });
});
