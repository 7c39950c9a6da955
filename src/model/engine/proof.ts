// What an engine has to show before its first answer counts: the same however it is asked, and what the policy's folder knows of its model.
import { EXIT, RredcotError, TraceRejected } from '../../errors.js';
import type { Log } from '../../report/log.js';
import { beyond, type CanaryFinding, describeFinding, farthest, prove, readCanary } from '../onnx/canary.js';
import type { PolicyFolder, TextFolder } from '../onnx/folder.js';
import { joinIds } from '../text/encode.js';
import type { Engine, LogprobAnswer, LogprobQuestion } from './engine.js';
import { REFUSED } from './http.js';
import { answerNoise } from './noise.js';
import { EngineSession } from './session.js';

/** So many times so many tokens are probed, as long as an answer is; among so many of a completion. */
const [PROBES, PROBED, PROBED_TOKENS] = [10, 3, 512];
/** A prefix of which every engine that caches has whole blocks. */
const CACHED_PREFIX = 96;
/** Nobody computes this of tokens that do not follow. */
const CERTAIN = -1e-6;
/** Servers do not say what they compute in. */
const PRECISION = 'bf16';
/** What is wrong lies there. */
const HINT = 'look at how it is served, and by what (docs/engines.md)';

/** Of an engine that has proved itself. */
export interface EngineProof {
  /** nats, as {@link answerNoise} has it */
  readonly noise: number;
  /** @throws RredcotError (exit 69) where what answers now says something else */
  again(): Promise<EngineProof>;
}

/**
 * Lets an engine prove itself.
 * @param first of a trace, on whose tokens it is tried
 * @throws RredcotError (exit 69) where it does not; TraceRejected where it refuses this trace
 */
export async function proofOf(
  engine: Engine,
  first: LogprobQuestion,
  folder: TextFolder,
  log: Log,
): Promise<EngineProof> {
  const probes = probesOf(first);
  const [alone, anew]: [LogprobAnswer[], LogprobAnswer[]] = [[], []];
  for (const probe of probes) {
    alone.push(...(await ask(engine, [probe])));
    anew.push(...(await ask(engine, [{ ...probe, fresh: true }])));
  }
  const answers = await ask(engine, probes);
  if (answers.every(({ logprobs }) => logprobs.every((lp) => lp > CERTAIN)))
    throw unfit(
      engine,
      'is certain of tokens that do not follow: its log-probabilities are among what it may write',
      'vLLM: --logprobs-mode raw_logprobs',
    );
  refuse(engine, 'does not say the same asked anew', [compare(anew, answers)]);
  const total = (said: readonly LogprobAnswer[]) =>
    said.map(({ logprobs }) => logprobs.reduce((sum, lp) => sum + lp, 0));
  const known = total(anew);
  const pairs = [alone, answers].flatMap((said) =>
    total(said).map((sum, n) => [sum, known[n] ?? 0] as const),
  );
  const ofModel = 'canary' in folder ? await proveModel(engine, folder as PolicyFolder, log) : 0;
  const noise = Math.max(answerNoise(pairs), ofModel);
  log.info(`${engine.name}: log p of an answer has a noise of ${noise.toPrecision(2)} nats`);
  const { shared = 0, cached } = { ...probes.at(-1), ...answers.at(-1) };
  const lacks =
    cached === 0
      ? 'caches no prefix, so that each exit costs its whole trace (vLLM: --enable-prefix-caching)'
      : 'does not say what it has cached (vLLM: --enable-prompt-tokens-details)';
  if (shared >= CACHED_PREFIX && !cached) log.warn('engine_cache', `${engine.name} ${lacks}`);
  const proof: EngineProof = {
    noise,
    async again() {
      const now = await ask(engine, probes);
      refuse(engine, 'does not say the same since it was away', [compare(now, answers)]);
      return proof;
    },
  };
  return proof;
}

/** At places of what is asked, not far in, in turn the tokens that follow, and those of another place: few follow there. */
function probesOf({ ids, from }: LogprobQuestion): LogprobQuestion[] {
  const length = Math.min(ids.length - from, PROBED_TOKENS);
  const place = (n: number) => Math.max(1, from + Math.floor((length * (n + 1)) / (PROBES + 1)));
  return Array.from({ length: PROBES }, (_, n) => {
    const at = place(n);
    const other = n % 2 === 0 ? at : place((n + PROBES / 2) % PROBES);
    const own = joinIds(ids.subarray(0, at), ids.subarray(other, other + PROBED));
    return { name: `probe ${n}`, ids: own, shared: at, from: at };
  });
}

/** @returns noise, by what the folder's model has said in float32. @throws RredcotError (exit 69) where that is another model */
async function proveModel(engine: Engine, folder: PolicyFolder, log: Log): Promise<number> {
  const { passes } = await readCanary(folder);
  // an engine hides no tokens
  const seen = passes.filter(({ traces }) =>
    traces.every(({ branches }) => branches.every(({ gap }) => gap === undefined)),
  );
  const session = new EngineSession(engine, folder, log);
  const { findings, noise } = await prove(session, { passes: seen }, PRECISION).catch((error) => {
    throw error instanceof TraceRejected
      ? unfit(engine, `does not answer the canary: ${error.reason}`)
      : error;
  });
  log.record('engine_canary', Object.fromEntries(findings.map(({ what, off }) => [what, off])));
  refuse(engine, "is another model than the policy's (--policy, --engine-model)", findings);
  return noise;
}

/** What it refuses is one thing, another what it says that cannot be. */
function ask(engine: Engine, questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
  return engine.logprobs(questions).catch((error) => {
    if (!(error instanceof TraceRejected) || error.code === REFUSED) throw error;
    throw unfit(engine, `is not to be believed: ${error.reason}`);
  });
}

function compare(found: readonly LogprobAnswer[], before: readonly LogprobAnswer[]): CanaryFinding {
  const compared = found.map(({ logprobs }, n) => {
    return [logprobs, before[n]?.logprobs ?? [], (t: number) => `token ${t} of probe ${n}`] as const;
  });
  return farthest('log p', PRECISION, compared);
}

function refuse(engine: Engine, what: string, findings: readonly CanaryFinding[]): void {
  const wrong = beyond(findings);
  if (wrong.length > 0) throw unfit(engine, `${what}: ${wrong.map(describeFinding).join('; ')}`);
}

function unfit({ name }: Engine, why: string, hint = HINT): RredcotError {
  return new RredcotError(`${name} ${why}`, { exitCode: EXIT.device, hint });
}
