// `rredcot requests`: what `score` with the same flags would ask a policy, as lines that any engine can answer.
import { type ExitCode, TraceRejected, usageError } from '../errors.js';
import { openAnswers } from '../model/engine/answers-file.js';
import { ASKED, type Asking, asking } from '../model/engine/asking.js';
import { noiseOfModel } from '../model/engine/proof.js';
import { count, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { type BadRow, isBad } from '../rows.js';
import { runJob } from '../run/run-job.js';
import { blankRow, type OutputRow } from '../scored.js';
import { type ScoreOptions, scoring } from './score.js';

export async function requests(
  paths: readonly string[],
  opts: ScoreOptions,
  answers: readonly string[], // of earlier rounds
  log: Log,
): Promise<ExitCode> {
  let asked: Asking | undefined;
  const engine: ScoreOptions['engine'] = async ({ policy }) => {
    asked = asking(policy.architecture.vocab, answers.length === 0 ? undefined : await openAnswers(answers));
    // by what the folder knows of its model answers prove whose they are
    await noiseOfModel(asked.engine, policy, log, 1).catch((error) => {
      if (error.code !== ASKED) throw error;
    });
    return asked.engine;
  };
  const { output = '-' } = opts;
  if (!/^-$|\.(jsonl|ndjson)$/i.test(output) || answers.includes(output))
    throw usageError(`-o ${output}: questions are JSON lines, in a file of their own`, '-o req.jsonl');
  const open: ScoreOptions['setUp']['open'] = async (context) => {
    const estimator = await opts.setUp.open(context);
    // a trace that is answered in full is done with: `score` judges it
    const judge = () => Promise.reject(new TraceRejected(ASKED, 'nothing of it is left to ask'));
    return { ...estimator, ...(estimator.judge && { judge }) };
  };
  const setUp = { ...opts.setUp, open };
  const own = { ...opts, setUp, engine, output, format: 'jsonl' as const };
  const code = await scoring(paths, own, log, (given, job) => {
    const writes = () => asked?.take() ?? '';
    const stages: typeof job.stages = (source, run) => askedRows(job.stages(source, run));
    // nothing follows from answers that are not there
    const { first: _, ...asks } = job;
    return runJob(given, own, { ...asks, command: 'requests', columns: [], texts: [], stages, writes }, log);
  });
  if (asked !== undefined) tell(asked.counts, log);
  return code;
}

/** A trace whose questions were written down is done with. */
async function* askedRows(rows: AsyncIterable<OutputRow | BadRow>): AsyncGenerator<OutputRow | BadRow> {
  for await (const row of rows) {
    if (!isBad(row) || row.rejection.code !== ASKED) yield row;
    else {
      const source = { ...row, columns: {} };
      const trace = { id: row.id ?? '', prompt: '', completion: '', references: [], reward: null, source };
      yield { ...blankRow(trace), status: [ASKED] };
    }
  }
}

function tell({ tokens, whole, exits, samples }: Asking['counts'], log: Log): void {
  const questions = whole + exits + samples;
  const left =
    questions === 0
      ? ': nothing is left to ask, rredcot score --answers takes what was said'
      : '; what is said to them goes to --answers of this command again, which asks what is left, and then of rredcot score';
  log.info(
    `${plural(questions, 'question')} (${count(whole)} whole traces, ${count(exits)} at exits, ${count(samples)} for samples), ${count(tokens)} tokens beside shared prefixes${left}`,
  );
}
