// `--dry-run` of values by sampling: measures how much a run would write, and how long that takes.
import { continueTraces, type PolicyWrites } from '../../policy/run/continue.js';
import { rowKey } from '../../policy/run/random.js';
import { candidateExits } from '../../segment/segment.js';
import type { PassJob } from '../cut-windows.js';
import { joinIds } from '../references.js';
import type { MonteCarloOptions } from './options.js';

/** What would be written. */
export interface SamplingForecast {
  readonly completions: number;
  /** of them all, where a completion is as long as what its own trace has left at the exit */
  readonly tokens: number;
  /** tokens that were written to see how long one takes, and the seconds that all would take */
  readonly written: number;
  readonly seconds: number;
}

/** Tokens a row that are written for a measurement: a run of the decoding graph on the CPU. */
const MEASURED_TOKENS = 32;

/** Counts what traces will have written. */
export class SamplingTally {
  private completions = 0;
  private tokens = 0;
  private first: PassJob | undefined;

  constructor(private readonly opts: Pick<MonteCarloOptions, 'samples' | 'sampling'>) {}

  add(job: PassJob): void {
    const { samples, sampling } = this.opts;
    const K = job.pieces.segments;
    this.first ??= job;
    this.completions += samples * (K + 1);
    for (let k = 0; k <= K; k++)
      this.tokens += samples * Math.min(sampling.maxTokens, job.completionIds.length * (1 - k / (K + 1)));
  }

  /** Writes a batch from the first trace's exits, twice: the first run of a graph takes longer. */
  async measure(session: PolicyWrites, maxTokens: number): Promise<SamplingForecast> {
    const { completions, first } = this;
    const tokens = Math.round(this.tokens);
    if (first === undefined) return { completions, tokens, written: 0, seconds: 0 };
    const { sampling } = this.opts;
    const exits = candidateExits(first.pieces);
    const starts = Array.from({ length: Math.min(sampling.batch, completions) }, (_, m) => {
      const exit = first.promptIds.length + (exits[m % exits.length] as number);
      return { exit, key: rowKey('forecast', m), most: Math.min(MEASURED_TOKENS, maxTokens - exit) };
    }).filter(({ exit, most }) => exit > 0 && most > 0);
    const begun = { ids: joinIds(first.promptIds, first.completionIds), starts };
    const how = { ...sampling, stops: [] };
    await continueTraces(session, [begun], how);
    const started = performance.now();
    await continueTraces(session, [begun], how);
    const taken = (performance.now() - started) / 1000;
    const written = starts.reduce((sum, { most }) => sum + most, 0);
    return { completions, tokens, written, seconds: written === 0 ? 0 : (taken * tokens) / written };
  }
}
