// `npm run fidelity [-- --quick] [-- --only embedded|puzzles]`: holds every value against Monte Carlo on two policies, writes docs/fidelity/*.csv, their plots, and docs/fidelity.md of them.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { judge } from './fidelity/judge.mjs';
import { firstMistake } from './fidelity/known-lines.mjs';
import { writePage } from './fidelity/page.mjs';
import { plotsOf } from './fidelity/plots.mjs';
import { prepare, samplingFlags } from './fidelity/prepare.mjs';
import { longRun, ROOT } from './fidelity/program.mjs';
import { progress } from './fidelity/progress.mjs';
import { csvOf, policyRows } from './fidelity/tables.mjs';

const isQuick = process.argv.includes('--quick');
const only = process.argv.includes('--only') ? process.argv[process.argv.indexOf('--only') + 1] : undefined;
/** What was sampled before stays here: a run that was interrupted goes on where it was. */
const WORK = join(ROOT, isQuick ? '.fidelity-quick' : '.fidelity');
/** Completions at every exit. */
const SAMPLES = isQuick ? 16 : 64;

/** The smaller one first. Of its groups one in `fitEvery` is fitted to, of the others `judged` of each family are judged. */
const POLICIES = [
  {
    name: 'puzzles',
    title: 'The second policy',
    checkpoint: join(ROOT, 'models/puzzles'),
    traces: join(ROOT, 'fixtures/puzzles.jsonl'),
    fitEvery: 2,
    judged: isQuick ? 2 : 6,
    fine: isQuick ? 4 : 20,
    mistake: ({ mistake }) => mistake,
    hasSolutions: false,
  },
  {
    name: 'embedded',
    title: 'The bundled policy',
    folder: join(ROOT, 'models/embedded'),
    prover: join(ROOT, 'models/prover'),
    prm: join(ROOT, 'models/prm'),
    hinter: join(ROOT, 'models/hint'),
    traces: join(ROOT, 'fixtures/chains.jsonl'),
    fitEvery: 8,
    judged: isQuick ? 2 : 19,
    fine: isQuick ? 4 : 20,
    mistake: ({ prompt, completion }) => firstMistake(prompt, completion),
    hasSolutions: true,
  },
];

const chosen = POLICIES.filter(({ name }) => only === undefined || name === only);
if (chosen.length === 0) {
  console.error(
    `--only ${only}: no such policy\n  try: --only ${POLICIES.map(({ name }) => name).join('|')}`,
  );
  process.exit(2);
}
const prepared = chosen.map((policy) => prepare(policy, join(WORK, policy.name), SAMPLES));
const measured = [];
for (const [n, each] of prepared.entries()) {
  const told = progress(prepared.slice(n));
  const taken = await longRun(each.at('mc.times.json'), told, 'score', ...samplingFlags(each, SAMPLES));
  measured.push(await judge(each, SAMPLES, taken));
}

const isWhole = !isQuick && only === undefined;
const out = isWhole ? join(ROOT, 'docs') : WORK;
const figures = join(out, 'fidelity');
mkdirSync(figures, { recursive: true });
for (const each of measured) {
  writeFileSync(join(figures, `${each.policy.name}.csv`), csvOf(policyRows(each)));
  for (const [name, svg] of plotsOf(each))
    writeFileSync(join(out, `fidelity-${each.policy.name}-${name}.svg`), svg);
}
if (isWhole) writePage();
console.error(`written to ${figures}`);
