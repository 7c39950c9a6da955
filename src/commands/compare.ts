// `rredcot compare`: how the credits of scored files go together inside traces, as a table, JSON or CSV.
import { dataError, EXIT, type ExitCode, TraceRejected, usageError } from '../errors.js';
import { storedNature } from '../estimate/registry.js';
import { fileStem, readRows, resolveInputs } from '../io/read/inputs.js';
import { POLICY_KEY } from '../io/write/output.js';
import { VERSION } from '../package-files.js';
import { plural } from '../plural.js';
import { escapeControls, printableJson } from '../printable.js';
import { correlate, correlationsCsv, correlationsTable, type TracePair } from '../report/correlations.js';
import type { Log } from '../report/log.js';
import { isBad } from '../rows.js';
import { assertWritten, configIn, firstAccount } from '../scored/stored-run.js';
import { creditName, isRead, PLACEBOS, type TraceCredits, traceCredits } from '../scored/trace-credits.js';

export interface CompareOptions {
  readonly form: 'table' | 'json' | 'csv';
  readonly maxLineBytes: number | undefined;
}

/** A trace of the first file, with what every file says of its segments. */
type Gathered = Pick<TraceCredits, 'group' | 'ends'> & { readonly credits: Map<string, Float64Array> };

/** Compares credits of one file, or of several with the same traces. @throws RredcotError (exit 65) where nothing can be compared, or bytes are others */
export async function compare(
  paths: readonly string[],
  opts: CompareOptions,
  write: (text: string) => void,
  log: Log,
): Promise<ExitCode> {
  const traces = new Map<string, Gathered>();
  const leftOut = new Map<string, { count: number; first: string }>();
  const policies = new Set<string>();
  for (const [n, path] of paths.entries()) {
    const policy = await gather(path, n === 0, traces, opts, (code, reason) => {
      const before = leftOut.get(code);
      leftOut.set(code, { count: (before?.count ?? 0) + 1, first: before?.first ?? reason });
    });
    if (policy !== undefined) policies.add(policy);
  }
  if (policies.size > 1) log.warn('other_policy', 'the files were scored by different policies');
  for (const [code, { count, first }] of leftOut)
    log.warn(code, `${plural(count, 'row')} left out, first ${escapeControls(first)}`);
  const [refusal = { first: 'the files are empty' }] = leftOut.values();
  if (traces.size === 0)
    throw dataError(`no trace to compare: ${refusal.first}`, 'rredcot score traces.jsonl -o scored.parquet');
  const names = [...new Set([...traces.values()].flatMap(({ credits }) => [...credits.keys()]))];
  const pairs = names
    .flatMap((a, i) => names.slice(i + 1).map((b) => ({ a, b, ...correlate(pairsOf(traces, a, b)) })))
    .filter(({ a, b, pearson }) => pearson.value !== null && !(PLACEBOS.includes(a) && PLACEBOS.includes(b)));
  if (pairs.length === 0)
    throw dataError(
      'nothing can be compared: no two credits differ within a trace',
      'rredcot summary <file> says what its statuses mean, and what mends them',
    );
  if (opts.form === 'table') write(correlationsTable(pairs));
  else if (opts.form === 'csv') write(correlationsCsv(pairs));
  else {
    const found = { format: 2, rredcot: VERSION, files: paths, pairs };
    write(`${printableJson(JSON.stringify(found, null, 1))}\n`);
  }
  return EXIT.done;
}

/** Reads one file's rows into the traces; the first file says which there are. @returns the policy that scored it, where it says so */
async function gather(
  path: string,
  isFirst: boolean,
  traces: Map<string, Gathered>,
  { maxLineBytes }: CompareOptions,
  leave: (code: string, reason: string) => void,
): Promise<string | undefined> {
  const inputs = await resolveInputs([path]);
  await assertWritten(inputs);
  const account = await firstAccount(inputs);
  const config = configIn(account) ?? {};
  const isMagnitude = storedNature(config)?.isMagnitude === true;
  const taken = new Set([...traces.values()].flatMap(({ credits }) => [...credits.keys()]));
  const seen = new Set<string>();
  for await (const row of readRows(inputs, { maxLineBytes, columns: isRead })) {
    const place = `${row.file}:${row.row}`;
    if (isBad(row)) {
      leave(row.rejection.code, `${place}: ${row.rejection.reason}`);
      continue;
    }
    try {
      const { id, group, ends, credits } = traceCredits(row, isMagnitude);
      if (seen.has(id)) throw new TraceRejected('duplicate_id', `id ${JSON.stringify(id)} is there twice`);
      seen.add(id);
      if (isFirst) traces.set(id, { group, ends, credits: new Map() });
      const known = traces.get(id);
      if (known === undefined)
        throw new TraceRejected('no_partner', `id ${JSON.stringify(id)} is not in the first file`);
      if (known.ends !== ends)
        throw new TraceRejected(
          'other_segments',
          `id ${JSON.stringify(id)} is cut at other places than in the first file`,
        );
      for (const [own, credit] of credits) {
        const name = creditName(own, config);
        const isOfTrace = PLACEBOS.includes(own);
        // R* may be another in another file
        if (isOfTrace && known.credits.has(name)) continue;
        const title = !isOfTrace && taken.has(name) ? `${fileStem(path)}:${name}` : name;
        if (known.credits.has(title))
          throw usageError(`two credits are called ${title}`, 'another file name');
        known.credits.set(title, credit);
      }
    } catch (error) {
      if (!(error instanceof TraceRejected)) throw error;
      leave(error.code, `${place}: ${error.reason}`);
    }
  }
  const without = [...traces.keys()].filter((id) => !seen.has(id)).length;
  if (without === traces.size && traces.size > 0)
    throw dataError(
      `${path}: no trace of it is in the first file, cut at the same places`,
      'score the same traces, or leave the file out',
    );
  if (without > 0) leave('missing', `${path} lacks ${plural(without, 'trace')} of the first file`);
  return account.get(POLICY_KEY);
}

/** Two credits of the traces that have both, segments with two finite numbers alone. */
function* pairsOf(traces: ReadonlyMap<string, Gathered>, a: string, b: string): Generator<TracePair> {
  for (const { group, credits } of traces.values()) {
    const [x, y] = [credits.get(a), credits.get(b)];
    if (x === undefined || y === undefined) continue;
    const isKnown = (_: number, k: number) => Number.isFinite(x[k]) && Number.isFinite(y[k]);
    yield { group, x: x.filter(isKnown), y: y.filter(isKnown) };
  }
}
