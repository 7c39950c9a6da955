// Chooses the few traces that are worth a page: of the right and the wrong some by chance, and those that turned the most.
import { fnv1a } from '../figures.js';
import { Top } from './gathered.js';

/** Why a trace has a page. */
export type Kind = 'right' | 'wrong' | 'decisive' | 'harmful';

export const KINDS: readonly Kind[] = ['harmful', 'decisive', 'wrong', 'right'];

/** What the choice is made by. */
export interface Choosable {
  readonly id: string;
  /** number of its row over all inputs */
  readonly ordinal: number;
  readonly reward: number | null;
  /** whether its σ is its rule's */
  readonly hasCredit: boolean;
  /** of its value in one segment, both ≥ 0 */
  readonly rise: number;
  readonly fall: number;
}

/** Chooses; the same traces whatever their order, but for equal ones. */
export class TraceChoice {
  private readonly tops: ReadonlyMap<Kind, Top<number>>;

  constructor(private readonly most: number) {
    this.tops = new Map(KINDS.map((kind) => [kind, new Top<number>(most)]));
  }

  add({ id, ordinal, reward, hasCredit, rise, fall }: Choosable): void {
    const isRight = reward !== null && reward > 0.5;
    if (reward !== null) this.tops.get(isRight ? 'right' : 'wrong')?.add(fnv1a(id), ordinal);
    if (!hasCredit) return;
    if (rise > 0) this.tops.get('decisive')?.add(rise, ordinal);
    if (fall > 0) this.tops.get('harmful')?.add(fall, ordinal);
  }

  /** The chosen by number of their row, each with why; a kind at a time, so that none crowds out another. */
  get chosen(): ReadonlyMap<number, readonly Kind[]> {
    const found = new Map<number, Kind[]>();
    for (let rank = 0; rank < this.most; rank++)
      for (const kind of KINDS) {
        const ordinal = this.tops.get(kind)?.things[rank];
        if (ordinal === undefined) continue;
        const kinds = found.get(ordinal);
        if (kinds !== undefined) kinds.push(kind);
        else if (found.size < this.most) found.set(ordinal, [kind]);
      }
    return found;
  }
}
