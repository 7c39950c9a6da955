// Keeps the rooms of src: files import in no circle, and a folder and a file stay small enough to be known.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.js';

/** The folders of src. */
const ROOMS = `
  src src/credit src/io/store src/io/files src/io/arrow src/io/map src/io/parquet src/io/read
  src/io/write src/run src/scored src/segment src/report src/report/page
  src/model/graph src/model/graph/families src/model/text src/model/onnx src/model/decode src/estimate src/estimate/answerer src/commands src/cli
`
  .trim()
  .split(/\s+/);
/** folders of tests that are no room's: they test the whole */
const TEST_FOLDERS = ['system', 'oracle', 'torture'];
/** of estimators there is one a method */
const FILES_A_ROOM = 32;
/** 250 is what a file should have; here the end */
const LINES_A_FILE = 400;

interface Import {
  readonly from: string;
  readonly to: string;
}

/** What `tsc --explainFiles` says about files of src, types included: under each file, the files that import it. */
function importsOf(explained: string): Import[] {
  let to = '';
  return explained.split('\n').flatMap((line) => {
    if (/^\S/.test(line)) to = line.trim();
    const from = /^\s+Imported via .* from file '(src\/[^']+)'/.exec(line)?.[1];
    return from !== undefined && to.startsWith('src/') ? [{ from, to }] : [];
  });
}

/** The files of a circle in the order of their imports, or null. */
function findCircle(imports: readonly Import[]): string[] | null {
  const targets = new Map<string, string[]>();
  for (const { from, to } of imports) targets.set(from, [...(targets.get(from) ?? []), to]);
  const finished = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (finished.has(file)) return null;
    for (const to of targets.get(file) ?? []) {
      const circle = visit(to, [...path, file]);
      if (circle !== null) return circle;
    }
    finished.add(file);
    return null;
  };
  for (const file of targets.keys()) {
    const circle = visit(file, []);
    if (circle !== null) return circle;
  }
  return null;
}

/** Paths of the TypeScript files below a folder, from the root. */
function filesBelow(folder: string, ending = '.ts'): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);
}

describe('the import graph', () => {
  let imports: Import[];
  beforeAll(() => {
    const arguments_ = ['--noEmit', '--explainFiles', '-p', 'tsconfig.json'];
    imports = importsOf(
      execFileSync(join(ROOT, 'node_modules/.bin/tsc'), arguments_, { cwd: ROOT }).toString(),
    );
  });

  it('is read whole: every file is imported, but the first one and those that start as threads', () => {
    const imported = new Set(imports.map(({ to }) => to));
    const roots = filesBelow('src').filter((file) => !imported.has(file) && !file.endsWith('-thread.ts'));
    expect(roots).toEqual(['src/cli/program.ts']);
  });

  it('has no circle', () => {
    expect(findCircle(imports)).toBe(null);
  });

  it('goes down', () => {
    const up = imports.filter(({ from, to }) => floorOf(to) < floorOf(from));
    const told = up.filter(({ to }) => !UP.some((path) => to.startsWith(path)));
    expect(told).toEqual([]);
    // the exceptions are needed
    for (const path of UP) expect(up.some(({ to }) => to.startsWith(path))).toBe(true);
  });

  it('shows a circle where there is one', () => {
    const circle = importsOf(
      [
        'src/io/read/a.ts',
        "   Imported via './a.js' from file 'src/io/read/c.ts'",
        "   Imported via '../io/read/a.js' from file 'src/cli/program.ts'",
        'src/io/read/b.ts',
        "   Imported via './b.js' from file 'src/io/read/a.ts'",
        'src/io/read/c.ts',
        "   Imported via './c.js' from file 'src/io/read/b.ts'",
        'node_modules/pino/pino.d.ts',
        "   Imported via 'pino' from file 'src/io/read/b.ts' with packageId 'pino/pino.d.ts@10.4.0'",
      ].join('\n'),
    );
    expect(circle.length).toBe(4);
    expect(findCircle(circle)?.map((file) => file.at(-4))).toEqual(['c', 'a', 'b', 'c']);
    expect(findCircle(circle.slice(1))).toBe(null);
  });
});

/** Imports go down: from a floor to lower ones, and on a floor to and fro. */
const FLOORS = [
  ['cli'],
  ['commands'],
  ['run', 'model/decode'],
  ['estimate', 'report'],
  ['model', 'credit', 'segment', 'scored'],
  ['io'],
  ['.'],
];
/** But for what the log is to those that write to it, what a question says of a cut, and generation, which goes to engines. */
const UP = ['src/report/log.ts', 'src/segment/segment.ts', 'src/model/decode'];

function floorOf(file: string): number {
  const path = file.replace('src/', '');
  const room = path.startsWith('model/decode/')
    ? 'model/decode'
    : path.includes('/')
      ? path.split('/')[0]
      : '.';
  return FLOORS.findIndex((rooms) => rooms.includes(room as string));
}

describe('folders and files', () => {
  const files = filesBelow('src');

  it('stand in the list of rooms, and the list has no others', () => {
    expect([...new Set(files.map(dirname))].sort()).toEqual([...ROOMS].sort());
  });

  it(`are at most ${FILES_A_ROOM} a room`, () => {
    const size = (room: string) => files.filter((file) => dirname(file) === room).length;
    expect(ROOMS.filter((room) => size(room) > FILES_A_ROOM)).toEqual([]);
  });

  it(`begin with their purpose and have at most ${LINES_A_FILE} lines`, () => {
    const texts = files.map((file) => ({ file, text: readFileSync(join(ROOT, file), 'utf8') }));
    expect(texts.filter(({ text }) => !text.startsWith('// ')).map(({ file }) => file)).toEqual([]);
    expect(
      texts.filter(({ text }) => text.split('\n').length > LINES_A_FILE + 1).map(({ file }) => file),
    ).toEqual([]);
  });

  it('give every type a name that no other one has', () => {
    const TYPE = /^(?:export )?(?:interface|type) (\w+)/gm;
    const named = files.flatMap((file) =>
      Array.from(readFileSync(join(ROOT, file), 'utf8').matchAll(TYPE), ([, name]) => name as string),
    );
    expect(named.length).toBeGreaterThan(300);
    expect(named.filter((name, n) => named.indexOf(name) !== n)).toEqual([]);
  });

  it('have their tests in a folder of the same name', () => {
    const rooms = [
      ...ROOMS.map((room) => room.replace('src', 'test')),
      ...TEST_FOLDERS.map((name) => `test/${name}`),
    ];
    const folders = new Set(filesBelow('test', '.test.ts').map(dirname));
    expect([...folders].filter((folder) => !rooms.includes(folder))).toEqual([]);
  });
});
