// Worker threads: calls and their results, and every way in which a thread can end, each as an error of whatever waits for it.
import { spawnSync } from 'node:child_process';
import type { WorkerOptions } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { inProcess } from '../dist/model/text/bounded-process.js';
import { startThread, type Thread } from '../dist/thread.js';

const functions = `{
  echo: (value) => value,
  later: async (value, ms) => { await new Promise((done) => setTimeout(done, ms)); return value; },
  give: (bytes) => { given = bytes; return moved({ bytes }, bytes); },
  left: () => given.length,
  refuse: (fields) => { throw Object.assign(new TypeError('refused'), fields); },
  refuseText: () => { throw 'a text'; },
  uncopied: () => () => {},
  crash: () => new Promise(() => setImmediate(() => { throw Object.assign(new Error('of its own'), { code: 'ECRASH' }); })),
  exit: () => process.exit(3),
  wait: () => new Promise(() => {}),
  spin: () => { for (;;); },
  hoard: () => { for (const all = []; ; ) all.push(Array.from({ length: 1000 }, Math.random)); },
  fail: (path) => { failThread(Object.assign(new Error('from outside'), { code: 'EIO', path })); return new Promise(() => setTimeout(() => {}, 1e6)); },
}`;

type Functions = Record<string, (...args: unknown[]) => ReturnType<JSON['parse']>>;

const MODULE = new URL('../dist/thread.js', import.meta.url).href;
const SERVE = `let given; serve(${functions});`;
const HERE: WorkerOptions = { resourceLimits: { maxOldGenerationSizeMb: 32 } };
const urlOf = (code: string) =>
  new URL(
    `data:text/javascript,${encodeURIComponent(`import { failThread, moved, serve } from '${MODULE}'; ${code}`)}`,
  );

function start(code = SERVE, options: WorkerOptions | 'apart' = HERE): Thread<Functions> {
  const file = urlOf(code);
  const thread =
    options === 'apart'
      ? startThread<Functions>(
          'the helper',
          inProcess({ file: file.href, workerData: undefined, memoryMb: 256 }),
        )
      : startThread<Functions>('the helper', file, options);
  onTestFinished(() => thread.terminate());
  return thread;
}

describe('a call', () => {
  it('has the result of the function, the calls under way each their own, in their order', async () => {
    const thread = start();
    const done: number[] = [];
    const calls = [30, 20, 10, 0].map(async (ms, n) => {
      expect(await thread.call('later', [n, ms])).toBe(n);
      done.push(n);
    });
    expect(await thread.call('echo', [{ a: [1n, undefined] }])).toEqual({ a: [1n, undefined] });
    await Promise.all(calls);
    expect(done).toEqual([0, 1, 2, 3]);
  });

  it('moves buffers there and back', async () => {
    const thread = start();
    const bytes = Uint8Array.of(1, 2, 3);
    const given = await thread.call('give', [bytes], [bytes.buffer]);
    expect(given.bytes).toEqual(Uint8Array.of(1, 2, 3));
    expect(bytes).toHaveLength(0);
    expect(await thread.call('left', [])).toBe(0);
    const copied = Uint8Array.of(4);
    await thread.call('echo', [copied]);
    expect(copied).toHaveLength(1);
  });

  it('fails as the function did, with name, code and path, and the thread goes on', async () => {
    const thread = start();
    const refused = thread.call('refuse', [{ code: 'ENOENT', path: '/a/b' }]);
    await expect(refused).rejects.toMatchObject({
      name: 'TypeError',
      message: 'refused',
      code: 'ENOENT',
      path: '/a/b',
      stack: expect.stringContaining('refuse'),
    });
    await expect(refused).rejects.toBeInstanceOf(Error);
    await expect(thread.call('refuse', [{}])).rejects.not.toHaveProperty('code');
    await expect(thread.call('refuseText', [])).rejects.toThrow('a text');
    expect(await thread.call('echo', [1])).toBe(1);
  });

  it('fails where argument or result cannot be copied, and the thread goes on', async () => {
    const thread = start();
    await expect(thread.call('echo', [() => {}])).rejects.toMatchObject({ name: 'DataCloneError' });
    await expect(thread.call('uncopied', [])).rejects.toMatchObject({ name: 'DataCloneError' });
    expect(await thread.call('echo', [1])).toBe(1);
  });
});

const APART = 'apart';

describe('the end of a thread fails what is under way and what comes later', () => {
  type End = (thread: Thread<Functions>) => Promise<unknown>;
  const crash: End = (thread) => thread.call('crash', []);
  const hoard: End = (thread) => thread.call('hoard', []);
  const spin: End = (thread) => {
    setTimeout(() => thread.terminate(new RangeError('took too long')), 200);
    return thread.call('spin', []);
  };
  const early = { message: 'the helper ended early' };
  const noMemory = { message: expect.stringMatching(/^the helper crashed: .*memory/) };
  const reported = { message: 'from outside', code: 'EIO', path: '/x', name: 'Error' };
  const both: [string, End, object][] = [
    ['an early exit', (thread) => thread.call('exit', []), early],
    ['a wait for what never comes', (thread) => thread.call('wait', []), early],
    ['an end from outside', spin, { message: 'took too long', name: 'RangeError' }],
  ];
  const here: typeof both = [
    ...both,
    ['a crash', crash, { message: 'the helper crashed: of its own', code: 'ECRASH' }],
    ['a lack of memory', hoard, { ...noMemory, code: 'ERR_WORKER_OUT_OF_MEMORY' }],
    ['its own report', (thread) => thread.call('fail', ['/x']), reported],
  ];
  const apart: typeof both = [
    ...both,
    ['a crash', crash, { message: 'of its own', code: 'ECRASH' }],
    ['a lack of memory', hoard, { message: 'takes more than 256 MB of memory' }],
  ];
  it.each([
    ...here.map(([what, ...more]) => [what, HERE, ...more] as const),
    ...apart.map(([what, ...more]) => [`${what}, in a process of its own`, APART, ...more] as const),
  ])('%s', async (_, options, end, error) => {
    const thread = start(SERVE, options);
    expect(await thread.call('echo', [1])).toBe(1);
    const ended = end(thread);
    const behind = thread.call('echo', [2]);
    await expect(ended).rejects.toMatchObject(error);
    await expect(behind).rejects.toMatchObject(error);
    await expect(thread.call('echo', [3])).rejects.toMatchObject(error);
    await Promise.all([thread.finish(), thread.terminate()]); // an ended thread is closed without more ado
    await expect(thread.call('echo', [4])).rejects.toMatchObject(error);
  });

  it('code that does not start', async () => {
    const thread = start('throw new Error("at its start")');
    await expect(thread.call('echo', [1])).rejects.toThrow('the helper crashed: at its start');
  });

  it('nobody has to wait for the calls that fail', async () => {
    const thread = start();
    thread.call('echo', [1]);
    await thread.terminate();
    await expect(thread.call('echo', [2])).rejects.toThrow('the helper ended early');
  });
});

it('finish lets the call under way do its work and drops those behind it', async () => {
  /** began, go on, done, began behind it */
  const shared = new Int32Array(new SharedArrayBuffer(16));
  const work = `async (shared) => {
    shared[0]++;
    while (Atomics.load(shared, 1) === 0) await new Promise((done) => setTimeout(done, 5));
    shared[2]++;
  }`;
  const thread = start(`serve({ work: ${work}, behind: (shared) => { shared[3]++; } })`);
  const calls = [thread.call('work', [shared]), thread.call('behind', [shared])];
  while (Atomics.load(shared, 0) === 0) await new Promise((done) => setTimeout(done, 5));
  const finished = thread.finish();
  for (const call of calls) await expect(call).rejects.toThrow('the helper is closed');
  Atomics.store(shared, 1, 1);
  await finished;
  expect([...shared]).toEqual([1, 1, 1, 0]);
  await expect(thread.call('behind', [shared])).rejects.toThrow('the helper is closed');
});

it('an idle thread keeps no process alive once it is told so', () => {
  const run = `
    const { startThread } = await import(${JSON.stringify(MODULE)});
    const thread = startThread('the helper', new URL(${JSON.stringify(urlOf(SERVE).href)}));
    thread.unref();
    thread.ref();
    process.stdout.write(await thread.call('echo', ['answered']));
    thread.unref();`;
  const found = spawnSync(process.execPath, ['--input-type=module', '-e', run], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(found).toMatchObject({ status: 0, signal: null, stdout: 'answered' });
});
