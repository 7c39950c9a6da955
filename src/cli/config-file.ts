// `--config`: a file of flags in, their values set where neither the command line nor the environment says otherwise.
import type { Command, Option } from 'commander';
import { shardOfEnvironment } from '../commands/job/shard.js';
import { usageError } from '../errors.js';
import { describeValue } from '../io/arrow/describe.js';
import { readGivenJson } from '../io/files/json-file.js';
import { flagOfKey } from '../io/run/flag-names.js';
import { didYouMean } from '../similar.js';

/** How commander names where a value is from. */
export const FROM_FILE = 'config';

/** The flags that a file may not hold: they are about the file, or about this call alone. */
const NOT_IN_FILES: readonly string[] = ['config', 'dryRun', 'json'];

type Values = Readonly<Record<string, unknown>>;

/**
 * Sets a command's flags from `--config`: an object with the flags' names, or the `run.json` or `<output>.summary.json` of
 * a run, whose resolved configuration counts. Flag before environment before file before default.
 * @throws RredcotError (exit 2) for a file that is none, a name that no flag has, and a value of another kind
 */
export async function applyConfigFile(command: Command): Promise<void> {
  const { config: path } = command.opts<{ config?: string }>();
  if (path === undefined) return;
  const found = await readObject(path);
  const values = isRun(found) ? flagsOfRun(path, found.config, command) : found;
  const options = command.options.filter((option) => !NOT_IN_FILES.includes(option.attributeName()));
  const keys = new Map<string, string>();
  for (const [key, value] of Object.entries(values)) {
    const option = optionOf(path, key, options);
    const name = option.attributeName();
    const other = keys.get(name);
    if (other !== undefined)
      throw usageError(`--config ${path}: "${other}" and "${key}" are one flag`, 'leave out one of them');
    keys.set(name, key);
    if (value === null || command.getOptionValueSource(name) === 'cli') continue;
    if (name === 'shard' && shardOfEnvironment(process.env) !== undefined) continue;
    command.setOptionValueWithSource(name, parsedValue(path, key, value, option), FROM_FILE);
  }
}

async function readObject(path: string): Promise<Values> {
  const found = await readGivenJson('--config', path, EXAMPLE);
  if (typeof found === 'object' && found !== null && !Array.isArray(found)) return found as Values;
  throw usageError(`--config ${path}: is ${describeValue(found)}, expected an object`, EXAMPLE);
}

const EXAMPLE = '{"policy": "./policy", "max-segments": 20}';

function isRun(found: Values): found is { readonly config: Values } {
  return typeof found.rredcot === 'string' && typeof found.config === 'object' && found.config !== null;
}

/** What a configuration tells of the method though no flag sets it. */
const CONSTANTS = [
  ...['mateWeights', 'matePrior', 'matePriorShare', 'mateBegunAlike'],
  ...['returnEquivalent', 'hintTemplate', 'ofPolicy'],
];

/** What it says of files whose paths it does not have. */
const UNSAID: Readonly<Record<string, readonly [what: string, kind: string]>> = {
  join: ['which file was joined', 'file'],
  calibration: ['which file the calibration was read from', 'file'],
  prover: ['in which folder the prover was', 'folder'],
  hintPolicy: ['in which folder the policy was that read the hint', 'folder'],
  prm: ['in which folder the reward model was', 'folder'],
};

/** A run's resolved configuration as flags. */
function flagsOfRun(path: string, config: Values, command: Command): Values {
  if (config.command !== command.name())
    throw usageError(
      `--config ${path}: is of ${config.command}, this is ${command.name()}`,
      `rredcot ${config.command} --config ${path}`,
    );
  const flags: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(config)) {
    // a length belongs to its segmenter, and a joined file's path is not kept
    if (key === 'command' || CONSTANTS.includes(key)) continue;
    if (key === 'fixedLength' && config.segmenter !== 'fixed') continue;
    const unsaid = UNSAID[key];
    if (unsaid !== undefined) {
      if (command.opts<Record<string, unknown>>()[key] !== undefined) continue;
      throw usageError(`--config ${path}: does not say ${unsaid[0]}`, `add ${flagOfKey(key)} <${unsaid[1]}>`);
    }
    if (key === 'weights') {
      if (value === 'characters') flags.policy = false;
    } else if (key === 'chatTemplateArgs')
      flags['chat-template-arg'] = Object.entries(value as Values).map(
        ([name, of]) => `${name}=${typeof of === 'string' ? of : JSON.stringify(of)}`,
      );
    else flags[flagOfKey(key).slice(2)] = value;
  }
  return flags;
}

function optionOf(path: string, key: string, options: readonly Option[]): Option {
  const names = options.map((option) => (option.long ?? '').replace(/^--/, ''));
  // --text and --no-text have one attribute, which is the former's name
  const found = options.find(
    (option, n) => names[n] === key || (!option.negate && option.attributeName() === key),
  );
  if (found !== undefined) return found;
  const meant = didYouMean(key, names);
  throw usageError(
    `--config ${path}: no flag is called "${key}"`,
    meant === undefined ? `names as in ${EXAMPLE}` : `did you mean "${meant}"?`,
  );
}

function parsedValue(path: string, key: string, value: unknown, option: Option): unknown {
  const wrong = (expected: string, example = EXAMPLE) =>
    usageError(`--config ${path}: ${key} is ${describeValue(value)}, expected ${expected}`, example);
  if (option.negate) {
    if (value !== true) throw wrong('true', `{"${key}": true}, or leave it out`);
    return false;
  }
  const isFlag = !option.required && !option.optional;
  // --policy <folder> and --no-policy, --text and --no-text are one value
  if (typeof value === 'boolean' && (isFlag || (value === false && option.attributeName() === 'policy')))
    return value;
  if (isFlag) throw wrong('true or false', `{"${key}": true}`);
  const items: unknown[] = Array.isArray(value) ? value : [value];
  if (items.some((item) => typeof item !== 'string' && typeof item !== 'number'))
    throw wrong('text, a number, or a list of them');
  const texts = items.map(String);
  return option.attributeName() === 'chatTemplateArg' ? texts : texts.join(',');
}
