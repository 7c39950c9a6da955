// Checks a file's rows: each by itself, by what is made of it again, and beside those before it.

import { HashSet } from '../io/arrow/hash-set.js';
import type { OutputFormat } from '../io/write/output.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { checkRow, type RowRules } from './check-row.js';
import { type Cells, openStored, oursOf, type StoredFile } from './stored-rows.js';

/** Something that is not as it should be. */
export interface Finding {
  readonly file: string;
  /** 0-based row of that file; undefined where the file as a whole is meant */
  readonly row?: number;
  readonly text: string;
}

/** How rows are checked. */
export interface RowChecks extends RowRules {
  /** of our columns those that were written; undefined: any that is there; null: none, rows are counted */
  readonly chosen: readonly string[] | undefined | null;
  /** the rows before, of the same run or file */
  readonly seen: SeenRows;
  /** Makes again what follows from the row's own columns. @param ours its cells without the input's */
  readonly remake: (ours: Cells, row: InputRow) => readonly string[];
}

/** A row that was looked at. */
export interface RowSeen {
  readonly row: number;
  readonly sourceRow: number | null;
  /** completion tokens; null where no column tells */
  readonly tokens: number | null;
  /** our columns alone; null where it has none */
  readonly ours: Cells | null;
}

/** Opens a file of rows; one that cannot be read is a finding. */
export async function openChecked(file: string, format: OutputFormat): Promise<StoredFile | Finding> {
  return openStored(file, format).catch((error: Error) => unreadable(file, error));
}

/** What a file's rows say by themselves, and each row's own account after that. */
export async function* rowFindings(
  file: string,
  rows: AsyncIterable<InputRow | BadRow>,
  checks: RowChecks,
): AsyncGenerator<Finding | RowSeen> {
  const unseen = { sourceRow: null, tokens: null, ours: null };
  try {
    for await (const row of rows) {
      if (isBad(row)) yield { file, row: row.row, text: `cannot be read: ${row.rejection.reason}` };
      if (isBad(row) || checks.chosen === null) {
        yield { row: row.row, ...unseen };
        continue;
      }
      const ours = oursOf(row.columns, checks.chosen);
      const { faults, tokens, sourceRow, id } = checkRow(ours, checks);
      // what follows from something broken is broken too
      const more = faults.length === 0 ? checks.remake(ours, row) : [];
      for (const text of [...faults, ...more, ...checks.seen.faults(ours)])
        yield { file, row: row.row, text: id === '' ? text : `(id ${JSON.stringify(id)}) ${text}` };
      yield { row: row.row, sourceRow, tokens, ours };
    }
  } catch (error) {
    yield unreadable(file, error as Error);
  }
}

function unreadable(file: string, { message }: Error): Finding {
  const text = message.replace(`${file}: `, '');
  return { file, text: text.includes('cannot be read') ? text : `cannot be read: ${text}` };
}

/** Groups of which the baseline is kept: beyond it memory counts for more. */
const MAX_GROUPS = 1_000_000;

/** Columns that no input brings along: a row of JSON lines has all of them that the others have. */
const OURS = [
  ...[
    'logprobs',
    'entropies',
    'sigma',
    'segments',
    'value_start',
    'baseline',
    'sigma_ess',
    'sigma_max_weight',
  ],
  ...['sigma_gain', 'reference_logprobs', 'reference_utilities', 'reference_tokens'],
  ...['source_file', 'source_row', 'status'],
];

/** What has been seen of the rows of a run or of a file. */
export class SeenRows {
  readonly #ids = new HashSet();
  /** b of each group whose rows have the group's mean, or of its rows of one reward */
  readonly #baselines = new Map<string, number>();
  #last: { readonly file: unknown; readonly source: number; readonly id: string } | undefined;
  #restarts = 0;
  /** those of OURS that the first row has */
  #columns: readonly string[] | undefined;

  /**
   * @param inputs files that the rows come from; undefined where nobody knows
   * @param isGroupMean the baseline is the mean of the group's rewards
   * @param isOfMates without the row's own
   */
  constructor(
    private readonly inputs: number | undefined,
    private readonly isGroupMean: boolean,
    private readonly isOfMates = false,
  ) {}

  /** What is wrong with a row beside those before it. */
  faults(row: Cells): string[] {
    const faults = this.#columnFaults(row);
    const id = row.id;
    const source = row.source_row;
    if (typeof id === 'string' && !this.#ids.add(id)) faults.push('its id stands in an earlier row too');
    if (typeof source === 'number' || typeof source === 'bigint')
      faults.push(...this.#orderFaults(row.source_file, Number(source), typeof id === 'string' ? id : ''));
    const [group, baseline] = [row.group, row.baseline];
    // a group without any known reward has no mean; a file that does not say so may have V(s_0) for its baseline
    const isOwn = baseline === row.value_start;
    const hasMean = this.isGroupMean && !isOwn && typeof row.reward === 'number';
    if (hasMean && typeof group === 'string' && typeof baseline === 'number')
      faults.push(...this.#groupFaults(group, this.isOfMates ? row.reward : '', Math.fround(baseline)));
    return faults;
  }

  #columnFaults(row: Cells): string[] {
    const columns = OURS.filter((name) => name in row);
    this.#columns ??= columns;
    const first = this.#columns;
    return [
      ...first.filter((name) => !columns.includes(name)).map((name) => `has no ${name}, the first row has`),
      ...columns.filter((name) => !first.includes(name)).map((name) => `has ${name}, the first row has none`),
    ];
  }

  /** Rows come in the order of the inputs; those of one input row have numbers behind its id. */
  #orderFaults(file: unknown, source: number, id: string): string[] {
    const last = this.#last;
    this.#last = { file, source, id };
    if (last === undefined || source > last.source) return [];
    if (source === last.source && (id === '' || (/\/\d+$/.test(id) && /\/\d+$/.test(last.id)))) return [];
    // another input begins, which a file of some columns does not say
    const isSameFile = typeof file === 'string' && file === last.file;
    if (!isSameFile && ++this.#restarts < (this.inputs ?? Number.POSITIVE_INFINITY)) return [];
    return [`source_row is ${source} after ${last.source}, expected the order of the input`];
  }

  #groupFaults(group: string, reward: unknown, baseline: number): string[] {
    const key = `${reward} ${group}`;
    const known = this.#baselines.get(key);
    if (known === undefined && this.#baselines.size < MAX_GROUPS) this.#baselines.set(key, baseline);
    if (known === undefined || known === baseline) return [];
    return [`baseline is ${baseline}, ${known} in another row of its group ${JSON.stringify(group)}`];
  }
}
