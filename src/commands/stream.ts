// `rredcot score - --stream`: scores one batch after the other while policies and tokenizers stay open; requests on stdin, answers on stdout.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecordBatchReader } from 'apache-arrow';
import { EXIT, type ExitCode, RredcotError } from '../errors.js';
import { arrowStreams, toldStream } from '../io/arrow/streams.js';
import { openStdin } from '../io/files/files.js';
import { openStreamSink } from '../io/files/stdout.js';
import { closeKept, keepOpen, requestEnds } from '../kept.js';
import type { JobOptions } from '../run/options.js';

/** Scores a file, with its rows to where the answer is made. @param policy in the place of the command's */
type Score = (input: string, policy: string | undefined, answer: JobOptions['answer']) => Promise<ExitCode>;

/**
 * A request is an Arrow stream; `rredcot.policy` in its schema's metadata names another policy. The answer is a stream without rows that
 * says in its metadata what became of it: `rredcot.exit`, `rredcot.rejects` (JSON lines), and of a failure `rredcot.error` and
 * `rredcot.hint`. Where that is 0, the scored rows follow as another.
 * @throws RredcotError (exit 65) for what is no Arrow stream: where the next one begins is not known
 */
export async function stream(score: Score, signal: AbortSignal): Promise<ExitCode> {
  const stdout = { ...openStreamSink(), finish: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), 'rredcot-'));
  keepOpen();
  try {
    for await (const request of arrowStreams(openStdin())) {
      const { rows, told } = await answered(request, folder, score);
      // who has sent an interrupted one is told by the end of the process
      signal.throwIfAborted();
      await toldStream(stdout, told);
      await stdout.write(rows);
    }
  } finally {
    await closeKept();
    await rm(folder, { recursive: true, force: true });
  }
  return EXIT.done;
}

async function answered(request: Buffer, folder: string, score: Score) {
  // a file: estimators read their rows as often as they need
  const [input, rejects] = [join(folder, 'rows.arrows'), join(folder, 'rejects.jsonl')];
  const none = async () => {};
  const chunks: Buffer[] = [];
  // the writer may use its memory again
  const write = async (bytes: Uint8Array) => void chunks.push(Buffer.from(bytes));
  const told: Record<string, string> = { 'rredcot.exit': `${EXIT.done}` };
  try {
    await writeFile(input, request);
    const policy = RecordBatchReader.from(request).open().schema.metadata.get('rredcot.policy');
    await score(input, policy, { sink: { write, finish: none, abort: none }, rejects });
  } catch (error) {
    const isOurs = error instanceof RredcotError;
    const { exitCode, hint = '' } = isOurs ? error : { exitCode: EXIT.bug };
    told['rredcot.exit'] = `${exitCode}`;
    told['rredcot.error'] = isOurs ? error.message : `${(error as Error)?.stack ?? error}`;
    told['rredcot.hint'] = hint;
    chunks.length = 0;
    // what has failed may be one of those that are open
    if (exitCode === EXIT.bug || exitCode === EXIT.device) await closeKept();
  }
  requestEnds();
  told['rredcot.rejects'] = await readFile(rejects, 'utf8').catch(() => '');
  await rm(rejects, { force: true });
  // the files are ours, and gone when somebody reads of them
  for (const key in told) told[key] = told[key]?.replaceAll(`${folder}/`, '') as string;
  return { rows: Buffer.concat(chunks), told };
}
