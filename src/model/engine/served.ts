// What engines behind a server have in common: their proof, checks of what they say, samples, and the count of what they were asked.
import { TraceRejected, usageError } from '../../errors.js';
import { count } from '../../plural.js';
import type { Log } from '../../report/log.js';
import type { TextFolder } from '../onnx/folder.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import type { Server } from './http.js';
import { type EngineProof, proofOf } from './proof.js';
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
  readonly policy: TextFolder;
  readonly log: Log;
}

/** The model to be asked. @param wanted by name; absent: the only one. @throws RredcotError (exit 2) where that is none */
export async function modelOf({ server, log }: ServedOptions, wanted: string | undefined): Promise<string> {
  const { data = [] } = (await server.ask('v1/models')) as { data?: readonly { readonly id: string }[] };
  const models = data.map(({ id }) => id);
  const model = wanted ?? (models.length === 1 ? models[0] : undefined);
  if (model === undefined || !models.includes(model))
    throw usageError(`${server.url} serves ${JSON.stringify(models)}`, '--engine-model <one of them>');
  log.info(`${server.url} serves ${model}`);
  return model;
}

export abstract class ServedEngine implements Engine {
  noise: number | undefined;
  readonly width: number;
  private proof: Promise<EngineProof> | undefined;
  private failures = 0;
  private tokens = 0;
  private cached = 0;

  constructor(
    readonly name: string,
    readonly config: Engine['config'],
    protected readonly opts: ServedOptions,
  ) {
    this.width = opts.width;
  }

  async logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    const [first] = questions;
    if (first === undefined) return [];
    this.noise = (await this.proved(first)).noise;
    return this.whileThere(this.answer(questions));
  }

  samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]> {
    const { vocab } = this.opts.policy.architecture;
    const ask = async (question: SampleQuestion) =>
      this.must(checkedSamples({ ids: await this.sample(question) }, question, vocab), question);
    return this.whileThere(Promise.all(questions.map(ask)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const told = `${count(this.tokens)} tokens asked, ${count(this.cached)} of them cached, as far as it says`;
    this.opts.log.info(`${this.name}: ${told}`);
  }

  /** As {@link logprobs}, whoever it is that answers. */
  protected abstract answer(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]>;

  /** What ends a sample is the question's to say. */
  protected abstract sample(question: SampleQuestion): Promise<number[][]>;

  protected checked(found: Parameters<typeof checkedLogprobs>[0], question: LogprobQuestion): LogprobAnswer {
    return this.must(checkedLogprobs(found, question, this.opts.policy.architecture.vocab), question);
  }

  /**
   * Counts what was asked.
   * @param sent ids @param read how many the server has read @param cached of these
   * @throws TraceRejected where that is something else
   */
  protected took(of: NamedQuestion, sent: number, read = sent, cached = 0): void {
    this.must(read === sent || `it has read ${read} tokens, ${sent} were sent: does it truncate?`, of);
    this.tokens += sent;
    this.cached += cached;
  }

  /** What was found. @throws TraceRejected where that is why there is nothing */
  protected must<T>(found: T | string, { name }: NamedQuestion): T {
    if (typeof found === 'string') throw unanswered(this.name, name, found);
    return found;
  }

  /** By the first trace that it does not refuse. */
  private async proved(first: LogprobQuestion): Promise<EngineProof> {
    const { server, policy, log } = this.opts;
    const isMine = this.proof === undefined;
    if (isMine) this.failures = server.failures;
    // itself, as it is without a proof
    const unproved = Object.create(this, { logprobs: { value: this.answer.bind(this) } }) as Engine;
    this.proof ??= proofOf(unproved, first, policy, log);
    const { proof } = this;
    return proof.catch((error) => {
      if (!(error instanceof TraceRejected)) throw error;
      if (this.proof === proof) this.proof = undefined;
      if (isMine) throw error;
      return this.proved(first);
    });
  }

  /** What answers after it was away may be another one. */
  private async whileThere<T>(asked: Promise<T>): Promise<T> {
    const answers = await asked;
    const { failures } = this.opts.server;
    if (failures > this.failures) this.proof = this.proof?.then((proof) => proof.again());
    this.failures = failures;
    await this.proof;
    return answers;
  }
}

export type NamedQuestion = Pick<LogprobQuestion, 'name'>;

/** A log-probability as JSON has it. vLLM and SGLang say −9999 or null of what is no number. */
export function numberOf(logprob: number | null | undefined): number {
  return logprob === null || logprob === undefined || logprob <= -9999 ? Number.NaN : logprob;
}
