// `score - --stream`: each request is answered as a run of the same rows is, whatever became of the one before; the policy stays open until it changes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { RecordBatchReader, Schema, Table, tableFromIPC, tableFromJSON, tableToIPC } from 'apache-arrow';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { arrowStreams } from '../../dist/io/arrow/streams.js';
import { changePolicy } from '../support/changed-policy.js';
import { EMBEDDED, FIXTURES, ROOT, rredcot, temporaryFolder } from '../support/program.js';

type Row = Record<string, unknown>;

/** As a client sends them. */
function request(rows: readonly Row[], metadata: Record<string, string> = {}): Uint8Array {
  const { schema, batches } = tableFromJSON(rows as Record<string, unknown>[]);
  return tableToIPC(
    new Table(new Schema(schema.fields, new Map(Object.entries(metadata))), batches),
    'stream',
  );
}

function startStream(...flags: string[]) {
  const args = [join(ROOT, 'bin/rredcot.js'), 'score', '-', '--stream', '--log-json', ...flags];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const answers = arrowStreams(child.stdout);
  let log = '';
  child.stderr.on('data', (bytes) => (log += bytes));
  const next = async () => tableFromIPC((await answers.next()).value as Buffer);
  return {
    child,
    log: () => log,
    async ask(bytes: Uint8Array, answer?: (questions: string) => readonly object[]) {
      child.stdin.write(bytes);
      let told = Object.fromEntries((await next()).schema.metadata);
      while (told['rredcot.questions'] !== undefined) {
        const lines = answer?.(told['rredcot.questions']).map((line) => JSON.stringify(line));
        child.stdin.write(request([], { 'rredcot.answers': (lines as string[]).join('\n') }));
        told = Object.fromEntries((await next()).schema.metadata);
      }
      return { told, rows: told['rredcot.exit'] === '0' ? (await next()).toArray().map(plain) : [] };
    },
  };
}

const plain = (row: { toJSON(): Row }): Row => JSON.parse(JSON.stringify(row.toJSON(), bigints));
const bigints = (_: string, value: unknown) => (typeof value === 'bigint' ? Number(value) : value);

describe('a stream of requests', () => {
  let rows: Row[];
  let stream: ReturnType<typeof startStream>;

  beforeAll(async () => {
    const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 8);
    rows = lines.map((line) => {
      const { id, group, prompt, completion, answer, reward } = JSON.parse(line);
      return { id, group, prompt, completion, answer, reward };
    });
    stream = startStream();
  });
  afterAll(() => void stream.child.kill());

  it('gives what a run of the same rows writes', async () => {
    const folder = await temporaryFolder();
    const { told, rows: found } = await stream.ask(request(rows));
    expect(told).toMatchObject({ 'rredcot.exit': '0', 'rredcot.rejects': '' });
    await writeFile(join(folder, 'rows.arrows'), request(rows));
    const run = await rredcot(['score', 'rows.arrows', '-o', 'run.arrow'], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const written = tableFromIPC(await readFile(join(folder, 'run.arrow')))
      .toArray()
      .map(plain);
    const own = ({ source_file: _, ...row }: Row) => row;
    expect(found.map(own)).toEqual(written.map(own));
  });

  it('takes pr by itself, also of a batch that a probe could be fitted to', async () => {
    const many = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 96);
    const batch = request(
      many.map((line) => {
        const { id, group, prompt, completion, answer, reward } = JSON.parse(line);
        return { id, group, prompt, completion, answer, reward };
      }),
    );
    const ofPr = startStream('--estimator', 'pr');
    const [found, expected] = [await stream.ask(batch), await ofPr.ask(batch)];
    ofPr.child.stdin.end();
    const own = ({ source_file: _, ...row }: Row) => row;
    expect(found.rows.map(own)).toEqual(expected.rows.map(own));
    expect(stream.log()).toContain('takes pr: a stream');
  });

  it('rejects are in the answer, and a failed request leaves the next one as it is', async () => {
    const bad = [{ ...rows[0], completion: '' }, ...rows.slice(1)] as Row[];
    const { told, rows: rest } = await stream.ask(request(bad));
    expect(rest.map(({ id }) => id)).toEqual(rows.slice(1).map(({ id }) => id));
    expect(JSON.parse(told['rredcot.rejects'] as string)).toMatchObject({
      ...{ file: 'rows.arrows', row: 0, id: rows[0]?.id, code: 'empty_completion' },
    });
    const { told: failed } = await stream.ask(request([{ other: 1 }]));
    expect(failed).toMatchObject({ 'rredcot.exit': '65', 'rredcot.hint': '--map completion=<path>' });
    expect(failed['rredcot.error']).toMatch(/^the only trace was rejected \(map 1, first rows\.arrows:0: /);
    const { told: nowhere } = await stream.ask(request(rows, { 'rredcot.policy': '/nowhere' }));
    expect(nowhere).toMatchObject({ 'rredcot.exit': '2' });
    expect((await stream.ask(request(rows))).told).toMatchObject({ 'rredcot.exit': '0' });
  });

  it('the policy is opened once, and again when it has become another', async () => {
    const folder = join(await temporaryFolder(), 'policy');
    await cp(EMBEDDED, folder, { recursive: true });
    const named = request(rows.slice(0, 1), { 'rredcot.policy': folder });
    const valueNow = async () => (await stream.ask(named)).rows[0]?.value_start;
    /** a session, or a tokenizer, that is opened anew has threads and a process of its own */
    const alive = async () => {
      const task = `/proc/${stream.child.pid}/task`;
      const children = await readFile(`${task}/${stream.child.pid}/children`, 'utf8');
      return [...(await readdir(task)), children];
    };
    for (let n = 0; n < 3; n++) await valueNow();
    const [before, value] = [await alive(), await valueNow()];
    expect(await alive()).toEqual(before);
    await changePolicy(folder, 'policy.json', (bytes) => `${bytes}`.replace('answer: ', 'answer:'));
    const changed = await valueNow();
    expect(changed).not.toBe(value);
    expect(await alive()).not.toEqual(before);
    const fresh = startStream('--policy', folder);
    expect((await fresh.ask(request(rows.slice(0, 1)))).rows[0]?.value_start).toBe(changed);
    fresh.child.stdin.end();
  });

  it('whoever has sent a request answers in the place of the policy, to the questions of `requests`', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'rows.arrows'), request(rows));
    const run = await rredcot(['requests', 'rows.arrows', '-o', 'asked.jsonl'], { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    const linesOf = (text: string) =>
      text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    const written = linesOf(await readFile(join(folder, 'asked.jsonl'), 'utf8')).slice(1);
    const asked: ReturnType<typeof linesOf> = [];
    // that the answers are the policy's is the caller's word: no canary, nothing twice
    const isOfTrace = ({ id, fresh }: { id: string; fresh?: true }) => !fresh && !id.startsWith('canary');
    const { told, rows: found } = await stream.ask(request(rows, { 'rredcot.answerer': 'me' }), (text) => {
      const lines = linesOf(text);
      asked.push(...lines);
      return lines.map(({ id, token_ids, prefix, from, top }) => {
        // of the last trace nothing is known; an exit's answer is the likelier the later it is
        if (`${prefix?.of ?? id}`.startsWith(rows[7]?.id as string)) return { id, error: 'no idea' };
        const logprobs = Array(token_ids.length + (prefix?.length ?? 0) - from).fill(
          -50 / (prefix?.length ?? 1),
        );
        return { id, logprobs, ...(top && { entropies: logprobs.map(() => 0.25) }) };
      });
    });
    expect(new Set(asked.map((line) => JSON.stringify(line)))).toEqual(
      new Set(written.filter(isOfTrace).map((line) => JSON.stringify(line))),
    );
    expect(found.map(({ id }) => id)).toEqual(rows.slice(0, 7).map(({ id }) => id));
    for (const { entropies, segments } of found) {
      expect(new Set(entropies as number[])).toEqual(new Set([0.25]));
      for (const { delta } of (segments as { delta: number | null }[]).slice(0, -1))
        expect(delta).toBeGreaterThan(0);
    }
    expect(JSON.parse(told['rredcot.rejects'] as string)).toMatchObject({ code: 'unanswered' });
    expect(told['rredcot.rejects']).toContain('says: no idea');
    // the next request is the policy's again
    expect((await stream.ask(request(rows))).rows[0]?.entropies).not.toEqual(found[0]?.entropies);
  });

  it('the end of the requests is the end of the process; bytes that are none end it with 65', async () => {
    stream.child.stdin.end();
    expect((await once(stream.child, 'close'))[0]).toBe(0);
    const other = startStream();
    other.child.stdin.end(Buffer.concat([request(rows.slice(0, 1)), Buffer.from('no stream')]));
    expect((await once(other.child, 'close'))[0]).toBe(65);
    expect(other.log()).toContain('expected Arrow streams, one behind the other');
  });

  it('what only a run of files has is refused', async () => {
    for (const more of [
      ['-o', 'x.parquet'],
      ['--shard', '0/2'],
      ['--format', 'jsonl'],
    ])
      expect(await rredcot(['score', '--stream', ...more])).toMatchObject({ code: 2 });
    expect(await rredcot(['score', FIXTURES, '--stream'])).toMatchObject({ code: 2 });
  });
});

it('streams are told apart however their bytes come in', async () => {
  const all = Buffer.concat([request([{ a: 1 }]), request([{ b: 'x' }, { b: null }])]);
  async function* pieces(size: number) {
    for (let at = 0; at < all.length; at += size) yield all.subarray(at, at + size);
  }
  for (const size of [1, 7, 8, 4096]) {
    const found: number[] = [];
    for await (const bytes of arrowStreams(pieces(size)))
      found.push([...RecordBatchReader.from(bytes)].reduce((sum, batch) => sum + batch.numRows, 0));
    expect(found).toEqual([1, 2]);
  }
  const cut = async () => {
    for await (const _ of arrowStreams(Readable.from([all.subarray(0, 20)])));
  };
  await expect(cut()).rejects.toThrow('expected Arrow streams');
});
