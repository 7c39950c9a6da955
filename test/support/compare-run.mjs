// Runs one build of the program over a case's commands; what they leave in the case's folder is its output.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** A hash of the files of a folder that end so. */
export function hashOfTree(folder, ending) {
  const hash = createHash('sha256');
  const paths = readdirSync(folder, { recursive: true }).filter((path) => path.endsWith(ending));
  for (const path of paths.sort()) hash.update(path).update(readFileSync(join(folder, path)));
  return hash.digest('hex').slice(0, 12);
}

/** The inputs of all cases in one folder, which every case sees as `inputs/`: no path of a checkout gets into an output. */
export function makeInputs(folder, oldBuild, newBuild, data) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const copyAll = (from, wanted) => {
    for (const name of existsSync(from) ? readdirSync(from) : []) {
      if (wanted.test(name)) copyFileSync(join(from, name), join(folder, name));
    }
  };
  copyAll(join(newBuild, 'fixtures'), /^chains\.jsonl$/);
  copyAll(join(newBuild, 'test/files'), /\.(arrows?|parquet)$/);
  copyAll(join(newBuild, 'test/io/map/dumps'), /\.jsonl$/);
  const dumps = data === undefined ? [] : readdirSync(data).filter((name) => name.endsWith('.jsonl'));
  for (const name of dumps) copyFileSync(join(data, name), join(folder, name));

  const chains = readFileSync(join(folder, 'chains.jsonl'), 'utf8').trimEnd().split('\n');
  const write = (name, content) => writeFileSync(join(folder, name), content);
  write('packed.jsonl.gz', gzipSync(chains.join('\n')));
  write('list.json', `[${chains.slice(0, 40).join(',\n')}]`);
  // runs take whole files: --limit counts the rows of one process
  for (const [name, rows] of [
    ['few.jsonl', 110],
    ['part.jsonl', 220],
  ]) {
    write(
      name,
      chains
        .slice(0, rows)
        .map((line) => `${line}\n`)
        .join(''),
    );
  }
  // text alone: no ids, no groups
  const text = chains
    .map(JSON.parse)
    .map(({ prompt, completion, answer }) => ({ prompt, completion, answer }));
  write('text.jsonl', text.map((row) => `${JSON.stringify(row)}\n`).join(''));
  // a line in seven is cut short, empties its completion or changes a column's type
  const hurt = [
    (line) => line.slice(0, 90),
    (line) => JSON.stringify({ ...JSON.parse(line), completion: '', completion_ids: [] }),
    (line) => JSON.stringify({ ...JSON.parse(line), family: 7, more: { deep: [1, null, 'x'] } }),
  ];
  const mixed = chains.map((line, i) => (i % 7 === 3 ? hurt[((i / 7) % 3) | 0](line) : line));
  write('hurt.jsonl', mixed.map((line) => `${line}\n`).join(''));
  // columnar rows of several row groups and batches, as the old build writes them
  for (const name of ['chains.parquet', 'chains.arrow']) {
    const args = ['segment', 'chains.jsonl', '--no-policy', '--quiet', '-o', name];
    const ran = spawnSync(process.execPath, [join(oldBuild, 'bin/rredcot.js'), ...args], { cwd: folder });
    if (ran.status !== 0) throw new Error(`${name} was not made: ${ran.stderr}`);
  }
  return { folder, files: readdirSync(folder).map((name) => ({ name, dump: dumps.includes(name) })) };
}

/** One command of a case; stdout goes to the file that the case names. */
function runCommand(build, cwd, { args, stdin, stdout }) {
  const child = spawn(process.execPath, [join(build, 'bin/rredcot.js'), ...args, '--quiet'], { cwd });
  child.stdin.on('error', () => {}); // a command that ends without reading its input
  child.stdin.end(stdin === undefined ? '' : readFileSync(join(cwd, stdin)));
  if (stdout === undefined) child.stdout.resume();
  else child.stdout.pipe(createWriteStream(join(cwd, stdout)));
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  return new Promise((done, fail) => {
    child.on('error', fail);
    child.on('close', (code) => done({ code, errors }));
  });
}

/** Runs a case, or finds what an earlier run of the same commands over the same inputs left (`cached`). */
export async function runCase(build, outputs, inputs, { name, commands }, cached) {
  const key = createHash('sha256').update(JSON.stringify(commands));
  for (const path of new Set(commands.flatMap(({ args, stdin }) => [...args, stdin ?? '']))) {
    if (path.startsWith('inputs/')) key.update(readFileSync(join(inputs.folder, basename(path))));
  }
  const folder = join(outputs, `${name.replaceAll(/[^\w.-]+/g, '_')}-${key.digest('hex').slice(0, 8)}`);
  const record = `${folder}.json`;
  if (cached && existsSync(record)) return { folder, ...JSON.parse(readFileSync(record, 'utf8')) };

  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  symlinkSync(inputs.folder, join(folder, 'inputs'));
  const started = performance.now();
  const ran = [];
  for (const command of commands) ran.push(await runCommand(build, folder, command));
  const result = {
    codes: ran.map(({ code }) => code),
    seconds: (performance.now() - started) / 1000,
    lastError: ran.map(({ errors }) => errors.trim()).findLast((text) => text !== '') ?? '',
  };
  rmSync(join(folder, 'inputs'));
  rmSync(join(folder, 'run'), { recursive: true, force: true });
  if (cached) writeFileSync(record, JSON.stringify(result));
  return { folder, ...result };
}
