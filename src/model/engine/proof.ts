// An engine proves itself before its first answer counts: it is asked the same alone, among others and anew, and what the policy's folder knows of its model.
import { EXIT, RredcotError, TraceRejected } from '../../errors.js';
import type { Log } from '../../report/log.js';
import {
  beyond,
  type CanaryFinding,
  describeFinding,
  farthest,
  NATS,
  prove,
  readCanary,
} from '../onnx/canary.js';
import type { PolicyFolder } from '../onnx/folder.js';
import { joinIds } from '../text/encode.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import { openServer, REFUSED, type Server } from './http.js';
import { EngineSession } from './session.js';
import { Sglang } from './sglang.js';
import { Vllm } from './vllm.js';

/** A prefix of which every engine that caches has whole blocks. */
const CACHED_PREFIX = 128;
/** Nobody computes this of tokens that do not follow. */
const CERTAIN = -1e-6;
/** Servers do not say what they compute in. */
const PRECISION = 'bf16';

const OPEN = { vllm: Vllm.open, sglang: Sglang.open };

export interface LiveChoice {
  readonly engine: keyof typeof OPEN;
  readonly model: string | undefined;
  readonly width: number;
  readonly patience: number;
}

/**
 * A server as an engine, which proves itself at the first trace.
 * @throws RredcotError: exit 2 for a model that it has not, 69 where it does not answer
 */
export async function openLive(
  url: string,
  { engine, model, width, patience }: LiveChoice,
  folder: PolicyFolder,
  log: Log,
  signal: AbortSignal,
): Promise<Engine> {
  const server = openServer(url, patience, log, signal);
  const opts = { server, width, vocab: folder.architecture.vocab, log };
  return new ProvenEngine(await OPEN[engine](opts, model), server, folder, log);
}

/** An engine of which nothing is believed until it has proved itself, and again once its server was away. */
export class ProvenEngine implements Engine {
  readonly name: string;
  readonly config: Engine['config'];
  readonly width: number;
  noise: number | undefined;
  private proof: ReturnType<ProvenEngine['prove']> | undefined;
  private failures: number;

  constructor(
    private readonly engine: Engine,
    private readonly server: Pick<Server, 'url' | 'failures'>,
    private readonly folder: PolicyFolder,
    private readonly log: Log,
  ) {
    ({ name: this.name, config: this.config, width: this.width } = engine);
    this.failures = server.failures;
  }

  async logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    const [first] = questions;
    if (first === undefined) return [];
    this.proof ??= this.prove(first);
    await this.proof.catch((error) => {
      // what cannot be asked of one trace proves nothing
      if (error instanceof TraceRejected) this.proof = undefined;
      throw error;
    });
    return this.whileThere(this.engine.logprobs(questions));
  }

  samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]> {
    return this.whileThere(this.engine.samples(questions));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]?.();
  }

  /** Answers, unless what has given them is no longer what has proved itself. */
  private async whileThere<T>(asked: Promise<T>): Promise<T> {
    const answers = await asked;
    if (this.server.failures > this.failures) {
      this.failures = this.server.failures;
      this.proof = this.proof?.then(async (proof) => {
        this.assertSame('since it was away', await this.ask(proof.probes), proof.answers);
        return proof;
      });
    }
    await this.proof;
    return answers;
  }

  /** @param first of a trace, on whose tokens it is tried */
  private async prove(first: LogprobQuestion) {
    const probes = probesOf(first);
    const oneByOne = async (questions: readonly LogprobQuestion[]) => {
      const said: LogprobAnswer[] = [];
      for (const question of questions) said.push(...(await this.ask([question])));
      return said;
    };
    const alone = await oneByOne(probes);
    const answers = await this.ask(probes);
    const anew = await oneByOne(probes.map((probe) => ({ ...probe, fresh: true })));
    if (answers.every(({ logprobs }) => logprobs.every((lp) => lp > CERTAIN)))
      throw this.unfit(
        'is certain of tokens that do not follow: it gives log-probabilities among those that it may write',
        'vLLM: --logprobs-mode raw_logprobs',
      );
    this.assertSame('asked anew, with all that stands before', anew, answers);
    await this.proveModel();
    const sums = [alone, answers, anew].map((said) =>
      said.map(({ logprobs }) => logprobs.reduce((a, b) => a + b)),
    );
    const spreads = probes.map((_, n) => sums.map((own) => own[n] as number));
    this.noise = Math.max(...spreads.map((own) => Math.max(...own) - Math.min(...own)));
    this.log.info(
      `${this.name}: log p of an answer is off by ${this.noise.toPrecision(2)} nats at most, by how it is asked`,
    );
    const cached = answers.at(-1)?.cached;
    if ((probes.at(-1)?.shared ?? 0) >= CACHED_PREFIX && !cached)
      this.log.warn(
        'engine_cache',
        cached === 0
          ? `${this.name} caches no prefix: each exit costs its whole trace (vLLM: --enable-prefix-caching)`
          : `${this.name} does not say what it has cached (vLLM: --enable-prompt-tokens-details)`,
      );
    return { probes, answers };
  }

  /** @throws RredcotError (exit 69) where another model is served */
  private async proveModel(): Promise<void> {
    const { passes } = await readCanary(this.folder);
    // an engine hides no tokens
    const seen = passes.map(({ split, traces }) => ({
      split,
      traces: traces.map((trace) => ({
        ...trace,
        branches: trace.branches.filter(({ gap }) => gap === undefined),
      })),
    }));
    const session = new EngineSession(this.engine, this.folder, this.log);
    const { findings } = await prove(session, { passes: seen }, PRECISION).catch(this.unbelieved);
    this.log.record('engine_canary', Object.fromEntries(findings.map(({ what, off }) => [what, off])));
    const hint = '--policy <folder of the model that is served>, or --engine-model';
    this.refuse(findings, "is another model than the policy's", hint);
  }

  private readonly unbelieved = (error: unknown): never => {
    if (!(error instanceof TraceRejected) || error.code === REFUSED) throw error;
    throw this.unfit(`is not to be believed: ${error.reason}`, 'look at how it is served');
  };

  private ask(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    return this.engine.logprobs(questions).catch(this.unbelieved);
  }

  private assertSame(when: string, found: readonly LogprobAnswer[], before: readonly LogprobAnswer[]): void {
    const compared = found.map(({ logprobs }, n) => {
      return [logprobs, before[n]?.logprobs ?? [], (t: number) => `token ${t} of probe ${n}`] as const;
    });
    const finding = farthest('log p', NATS[PRECISION], compared);
    this.refuse([finding], `does not say the same ${when}`, 'look at how it is served');
  }

  private refuse(findings: readonly CanaryFinding[], what: string, hint: string): void {
    const wrong = beyond(findings);
    if (wrong.length > 0) throw this.unfit(`${what}: ${wrong.map(describeFinding).join('; ')}`, hint);
  }

  private unfit(why: string, hint: string): RredcotError {
    return new RredcotError(`${this.server.url}: ${this.name} ${why}`, { exitCode: EXIT.device, hint });
  }
}

/** At three places of what is asked two tokens of another: few follow there. */
function probesOf({ ids, from }: LogprobQuestion): LogprobQuestion[] {
  const places = [1, 2, 3].map((n) => Math.max(1, from + Math.floor(((ids.length - from) * n) / 4)));
  return places.map((at, n) => {
    const other = places[(n + 1) % places.length] as number;
    const own = joinIds(ids.subarray(0, at), ids.subarray(other, other + 2));
    return { name: `probe ${n}`, ids: own, shared: at, from: at };
  });
}
