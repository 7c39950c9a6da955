// Lets the policy continue traces from the states that are asked for: rows in waves, block by block.
import { throwIfInterrupted, usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import {
  beyond,
  type CanaryFinding,
  type Compared,
  disproved,
  farthest,
  NATS,
  readCanary,
  unproved,
} from '../onnx/canary.js';
import type { Device } from '../onnx/device.js';
import type { PolicyFolder } from '../onnx/folder.js';
import { inHalves, sharingRoom } from '../onnx/layout.js';
import { nextKept } from '../onnx/placed.js';
import { cannotLoad, ModelSession } from '../onnx/session.js';
import type { DecodingRows } from './decoding-run.js';
import {
  type Advance,
  type Choosing,
  type DecodeJob,
  PREFIX_MULTIPLE,
  type RowStart,
  rowKey,
  type SamplingOptions,
  type Start,
  type Written,
} from './sampling.js';

/** A trace that is continued. */
export interface Begun {
  /** prompt and completion, as far as a state reaches */
  readonly ids: Int32Array;
  readonly starts: readonly Start[];
}

/** What writing asks of a policy. */
export interface PolicyWrites extends Pick<ModelSession, 'keepPrefixes' | 'release'> {
  /** Lets rows write their next tokens, a block of them. @param job puts them on kept traces @throws OutOfMemoryError */
  advanceRows(id: number, job?: DecodeJob): Promise<Advance>;
}

export interface ContinueOptions extends Choosing, Pick<SamplingOptions, 'batch'> {
  readonly signal?: AbortSignal;
  /** told of tokens as they are written */
  readonly onTokens?: ((count: number) => void) | undefined;
}

/**
 * Continues traces. Each is read once, whatever many continuations it has.
 * @returns what was written, a list a trace in the order of its starts
 * @throws RredcotError (exit 75) where the signal has come; OutOfMemoryError for a row that has no room alone
 */
export async function continueTraces(
  session: PolicyWrites,
  traces: readonly Begun[],
  opts: ContinueOptions,
): Promise<Written[][]> {
  const written = traces.map((): Written[] => []);
  // neighbours share a batch, as long as all their rows fit into it
  const rowsOf = (b: number) => (traces[b] as Begun).starts.length;
  const asked = Array.from(traces.keys()).filter((b) => rowsOf(b) > 0);
  for (const together of sharingRoom(asked, opts.batch, rowsOf)) {
    const kept = nextKept();
    try {
      await session.keepPrefixes(
        kept,
        together.map((b) => prefixOf(traces[b] as Begun)),
      );
      const starts = together.flatMap((b, trace) => {
        const begun = traces[b] as Begun;
        return begun.starts.map((start, n) => ({ b, n, row: rowOf(begun, start, trace) }));
      });
      for (let from = 0; from < starts.length; from += opts.batch) {
        const wave = starts.slice(from, from + opts.batch);
        const results = await inHalves(
          wave.map(({ row }) => row),
          (rows) => writeRows(session, kept, rows, opts),
          (_, error) => Promise.reject(error),
        );
        for (const [i, { b, n }] of wave.entries()) (written[b] as Written[])[n] = results[i] as Written;
      }
    } finally {
      await session.release(kept).catch(() => {}); // a session that has failed keeps nothing
    }
  }
  return written;
}

/** The ids that states may see, padded: a row reads the last token of its state itself. */
function prefixOf({ ids, starts }: Begun): Int32Array {
  const longest = starts.reduce((most, { exit }) => Math.max(most, exit - 1), 1);
  const padded = new Int32Array(Math.ceil(longest / PREFIX_MULTIPLE) * PREFIX_MULTIPLE);
  padded.set(ids.subarray(0, longest));
  return padded;
}

function rowOf({ ids }: Begun, { exit, key, most }: Start, trace: number): RowStart {
  if (exit < 1 || exit > ids.length || most < 1)
    throw new RangeError(`a state of ${exit} of ${ids.length} tokens that may write ${most} more`);
  return { trace, exit, token: ids[exit - 1] as number, key, most };
}

async function writeRows(
  session: PolicyWrites,
  kept: number,
  rows: readonly RowStart[],
  opts: ContinueOptions,
): Promise<readonly Written[]> {
  const { temperature, topP, stops, signal, onTokens } = opts;
  const id = nextKept();
  const written: Written[] = [];
  let job: DecodeJob | undefined = { kept, rows, temperature, topP, stops };
  for (let isDone = false; !isDone; job = undefined) {
    if (signal !== undefined) throwIfInterrupted(signal);
    const { ended, tokens, ...step }: Advance = await session.advanceRows(id, job);
    onTokens?.(tokens);
    for (const { row, ...own } of ended) written[row] = own;
    isDone = step.isDone;
  }
  return written;
}

// ------ a policy that is to write

/** Tokens that a row writes: from the second on it reads keys and values of its own. */
const WRITTEN = 6;

/** A session that also writes. */
export type WritingSession = ModelSession & PolicyWrites;

/**
 * Opens the graph that writes beside a session's own.
 * @throws RredcotError (exit 2) where the folder has none, (exit 69) as `ModelSession.open`
 */
export async function withDecoder(session: ModelSession): Promise<WritingSession> {
  const { folder, device } = session;
  if (folder.decoding === undefined)
    throw usageError(
      `${folder.path}: has no graph that writes`,
      `build the folder again with: rredcot policy build <checkpoint> -o ${shellWord(folder.path)}`,
    );
  const ask = <Name extends keyof DecodingRows>(name: Name, ...args: Parameters<DecodingRows[Name]>) =>
    session.decode(name, args) as Promise<Awaited<ReturnType<DecodingRows[Name]>>>;
  const { graph, cudaGraph } = folder.decoding;
  await ask('open', device.name === 'cuda' ? cudaGraph : graph).catch((cause: Error) => {
    throw cannotLoad(folder, device, cause);
  });
  return Object.assign(session, {
    advanceRows: (id: number, job?: DecodeJob) => ask('advance', id, job),
  });
}

/**
 * Opens a policy for {@link continueTraces}, and compares its two graphs: what one wrote, the other, which has proved itself by
 * the canary, has to read alike.
 * @throws RredcotError as `ModelSession.open` and {@link withDecoder}, and (exit 69) where the graphs differ
 */
export async function openWriting(folder: PolicyFolder, device: Device): Promise<WritingSession> {
  const opened = await ModelSession.open(folder, device);
  try {
    const session = await withDecoder(opened);
    const finding = await writtenAsRead(session, folder).catch((cause: Error) => {
      throw unproved(folder.path, device, cause);
    });
    if (beyond([finding]).length > 0) throw disproved(folder.path, device, [finding]);
    if (session.proof !== undefined)
      session.proof = { ...session.proof, findings: [...session.proof.findings, finding] };
    return session;
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Goes on from two states of the canary's first trace at once, so that one row is padded, and reads what was written. */
async function writtenAsRead(session: WritingSession, folder: PolicyFolder): Promise<CanaryFinding> {
  const { passes } = await readCanary(folder);
  const ids = Int32Array.from(passes[0]?.traces[0]?.ids ?? []);
  const starts = [ids.length >> 1, ids.length - 1].map((exit) => ({
    exit,
    key: rowKey('canary', exit, 0),
    most: Math.min(WRITTEN, folder.architecture.maxTokens - exit),
  }));
  const how = { temperature: 1, topP: 1, stops: [], batch: starts.length };
  const [rows = []] = await continueTraces(session, [{ ids, starts }], how);
  const sequences = starts.map(({ exit }, row) => ({
    ids: Int32Array.of(...ids.subarray(0, exit), ...(rows[row]?.ids ?? [])),
    promptLength: exit,
    branches: [],
  }));
  const read = await session.run(sequences);
  const compared = starts.map(({ exit, most }, row): Compared => {
    const place = (t: number) => `token ${t + 1} of ${most} written behind ${exit} of ${ids.length}`;
    return [rows[row]?.logprobs ?? [], read[row]?.logprobs ?? [], place];
  });
  return farthest('written log p', NATS[session.precision], compared);
}
