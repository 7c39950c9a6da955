// The command that scores once more as a file was scored: its resolved configuration as flags, for a person to copy.
import type { Command } from 'commander';
import { estimatorNamed } from '../estimate/registry.js';
import type { Config } from '../io/write/output.js';
import { shellWord } from '../printable.js';
import { flagOfKey } from '../run/identity.js';
import { isIdle } from '../segment/segmenters.js';
import { declared } from './declare.js';

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
