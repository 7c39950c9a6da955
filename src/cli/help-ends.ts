// How the help of every command reads: the default of every flag, and at its end exit codes and where more is said.
import { type Argument, type Command, Help, type Option } from 'commander';
import { packageFile } from '../package-files.js';

/** Pages of the documentation by command. */
const PAGES: Readonly<Record<string, string>> = {
  score: 'method.md',
  segment: 'method.md',
  sample: 'sampling.md',
  inspect: 'looking.md',
  summary: 'looking.md',
  report: 'looking.md',
  calibrate: 'calibration.md',
  compare: 'compare.md',
  redistribute: 'method.md',
  filter: 'output.md',
  status: 'long-runs.md',
  verify: 'long-runs.md',
  merge: 'long-runs.md',
  policy: 'policies.md',
  doctor: 'policies.md',
};

/** What a command may end with beside 0, a bug (1) and wrong flags (2). */
const CODES: Readonly<Record<string, string>> = {
  rredcot: '65 data, 69 device, 75 interrupted or not finished',
  score: '65 data, 69 device, 75 interrupted: the same command goes on',
  segment: '65 data, 69 device, 75 interrupted: the same command goes on',
  sample: '65 data, 69 device, 75 interrupted: the same command goes on',
  inspect: '65 a row that is no trace, or no trace that fits',
  summary: '65 a file without a trace, or changed after it was written',
  report: '65 a file without a trace, or changed after it was written',
  calibrate: '65 no trace to fit to, or a file changed after it was written',
  compare: '65 no trace to compare',
  redistribute: '65 data, 75 interrupted or disk full',
  filter: '65 no trace fits, or a file changed after it was written, 75 interrupted or disk full',
  status: '65 damaged data',
  verify: '65 findings, 75 a run that is not finished',
  merge: '65 damaged data, 75 a run that is not finished, or disk full',
  policy: '65 a policy that fails its check, 69 device',
  doctor: '69 nothing to run a policy on',
};

const GROUP_EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  rredcot: [
    'rredcot inspect traces.jsonl',
    'rredcot score traces.jsonl --map prompt=question,reference=answer -o scored.parquet',
    'rredcot inspect scored.parquet --worst',
  ],
  policy: ['rredcot policy build ./checkpoint -o ./policy', 'rredcot policy info ./policy'],
};

/** Flags that people use, of the commands that have many: what `-h` shows, in its order. */
const COMMON: Readonly<Record<string, readonly string[]>> = {
  score: [
    ...['--policy', '--estimator', '--sigma', '--baseline', '--within', '--calibration', '--reward-range'],
    ...['--output', '--columns', '--map', '--preset', '--join', '--segmenter', '--max-segments'],
    ...['--device', '--workers', '--shard', '--limit', '--max-rejects', '--dry-run'],
  ],
  segment: [
    ...['--segmenter', '--max-segments', '--policy', '--no-policy', '--output', '--map', '--preset'],
    ...['--device', '--workers', '--shard', '--limit', '--max-rejects'],
  ],
  sample: [
    ...['--policy', '--samples', '--max-tokens', '--temperature', '--top-p', '--seed', '--stop', '--judge'],
    ...['--output', '--map', '--preset', '--device', '--workers', '--shard', '--limit'],
  ],
  redistribute: [
    ...['--estimator', '--sigma', '--baseline', '--within', '--even', '--steps', '--calibration'],
    ...['--reward-range', '--method', '--output', '--columns'],
  ],
};

/** Up to its first aside. */
export function firstSentence(text: string): string {
  return (
    text
      .split(/[;(]| \|/)[0]
      ?.trim()
      .replace(/[,:]$/, '') ?? ''
  );
}

/**
 * Defaults without quotes; of a flag that takes a value and says none that there is none. For the program before its commands are
 * added.
 * @param isShort `-h` was asked for: the common flags of a command, each in a line or two
 */
export function readableHelp(program: Command, isShort: boolean): Command {
  return program.configureHelp({
    argumentDescription({ description, defaultValue }: Argument): string {
      return defaultValue === undefined ? description : `${description} (default: ${shown(defaultValue)})`;
    },
    optionDescription({ description, defaultValue, required, optional, mandatory }: Option): string {
      const text = isShort ? firstSentence(description) : description;
      if (defaultValue === undefined || defaultValue === false || Array.isArray(defaultValue)) {
        const isSaid = isShort || description.includes('default: ') || !(required || optional);
        return isSaid ? text : `${text} (${mandatory ? 'required' : 'default: none'})`;
      }
      return `${text} (default: ${shown(defaultValue)})`;
    },
    groupItems(all, visible, groupOf) {
      // in the order of what is shown
      return new Help().groupItems(isShort ? visible : all, visible, groupOf);
    },
    visibleOptions(command: Command): Option[] {
      const all = Help.prototype.visibleOptions.call(this, command);
      const common = isShort ? COMMON[command.name()] : undefined;
      return common?.flatMap((name) => all.filter(({ long }) => long === name)) ?? all;
    },
  });
}

function shown(value: unknown): string {
  const text = String(value);
  // the policy that ships with the program lies wherever that was put
  return text === packageFile('models/embedded') ? 'the bundled one' : value === true ? 'on' : text;
}

/** Ends the help of the program and of every command; when all of them are there. */
export function endHelp(program: Command, isShort: boolean, first?: string): void {
  const name = first ?? program.name();
  for (const command of program.commands)
    endHelp(command, isShort, name === 'rredcot' ? command.name() : name);
  const codes = CODES[name] === undefined ? '' : `, ${CODES[name]}`;
  const page = `docs/${PAGES[name] ?? 'README.md'}`;
  const examples = program.commands.length === 0 ? [] : (GROUP_EXAMPLES[name] ?? []);
  const head =
    examples.length === 0 ? '' : `\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}\n`;
  const short = isShort && COMMON[name] ? `\nrredcot ${program.name()} --help shows every flag.\n` : '';
  program.addHelpText(
    'after',
    `${short}${head}Exit codes: 0 done, 1 a bug, 2 wrong flags${codes} (docs/output.md#exit-codes)\nMore: ${packageFile(page)}`,
  );
}
