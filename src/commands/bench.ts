// `rredcot bench`: holds anybody's credit of a set's traces against the set's truth, prints the row and writes it; without credits it prints the set.
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { type BenchRow, benchFigures } from '../compare/bench.js';
import { type CreditTable, NO_LABEL } from '../compare/credit-table.js';
import { dataError, EXIT, type ExitCode, TraceRejected, usageError } from '../errors.js';
import { isMartingale } from '../estimate/nature.js';
import { storedNature } from '../estimate/registry.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { writeText } from '../io/files/json-file.js';
import { fileStem, readRows, resolveInputs } from '../io/read/inputs.js';
import { packageFile } from '../package-files.js';
import { drawBench } from '../report/compare-view.js';
import { isBad } from '../rows.js';
import { assertPlace } from '../run/target.js';
import {
  type BenchColumn,
  type BenchSet,
  type BenchTrace,
  benchCredit,
  besideCredits,
  readBenchSet,
  shuffledCredits,
} from '../scored/bench-set.js';
import { accountOf } from '../scored/open-scored.js';
import { CreditFault } from '../scored/trace-credits.js';

export interface BenchOptions {
  /** where a row's credits are, and what its numbers are; undefined: what the columns' names say, or a scored file's own */
  readonly column: BenchColumn | undefined;
  readonly half: 'choose' | 'judge' | 'all';
  readonly name: string | undefined;
  /** how the credits were made, which the row keeps */
  readonly madeBy: string | undefined;
  readonly seed: number;
  readonly output: string;
}

/** The sets that ship. */
export const SETS = ['embedded', 'puzzles', 'bifurcation', 'reach'] as const;

/**
 * @param set name of a set that ships, or a file of another
 * @param credits undefined: the traces of the set are printed, a JSON line each
 * @throws RredcotError: exit 2 for what is no set, 65 for credits of another set or of no trace of it
 */
export async function bench(
  set: string,
  credits: string | undefined,
  opts: BenchOptions,
  write: (text: string) => void,
): Promise<ExitCode> {
  const path = await setPath(set);
  const inputs = await resolveInputs([path]);
  const isIn = (half: unknown) => opts.half === 'all' || (half ?? 'judge') === opts.half;
  if (credits === undefined) {
    for await (const row of readRows(inputs))
      if (isBad(row))
        throw dataError(`${path}:${row.row}: ${row.rejection.reason}`, 'take the set as it was made');
      else if (isIn(row.columns.half)) write(`${row.raw}\n`);
    return EXIT.done;
  }
  await assertPlace(opts.output, [path, credits]);
  const whole = await readBenchSet(path, readRows(inputs));
  const own = { ...whole, traces: whole.traces.filter(({ half }) => isIn(half)) };
  if (own.traces.length === 0) throw usageError(`${path}: has no trace of --half ${opts.half}`, '--half all');
  const read = await readCredits(credits, whole, own.traces, opts);
  const row: BenchRow = {
    ...{ format: 1, name: opts.name ?? read.name, set: own.name, set_sha256: await sha256OfFile(path) },
    ...{ half: opts.half, made_by: opts.madeBy ?? null, seed: opts.seed },
    ...{ traces: own.traces.length, counted: read.credits.size },
    groups: new Set(own.traces.map(({ group }) => group)).size,
    segments: own.traces.reduce((sum, { cuts }) => sum + cuts.length, 0),
    ...{ tokens_spent: read.spent, left_out: read.leftOut },
    ...(read.foreign > 0 && { other_policy: read.foreign }),
    figures: figuresOf(own, read, opts.seed),
  };
  await writeText(opts.output, textOf(row));
  write(drawBench(row));
  return EXIT.done;
}

async function setPath(set: string): Promise<string> {
  // a policy's folder may have the name of its task: a file of that name is ./reach
  if ((SETS as readonly string[]).includes(set)) return packageFile(`fixtures/bench/${set}.parquet`);
  if ((await stat(set).catch(() => null)) !== null) return set;
  throw usageError(`${set}: is no set that ships, and no file`, `rredcot bench ${SETS.join('|')}, or a file`);
}

/** A line a figure, of six digits: two rows are compared by eye, and a last bit is no figure. */
function textOf({ figures, ...row }: BenchRow): string {
  const rounded = (_: string, x: unknown) =>
    typeof x === 'number' && !Number.isInteger(x) ? Number(x.toPrecision(6)) : x;
  const head = JSON.stringify(row, rounded, 1).slice(0, -2);
  const lines = figures.map((figure) => `  ${JSON.stringify(figure, rounded)}`);
  return `${head},\n "figures": [\n${lines.join(',\n')}\n ]\n}\n`;
}

/** What a file says of a set's traces. */
type Credits = Awaited<ReturnType<typeof readCredits>>;

async function readCredits(
  path: string,
  set: BenchSet,
  wanted: readonly BenchTrace[],
  { column }: BenchOptions,
) {
  const inputs = await resolveInputs([path]);
  const { config } = await accountOf(path, inputs);
  const nature = config && storedNature(config);
  const made = {
    isMagnitude: nature?.isMagnitude === true,
    hasLevel: nature !== undefined && isMartingale(nature),
  };
  const known = new Map(set.traces.map((trace) => [trace.id, trace]));
  const left = new Set(wanted.map(({ id }) => id));
  const credits = new Map<string, Float64Array>();
  const values = new Map<string, ArrayLike<number>>();
  const leftOut: Record<string, { count: number; first: string }> = {};
  const leave = (code: string, reason: string) => {
    leftOut[code] = { count: (leftOut[code]?.count ?? 0) + 1, first: leftOut[code]?.first ?? reason };
  };
  let [spent, tokens, foreign] = [0, 0, 0];
  for await (const row of readRows(inputs)) {
    const place = `${basename(path)}:${row.row}`;
    if (isBad(row)) {
      leave(row.rejection.code, `${place}: ${row.rejection.reason}`);
      continue;
    }
    const { id, set: of, tokens_spent } = row.columns;
    if (typeof of === 'string' && of !== set.name)
      throw dataError(
        `${place}: is of the set ${of}, and this one is ${set.name}`,
        'score the set that is named',
      );
    const trace = typeof id === 'string' ? known.get(id) : undefined;
    if (trace === undefined) {
      leave('no_partner', `${place}: id ${JSON.stringify(id) ?? 'is missing, and'} is not in the set`);
      continue;
    }
    // of the other half
    if (!left.has(trace.id) && !credits.has(trace.id)) continue;
    try {
      if (credits.has(trace.id)) throw new CreditFault(`id ${JSON.stringify(id)} is there twice`);
      const found = benchCredit(row, trace, column, made);
      const at = found.credit.findIndex((x) => !Number.isFinite(x));
      if (at >= 0) throw new CreditFault(`the credit of segment ${at} is no finite number`);
      credits.set(trace.id, found.credit);
      left.delete(trace.id);
      if (found.values !== undefined) values.set(trace.id, found.values);
      spent += typeof tokens_spent === 'number' ? tokens_spent : Number.NaN;
      tokens += trace.T;
      foreign += Number(found.isForeign);
    } catch (error) {
      if (!(error instanceof CreditFault || error instanceof TraceRejected)) throw error;
      leave(error instanceof CreditFault ? 'credit' : error.code, `${place}: ${error.message}`);
    }
  }
  if (credits.size === 0) {
    const [first] = Object.values(leftOut);
    throw dataError(
      `${path}: has credit for no trace of ${set.name}${first === undefined ? '' : `: ${first.first}`}`,
      'rredcot bench <set> prints the traces; a row needs id and credit, values or tokens (docs/benchmark.md)',
    );
  }
  for (const id of left) leave('missing', `id ${JSON.stringify(id)} has no credit in ${basename(path)}`);
  const { estimator, steps } = config ?? {};
  const named = typeof estimator === 'string' ? estimator : fileStem(path);
  return {
    name: typeof steps === 'string' && steps !== 'free' ? `${named} ${steps}` : named,
    /** (K) by id */
    credits,
    /** (K+1) by id, where what was given are values on the reward's scale */
    values,
    spent: spent >= 0 ? spent / tokens : null,
    /** traces to which another policy than theirs has given log-probabilities */
    foreign,
    leftOut,
  };
}

/** All figures of a set's traces; what always stands beside the credit is made of all of them. */
function figuresOf({ traces, isExact }: BenchSet, read: Credits, seed: number): BenchRow['figures'] {
  const names = [...new Set(traces.map(({ group }) => group))];
  const baseline = ({ group: of }: BenchTrace) => {
    const own = traces.filter(({ group }) => group === of);
    return own.length < 2 ? 0.5 : own.reduce((sum, { reward }) => sum + reward, 0) / own.length;
  };
  const credits = traces.map(
    ({ id, cuts }) => read.credits.get(id) ?? new Float64Array(cuts.length).fill(Number.NaN),
  );
  const flat = (lists: readonly Float64Array[]) => Float64Array.from(lists.flatMap((own) => [...own]));
  const offsets = new Int32Array(traces.length + 1);
  for (const [i, { cuts }] of traces.entries()) offsets[i + 1] = (offsets[i] as number) + cuts.length;
  const beside = traces.map((trace) => besideCredits(trace, baseline(trace)));
  const table: CreditTable = {
    offsets,
    rewards: Float64Array.from(traces, ({ reward }) => reward),
    groups: Int32Array.from(traces, ({ group }) => names.indexOf(group)),
    firstWrong: Int32Array.from(traces, ({ firstWrong }) => firstWrong ?? NO_LABEL),
    credits: [
      { name: ROW, values: flat(credits) },
      ...[...(beside[0] as Map<string, Float64Array>).keys()].map((name) => ({
        name,
        values: flat(beside.map((own) => own.get(name) as Float64Array)),
      })),
      { name: 'shuffled', values: flat(shuffledCredits(credits, seed)) },
    ],
  };
  const changes = (of: (trace: BenchTrace) => readonly number[] | undefined) => {
    if (traces.some((trace) => of(trace) === undefined)) return undefined;
    const lists = traces.map((trace) => of(trace) as readonly number[]);
    return {
      name: 'truth',
      values: flat(lists.map((own) => Float64Array.from(own.slice(1), (x, k) => x - (own[k] as number)))),
    };
  };
  const [a, b] = [changes(({ halves }) => halves?.[0]), changes(({ halves }) => halves?.[1])];
  const off = Float64Array.from(traces, ({ id, values }) => {
    const own = read.values.get(id);
    if (own === undefined || values === undefined) return Number.NaN;
    return (
      values.reduce((sum, value, k) => sum + Math.abs((own[k] ?? Number.NaN) - value), 0) / values.length
    );
  });
  return benchFigures(
    table,
    { changes: changes(({ values }) => values), halves: a && b && [a, b], isExact, off },
    seed,
  );
}

/** What the file's own credit is called among the figures. */
export const ROW = 'row';
