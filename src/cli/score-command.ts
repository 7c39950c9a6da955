// The flags and help of `score` and `segment`; and those of the credit, which `redistribute` has too.
import type { Command } from 'commander';
import { scoresReferences } from '../credit/nature.js';
import { usageError } from '../errors.js';
import { type CreditFlags, creditFlags, resolveCreditOptions } from '../estimate/credit-flags.js';
import type { FlagValues } from '../estimate/estimator.js';
import { REFERENCE_SOURCES } from '../estimate/references.js';
import { ESTIMATORS, flagsOfAll, loadEstimator, setOwn, setUpEstimator } from '../estimate/registry.js';
import { given, oneOf } from '../flag-values.js';
import { EMBEDDED_POLICY } from '../package-files.js';
import { type CommandCall, isModule, logOf, moduleIn } from './declare.js';
import { type EngineFlags, engineFlags, engineOf } from './engine-flags.js';
import { type JobFlags, jobOptions, refuseWithoutPolicy, run } from './job-flags.js';

/** Each of these declares a command, which reports its exit code and throws what goes wrong. */
export async function score(command: Command, { argv, interruption, done }: CommandCall): Promise<void> {
  await withModule(argv);
  const isAsking = command.name() === 'requests';
  run(command, isAsking ? 'JSONL on stdout' : 'scored.parquet', argv)
    .description(
      isAsking
        ? 'Writes what score with the same flags would ask the policy, as JSON lines that any engine can answer (docs/engines.md). Flags of score that change no question are taken, and not shown here.'
        : 'Runs the policy over every trace and writes it with the entropy of every token, the value at every exit point, and σ.',
    )
    .optionsGroup('Values and credit:')
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option(
      '--references <source>',
      "references: row|group; group: the answers of the group's other correct completions (snis: of the wrong ones too)",
      'row',
    )
    .option(
      '--teacher <folder>',
      'a policy folder, or the address of a vLLM or SGLang server (http://localhost:8000, of several models with #name), with the same tokenizer: also its log-probability and entropy of every token, and KL(policy ‖ teacher), of a server a lower bound; --estimator distill needs it',
    )
    .optionsGroup('Output:')
    .addHelpText(
      'after',
      '\nFlags of an estimator, or a segmenter: rredcot score --estimator <name> --segmenter <name> --help',
    )
    .action(async (inputs: string[], asked: ScoreFlags & FlagValues, command: Command) => {
      const log = await logOf(asked);
      const commandScore = await import('../commands/score.js');
      const { estimator: named = '' } = asked;
      const isDefault = command.getOptionValueSource('estimator') === 'default';
      const ofProver = ESTIMATORS.find(({ isOfProver }) => isOfProver)?.name;
      // a module of the user's own gives its name itself
      const estimator =
        (asked.method === 'hierarchical' && isDefault && ofProver) ||
        (isModule(named) ? await loadEstimator(named) : named);
      const flags = { ...asked, estimator };
      const credit = resolveCreditOptions(flags);
      const references = oneOf('--references', flags.references, REFERENCE_SOURCES);
      if (references === 'group' && !scoresReferences(credit.estimator))
        throw usageError(
          `--references group has no meaning with --estimator ${credit.estimator.name}: no reference is scored`,
          'leave it out',
        );
      const options = jobOptions(flags);
      const isRangeGiven = flags.rewardRange !== 'auto';
      const answers = engineOf(flags, log, interruption.signal);
      const jobFor = async (inputs: readonly string[], own: object = {}) => {
        const setUp = await setUpEstimator(credit.estimator, flags, {
          ...{ ...options, inputs },
          isBatch: flags.stream === true,
        });
        const method = { credit, setUp, isRangeGiven, references, engine: answers.open };
        return { ...options, policy: flags.policy, ...method, signal: interruption.signal, ...own };
      };
      given(flags.timeLimit, interruption.limitTime);
      if (flags.stream) {
        refuseBeside(inputs, flags);
        const { stream } = await import('../commands/stream.js');
        return done(
          await stream(async (paths, own) => commandScore.score(paths, await jobFor(paths, own), log)),
        );
      }
      const job = await jobFor(inputs);
      if (!isAsking) return done(await commandScore.score(inputs, job, log));
      const { requests } = await import('../commands/requests.js');
      done(await requests(inputs, job, answers.paths, log));
    });
  if (!isAsking)
    command.option('--stream', 'one Arrow stream after the other, policy kept open (docs/python.md)');
  engineFlags(command, !isAsking);
  credited(command, true);
  ofEstimators(command, argv);
  if (!isAsking) return;
  for (const option of command.options) {
    if (option.long === '--output') option.description = '.jsonl; - is stdout (default: -)';
    if (ASKS_NOTHING.test(option.long ?? '')) option.hideHelp();
  }
}

/** Flags of `score` that `requests` takes, so that one command line does for both, and that change no question. */
const ASKS_NOTHING =
  /^--(format|columns|drop|join-columns|shard|rows-per-part|device|sigma|baseline|residual|within|mix|cap|tau|gamma|steps|method|alpha|beta)$/;

/** `rredcot requests`: the flags of `score`, whose questions it writes. */
export const requests = score;

type ScoreFlags = JobFlags &
  CreditFlags &
  EngineFlags &
  Record<'policy' | 'references', string> & { stream?: true };

/** @throws RredcotError (exit 2) for what only a run of files has */
function refuseBeside(inputs: readonly string[], { output, format, shard, partition }: JobFlags): void {
  if (inputs.every((path) => path === '-') && !(output || format || shard || partition)) return;
  throw usageError(
    '--stream answers Arrow streams from stdin on stdout',
    'rredcot score - --stream, without -o, --format, --shard and --partition',
  );
}

export function segment(command: Command, { argv, interruption, done }: CommandCall): void {
  run(command, 'JSONL on stdout', argv)
    .description(
      'Cuts every completion into segments at token boundaries; neighbours of the lowest total entropy are merged.',
    )
    .optionsGroup('Segments:')
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option('--no-policy', 'no entropies: merge by length, on characters')
    .action(async (inputs: string[], flags: JobFlags & { policy: string | false }) => {
      const log = await logOf(flags);
      const commandSegment = await import('../commands/segment.js');
      const policy = flags.policy === false ? null : flags.policy;
      if (policy === null && flags.device !== 'auto')
        throw usageError('--device has no meaning without a policy', 'leave out --device or --no-policy');
      if (policy === null && flags.endToken !== 'auto')
        throw usageError('--end-token has no meaning without a policy', 'leave it or --no-policy out');
      if (policy === null && flags.chatTemplateArg !== undefined)
        throw usageError(
          '--chat-template-arg has no meaning without a policy',
          'leave it or --no-policy out',
        );
      given(flags.timeLimit, interruption.limitTime);
      const job = { ...jobOptions(flags), policy, signal: interruption.signal };
      if (policy === null) refuseWithoutPolicy(job.segments);
      done(await commandSegment.segment(inputs, job, log));
    });
}

/** Loads the module that a command line names, so that its flags are there; what is wrong with it is said when the command runs. */
async function withModule(argv: readonly string[]): Promise<void> {
  setOwn(undefined);
  const module = moduleIn(argv);
  if (module !== undefined) await loadEstimator(module).catch(() => {});
}

/** Adds what estimators ask `score` for beside those of the credit; help shows what those ask for that the command line names. */
function ofEstimators(command: Command, argv: readonly string[]): void {
  const named = argv.map((word) => word.replace(/^--estimator=/, ''));
  for (const [flag, text] of flagsOfAll('flags')) {
    const having = ESTIMATORS.filter(({ flags }) => flags?.some(([own]) => own === flag));
    const names = having.map(({ name }) => name).join(', ');
    const isShown = having.some(({ name, config }) => named.includes(name) || config?.estimatorModule);
    command
      .optionsGroup(`Of --estimator ${names}:`)
      .addOption(command.createOption(flag, text).hideHelp(!isShown));
  }
}

/** A file says how it was scored, but for the calibration: that is given again. */
const NOT_STORED = /^--calibration /;

/** Adds the flags of the credit. @param hasDefaults whether a flag that is not given stands at METHOD's default; else it is absent */
export function credited(command: Command, hasDefaults: boolean): void {
  command.optionsGroup('Values and credit:');
  for (const [flag, text, fallback] of creditFlags()) {
    const own = NOT_STORED.test(flag) ? '' : " (default: the file's own)";
    if (hasDefaults) command.option(flag, text, fallback);
    else command.option(flag, text.replace(/ \(default: [^)]*\)$/, '') + own);
  }
}
