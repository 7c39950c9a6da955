// What an engine has to show before its first answer counts: the same however it is asked, and what the policy's folder knows of its model.
import { sum } from '../../credit/rules.js';
import { EXIT, RredcotError, TraceRejected } from '../../errors.js';
import type { Log } from '../../report/log.js';
import { beyond, type CanaryFinding, describeFinding, farthest, prove, readCanary } from '../onnx/canary.js';
import type { PolicyFolder, TextFolder } from '../onnx/folder.js';
import { joinIds } from '../text/encode.js';
import type { LogprobQuestion } from './engine.js';
import { REFUSED } from './http.js';
import { answerNoise } from './noise.js';
import { EngineSession } from './session.js';
import type { LogprobAnswer } from './wire.js';

/** So many times so many tokens are probed, as long as an answer is; among so many of a completion. */
const [PROBES, PROBED, PROBED_TOKENS] = [10, 3, 512];
/** Nobody computes this of tokens that do not follow. */
const CERTAIN = -1e-6;
/** Servers do not say what they compute in. */
const PRECISION = 'bf16';

/** Of an engine that has proved itself. */
export interface EngineProof {
  readonly probes: readonly LogprobQuestion[];
  readonly answers: readonly LogprobAnswer[];
  /** nats, as {@link answerNoise} has it */
  readonly noise: number;
}

type Unproved = ConstructorParameters<typeof EngineSession>[0];

/**
 * Lets an engine prove itself.
 * @param probes on tokens of a trace @param before its proof before it was away
 * @throws RredcotError (exit 69) where it does not; TraceRejected where it refuses this trace
 */
export async function proofOf(
  engine: Unproved,
  probes: readonly LogprobQuestion[],
  folder: TextFolder,
  log: Log,
  before?: EngineProof,
): Promise<EngineProof> {
  const unfit = (why: string, hint = 'look at how it is served, and by what (docs/engines.md)') =>
    new RredcotError(`${engine.name} ${why}`, { exitCode: EXIT.device, hint });
  const refuse = (what: string, findings: readonly CanaryFinding[]): void => {
    const wrong = beyond(findings);
    if (wrong.length > 0) throw unfit(`${what}: ${wrong.map(describeFinding).join('; ')}`);
  };
  const session = new EngineSession(engine, folder, log);
  let mayRefuse = before === undefined;
  try {
    const [alone, anew]: [LogprobAnswer[], LogprobAnswer[]] = [[], []];
    for (const probe of probes) {
      alone.push(...(await session.ask([probe])));
      anew.push(...(await session.ask([{ ...probe, fresh: true }])));
    }
    const answers = await session.ask(probes);
    if (answers.every(({ logprobs }) => logprobs.every((lp) => lp > CERTAIN)))
      throw unfit(
        'is certain of tokens that do not follow: its log-probabilities are among what it may write',
        'vLLM: --logprobs-mode raw_logprobs',
      );
    refuse('does not say the same asked anew', [compare(anew, answers)]);
    if (before) refuse('does not say the same since it was away', [compare(answers, before.answers)]);
    const known = anew.map(({ logprobs }) => sum(logprobs));
    const said = [alone, answers].flatMap((all) =>
      all.map(({ logprobs }, n) => [sum(logprobs), known[n] as number] as const),
    );
    let noise = answerNoise(said);
    if ('canary' in folder) {
      const { passes } = await readCanary(folder as PolicyFolder);
      // an engine hides no tokens
      const seen = passes.filter(({ traces }) =>
        traces.every(({ branches }) => branches.every(({ gap }) => !gap)),
      );
      mayRefuse = false;
      const { findings, noise: ofModel } = await prove(session, { passes: seen }, PRECISION);
      log.record('engine_canary', Object.fromEntries(findings.map(({ what, off }) => [what, off])));
      refuse("is another model than the policy's (--policy, --engine-model)", findings);
      noise = Math.max(noise, ofModel);
    }
    log.info(`${engine.name}: log p of an answer has a noise of ${noise.toPrecision(2)} nats`);
    return { probes, answers, noise };
  } catch (error) {
    // what it refuses of a trace is one thing, another what it says that cannot be
    if (!(error instanceof TraceRejected) || (mayRefuse && error.code === REFUSED)) throw error;
    throw unfit(`is not to be believed: ${error.reason}`);
  }
}

/** At places of what is asked, not far in, in turn the tokens that follow, and those of another place: few follow there. */
export function probesOf({ ids, from }: LogprobQuestion): LogprobQuestion[] {
  const length = Math.min(ids.length - from, PROBED_TOKENS);
  const place = (n: number) => Math.max(1, from + Math.floor((length * (n + 1)) / (PROBES + 1)));
  return Array.from({ length: PROBES }, (_, n) => {
    const at = place(n);
    const other = n % 2 === 0 ? at : place((n + PROBES / 2) % PROBES);
    const own = joinIds(ids.subarray(0, at), ids.subarray(other, other + PROBED));
    return { name: `probe ${n}`, ids: own, shared: at, from: at };
  });
}

function compare(found: readonly LogprobAnswer[], before: readonly LogprobAnswer[]): CanaryFinding {
  const compared = found.map(({ logprobs }, n) => {
    return [logprobs, before[n]?.logprobs ?? [], (t: number) => `token ${t} of probe ${n}`] as const;
  });
  return farthest('log p', PRECISION, compared);
}
