// The documentation's promises: a command that no test runs is marked, and has flags that exist; links lead somewhere; every
// flag, column, field and preset is named. docs.long.test.ts runs the commands.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { METHODS, requestedColumns } from '../../dist/credit/requested.js';
import { ESTIMATORS, valueColumns } from '../../dist/estimate/registry.js';
import { describeType } from '../../dist/io/arrow/schema.js';
import { FIELDS } from '../../dist/io/map/fields.js';
import { JOINS } from '../../dist/io/map/join.js';
import { PRESET_NAMES } from '../../dist/io/map/mapping.js';
import { OUR_COLUMNS, ourColumn } from '../../dist/scored/columns.js';
import { SEGMENTERS } from '../../dist/segment/segmenters.js';
import { blocksOf, COMMANDS, commandsOf, DOCS, PAGES, readPage } from '../support/documentation.js';
import { rredcotHere } from '../support/in-process.js';
import { ROOT } from '../support/program.js';

/** the flags that each command's help names */
const flags = new Map<string, Set<string>>();
/** all pages of the documentation in one text */
let text: string;

beforeAll(async () => {
  // estimators and segmenters that are named bring their flags into the help
  const named = [...ESTIMATORS, ...SEGMENTERS.map((name) => ({ name }))].map(({ name }) => name);
  for (const command of COMMANDS) {
    const { stdout } = await rredcotHere([...command.split(' '), ...named, '--help']);
    flags.set(
      command,
      new Set([...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag as string)),
    );
  }
  text = (await Promise.all(['README.md', ...DOCS].map(readPage))).join('\n');
});

describe('docs', () => {
  it('commands that a test machine cannot run are marked, with flags and files that exist', async () => {
    const marked = (await Promise.all(DOCS.map(readPage)))
      .flatMap(commandsOf)
      .filter(({ needs }) => needs !== undefined);
    expect(marked.length).toBeGreaterThan(5);
    for (const { line } of marked) {
      const known = [...line.matchAll(/rredcot ((?:policy )?\w+)([^|&']*)/g)].flatMap(([, command, rest]) =>
        [...(rest as string).matchAll(/ (--[\w-]+)/g)].map(
          ([, flag]) => [command as string, flag as string] as const,
        ),
      );
      for (const [command, flag] of known) expect(flags.get(command), `${line}: ${flag}`).toContain(flag);
      for (const [path] of line.matchAll(/examples\/[\w./-]+/g))
        expect(existsSync(join(ROOT, path)), `${line}: ${path}`).toBe(true);
    }
  });

  it('names every flag, column, field and preset', async () => {
    for (const flag of new Set([...flags.values()].flatMap((each) => [...each])))
      if (!['--help', '--version'].includes(flag)) expect(text.includes(flag), flag).toBe(true);
    const [output, inputs, presets] = await Promise.all(
      ['output', 'inputs', 'presets'].map((name) => readPage(`docs/${name}.md`)),
    );
    // the tables of columns are their declarations
    const asked = METHODS.flatMap((method) => requestedColumns({ method }));
    const ofEstimators = [
      ...valueColumns({ teacher: {} }),
      ...valueColumns({ estimator: 'posterior', contrast: 'wrong' }),
      ...ESTIMATORS.flatMap((each) => each.columns?.({}) ?? []),
    ];
    for (const { name, type, meaning } of [...OUR_COLUMNS.map(ourColumn), ...asked, ...ofEstimators]) {
      const isOfStructs = type.kind === 'list' && type.element.kind === 'struct';
      const kind = isOfStructs ? 'list<struct>' : describeType(type);
      expect(output).toContain(`\n| \`${name}\` | ${kind.replaceAll('<', '\\<')} | ${meaning} |\n`);
    }
    for (const name of FIELDS) expect(inputs).toContain(`\`${name}\``);
    for (const name of [...PRESET_NAMES, ...JOINS.map((join) => join.name)])
      expect(presets).toContain(`\`${name}\``);
  });

  it.each(PAGES)('links of %s lead to files and headings', async (page) => {
    const markdown = (await readPage(page)).replaceAll(/^```.*?^```$/gms, '');
    for (const [, target] of markdown.matchAll(/\]\(([^)\s]+)\)/g)) {
      const [path, anchor] = (target as string).split('#') as [string, string | undefined];
      if (/^\w+:/.test(path)) continue;
      const file = path === '' ? page : join(dirname(page), path);
      expect(existsSync(join(ROOT, file)), `${page}: ${target}`).toBe(true);
      if (anchor !== undefined)
        expect(anchorsOf(await readPage(file)), `${page}: ${target}`).toContain(anchor);
    }
  });

  it('has at most 21,500 words', async () => {
    const words = (await Promise.all(DOCS.map(readPage))).map((page) => page.trim().split(/\s+/).length);
    expect(words.reduce((sum, own) => sum + own)).toBeLessThanOrEqual(21_500);
  });

  it('is indexed', async () => {
    const index = await readPage('docs/README.md');
    for (const page of DOCS) if (page !== 'docs/README.md') expect(index).toContain(`](${page.slice(5)})`);
  });

  const python = spawnSync('python3', ['--version']).status === 0;
  it.skipIf(!python)(`Python blocks parse${python ? '' : ' (skipped: no python3)'}`, () => {
    const blocks = blocksOf(text, 'python');
    expect(blocks.length).toBe(4);
    for (const block of blocks) {
      const { status, stderr } = spawnSync(
        'python3',
        ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'],
        { input: block, encoding: 'utf8' },
      );
      expect(status, stderr).toBe(0);
    }
  });
});

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    (heading as string)
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
