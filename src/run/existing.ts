// Looks at what stands where a file is to go: what another run has made, or somebody else, is not replaced in silence.
import { type RredcotError, usageError } from '../errors.js';
import { FACTS_KEY, parseFacts } from '../io/files/facts.js';
import { statIfThere } from '../io/files/files.js';
import { inputMetadata, resolveInputs } from '../io/read/inputs.js';
import type { InputPrint } from '../io/read/unchanged.js';
import { type Counts, fileFault } from '../io/write/facts.js';
import { CONFIG_KEY, type Config, namedFormat, POLICY_KEY, VERSION_KEY } from '../io/write/output.js';
import { readSummary } from '../io/write/summary-file.js';
import { firstDifference, type Run } from './identity.js';

/** How an output was made, as far as it says so. */
interface OutputOrigin {
  /** version of the program */
  readonly rredcot?: string | undefined;
  readonly config?: Config | undefined;
  /** sha256 of the policy's files; null without one */
  readonly policy?: Readonly<Record<string, string>> | null | undefined;
}

/** A file at the output's place. */
interface Existing extends OutputOrigin {
  /** identity of its run; undefined where nothing of ours says one */
  readonly run: string | undefined;
  readonly counts?: Pick<Counts, 'traces' | 'rejects'> | undefined;
  readonly mtimeMs: number;
}

/** What is at a path; undefined where nothing is. */
export async function existingOutput(path: string): Promise<Existing | undefined> {
  const found = await statIfThere(path);
  if (found === null) return undefined;
  // a file that nobody can read is none of ours
  const said = await (namedFormat(path) === 'jsonl' ? ofLines(path) : ofColumns(path)).catch(() => undefined);
  return { run: undefined, ...said, mtimeMs: found.mtimeMs };
}

async function ofColumns(path: string): Promise<Omit<Existing, 'mtimeMs'>> {
  const [input] = await resolveInputs([path]);
  const metadata = input === undefined ? new Map<string, string>() : await inputMetadata(input);
  const json = <T>(key: string): T | undefined => {
    const text = metadata.get(key);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  };
  const facts = parseFacts(metadata.get(FACTS_KEY));
  const [config, policy] = [json<Config>(CONFIG_KEY), json<Record<string, string>>(POLICY_KEY) ?? null];
  return { run: facts?.run, counts: facts, rredcot: metadata.get(VERSION_KEY), config, policy };
}

/** JSON lines say nothing of their run, the summary beside them does. */
async function ofLines(path: string): Promise<Omit<Existing, 'mtimeMs'>> {
  const summary = await readSummary(path);
  return { run: summary?.run, config: summary?.config, counts: summary };
}

/** Why an output is not replaced: it is another run's, or none of ours. */
function inTheWay(path: string, what: string): RredcotError {
  return usageError(
    `${path}: ${what}`,
    '--overwrite puts the new one in its place; or name another output with -o',
  );
}

/** Whether an output stands already that is whole, and of the run that is asked for. */
export async function isMade(path: string, run: string): Promise<Existing | undefined> {
  const found = await existingOutput(path);
  return found?.run === run && (await faultOf(path)) === null ? found : undefined;
}

/**
 * Before anything is computed.
 * @param inputs whose contents the identity has at their beginning and end alone
 * @returns the output that is asked for, where it stands already
 * @throws RredcotError (exit 2) for what else stands there, naming what differs, unless it is to be replaced
 */
export async function lookAtOutput(
  path: string,
  wanted: Pick<Run, 'run' | 'config'> & OutputOrigin,
  overwrite: boolean,
  inputs: readonly Pick<InputPrint, 'path' | 'mtime_ms'>[] = [],
): Promise<Existing | undefined> {
  const found = overwrite ? undefined : await existingOutput(path);
  if (found === undefined) return undefined;
  const fault = await whyOther(path, found, wanted, inputs);
  if (fault === undefined) return found;
  throw inTheWay(path, fault);
}

async function whyOther(
  path: string,
  found: Existing,
  wanted: Pick<Run, 'run' | 'config'> & OutputOrigin,
  inputs: readonly Pick<InputPrint, 'path' | 'mtime_ms'>[],
): Promise<string | undefined> {
  if (found.run === undefined) return 'is there already, and is no output of a run';
  for (const key of ['rredcot', 'config', 'policy'] as const) {
    if (found[key] === undefined || wanted[key] === undefined) continue;
    const difference = firstDifference({ [key]: found[key] }, { [key]: wanted[key] });
    if (difference !== undefined) return `is the output of another run: ${difference}`;
  }
  if (found.run !== wanted.run)
    return 'is the output of another run: of other inputs, of these before they were edited, or with another --rows-per-part';
  const younger = inputs.find(({ mtime_ms: mtime }) => mtime !== null && mtime > found.mtimeMs);
  if (younger !== undefined) return `is older than its input: ${younger.path} was written since`;
  return (await faultOf(path)) ?? undefined;
}

/** null where a file's bytes are those that were written. */
async function faultOf(path: string): Promise<string | null> {
  const fault = await fileFault(path);
  return fault === undefined ? 'has lost the hash of its bytes' : fault;
}
