// The flags of the credit on the command line: those of `score`, which has defaults, and of `redistribute`, which has a file's; and the
// command that scores once more as a file was scored, its resolved configuration as flags, for a person to copy.

import type { Command } from 'commander';
import { type CreditFlags, creditFlags } from '../estimators/credit-flags.js';
import {
  ESTIMATORS,
  estimatorNamed,
  flagsOfAll,
  isModule,
  loadEstimator,
  setOwn,
} from '../estimators/registry.js';
import { flagOfKey } from '../io/run/description.js';
import type { Config } from '../io/write/output.js';
import { shellWord } from '../printable.js';
import { isIdle } from '../segment/segmenters.js';
import { declared } from './declare.js';

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

/** Adds what estimators ask `score` for beside that. */
export function ofEstimators(command: Command): void {
  for (const [flag, text] of flagsOfAll('flags')) {
    const having = ESTIMATORS.filter(({ flags }) => flags?.some(([own]) => own === flag));
    const names = having.map(({ name }) => name).join(', ');
    command.optionsGroup(`Of --estimator ${names}:`).option(flag, text);
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

/** What a configuration tells of the method though no flag sets it, beside what its estimator does. */
const CONSTANTS = ['command', 'returnEquivalent', 'ofPolicy', 'estimatorFacts'];

/**
 * `rredcot score <inputs> …` with the flags that are not at their defaults; paths, which no output holds, are left for the user.
 * @param hasOwnPolicy the policy was another than the bundled one
 */
export async function commandOf(config: Config, hasOwnPolicy: boolean, program: Command): Promise<string> {
  const command = program.commands.find((each) => each.name() === config.command);
  if (command === undefined) return '';
  await declared(command);
  const ofEstimator = estimatorNamed(config.estimator)?.configKeys ?? [];
  const words = ['rredcot', String(config.command), '<inputs>'];
  if (hasOwnPolicy) words.push('--policy', '<folder>');
  for (const [key, value] of Object.entries(flagsOf(config))) {
    const flag = value === false ? `--no-${key}` : flagOfKey(key);
    const option = command.options.find(({ long }) => long === flag);
    // of a file it has what is in it, not its path
    const isFile = typeof value === 'object' && !Array.isArray(value) && key !== 'chatTemplateArgs';
    if (isFile) words.push(option?.flags ?? flag);
    else if (option === undefined && ofEstimator.includes(key)) continue;
    else if (typeof value === 'boolean') words.push(...(option === undefined ? [] : [flag]));
    // a value that begins with a dash would be taken for a flag
    else
      for (const text of textsOf(key, value))
        if (text !== String(option?.defaultValue))
          words.push(text.startsWith('-') ? `${flag}=${text}` : `${flag} ${shellWord(text)}`);
  }
  return words.join(' ');
}

/** Keys that a flag sets, with their values. */
function flagsOf({ estimatorModule, fixedLength, weights, askTemplate, ...config }: Config): Config {
  const { segmenter } = config;
  const kept = Object.entries(config).filter(
    ([key, value]) => !CONSTANTS.includes(key) && value !== null && value !== undefined,
  );
  return {
    ...Object.fromEntries(kept),
    // every configuration has it
    ...(!isIdle(segmenter, 'fixedLength') && { fixedLength }),
    ...(weights === 'characters' && { weights: true }),
    // a calibration brings its question
    ...(config.calibration === undefined && askTemplate !== undefined && { askTemplate }),
    ...(estimatorModule !== undefined && { estimator: '<module>' }),
  };
}

/** A value as texts, one for each time that its flag is given. */
function textsOf(key: string, value: unknown): string[] {
  if (key !== 'chatTemplateArgs') return [Array.isArray(value) ? value.join(',') : String(value)];
  return Object.entries(value as Config).map(
    ([name, of]) => `${name}=${typeof of === 'string' ? of : JSON.stringify(of)}`,
  );
}
