// Chat templates beside transformers itself: all that TRL ships, and shapes of others that people train, each over many conversations.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { trainerPython } from '../../support/trainer-venv.js';
import { CASES, caseText, linesOf, type Rendered, rendered } from './jinja-cases.js';

const python = trainerPython();

function run(args: readonly string[], input = ''): string {
  const { status, stdout, stderr } = spawnSync(python as string, args, {
    ...{ input, encoding: 'utf8', maxBuffer: 2 ** 30 },
  });
  expect(status, stderr).toBe(0);
  return stdout;
}

const inPython = (lines: readonly string[], ...args: string[]): Rendered[] =>
  linesOf(run([join(CASES, 'render.py'), ...args], lines.join('\n'))).map(
    (line) => JSON.parse(line) as Rendered,
  );

/** Special tokens, as the tokenizer of a checkpoint has them. */
const TOKENS = '"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"';
const REQUESTS = linesOf(caseText('requests.jsonl')).map((line) => {
  const withTools = line.replace('"tools":true', `"tools":${caseText('tools.json').replaceAll('\n', ' ')}`);
  const hasOwn = withTools.includes('"variables":{');
  return hasOwn
    ? withTools.replace('"variables":{', `"variables":{${TOKENS},`)
    : withTools.replace('{', `{"variables":{${TOKENS}},`);
});

describe.skipIf(python === undefined)('beside Python', () => {
  it('the snippets are what it renders today', () => {
    const recorded = linesOf(caseText('snippets.jsonl'));
    expect(inPython(recorded, join(CASES, 'request.json'))).toEqual(recorded.map((line) => JSON.parse(line)));
  });

  it("TRL's templates and the other families' give the same text for every conversation", () => {
    const find = 'import importlib.util as u; print(u.find_spec("trl").submodule_search_locations[0])';
    const folders = [join(run(['-c', find]).trim(), 'chat_templates'), join(CASES, 'families')];
    const templates = folders.flatMap((folder) =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.jinja'))
        .map((name) => ({ name, source: readFileSync(join(folder, name), 'utf8') })),
    );
    expect(templates.length).toBeGreaterThan(50);
    const cases = templates.flatMap(({ name, source }) =>
      REQUESTS.map((request) => ({ name, source, request })),
    );
    const lines = cases.map(({ source, request }) =>
      request.replace('{', `{"template":${JSON.stringify(source)},`),
    );
    const found = inPython(lines);
    let same = 0;
    for (const [n, { name, source, request }] of cases.entries()) {
      const [ours, theirs] = [rendered(source, request), found[n] as Rendered];
      // what Python does not take, we need not take
      if ('text' in theirs) expect(ours, `${name}: ${request}`).toEqual({ text: theirs.text });
      if ('text' in theirs) same++;
    }
    expect(same).toBeGreaterThan(cases.length * 0.8);
  }, 300_000);
});
