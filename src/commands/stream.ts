// `rredcot score - --stream`: scores one batch after the other while policies and tokenizers stay open; requests on stdin, answers on stdout.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecordBatchReader, Schema } from 'apache-arrow';
import { EXIT, type ExitCode, RredcotError } from '../errors.js';
import { arrowStreams } from '../io/arrow/streams.js';
import { openArrowBatches } from '../io/arrow/writer.js';
import { openStdin } from '../io/files/files.js';
import { openStreamSink } from '../io/files/stdout.js';
import { beginRequest, closeKept } from '../kept.js';
import type { ScoreOptions } from './score.js';

/** Scores files. @param own in the place of the command's */
type Score = (paths: readonly string[], own: Partial<ScoreOptions>) => Promise<ExitCode>;

/**
 * A request is an Arrow stream; `rredcot.policy` in its schema's metadata names another policy. The answer is a stream without rows whose
 * metadata say what became of it: `rredcot.exit`, `.rejects` (JSON lines), `.error` and `.hint`. Of exit 0 the scored rows follow as another.
 * @throws RredcotError (exit 65) for what is no Arrow stream: where the next one begins is not known
 */
export async function stream(score: Score): Promise<ExitCode> {
  const stdout = { ...openStreamSink(), finish: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), 'rredcot-'));
  try {
    for await (const request of arrowStreams(openStdin())) {
      const { rows, told } = await answered(request, folder, score);
      await openArrowBatches(stdout, new Schema([], new Map(Object.entries(told))), 'stream').close();
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
  beginRequest();
  try {
    await writeFile(input, request);
    const policy = RecordBatchReader.from(request).open().schema.metadata.get('rredcot.policy');
    const answer = { sink: { write, finish: none, abort: none }, rejects };
    await score([input], { ...(policy !== undefined && { policy }), answer, output: '-' });
  } catch (error) {
    const bug = { exitCode: EXIT.bug, hint: '', message: `${(error as Error)?.stack ?? error}` };
    const { exitCode, message, hint = '' } = error instanceof RredcotError ? error : bug;
    Object.assign(told, { 'rredcot.exit': `${exitCode}`, 'rredcot.error': message, 'rredcot.hint': hint });
    chunks.length = 0;
    // what has failed may be one of those that are open
    if (exitCode === EXIT.bug || exitCode === EXIT.device) await closeKept();
  }
  told['rredcot.rejects'] = await readFile(rejects, 'utf8').catch(() => '');
  await rm(rejects, { force: true });
  // the files are ours, and gone when somebody reads of them
  for (const key in told) told[key] = told[key]?.replaceAll(`${folder}/`, '') as string;
  return { rows: Buffer.concat(chunks), told };
}
