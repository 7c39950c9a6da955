// Finds what rows say against each other: ids that come twice, rows out of order, groups at odds.
import { HashSet } from '../arrow/hash-set.js';
import type { StoredRow } from './stored-rows.js';

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
    'sigma_gain',
  ],
  ...['reference_logprobs', 'reference_utilities', 'reference_tokens'],
  ...['source_file', 'source_row', 'status'],
];

/** What has been seen of the rows of a run or of a file. */
export class SeenRows {
  readonly #ids = new HashSet();
  /** b of each group whose rows have the group's mean */
  readonly #baselines = new Map<string, number>();
  #last: { readonly file: unknown; readonly source: number; readonly id: string } | undefined;
  #restarts = 0;
  /** those of OURS that the first row has */
  #columns: readonly string[] | undefined;

  /**
   * @param inputs files that the rows come from; undefined where nobody knows
   * @param isGroupMean the baseline is the mean of the group's rewards
   */
  constructor(
    private readonly inputs: number | undefined,
    private readonly isGroupMean: boolean,
  ) {}

  /** What is wrong with a row beside those before it. */
  faults(row: StoredRow): string[] {
    const faults = this.#columnFaults(row);
    const id = row.cell('id');
    const source = row.cell('source_row');
    if (typeof id === 'string' && !this.#ids.add(id)) faults.push('its id stands in an earlier row too');
    if (typeof source === 'number' || typeof source === 'bigint')
      faults.push(
        ...this.#orderFaults(row.cell('source_file'), Number(source), typeof id === 'string' ? id : ''),
      );
    const [group, baseline] = [row.cell('group'), row.cell('baseline')];
    // a group without any known reward has no mean; a file that does not say so may have V(s_0) for its baseline
    const isOwn = baseline === row.cell('value_start');
    const hasMean = this.isGroupMean && !isOwn && typeof row.cell('reward') === 'number';
    if (hasMean && typeof group === 'string' && typeof baseline === 'number')
      faults.push(...this.#groupFaults(group, Math.fround(baseline)));
    return faults;
  }

  #columnFaults(row: StoredRow): string[] {
    const columns = OURS.filter((name) => row.has(name));
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

  #groupFaults(group: string, baseline: number): string[] {
    const known = this.#baselines.get(group);
    if (known === undefined && this.#baselines.size < MAX_GROUPS) this.#baselines.set(group, baseline);
    if (known === undefined || known === baseline) return [];
    return [`baseline is ${baseline}, ${known} in another row of its group ${JSON.stringify(group)}`];
  }
}
