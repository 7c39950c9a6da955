// What an engine has to show before its first answer counts: the same however it is asked, and what the policy's folder knows of its model.
import { sum } from '../../credit/rules.js';
import { deviceError, TraceRejected } from '../../errors.js';
import type { Log } from '../../report/log.js';
import { type CanaryFinding, checkedIds, farthest, faultsOf, prove, readCanary } from '../onnx/canary.js';
import type { PolicyFolder, TextFolder } from '../onnx/folder.js';
import type { OpenPolicy } from '../onnx/open-model.js';
import { joinIds } from '../text/encode.js';
import type { AnswersFile } from './answers-file.js';
import type { Engine, LogprobQuestion } from './engine.js';
import { answerNoise } from './noise.js';
import { engineSession } from './session.js';
import type { LogprobAnswer } from './wire.js';

/** So many times so many tokens are probed, as long as an answer is; among so many of a text, of which every engine that caches has whole blocks. */
const [PROBES, PROBED, TEXT_TOKENS] = [10, 3, 128];
/** Nobody computes this of tokens that do not follow. */
const CERTAIN = -1e-6;
/** Engines do not say what they compute in. */
const PRECISION = 'bf16';

type ToProve = Parameters<typeof engineSession>[0];

/** Lets an engine prove itself. @param before its answers before it was away @returns its answers, and their noise @throws RredcotError (exit 69) */
export async function proofOf(
  engine: ToProve,
  { policy, tokenizer }: Pick<OpenPolicy, 'policy' | 'tokenizer'>,
  log: Log,
  before?: readonly LogprobAnswer[],
) {
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
        engine,
        'is certain of tokens that do not follow: its log-probabilities are among what it may write',
        'vLLM: --logprobs-mode raw_logprobs',
      );
    refuse(engine, 'does not say the same asked anew', [compare(anew, answers)]);
    if (before) refuse(engine, 'does not say the same since it was away', [compare(answers, before)]);
    const known = anew.map(({ logprobs }) => sum(logprobs));
    const said = [alone, answers].flatMap((all) =>
      all.map(({ logprobs }, n) => [sum(logprobs), known[n] as number] as const),
    );
    const noise = Math.max(answerNoise(said), (await noiseOfModel(engine, policy, log)) ?? 0);
    log.info(`${engine.name}: log p of an answer has a noise of ${noise.toPrecision(2)} nats`);
    return { answers, noise };
  } catch (error) {
    throw error instanceof TraceRejected ? unfit(engine, `is not to be believed: ${error.reason}`) : error;
  }
}

/** Asks an engine what the policy's folder knows of its model; undefined where that is nothing. @param most passes of its canary @returns noise, nats */
export async function noiseOfModel(engine: ToProve, policy: TextFolder, log: Log, most?: number) {
  if (!('canary' in policy)) return undefined;
  const { passes } = await readCanary(policy as PolicyFolder);
  // an engine hides no tokens
  const seen = passes
    .filter(({ traces }) => traces.every(({ branches }) => branches.every(({ gap }) => !gap)))
    .map((pass) => ({ ...pass, traces: pass.traces.map((own) => ({ ...own, trace: { id: 'canary' } })) }));
  const session = engineSession(engine, policy, log);
  const { findings, noise } = await prove(session, { passes: seen.slice(0, most) }, PRECISION);
  log.record('engine_canary', Object.fromEntries(findings.map(({ what, off }) => [what, off])));
  refuse(engine, "is another model than the policy's (--policy, --engine-model)", findings);
  return noise;
}

/** Answers that are there, some of the folder's canary among them. @throws RredcotError (exit 69) where they are another model's */
export async function provedAnswers(engine: AnswersFile, policy: TextFolder, log: Log): Promise<Engine> {
  const answer: Engine['answer'] = (questions) => Promise.all(questions.map(engine.find));
  const noise = await noiseOfModel({ ...engine, answer }, policy, log, 1).catch((error) => {
    if (!(error instanceof TraceRejected)) throw error;
  });
  if (noise === undefined)
    log.warn('engine_unproved', `whether the answers of ${engine.name} are the policy's nobody knows`);
  return { ...engine, noise: Math.max(engine.noise ?? 0, noise ?? 0) };
}

function unfit({ name }: ToProve, why: string, hint = 'look at how it is served (docs/engines.md)') {
  return deviceError(`${name} ${why}`, hint);
}

function refuse(engine: ToProve, what: string, findings: readonly CanaryFinding[]): void {
  const wrong = faultsOf(findings);
  if (wrong !== '') throw unfit(engine, `${what}: ${wrong}`);
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
