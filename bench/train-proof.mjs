// `npm run train-proof [-- --arms <a,b> --density <d> --seeds 8 --steps 50]`: trains the weak policy with each arm's credit,
// seed by seed, and tests the arms against plain GRPO. Runs that are done are kept: an interrupted sweep goes on where it was.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from './fidelity/program.mjs';
import { pythonWithTorch } from './python.mjs';
import { csvOf, LEVELS, sweepFigures } from './training/figures.mjs';
import { readLog } from './training/logs.mjs';

const { values: flags } = parseArgs({
  options: {
    arms: { type: 'string', default: 'uniform,share calibrated' },
    density: { type: 'string', default: 'sparse' },
    seeds: { type: 'string', default: '8' },
    'first-seed': { type: 'string', default: '1' },
    steps: { type: 'string', default: '50' },
    rate: { type: 'string', default: 'tuned' },
    problems: { type: 'string', default: '8' },
    copies: { type: 'string', default: '8' },
    clip: { type: 'string' },
    falling: { type: 'boolean', default: false },
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
const arms = flags.arms.split(',').map((name) => name.trim());
if (!(flags.density in LEVELS))
  refuse(`--density ${flags.density}`, `--density ${Object.keys(LEVELS).join('|')}`);
const NUMBERS = ['steps', 'problems', 'copies', 'look', 'held-out'];
for (const name of ['seeds', 'first-seed', 'jobs', ...NUMBERS])
  if (!/^[1-9]\d*$/.test(flags[name]))
    refuse(`--${name} ${flags[name]}: expected a number from 1 on`, `--${name} 8`);

/** AdamW's learning rate of each arm: the tuned one, or one for all. */
const TUNED = JSON.parse(readFileSync(join(ROOT, 'examples/grpo/rates.json'), 'utf8'))[flags.density] ?? {};
const rateOf = (arm) => (flags.rate === 'tuned' ? (TUNED[arm] ?? TUNED.uniform) : Number(flags.rate));
if (flags.rate === 'tuned' && TUNED.uniform === undefined)
  refuse(`no learning rate was tuned for the ${flags.density} task`, '--rate 0.0006');
if (!(rateOf('uniform') > 0)) refuse(`--rate ${flags.rate}`, '--rate tuned, or a number such as 0.0006');
const clip = flags.clip === undefined ? null : Number(flags.clip);
if (clip !== null && !(clip > 0)) refuse(`--clip ${flags.clip}`, '--clip 0.2, or none');

const TRAINER = join(ROOT, 'examples/grpo/train_arm.py');
const python = pythonWithTorch();
if (python === undefined) process.exit(69);
const known = execFileSync(python, [TRAINER, '--list'], { encoding: 'utf8' }).trim().split('\n');
const unknown = arms.find((name) => !known.includes(name));
if (unknown !== undefined) refuse(`no such arm: ${unknown}`, `--arms with some of ${known.join(',')}`);
const seeds = Array.from({ length: Number(flags.seeds) }, (_, n) => Number(flags['first-seed']) + n);
const model = join(ROOT, 'examples/grpo', `weak-${flags.density}.safetensors`);
const folder = join(flags.work, `${flags.density}-${flags.rate}`);
const weights = createHash('sha256').update(readFileSync(model)).digest('hex');
mkdirSync(folder, { recursive: true });

// seed by seed, so that a sweep that is stopped has pairs
const jobs = seeds.flatMap((seed) =>
  arms.map((arm) => {
    const name = `${arm.replaceAll(' ', '-')}-${seed}`;
    return { arm, seed, log: join(folder, `${name}.jsonl`), work: join(folder, name) };
  }),
);
/** A run that is done, if it is one of this sweep: a folder of two sweeps would end in one set of figures. */
function isDone({ arm, seed, log }) {
  if (!existsSync(log)) return false;
  const { arguments: made, looks } = readLog(readFileSync(log, 'utf8'));
  const { density, falling } = flags;
  const asked = { arm, seed, density, falling, rate: rateOf(arm), clip, weights, scored_by: null };
  for (const name of NUMBERS) asked[name.replace('-', '_')] = Number(flags[name]);
  for (const [name, value] of Object.entries(asked))
    if ((made[name] ?? (name === 'falling' ? false : null)) !== value)
      refuse(`${log}: ${name} was ${made[name]}, and is ${value}`, '--work with another folder');
  if (looks.at(-1)?.step !== Number(flags.steps))
    refuse(`${log}: has no look at step ${flags.steps}, its last`, 'remove it, to run it again');
  return true;
}
const waiting = jobs.filter((job) => !isDone(job));
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
  args.push('--rate', rateOf(arm));
  for (const name of NUMBERS) args.push(`--${name}`, flags[name]);
  if (clip !== null) args.push('--clip', clip);
  if (flags.falling) args.push('--falling');
  if (flags.check) args.push('--check');
  const child = spawn(python, [TRAINER, ...args.map(String)], {
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

const untuned = flags.rate === 'tuned' ? arms.filter((arm) => !(arm in TUNED)) : [];
if (untuned.length > 0)
  console.error(`no learning rate was tuned for ${untuned.join(', ')}: plain GRPO's, ${TUNED.uniform}`);
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
  // figures without the runs that died would favour what died less
  console.error(
    `${missing.length} of ${jobs.length} runs are missing: no figures\n  try: the same command again`,
  );
  process.exit(1);
}
const logs = jobs.map(({ log }) => readLog(readFileSync(log, 'utf8')));
process.stdout.write(csvOf(sweepFigures(logs)));
