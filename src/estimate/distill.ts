// `distill`: how much likelier a teacher is to write each token than the policy that wrote it (arXiv 2605.07865); and the columns of a teacher, beside any estimator.
import { isDeepStrictEqual } from 'node:util';
import { TOKEN_ADVANTAGE } from '../credit/requested.js';
import { sum } from '../credit/rules.js';
import { usageError } from '../errors.js';
import type { PolicyFolder } from '../model/onnx/folder.js';
import type { ReaderAnswers } from '../question.js';
import type { Estimator, EstimatorSetup, LoadContext, OpenEstimator } from './estimator.js';
import { listColumn, summedAttributions } from './value.js';

/** KL of two that are one, in any arithmetic, nats: that of rounding is a thousandth of it. */
const SAME = 1e-4;

const TEACHER = { name: 'teacher', code: 'teacher', flag: '--teacher' } as const;

export const distill: Estimator = {
  name: 'distill',
  scores: 'nothing',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
  card: "no value: what the segments so far count for, each by the sum of its tokens' `token_advantage`: how much likelier a teacher (`teacher`) is to write them than the policy, less what that is in the mean",
  columns: () => [
    listColumn(
      TOKEN_ADVANTAGE,
      'log π_T − log π of each token plus KL(π ‖ π_T): 0 in the mean; no σ, not return-equivalent',
    ),
  ],
  setUp({ teacher }) {
    if (teacher === undefined)
      throw usageError(
        '--estimator distill needs a teacher, which reads what the policy wrote',
        '--teacher <policy folder>; rredcot policy build makes one of a checkpoint',
      );
    return {
      open: () => ({
        ask: () => ({ atExits: [] }),
        values(_, { logprobs, segmentation: { thoughtEnds }, second }) {
          const { logprobs: taught, kl } = second as TaughtAnswers;
          // A_t, whose mean over what π may write is 0
          const advantages = logprobs.map((own, t) => (taught[t] as number) - own + (kl[t] as number));
          const sums = Float64Array.from(thoughtEnds, (end, k) =>
            sum(advantages.subarray(thoughtEnds[k - 1] ?? 0, end)),
          );
          return { values: summedAttributions(sums), columns: { [TOKEN_ADVANTAGE]: advantages } };
        },
      }),
    };
  },
};

type TaughtAnswers = ReaderAnswers & { readonly kl: Float32Array };

// ------ a teacher, who reads every trace once more

export const TEACHER_COLUMNS = [
  listColumn('teacher_logprobs', 'log-probability of each completion token under the teacher, nats'),
  listColumn('teacher_entropies', "entropy of the teacher's distribution at each completion token, nats"),
  listColumn('kl', 'KL(policy ‖ teacher) at each completion token, exact, nats'),
];

/** An estimator beside which a teacher reads. @param answerer in the policy's place, by flags @throws RredcotError (exit 2) for what is no folder */
export function taught(
  own: EstimatorSetup,
  path: string,
  isOfRow: boolean,
  answerer: unknown,
): EstimatorSetup {
  const refuse = (why: string, hint = `${TEACHER.flag} <another policy folder with the same tokenizer>`) =>
    usageError(`${TEACHER.flag} ${path}: ${why}`, hint);
  if (/^https?:/.test(path))
    throw refuse(
      'a server says log p of a few tokens, and KL is of all',
      `score the same rows with --policy-url ${path} --estimator surprise: logprobs are the teacher's then`,
    );
  if (isOfRow) throw refuse('no policy reads the traces with this --estimator', 'another --estimator');
  const refuseAnswerer = (name: unknown) =>
    refuse(
      `${name} answers for the policy, and KL is of whole distributions`,
      'rredcot score by --policy <folder>, without --policy-url and --answers',
    );
  if (answerer !== undefined) throw refuseAnswerer(answerer);
  return {
    ...own,
    async open(context): Promise<OpenEstimator> {
      if (context.engine !== undefined) throw refuseAnswerer(context.engine.name);
      const opened = await own.open(context);
      if (opened.second !== undefined)
        throw refuse('this --estimator has traces read a second time already', 'another --estimator');
      const teacher = await openTeacher(path, context, refuse);
      const { secondConfig } = await import('./second-policy.js');
      let farthest = Number.NaN;
      return {
        ...opened,
        config: { ...opened.config, teacher: secondConfig(teacher) },
        second: { model: teacher, name: TEACHER.name, isCompared: true },
        async ask(trace) {
          teacher.check(trace, []);
          const asked = (await opened.ask?.(trace)) ?? { atExits: trace.continuations };
          return { ...asked, second: {} };
        },
        values(trace, answers, asked) {
          const { logprobs, entropies, kl } = answers.second as TaughtAnswers;
          farthest = kl.reduce((most, each) => Math.max(most, each), Number.isNaN(farthest) ? 0 : farthest);
          const found = opened.values(trace, answers, asked);
          const columns = { teacher_logprobs: logprobs, teacher_entropies: entropies, kl };
          return { ...found, columns: { ...found.columns, ...columns } };
        },
        async [Symbol.asyncDispose]() {
          // its weights in other files are its own, too
          if (farthest < SAME)
            context.log.warn(
              'same_teacher',
              `${TEACHER.flag} ${path}: says what the policy says, KL is ${farthest.toExponential(1)} nats at most: is it another checkpoint?`,
            );
          await opened[Symbol.asyncDispose]?.();
          await teacher[Symbol.asyncDispose]();
        },
      };
    },
  };
}

/**
 * Opens its folder.
 * @throws RredcotError as `openSecond`; exit 2 also for the policy's own weights, for a token that the two spell otherwise, and where one has
 * no weights that we read
 */
async function openTeacher(
  path: string,
  context: LoadContext,
  refuse: (why: string, hint?: string) => Error,
) {
  const { openSecond, tokenText } = await import('./second-policy.js');
  const teacher = await openSecond(path, context, TEACHER);
  const { policy } = context;
  for (const { architecture, path } of [policy, teacher.policy])
    if ('exported' in architecture)
      throw refuse(
        `${path} was exported (${architecture.exported}), and its graph gives no distributions`,
        'policy and teacher of families that rredcot policy build reads (docs/policies.md)',
      );
  // by their hashes, whatever their files are called
  const weightsOf = ({ files }: Pick<PolicyFolder, 'files'>) =>
    Object.keys(files)
      .flatMap((name) => (name.endsWith('.safetensors') ? files[name] : []))
      .sort();
  if (isDeepStrictEqual(weightsOf(policy), weightsOf(teacher.policy)))
    throw refuse('has the weights of the policy itself (sha256), so every value would be 0');
  const [own, its] = [policy.architecture.vocab, teacher.policy.architecture.vocab];
  if (own > its) throw refuse(`has ${its} tokens and the policy ${own}: where it has none KL is infinite`);
  for (let id = 0; id < own; id++) {
    const [a, b] = [tokenText(context.tokenizer, id), tokenText(teacher.tokenizer, id)];
    if (a !== b) throw refuse(`token ${id} is ${a} for the policy and ${b} for the teacher`);
  }
  return teacher;
}
