// The flags of the credit on the command line: those of `score`, which has defaults, and of `redistribute`, which has a file's.
import type { Command } from 'commander';
import { type CreditFlags, creditFlags } from '../estimate/credit-flags.js';
import { ESTIMATORS, flagsOfAll, isModule, loadEstimator, setOwn } from '../estimate/registry.js';

/** A file says how it was scored, but for the calibration: that is given again. */
const NOT_STORED = /^--calibration /;

/**
 * The name of an estimator: a module of the user's own gives it itself, and `--method hierarchical` takes a prover's where none is named.
 * @throws RredcotError (exit 2) for a module that is none
 */
export async function namedEstimator(
  { estimator = '', method }: CreditFlags,
  isDefault: boolean,
): Promise<string> {
  const ofProver = ESTIMATORS.find(({ isOfProver }) => isOfProver)?.name;
  if (method === 'hierarchical' && isDefault) return ofProver ?? estimator;
  return isModule(estimator) ? loadEstimator(estimator) : estimator;
}

/** Loads the module that a command line names, so that its flags are there; what is wrong with it is said when the command runs. */
export async function withModule(argv: readonly string[]): Promise<void> {
  setOwn(undefined);
  const at = argv.findIndex((word) => /^--estimator(=|$)/.test(word));
  const given = argv[at]?.includes('=') ? argv[at]?.slice('--estimator='.length) : argv[at + 1];
  if (at >= 0 && given !== undefined && isModule(given)) await loadEstimator(given).catch(() => {});
}

/** Adds what estimators ask `score` for beside that; help shows what those ask for that the command line names. */
export function ofEstimators(command: Command, argv: readonly string[]): void {
  const named = argv.map((word) => word.replace(/^--estimator=/, ''));
  for (const [flag, text] of flagsOfAll('flags')) {
    const having = ESTIMATORS.filter(({ flags }) => flags?.some(([own]) => own === flag));
    const names = having.map(({ name }) => name).join(', ');
    const isShown = having.some(({ name, config }) => named.includes(name) || config?.estimatorModule);
    command
      .optionsGroup(`Of --estimator ${names}:`)
      .addOption(command.createOption(flag, text).hideHelp(!isShown));
  }
}

/** Adds the flags. @param hasDefaults whether a flag that is not given stands at METHOD's default; else it is absent */
export function credited(command: Command, hasDefaults: boolean): void {
  command.optionsGroup('Values and credit:');
  for (const [flag, text, fallback] of creditFlags()) {
    const own = NOT_STORED.test(flag) ? '' : " (default: the file's own)";
    if (hasDefaults) command.option(flag, text, fallback);
    else command.option(flag, text.replace(/ \(default: [^)]*\)$/, '') + own);
  }
}
