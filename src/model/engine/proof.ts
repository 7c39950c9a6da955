// What an engine has to show before its first answer counts: the same however it is asked, and what the policy's folder knows of its model.
import { sum } from '../../credit/rules.js';
import { EXIT, RredcotError, TraceRejected } from '../../errors.js';
import type { Log } from '../../report/log.js';
import {
  beyond,
  type CanaryFinding,
  checkedIds,
  describeFinding,
  farthest,
  prove,
  readCanary,
} from '../onnx/canary.js';
import type { PolicyFolder } from '../onnx/folder.js';
import type { OpenPolicy } from '../onnx/open-model.js';
import { joinIds } from '../text/encode.js';
import type { LogprobQuestion } from './engine.js';
import { answerNoise } from './noise.js';
import { engineSession } from './session.js';
import type { LogprobAnswer } from './wire.js';

/** So many times so many tokens are probed, as long as an answer is; among so many of a text, of which every engine that caches has whole blocks. */
const [PROBES, PROBED, TEXT_TOKENS] = [10, 3, 128];
/** Nobody computes this of tokens that do not follow. */
const CERTAIN = -1e-6;
/** Servers do not say what they compute in. */
const PRECISION = 'bf16';

/**
 * Lets an engine prove itself.
 * @param before its answers before it was away
 * @returns its answers, and their noise, nats, as {@link answerNoise} has it
 * @throws RredcotError (exit 69) where it does not
 */
export async function proofOf(
  engine: Parameters<typeof engineSession>[0],
  { policy, tokenizer }: Pick<OpenPolicy, 'policy' | 'tokenizer'>,
  log: Log,
  before?: readonly LogprobAnswer[],
) {
  const unfit = (why: string, hint = 'look at how it is served, and by what (docs/engines.md)') =>
    new RredcotError(`${engine.name} ${why}`, { exitCode: EXIT.device, hint });
  const refuse = (what: string, findings: readonly CanaryFinding[]): void => {
    const wrong = beyond(findings);
    if (wrong.length > 0) throw unfit(`${what}: ${wrong.map(describeFinding).join('; ')}`);
  };
  const session = engineSession(engine, policy, log);
  const probes = probesOf((await checkedIds(tokenizer, policy.exitTemplate)).ids.subarray(0, TEXT_TOKENS));
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
    if (before) refuse('does not say the same since it was away', [compare(answers, before)]);
    const known = anew.map(({ logprobs }) => sum(logprobs));
    const said = [alone, answers].flatMap((all) =>
      all.map(({ logprobs }, n) => [sum(logprobs), known[n] as number] as const),
    );
    let noise = answerNoise(said);
    if ('canary' in policy) {
      const { passes } = await readCanary(policy as PolicyFolder);
      // an engine hides no tokens
      const seen = passes.filter(({ traces }) =>
        traces.every(({ branches }) => branches.every(({ gap }) => !gap)),
      );
      const { findings, noise: ofModel } = await prove(session, { passes: seen }, PRECISION);
      log.record('engine_canary', Object.fromEntries(findings.map(({ what, off }) => [what, off])));
      refuse("is another model than the policy's (--policy, --engine-model)", findings);
      noise = Math.max(noise, ofModel);
    }
    log.info(`${engine.name}: log p of an answer has a noise of ${noise.toPrecision(2)} nats`);
    return { answers, noise };
  } catch (error) {
    throw error instanceof TraceRejected ? unfit(`is not to be believed: ${error.reason}`) : error;
  }
}

/** At places of a text, in turn the tokens that follow, and those of another place: few follow there. */
function probesOf(ids: Int32Array): LogprobQuestion[] {
  const place = (n: number) => Math.max(1, Math.floor((ids.length * (n + 1)) / (PROBES + 1)));
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
