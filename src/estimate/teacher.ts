// A teacher, who reads every trace once more, beside any estimator: another policy's folder, or a server.
import { isDeepStrictEqual } from 'node:util';
import { usageError } from '../errors.js';
import { addressOf, serverLimits } from '../flag-values.js';
import type { PolicyFolder } from '../model/onnx/folder.js';
import type { ReaderAnswers } from '../question.js';
import type { EstimatorSetup, FlagValues, LoadContext, OpenEstimator } from './estimator.js';
import { listColumn } from './value.js';

export type TaughtAnswers = ReaderAnswers & { readonly kl: Float32Array };

/** KL of two that are one, in any arithmetic, nats: that of rounding is a thousandth of it. */
const SAME = 1e-4;

/** A share of the policy's probability, in the mean, of which nobody has told whether the teacher gives it to the same tokens. */
const MUCH = 0.05;

const TEACHER = { name: 'teacher', code: 'teacher', flag: '--teacher' } as const;

export const TEACHER_COLUMNS = [
  listColumn('teacher_logprobs', 'log-probability of each completion token under the teacher, nats'),
  listColumn('teacher_entropies', "entropy of the teacher's distribution at each completion token, nats"),
  listColumn('kl', 'KL(policy ‖ teacher) at each completion token, nats; of servers a lower bound'),
];

type TeacherRefusal = (why: string, hint?: string) => Error;

/** An estimator beside which a teacher reads. @param path a folder, or an address @throws RredcotError (exit 2) for what is neither */
export function taught(
  own: EstimatorSetup,
  path: string,
  isOfRow: boolean,
  flags: FlagValues,
): EstimatorSetup {
  const refuse: TeacherRefusal = (
    why,
    hint = `${TEACHER.flag} <another policy folder with the same tokenizer>`,
  ) => usageError(`${TEACHER.flag} ${path}: ${why}`, hint);
  if (isOfRow) throw refuse('no policy reads the traces with this --estimator', 'another --estimator');
  const served = /^https?:/.test(path) && {
    address: addressOf(TEACHER.flag, path),
    ...serverLimits(flags as Parameters<typeof serverLimits>[0]),
  };
  return {
    ...own,
    async open(context): Promise<OpenEstimator> {
      const opened = await own.open(context);
      if (opened.second !== undefined)
        throw refuse('this --estimator has traces read a second time already', 'another --estimator');
      const teacher = served
        ? await openServedTeacher(served, context)
        : await openTeacher(path, context, refuse);
      const { name } = TEACHER;
      let farthest = Number.NaN;
      const apart = { sum: 0, count: 0 };
      return {
        ...opened,
        config: { ...opened.config, teacher: teacher.config },
        second: { ...teacher.reader, name, isCompared: true },
        async ask(trace) {
          teacher.check?.(trace, []);
          const asked = (await opened.ask?.(trace)) ?? { atExits: trace.continuations };
          return { ...asked, second: {} };
        },
        values(trace, answers, asked) {
          const { logprobs, entropies, kl, apart: own } = answers.second as TaughtAnswers;
          farthest = kl.reduce((most, each) => Math.max(most, each), Number.isNaN(farthest) ? 0 : farthest);
          apart.sum += own ?? 0;
          apart.count += own === undefined ? 0 : kl.length;
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
          if (apart.count > 0) tellApart(context, path, apart.sum / apart.count);
          await opened[Symbol.asyncDispose]?.();
          await teacher[Symbol.asyncDispose]();
        },
      };
    },
  };
}

/** How good a bound is: what lies elsewhere counts as if both shared it out alike. */
function tellApart({ log }: LoadContext, path: string, mean: number): void {
  const told = `${TEACHER.flag} ${path}: kl is a lower bound: ${(100 * mean).toPrecision(2)} % of the policy's probability, in the mean, is of tokens that were not told of both`;
  if (mean > MUCH) log.warn('kl_bound', `${told}: exact of two policy folders`);
  else log.info(told);
}

/** Opens a server, which tells the likeliest tokens. @throws RredcotError: exit 2 for another tokenizer, 69 as `openServed` */
async function openServedTeacher(
  { address, patience, width }: { readonly address: URL } & ReturnType<typeof serverLimits>,
  context: LoadContext,
) {
  const { policy, tokenizer, log, signal } = context;
  const { openServer } = await import('../model/engine/http.js');
  const { openServed, refuseOtherTokens } = await import('../model/engine/served.js');
  // a server of several is told which: http://localhost:8000#name
  const model = decodeURIComponent(address.hash.slice(1)) || undefined;
  const url = Object.assign(new URL(address), { hash: '' });
  const naming = `${TEACHER.flag} '${url}#<one of them>'`;
  const server = openServer(url, patience, log, signal);
  // of its model no folder knows numbers
  const { canary: _, ...folder } = policy as PolicyFolder;
  const opened = { policy: folder, tokenizer };
  await refuseOtherTokens(server, tokenizer, policy);
  const engine = await openServed(undefined, { server, model, naming, width, opened, log });
  return {
    config: engine.config,
    reader: { engine },
    check: undefined,
    [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose](),
  };
}

/**
 * Opens its folder.
 * @throws RredcotError as `openSecond`; exit 2 also for the policy's own weights, for a token that the two spell otherwise, and where one has
 * no weights that we read
 */
async function openTeacher(path: string, context: LoadContext, refuse: TeacherRefusal) {
  const { openSecond, secondConfig, tokenText } = await import('./second-policy.js');
  const teacher = await openSecond(path, context, TEACHER);
  const { policy } = context;
  const read = context.engine === undefined ? [policy, teacher.policy] : [teacher.policy];
  for (const { architecture, path } of read)
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
  return {
    config: secondConfig(teacher),
    reader: { model: teacher },
    check: teacher.check,
    [Symbol.asyncDispose]: () => teacher[Symbol.asyncDispose](),
  };
}
