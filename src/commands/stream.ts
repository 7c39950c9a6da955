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
import { callerEngine } from '../model/engine/caller.js';
import type { ScoreOptions } from './score.js';

/** Scores files. @param own in the place of the command's */
type Score = (paths: readonly string[], own: Partial<ScoreOptions>) => Promise<ExitCode>;

/** Sends metadata, as an Arrow stream without rows, and waits for that of the next request. */
type Exchange = (told: Record<string, string>) => Promise<Map<string, string>>;

/**
 * A request is an Arrow stream; `rredcot.policy` in its schema's metadata names another policy. The answer is a stream without rows whose
 * metadata say what became of it: `rredcot.exit`, `.rejects` (JSON lines), `.error` and `.hint`. Of exit 0 the scored rows follow as another.
 * With `rredcot.answerer` in a request its sender answers in the policy's place: streams with `rredcot.questions` (docs/engines.md) come
 * before the answer, and each is answered by one with `rredcot.answers`.
 * @throws RredcotError (exit 65) for what is no Arrow stream: where the next one begins is not known
 */
export async function stream(score: Score): Promise<ExitCode> {
  const stdout = { ...openStreamSink(), finish: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), 'rredcot-'));
  try {
    const requests = arrowStreams(openStdin());
    const send = (told: Record<string, string>) =>
      openArrowBatches(stdout, new Schema([], new Map(Object.entries(told))), 'stream').close();
    const exchange: Exchange = async (told) => {
      await send(told);
      const { value } = await requests.next();
      return value === undefined ? new Map() : metadataOf(value);
    };
    for (let next = await requests.next(); !next.done; next = await requests.next()) {
      const { rows, told } = await answered(next.value, folder, score, exchange);
      await send(told);
      await stdout.write(rows);
    }
  } finally {
    await closeKept();
    await rm(folder, { recursive: true, force: true });
  }
  return EXIT.done;
}

const metadataOf = (stream: Buffer): Map<string, string> =>
  RecordBatchReader.from(stream).open().schema.metadata;

async function answered(request: Buffer, folder: string, score: Score, exchange: Exchange) {
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
    const asked = metadataOf(request);
    const [policy, answerer] = ['policy', 'answerer'].map((name) => asked.get(`rredcot.${name}`));
    const engine = async () =>
      callerEngine(answerer as string, async (questions) => {
        return (await exchange({ 'rredcot.questions': questions })).get('rredcot.answers') ?? '';
      });
    const answer = { sink: { write, finish: none, abort: none }, rejects };
    const own = { ...(policy !== undefined && { policy }), ...(answerer !== undefined && { engine }) };
    await score([input], { ...own, answer, output: '-' });
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
