// Keeps the rooms of src: imports go down, and a folder and a file stay small enough to be known. The linter finds cycles.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.js';

/** The folders of src. */
const ROOMS = `
  src src/credit src/io/store src/io/files src/io/arrow src/io/map src/io/parquet src/io/read
  src/io/write src/run src/scored src/segment src/report src/report/page
  src/model/graph src/model/graph/families src/model/text src/model/onnx src/model/engine src/estimate/fit src/estimate src/estimate/answerer src/commands src/cli
`
  .trim()
  .split(/\s+/);
/** folders of tests that are no room's: they test the whole */
const TEST_FOLDERS = ['system', 'oracle', 'torture'];
/** of estimators there is one a method */
const FILES_A_ROOM = 32;
/** 250 is what a file should have; here the end */
const LINES_A_FILE = 400;

/** Paths of the TypeScript files below a folder, from the root. */
function filesBelow(folder: string, ending = '.ts'): string[] {
  const names = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' });
  return names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);
}

const files = filesBelow('src');

describe('imports', () => {
  const imports = files.flatMap((from) => {
    const paths = readFileSync(join(ROOT, from), 'utf8').matchAll(/'(\.[^']+)\.js'/g);
    const all = Array.from(paths, ([, path]) => ({ from, to: join(dirname(from), `${path}.ts`) }));
    return all.filter(({ to }) => files.includes(to));
  });

  it('lead to every file, but the first one and those that start as threads', () => {
    const imported = new Set(imports.map(({ to }) => to));
    const roots = files.filter((file) => !imported.has(file) && !file.endsWith('-thread.ts'));
    expect(roots).toEqual(['src/cli/program.ts']);
  });

  it('go down', () => {
    const up = imports.filter(({ from, to }) => floorOf(to) < floorOf(from));
    const told = up.filter(({ to }) => !UP.some((path) => to.startsWith(path)));
    expect(told).toEqual([]);
    // the exceptions are needed
    for (const path of UP) expect(up.some(({ to }) => to.startsWith(path))).toBe(true);
  });
});

/** Imports go down: from a floor to lower ones, and on a floor to and fro. */
const FLOORS = [
  ['cli'],
  ['commands'],
  ['run'],
  ['estimate', 'report'],
  ['model', 'credit', 'segment', 'scored'],
  ['io'],
  ['.'],
];
/** But for what the log is to those that write to it, and what a question says of a cut. */
const UP = ['src/report/log.ts', 'src/segment/segment.ts'];

function floorOf(file: string): number {
  const path = file.replace('src/', '');
  const room = path.includes('/') ? path.split('/')[0] : '.';
  return FLOORS.findIndex((rooms) => rooms.includes(room as string));
}

describe('folders and files', () => {
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
