// A downloaded policy cannot make the program deaf: a signal and the time limit end it whatever its tokenizer and template do.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { changePolicy } from '../support/changed-policy.js';
import { EMBEDDED, goodLine, start, temporaryFolder } from '../support/program.js';

let cwd: string;
beforeAll(async () => {
  cwd = await temporaryFolder();
  writeFileSync(join(cwd, 'text.jsonl'), goodLine({ completion: `${'a'.repeat(60)}b` }));
  writeFileSync(join(cwd, 'messages.jsonl'), goodLine({ prompt: [{ role: 'user', content: 'x' }] }));
});

/** The embedded policy with another file. */
async function policyWith(name: string, file: string, change: (text: string) => string): Promise<void> {
  cpSync(EMBEDDED, join(cwd, name), { recursive: true });
  await changePolicy(join(cwd, name), file, (bytes) => change(String(bytes)));
}

/** Runs a command and sends it a signal when it says that it has begun its work. */
async function endOf(args: readonly string[], signal?: NodeJS.Signals) {
  const begun = performance.now();
  const { child, end } = start(args, { cwd });
  child.stderr.on('data', (chunk: Buffer) => {
    // the mapping is told of just before the first trace is read
    if (signal !== undefined && chunk.includes('INFO: preset')) setTimeout(() => child.kill(signal), 700);
  });
  const deaf = setTimeout(() => child.kill('SIGKILL'), 100_000);
  const { code, stdout, stderr } = await end;
  clearTimeout(deaf);
  return { code, text: `${stdout}${stderr}`, seconds: (performance.now() - begun) / 1000 };
}

/** What does not end, with the input that meets it. */
const POLICIES = {
  tokenizer: {
    input: 'text.jsonl',
    make: () =>
      policyWith('tokenizer', 'tokenizer.json', (text) => {
        const spec = JSON.parse(text) as Record<string, unknown>;
        const split = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };
        spec.pre_tokenizer = { type: 'Sequence', pretokenizers: [split, spec.pre_tokenizer] };
        return JSON.stringify(spec);
      }),
  },
  template: {
    input: 'messages.jsonl',
    make: () =>
      policyWith(
        'template',
        'chat_template.jinja',
        () => '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}',
      ),
  },
} as const;

describe.each([
  ['tokenizer', 'SIGTERM', [], 'SIGTERM'],
  ['template', '--time-limit', ['--time-limit', '3s'], undefined],
] as const)('a %s that does not end', (policy, how, flags, signal) => {
  it(`is ended by ${how}`, async () => {
    const { input, make } = POLICIES[policy];
    await make();
    const args = ['score', input, '--policy', policy, '-o', `${policy}.parquet`, ...flags];
    const { code, text, seconds } = await endOf(args, signal);
    expect(code, text).toBe(75);
    expect(text).toMatch(/rredcot: interrupted/);
    expect(seconds).toBeLessThan(30); // before the thread would have been stopped by itself
  });
});

const HUGE =
  '{% set ns = namespace(x=[1,2]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}';

describe('a template that would take all memory', () => {
  beforeAll(() => policyWith('huge', 'chat_template.jinja', () => HUGE));

  it('is a reject of score', async () => {
    const { code, text } = await endOf(['score', 'messages.jsonl', '--policy', 'huge', '-o', 'huge.jsonl']);
    expect(code, text).toBe(65);
    expect(text).toContain('chat_template 1');
    expect(readFileSync(join(cwd, 'huge.jsonl.rejects.jsonl'), 'utf8')).toContain(
      'more than 512 MB of memory',
    );
  });

  it('is said by policy info', async () => {
    const { code, text } = await endOf(['policy', 'info', 'huge']);
    expect(code, text).toBe(65);
    expect(text).toMatch(/^files /m);
    expect(text).toMatch(/^rredcot: huge: the policy's chat template .*takes more than 512 MB of memory/m);
  });
});

it('a process that is killed leaves no other one at work', async () => {
  await POLICIES.template.make();
  const { child } = start(['policy', 'info', 'template'], { cwd });
  const others = () => childrenOf(child.pid as number);
  while (others().length < 2) await sleep(50); // the tokenizer's, and the template's
  const found = others();
  await sleep(500); // the latter is at work, and hears nothing
  child.kill('SIGKILL');
  const limit = performance.now() + 20_000; // it would go on for 30 s
  while (found.some(isThere) && performance.now() < limit) await sleep(50);
  expect(found.filter(isThere)).toEqual([]);
});

function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

/** Neither gone nor a zombie that nobody has asked for. */
function isThere(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
