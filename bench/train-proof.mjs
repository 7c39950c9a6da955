// `npm run train-proof [-- --arms <a,b> --density sparse|dense --seeds 8 --steps 50]`: trains the weak policy with each arm's credit,
// seed by seed, and tests the arms against plain GRPO. Runs that are done are kept: an interrupted sweep goes on where it was.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from './fidelity/program.mjs';
import { readLog } from './training/logs.mjs';
import { comparisonTable, summaryTable } from './training/tables.mjs';

const { values: flags } = parseArgs({
  options: {
    arms: { type: 'string', default: 'uniform,share calibrated' },
    density: { type: 'string', default: 'sparse' },
    seeds: { type: 'string', default: '8' },
    'first-seed': { type: 'string', default: '1' },
    steps: { type: 'string', default: '50' },
    rate: { type: 'string', default: '0.0003' },
    problems: { type: 'string', default: '8' },
    copies: { type: 'string', default: '8' },
    look: { type: 'string', default: '5' },
    'held-out': { type: 'string', default: '1000' },
    check: { type: 'boolean', default: false },
    jobs: { type: 'string', default: `${availableParallelism()}` },
    work: { type: 'string', default: join(ROOT, '.train-proof') },
  },
});

function refuse(what, cure) {
  console.error(`${what}\n  try: ${cure}`);
  process.exit(2);
}
const ARMS = [
  ...['uniform', 'share pr', 'surprise', 'entropy', 'share surprise'],
  ...[
    'share calibrated',
    'rudder calibrated',
    'segment calibrated',
    'share siblings',
    'shuffled',
    'exact',
    'oracle',
  ],
];
const arms = flags.arms.split(',').map((name) => name.trim());
const unknown = arms.find((name) => !ARMS.includes(name));
if (unknown !== undefined) refuse(`no such arm: ${unknown}`, `--arms with some of ${ARMS.join(',')}`);
if (!['sparse', 'dense'].includes(flags.density))
  refuse(`--density ${flags.density}`, '--density sparse|dense');
for (const name of ['seeds', 'steps', 'problems', 'copies', 'jobs'])
  if (!/^[1-9]\d*$/.test(flags[name]))
    refuse(`--${name} ${flags[name]}: expected a number from 1 on`, `--${name} 8`);

const python = ['python3', '/usr/bin/python3'].find((name) => {
  try {
    execFileSync(name, ['-c', 'import torch, numpy'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
});
if (python === undefined) {
  console.error('no Python with PyTorch here\n  try: apt-get install python3-torch libopenblas0-pthread');
  process.exit(69);
}

const seeds = Array.from({ length: Number(flags.seeds) }, (_, n) => Number(flags['first-seed']) + n);
const model = join(ROOT, 'examples/grpo', `weak-${flags.density}.safetensors`);
const folder = join(
  flags.work,
  `${flags.density}-${flags.rate}-${flags.problems}x${flags.copies}x${flags.steps}`,
);
mkdirSync(folder, { recursive: true });

// seed by seed, so that a sweep that is stopped has pairs
const jobs = seeds.flatMap((seed) =>
  arms.map((arm) => {
    const name = `${arm.replaceAll(' ', '-')}-${seed}`;
    return { arm, seed, log: join(folder, `${name}.jsonl`), work: join(folder, name) };
  }),
);
const waiting = jobs.filter(({ log }) => !existsSync(log));
const started = Date.now();
let done = 0;

function told() {
  const minutes = (Date.now() - started) / 60_000;
  const left = done > 0 ? `, about ${Math.ceil((minutes / done) * (waiting.length - done))} min left` : '';
  console.error(
    `${jobs.length - waiting.length + done} of ${jobs.length} runs, ${minutes.toFixed(1)} min${left}`,
  );
}

async function run({ arm, seed, log, work }) {
  const args = [
    '--arm',
    arm,
    '--seed',
    seed,
    '--model',
    model,
    '--folder',
    work,
    '--out',
    log,
    '--density',
    flags.density,
  ];
  for (const name of ['steps', 'rate', 'problems', 'copies', 'look', 'held-out'])
    args.push(`--${name}`, flags[name]);
  if (flags.check) args.push('--check');
  const child = spawn(python, [join(ROOT, 'examples/grpo/train_arm.py'), ...args.map(String)], {
    env: { ...process.env, OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) {
    console.error(`${arm}, seed ${seed}: train_arm.py ended with ${code}`);
    process.exitCode = 1;
  }
  rmSync(work, { recursive: true, force: true });
}

told();
const queue = [...waiting];
await Promise.all(
  Array.from({ length: Number(flags.jobs) }, async () => {
    for (let job = queue.shift(); job !== undefined; job = queue.shift()) {
      await run(job);
      done++;
      told();
    }
  }),
);
const missing = jobs.filter(({ log }) => !existsSync(log));
if (missing.length > 0) {
  // a table without the runs that died would favour what died less
  console.error(
    `${missing.length} of ${jobs.length} runs are missing: no table\n  try: the same command again`,
  );
  process.exit(1);
}
const logs = jobs.map(({ log }) => readLog(readFileSync(log, 'utf8')));
console.log(`${comparisonTable(logs)}\n\n${summaryTable(logs)}`);
