// What engines behind a server have in common: the model that is asked, checks of what it says, samples, and the count of what it was asked.
import { usageError } from '../../errors.js';
import { count } from '../../plural.js';
import type { Log } from '../../report/log.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import type { Server } from './http.js';
import { checkedLogprobs, checkedSamples, unanswered } from './wire.js';

/** What a server does with a distribution by default is none of the policy's: all that shapes one is named, and off. */
export const PLAIN = {
  ...{ temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
  ...{ repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0 },
};

export interface ServedOptions {
  readonly server: Server;
  /** traces at work at a time */
  readonly width: number;
  /** tokens of the policy's vocabulary */
  readonly vocab: number;
  readonly log: Log;
}

/** The model to be asked. @param wanted by name; absent: the only one. @throws RredcotError (exit 2) where that is none */
export async function modelOf(server: Server, wanted: string | undefined): Promise<string> {
  const { data = [] } = (await server.ask('v1/models')) as { data?: readonly { readonly id: string }[] };
  const models = data.map(({ id }) => id);
  const model = wanted ?? (models.length === 1 ? models[0] : undefined);
  if (model !== undefined && models.includes(model)) return model;
  throw usageError(`${server.url} serves ${JSON.stringify(models)}`, '--engine-model <one of them>');
}

export abstract class ServedEngine implements Engine {
  private tokens = 0;
  private cached = 0;

  constructor(
    readonly name: string,
    readonly config: Engine['config'],
    protected readonly opts: ServedOptions,
  ) {}

  get width(): number {
    return this.opts.width;
  }

  abstract logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]>;

  samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]> {
    const { vocab } = this.opts;
    const ask = async (question: SampleQuestion) =>
      this.must(checkedSamples({ ids: await this.sample(question) }, question, vocab), question);
    return Promise.all(questions.map(ask));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { name, tokens, cached } = this;
    const told = `${count(tokens)} tokens asked, ${count(cached)} of them cached, as far as it says`;
    this.opts.log.info(`${name}: ${told}`);
    this.opts.log.record('engine', { engine: name, tokens, cached });
  }

  /** What ends a sample is the question's to say. */
  protected abstract sample(question: SampleQuestion): Promise<number[][]>;

  protected checked(found: Parameters<typeof checkedLogprobs>[0], question: LogprobQuestion): LogprobAnswer {
    return this.must(checkedLogprobs(found, question, this.opts.vocab), question);
  }

  /**
   * Counts what was asked.
   * @param sent ids @param read how many the server has read @param cached of these
   * @throws TraceRejected where that is something else
   */
  protected took(of: Asked, sent: number, read = sent, cached = 0): void {
    this.must(read === sent || `it has read ${read} tokens, ${sent} were sent: does it truncate?`, of);
    this.tokens += sent;
    this.cached += cached;
  }

  /** What was found. @throws TraceRejected where that is why there is nothing */
  protected must<T>(found: T | string, { name }: Asked): T {
    if (typeof found === 'string') throw unanswered(this.name, name, found);
    return found;
  }
}

export type Asked = Pick<LogprobQuestion, 'name'>;

/** A log-probability as JSON has it. vLLM and SGLang say −9999 or null of what is no number. */
export function numberOf(logprob: number | null | undefined): number {
  return logprob === null || logprob === undefined || logprob <= -9999 ? Number.NaN : logprob;
}
