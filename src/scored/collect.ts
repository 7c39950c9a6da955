// Gathers the credits of several scored files in one table: traces are matched by id, and have to have the same segments.
import { type CreditTable, NO_LABEL } from '../compare/credit-table.js';
import { TraceRejected } from '../errors.js';
import type { BadRow, InputRow } from '../rows.js';
import {
  CreditFault,
  type CreditRequest,
  type FileCredits,
  type TraceCredits,
  traceCredits,
  UNIFORM,
} from './trace-credits.js';

/** A row that is left out of the comparison. */
export interface Refusal {
  readonly code: string;
  readonly reason: string;
  readonly file: string;
  readonly row: number;
}

/** Gathers the credits of several files. The first one says which traces there are. */
export class CreditCollector {
  /** by id, in the order of the first file */
  private readonly traces = new Map<string, ReturnType<CreditCollector['begin']>>();
  /** segments of all of them */
  private size = 0;
  private readonly groupNumbers = new Map<string | symbol, number>();
  /** by name, NaN where a trace has none */
  private readonly credits = new Map<string, number[]>();
  private seen = new Set<string>();
  /** by file: traces whose σ is uniform by fallback, by the status that says why */
  readonly fallbacks: Map<string, number>[] = [];
  readonly matched: number[] = [];

  constructor(
    private readonly asked: CreditRequest,
    private readonly refuse: (refusal: Refusal) => void,
  ) {}

  /**
   * Reads one file's rows.
   * @param nameOf what a credit of the file is called in the table
   */
  async add(
    file: string,
    rows: AsyncIterable<InputRow | BadRow>,
    nameOf: (own: string) => string,
    of: FileCredits = {},
  ): Promise<void> {
    const isFirst = this.fallbacks.length === 0;
    this.fallbacks.push(new Map());
    this.matched.push(0);
    this.seen = new Set();
    for await (const row of rows) {
      const place = { file: row.file, row: row.row };
      if (row.kind === 'bad') {
        this.refuse({ ...place, ...row.rejection });
        continue;
      }
      try {
        this.addTrace(traceCredits(row, this.asked, of), isFirst, nameOf);
      } catch (error) {
        if (error instanceof TraceRejected) this.refuse({ ...place, code: error.code, reason: error.reason });
        else if (error instanceof CreditFault)
          this.refuse({ ...place, code: 'credit', reason: error.message });
        else throw error;
      }
    }
    if (isFirst) return;
    for (const id of this.traces.keys())
      if (!this.seen.has(id))
        this.refuse({ code: 'missing', reason: `has no id ${JSON.stringify(id)}`, file, row: -1 });
  }

  private addTrace(trace: TraceCredits, isFirst: boolean, nameOf: (own: string) => string): void {
    const { id, credits, segments } = trace;
    if (this.seen.has(id)) throw new TraceRejected('duplicate_id', `id ${JSON.stringify(id)} is there twice`);
    this.seen.add(id);
    if (isFirst) this.traces.set(id, this.begin(trace));
    const known = this.traces.get(id);
    if (known === undefined)
      throw new TraceRejected('no_partner', `id ${JSON.stringify(id)} is not in the first file`);
    if (known.ends !== trace.ends)
      throw new TraceRejected(
        'other_segments',
        `id ${JSON.stringify(id)} is cut at other places than in the first file`,
      );
    const fallbacks = this.fallbacks.at(-1) as Map<string, number>;
    if (trace.fallback !== undefined) fallbacks.set(trace.fallback, (fallbacks.get(trace.fallback) ?? 0) + 1);
    this.matched[this.matched.length - 1] = (this.matched.at(-1) as number) + 1;
    const { start } = known;
    for (const [own, values] of credits) {
      // the same for all files
      if (own === UNIFORM && !isFirst) continue;
      const name = own === UNIFORM ? UNIFORM : nameOf(own);
      const column = this.credits.get(name) ?? [];
      this.credits.set(name, column);
      fill(column, start + segments);
      for (const [k, value] of values.entries()) column[start + k] = value;
    }
  }

  private begin({ group, ends, segments, reward, firstWrong = NO_LABEL }: TraceCredits) {
    const start = this.size;
    this.size += segments;
    // a trace without a group is one of its own
    const key = group ?? Symbol();
    const number = this.groupNumbers.get(key) ?? this.groupNumbers.size;
    this.groupNumbers.set(key, number);
    return { ends, start, reward, group: number, firstWrong };
  }

  done(): CreditTable {
    const N = this.size;
    const traces = [...this.traces.values()];
    for (const column of this.credits.values()) fill(column, N);
    return {
      offsets: Int32Array.from([...traces.map(({ start }) => start), N]),
      rewards: Float64Array.from(traces, ({ reward }) => reward),
      groups: Int32Array.from(traces, ({ group }) => group),
      firstWrong: Int32Array.from(traces, ({ firstWrong }) => firstWrong),
      credits: Array.from(this.credits, ([name, column]) => ({ name, values: Float64Array.from(column) })),
    };
  }
}

function fill(column: number[], length: number): void {
  while (column.length < length) column.push(Number.NaN);
}
