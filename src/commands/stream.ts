// `rredcot score - --stream`: scores one batch after the other while policies and tokenizers stay open; requests on stdin, answers on stdout.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecordBatchReader } from 'apache-arrow';
import { EXIT, type ExitCode, RredcotError } from '../errors.js';
import { arrowStreams, toldStream } from '../io/arrow/streams.js';
import { openStdin } from '../io/files/files.js';
import { type ByteSink, openStreamSink } from '../io/files/stdout.js';
import { closeKept, keepOpen, requestEnds } from '../model/kept.js';
import type { JobOptions } from '../run/options.js';

/** Metadata of a request's schema: the policy, where it is another than the command's. */
const POLICY = 'rredcot.policy';

/** Scores a file, with its rows to where the answer is made. */
type Score = (input: string, policy: string | undefined, answer: JobOptions['answer']) => Promise<ExitCode>;

/**
 * A request is an Arrow stream. Its answer is one that has no rows and says in its schema's metadata what became of it: `rredcot.exit`,
 * `rredcot.rejects` (JSON lines), and of a failure `rredcot.error` and `rredcot.hint`. Where that is 0, the scored rows follow as another.
 * @throws RredcotError (exit 65) for what is no Arrow stream: where the next one begins is not known
 */
export async function stream(score: Score, signal: AbortSignal): Promise<ExitCode> {
  const stdout = openStreamSink();
  const folder = await mkdtemp(join(tmpdir(), 'rredcot-'));
  keepOpen();
  try {
    for await (const request of arrowStreams(openStdin())) {
      const { rows, ...told } = await answered(request, folder, score);
      // who has sent an interrupted one is told by the end of the process
      signal.throwIfAborted();
      await toldStream({ ...stdout, finish: async () => {} }, told);
      if (rows.length > 0) await stdout.write(rows);
    }
  } finally {
    await closeKept();
    await rm(folder, { recursive: true, force: true });
  }
  return EXIT.done;
}

/** A file is read as often as an estimator needs it. */
async function answered(request: Buffer, folder: string, score: Score) {
  const [input, rejects] = [join(folder, 'rows.arrows'), join(folder, 'rejects.jsonl')];
  const chunks: Buffer[] = [];
  const sink: ByteSink = {
    // the writer may use its memory again
    write: async (bytes) => void chunks.push(Buffer.from(bytes)),
    ...{ finish: async () => {}, abort: async () => {} },
  };
  // the file is ours, and gone when somebody reads of it
  const plain = (text: string): string => text.replaceAll(`${folder}/`, '');
  let failure: Record<string, string> = {};
  try {
    await writeFile(input, request);
    const policy = RecordBatchReader.from(request).open().schema.metadata.get(POLICY);
    await score(input, policy, { sink, rejects });
  } catch (error) {
    const { exitCode = EXIT.bug, hint = '' } = error instanceof RredcotError ? error : {};
    const text = error instanceof RredcotError ? error.message : String((error as Error)?.stack ?? error);
    failure = { 'rredcot.exit': `${exitCode}`, 'rredcot.error': plain(text), 'rredcot.hint': hint };
    // what has failed may be one of those that are open
    if (exitCode === EXIT.bug || exitCode === EXIT.device) await closeKept();
  }
  requestEnds();
  const rejected = await readFile(rejects, 'utf8').catch(() => '');
  await rm(rejects, { force: true });
  const rows = Object.keys(failure).length > 0 ? Buffer.alloc(0) : Buffer.concat(chunks);
  return { 'rredcot.exit': `${EXIT.done}`, 'rredcot.rejects': plain(rejected), ...failure, rows };
}
