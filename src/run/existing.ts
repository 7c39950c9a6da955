// Looks at what stands where a single file is to go: what another run has made, or somebody else, is not replaced in silence.
import { usageError } from '../errors.js';
import { FACTS_KEY, parseFacts } from '../io/files/facts.js';
import { statIfThere } from '../io/files/files.js';
import { inputMetadata, resolveInputs } from '../io/read/inputs.js';
import { type Counts, fileFault, readSummary } from '../io/write/facts.js';
import { CONFIG_KEY, namedFormat, POLICY_KEY, VERSION_KEY } from '../io/write/output.js';
import { firstDifference, type Run } from './identity.js';

/** A file at the output's place. */
interface Existing {
  /** identity of its run; undefined where nothing of ours says one */
  readonly run: string | undefined;
  readonly counts?: Pick<Counts, 'traces' | 'rejects'> | undefined;
  /** how it was made, as far as it says so */
  readonly origin?: Partial<Pick<Run, 'rredcot' | 'config' | 'policy'>> | undefined;
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
  const facts = parseFacts(metadata.get(FACTS_KEY));
  const keys = { rredcot: VERSION_KEY, config: CONFIG_KEY, policy: POLICY_KEY };
  const said = Object.entries(keys).flatMap(([name, key]) => {
    const text = metadata.get(key);
    return text === undefined ? [] : [[name, name === 'rredcot' ? text : JSON.parse(text)]];
  });
  return { run: facts?.run, counts: facts, origin: Object.fromEntries(said) };
}

/** JSON lines say nothing of their run, the summary beside them does. */
async function ofLines(path: string): Promise<Omit<Existing, 'mtimeMs'>> {
  const summary = await readSummary(path);
  return { run: summary?.run, counts: summary, origin: summary && { config: summary.config } };
}

/** The output where it stands already, whole, and of the run that is asked for. */
export async function madeAlready(path: string, { run }: Pick<Run, 'run'>): Promise<Existing | undefined> {
  const found = await existingOutput(path);
  return found?.run === run && (await fileFault(path)) === null ? found : undefined;
}

/**
 * Before anything is computed: the output that is asked for, where it stands already.
 * @throws RredcotError (exit 2) for what else stands there, naming what differs
 */
export async function lookAtOutput(path: string, wanted: Run): Promise<Existing | undefined> {
  const found = await existingOutput(path);
  const fault = found && (await whyOther(path, found, wanted));
  if (fault === undefined) return found;
  throw usageError(
    `${path}: ${fault}`,
    '--overwrite puts the new one in its place; or name another output with -o',
  );
}

async function whyOther(path: string, found: Existing, wanted: Run): Promise<string | undefined> {
  if (found.run === undefined) return 'is there already, and is no output of a run';
  if (found.run !== wanted.run) {
    const { rredcot, config, policy } = wanted;
    const said = Object.fromEntries(
      Object.entries({ rredcot, config, policy }).filter(([key]) => Object.hasOwn(found.origin ?? {}, key)),
    );
    const others =
      'of other inputs, of these before they were edited, by another policy, or with another --rows-per-part';
    return `is the output of another run: ${firstDifference(found.origin, said) ?? others}`;
  }
  const younger = wanted.inputs.find(({ mtime_ms: mtime }) => mtime !== null && mtime > found.mtimeMs);
  if (younger !== undefined) return `is older than its input: ${younger.path} was written since`;
  const fault = await fileFault(path);
  return fault === undefined ? 'has lost the hash of its bytes' : (fault ?? undefined);
}
