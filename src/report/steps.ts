// Counts which kinds of thought segment gain and lose credit over a scored file: by the word that opens them, their place and their length.
import { isFallback, type OutputRow } from '../scored.js';
import { openingWord } from '../segment/split.js';
import { turnsOf } from './trace-record.js';

const PLACES = 5;
/** Tokens up to which a segment is of a length; of the last one is what is longer. */
const LENGTHS = [8, 16, 32, 64, 128, 256];

/** A kind of step. */
export type StepKind = StepKinds['kinds'][number];

/** Sums over the steps of one kind. */
class Sums {
  private steps = 0;
  private gain = 0;
  private loss = 0;
  private readonly weights = { right: [0, 0] as [sum: number, n: number], wrong: [0, 0] as [number, number] };

  add(change: number, weight: number | null, side: 'right' | 'wrong' | undefined): void {
    this.steps++;
    this.gain += Math.max(0, change);
    this.loss += Math.max(0, -change);
    if (weight === null || side === undefined) return;
    this.weights[side][0] += weight;
    this.weights[side][1]++;
  }

  get means() {
    const { steps, gain, loss, weights } = this;
    const mean = ([sum, n]: readonly [number, number]) => (n === 0 ? null : sum / n);
    return {
      steps,
      /** mean rise and mean fall of the value in a step, both ≥ 0 */
      ...{ gain: gain / steps, loss: loss / steps },
      /** mean σ·T of a step, in traces whose σ is their rule's; null without any */
      ...{ weight_right: mean(weights.right), weight_wrong: mean(weights.wrong) },
    };
  }
}

/** Gathers them; what it holds grows with the words that may open a step, and with nothing else. */
export class StepKinds {
  private readonly words = new Map<string, Sums>();
  private readonly places = new Map<string, Sums>();
  private readonly lengths = new Map<string, Sums>();

  /**
   * @param keywords words that may open a step
   * @param isMagnitude as of {@link turnsOf}
   */
  constructor(
    private readonly keywords: readonly string[],
    private readonly isMagnitude: boolean,
  ) {}

  /** @param completion empty where nobody knows it: its steps count by place and length alone */
  add(row: Pick<OutputRow, 'segments' | 'reward' | 'baseline' | 'status'>, completion: string): void {
    const { segments, reward, status } = row;
    const characters = [...completion];
    const T = segments.at(-1)?.end ?? 0;
    const side = reward === null || status.some(isFallback) ? undefined : reward > 0.5 ? 'right' : 'wrong';
    for (const { segment, change, weight } of turnsOf(row, this.isMagnitude)) {
      const { start, end, charStart, charEnd } = segments[segment] as (typeof segments)[number];
      if (!Number.isFinite(change)) continue;
      const count = (kinds: Map<string, Sums>, kind: string) => {
        const sums = kinds.get(kind) ?? new Sums();
        kinds.set(kind, sums);
        sums.add(change, weight, side);
      };
      if (charStart !== null && charEnd !== null && charEnd <= characters.length)
        count(
          this.words,
          openingWord(characters.slice(charStart, charEnd).join(''), this.keywords) ?? 'other',
        );
      if (start === null || end === null) continue;
      count(this.places, `${Math.min(PLACES, 1 + Math.floor((PLACES * (start + end)) / (2 * T)))}/${PLACES}`);
      const most = LENGTHS.find((tokens) => end - start <= tokens);
      const least = 1 + (LENGTHS.findLast((tokens) => tokens < end - start) ?? 0);
      count(this.lengths, most === undefined ? `${least}+` : `${least}-${most}`);
    }
  }

  /** Words by how often they open a step, places and lengths in their order. */
  get kinds() {
    const of = <By extends string>(by: By, kinds: Map<string, Sums>) =>
      Array.from(kinds, ([kind, sums]) => ({ by, kind, ...sums.means }));
    const inOrder = (a: { kind: string }, b: { kind: string }) =>
      Number.parseInt(a.kind, 10) - Number.parseInt(b.kind, 10);
    return [
      ...of('keyword', this.words).sort((a, b) => b.steps - a.steps),
      ...of('place', this.places).sort(inOrder),
      ...of('tokens', this.lengths).sort(inOrder),
    ];
  }
}
