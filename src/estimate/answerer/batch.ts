// Puts the traces of a batch to the policy: one run with all branches, or a second one for the branches; refuses numbers that cannot be.
import { dataError, OutOfMemoryError, TraceRejected } from '../../errors.js';
import { deviceName } from '../../model/onnx/device.js';
import { sharingRoom } from '../../model/onnx/layout.js';
import { type Branch, nextKept, type PackedTrace, type TraceScores } from '../../model/onnx/placed.js';
import { BATCH_ROWS, type Strategy, type TraceJob } from '../../model/onnx/plan.js';
import type { ModelSession, PolicyRuns } from '../../model/onnx/session.js';
import { shareTails, tailScores } from '../../model/onnx/tails.js';
import { joinIds } from '../../model/text/encode.js';
import type { Answer, Answers, Question, TokenizedTrace } from '../../question.js';
import { candidateExits, mergeSegments, placesOf, type Segmentation } from '../../segment/segment.js';
import { silenced } from '../../trace.js';

/** The end of the last two-run of each session: one trace's keys and values are held at a time, however many wait. */
const lastTwoRuns = new WeakMap<PolicyRuns, Promise<unknown>>();

/**
 * Scores the traces of a batch. Where memory runs out, the two halves are tried by themselves.
 * @returns a result a trace, in order; a TraceRejected for one that does not fit alone
 * @throws RredcotError (exit 65) where the policy gives numbers that cannot be
 */
export async function runBatch(
  session: PolicyRuns,
  jobs: readonly TraceJob[],
  strategy: Strategy,
): Promise<readonly (Answers | TraceRejected)[]> {
  try {
    return await (strategy === 'one-run' ? oneRun : twoRuns)(session, jobs);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    if (jobs.length > 1) {
      const half = Math.ceil(jobs.length / 2);
      const first = await runBatch(session, jobs.slice(0, half), strategy);
      return [...first, ...(await runBatch(session, jobs.slice(half), strategy))];
    }
    if (strategy === 'one-run') return runBatch(session, jobs, 'two-run');
    const reason = `the machine has not enough memory for its ${jobs[0]?.ids.length} tokens: run it where there is more`;
    return [new TraceRejected('out_of_memory', reason)];
  }
}

async function oneRun(session: PolicyRuns, jobs: readonly TraceJob[]): Promise<Answers[]> {
  const plans = jobs.map((job) => planExits(job, Array.from(candidateExits(job.pieces))));
  const asked = jobs.map((job, b) => ({ ...job, branches: (plans[b] as ExitPlan).branches, ...rowsOf(job) }));
  const scored = await session.run(asked);
  assertPossible(scored, jobs, session);
  return scored.map((read, b) => {
    const job = jobs[b] as TraceJob;
    return answersOf(job, plans[b] as ExitPlan, cutBy(job, read), read, read.branches);
  });
}

async function twoRuns(session: PolicyRuns, jobs: readonly TraceJob[]): Promise<Answers[]> {
  if (session.width !== undefined) return runTwice(session, jobs);
  const mine = Promise.resolve(lastTwoRuns.get(session)).then(() => runTwice(session, jobs));
  lastTwoRuns.set(
    session,
    mine.catch(() => {}), // the next one starts all the same
  );
  return mine;
}

async function runTwice(session: PolicyRuns, jobs: readonly TraceJob[]): Promise<Answers[]> {
  const kept = nextKept();
  try {
    const asked = jobs.map((job) => ({ ...job, branches: [], ...rowsOf(job) }));
    const read = await session.run(asked, kept);
    assertPossible(read, jobs, session);
    const cuts = jobs.map((job, b) => cutBy(job, read[b] as TraceScores));
    const plans = jobs.map((job, b) => planExits(job, Array.from((cuts[b] as OwnCut).segmentation.exits)));
    const branches = plans.map((plan) => plan.branches);
    const scored = await session.branches(kept, branches);
    assertPossible(scored, jobs, session);
    return plans.map((plan, b) => {
      const said = (scored[b] as TraceScores).branches;
      return answersOf(jobs[b] as TraceJob, plan, cuts[b] as OwnCut, read[b] as TraceScores, said);
    });
  } finally {
    await session.release(kept).catch(() => {}); // a session that has failed keeps nothing
  }
}

type OwnCut = ReturnType<typeof cutBy>;

/** What the policy says of its own tokens, and the cut by that: of what it was shown it is neither unsure nor surprised. */
function cutBy({ pieces }: TraceJob, { entropies, logprobs }: TraceScores) {
  const { own } = pieces.tokens;
  const figures = { entropies: silenced(entropies, own), logprobs: silenced(logprobs, own) };
  return { ...figures, segmentation: mergeSegments(pieces, figures) };
}

/** All that is said of a trace, at the exits that its cut has. @param scored of the plan's branches */
function answersOf(
  job: TraceJob,
  { exits, N, shared }: ExitPlan,
  cut: OwnCut,
  { logprobs, states, last, likeliest }: TraceScores,
  scored: readonly Answer[],
): Answers {
  const { segmentation } = cut;
  const places = Array.from(segmentation.exits, (exit) => exits.indexOf(exit));
  const tails = shared && tailScores(shared, exits, logprobs, scored.slice(exits.length * N));
  return {
    ...cut,
    branches: places.map((k) => scored.slice(k * N, (k + 1) * N)),
    ...(tails && { tails: places.map((k) => tails[k] as readonly Answer[]) }),
    ...(states && { states: chosenStates(states, job, segmentation) }),
    ...(last && { last }),
    ...(likeliest && { likeliest }),
  };
}

/** Where rows of hidden numbers are asked for; states at every exit that the cut may have, since it is not known yet. */
function rowsOf({ asked, pieces, promptLength }: TraceJob): Pick<PackedTrace, 'states' | 'last'> {
  const states = asked.states && Array.from(candidateExits(pieces), (exit) => promptLength + exit);
  return { states, last: asked.last || undefined };
}

/** (K+1 · d) those of the exits that the cut has. */
function chosenStates(states: Uint16Array, { pieces }: TraceJob, { exits }: Segmentation): Uint16Array {
  const places = placesOf(pieces);
  const d = states.length / candidateExits(pieces).length;
  const chosen = new Uint16Array(exits.length * d);
  for (const [k, exit] of exits.entries()) {
    const from = (places.get(exit) as number) * d;
    chosen.set(states.subarray(from, from + d), k * d);
  }
  return chosen;
}

type ExitPlan = ReturnType<typeof planExits>;

/** What is scored of a trace at some of its exits: exit by exit its N continuations, then what the tails need. */
function planExits({ ids, promptLength, asked }: TraceJob, exits: readonly number[]) {
  const { atExits, tails } = asked;
  const N = atExits.length;
  const shared = tails && shareTails(ids.subarray(promptLength), exits, tails);
  const questions = exits.flatMap((after) => atExits.map((each): Question => ({ ...each, after })));
  const ofTails = shared?.branches.map(({ exit, suffix }): Question => ({ ...suffix, after: exit })) ?? [];
  const branches = [...questions, ...ofTails].map((question) => branchOf(ids, promptLength, question));
  return { exits, N, shared, branches };
}

/** A question as a branch. Where its own first token is scored, the token before it comes along, and keeps its place. */
export function branchOf(
  ids: Int32Array,
  promptLength: number,
  { after, hidden, ids: own, scoredFrom, ...also }: Question,
): Branch {
  const exit = promptLength + after;
  const before = scoredFrom > 0 ? 0 : 1;
  const behind = before === 0 ? own : joinIds(ids.subarray(exit - 1, exit), own);
  const gap = hidden === undefined ? {} : { gap: { before, tokens: hidden } };
  return { exit: exit - before, ids: behind, scoredFrom: scoredFrom + before, ...also, ...gap };
}

/** What reads a trace once for questions that come in several runs. */
export type KeepsPrefix = Omit<PolicyRuns, 'run'> & Pick<ModelSession, 'keepPrefixes'>;

/**
 * Answers questions about one trace whose cut is known, however many and long they are.
 * @param exits (K+1) of the cut
 * @throws TraceRejected (`out_of_memory`); RredcotError (exit 65) as {@link runBatch}
 */
export async function answerCut(
  session: KeepsPrefix,
  job: Pick<TokenizedTrace, 'trace' | 'promptIds' | 'completionIds'>,
  exits: Int32Array,
  questions: readonly Question[],
): Promise<Answer[]> {
  const { promptIds, completionIds } = job;
  const prefix = joinIds(promptIds, completionIds.subarray(0, exits[exits.length - 1]));
  const branches = questions.map((question) => branchOf(prefix, promptIds.length, question));
  const kept = nextKept();
  const answers: Answer[] = [];
  try {
    await session.keepPrefixes(kept, [{ ids: prefix, promptLength: promptIds.length, trace: job.trace }]);
    const room = BATCH_ROWS[session.device?.name ?? 'cpu'];
    for (const batch of sharingRoom(branches, room, ({ ids }) => ids.length)) {
      const found = await session.branches(kept, [batch]);
      assertPossible(found, [job], session);
      answers.push(...(found[0] as TraceScores).branches);
    }
    return answers;
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    const longest = branches.reduce((most, { ids }) => Math.max(most, ids.length), 0);
    const reason = `the machine has not enough memory to read its ${prefix.length} tokens again without a segment, ${longest} at once: --estimator pr does not, or run it where there is more`;
    throw new TraceRejected('out_of_memory', reason);
  } finally {
    await session.release(kept).catch(() => {}); // a session that has failed keeps nothing
  }
}

/** How far rounding may take an entropy beyond 0 and ln V, nats. */
const ENTROPY_ROUNDING = 1e-4;
/** The same of log p beyond 0: a token's logit and the sum over the vocabulary are computed apart. */
const LOGPROB_ROUNDING = 1e-3;

/**
 * A broken policy or device: nothing that it says can be trusted, so the run ends.
 * @param jobs one a trace
 * @throws RredcotError (exit 65) for a log p or entropy that is no number, or outside of what there can be
 */
function assertPossible(
  scores: readonly TraceScores[],
  jobs: readonly Pick<TraceJob, 'trace'>[],
  { vocab, device = { name: 'cpu' }, folder }: Pick<PolicyRuns, 'vocab' | 'device' | 'folder'>,
): void {
  const most = vocab === undefined ? Number.POSITIVE_INFINITY : Math.log(vocab);
  const range = vocab === undefined ? 'a finite number' : `${most.toFixed(2)} (ln V)`;
  for (const [b, { entropies, logprobs, branches }] of scores.entries()) {
    const fail = (what: string): never => {
      const { source, id } = jobs[b]?.trace ?? {};
      throw dataError(
        `${source?.file}:${source?.row} (id ${JSON.stringify(id)}): ${folder?.path ?? 'the policy'} on ${deviceName(device)} gave ${what}`,
        device.name === 'cpu'
          ? 'the checkpoint may be damaged, or not of the kind that its config.json says: build it again'
          : `--device cpu does without it; rredcot doctor --device ${deviceName(device)} tests it`,
      );
    };
    for (const [t, entropy] of entropies.entries())
      if (!(entropy >= -ENTROPY_ROUNDING && entropy <= most + ENTROPY_ROUNDING && entropy < Infinity))
        fail(`entropy ${entropy} at completion token ${t}, expected 0 to ${range}`);
    const at = logprobs.findIndex(isNoLogprob);
    if (at >= 0) fail(`log p ${logprobs[at]} of completion token ${at}, expected a number up to 0`);
    const found = branches.flatMap((branch) => [...branch]).find(isNoLogprob);
    if (found !== undefined) fail(`log p ${found} in a reference, expected a number up to 0`);
  }
}

function isNoLogprob(logprob: number): boolean {
  return !(logprob <= LOGPROB_ROUNDING && logprob > Number.NEGATIVE_INFINITY);
}
