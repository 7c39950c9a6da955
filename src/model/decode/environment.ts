// Answers the policy's turns by a module of the user's: code that runs in a process of its own, with a limit of time.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { z } from 'zod';
import { TraceRejected, usageError } from '../../errors.js';
import { failed } from '../../io/files/files.js';
import { describeValue } from '../../printable.js';
import type { Message } from '../../trace.js';
import { type BoundedProcess, boundedProcess, StoppedError } from '../text/bounded-process.js';
import type {
  EnvironmentInit,
  EnvironmentReply,
  EnvironmentState,
  EnvironmentThread,
} from './environment-thread.js';

/** What one answer may take. */
const TIMEOUT_MS = 30_000;
const MEMORY_MB = 4096;

/** What the policy is shown next; or that the episode is over, with what it has earned where the environment says that. */
export type EnvironmentAnswer =
  | { readonly messages: readonly Message[] }
  | { readonly reward: number | null };

const EXPECTED = '{messages: [{role, content}, …]}, {reward: 0 to 1}, or null at the end of an episode';
const HINT = 'docs/sampling.md#turns-with-an-environment has one';

// no `name`, no `tool_calls`: what is written of a message is these two
const Role = z.string().regex(/^(?!assistant$)./, "expected a role that is not the policy's own");
const Shown = z.strictObject({
  messages: z.array(z.strictObject({ role: Role, content: z.string() })).min(1),
});
const Over = z.strictObject({ reward: z.number().min(0).max(1) });

/** A module as it was read when the run began; its hash is part of what the run is. @throws RredcotError for a file that cannot be read */
export async function readEnvironment(path: string): Promise<EnvironmentInit> {
  const bytes = await readFile(path).catch(failed(path, 'read'));
  return { path, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/** An environment in one run. Its answers come one by one. */
export class Environment implements AsyncDisposable {
  private constructor(
    private readonly path: string,
    private readonly thread: BoundedProcess<EnvironmentThread>,
  ) {}

  /** @throws RredcotError (exit 2) for a module that does not load, or whose default export is no function */
  static async open(
    { path, sha256 }: EnvironmentInit,
    { signal, timeoutMs = TIMEOUT_MS }: { readonly signal: AbortSignal; readonly timeoutMs?: number },
  ): Promise<Environment> {
    const workerData: EnvironmentInit = { path: resolve(path), sha256 };
    const file = new URL('./environment-thread.js', import.meta.url);
    const source = { title: path, hint: HINT, file, workerData, memoryMb: MEMORY_MB };
    // one that hangs costs the row in which it does, and no other
    const bounds = { timeoutMs, mostStopped: Number.POSITIVE_INFINITY, signal };
    const environment = new Environment(path, boundedProcess<EnvironmentThread>(source, bounds));
    const loaded = await environment.call();
    if ('said' in loaded) return environment;
    await environment[Symbol.asyncDispose]();
    throw usageError(`--environment ${path}: cannot be loaded: ${loaded.error}`, HINT);
  }

  /** @throws TraceRejected (`environment`) where it throws, hangs, ends, or says what nobody can read */
  async answer(asked: EnvironmentState): Promise<EnvironmentAnswer> {
    const reply = await this.call(asked);
    if ('error' in reply) throw this.refusal(asked, `has no answer: ${reply.error}`);
    const { said } = reply;
    if (said === null) return { reward: null };
    const isOver = typeof said === 'object' && said !== null && 'reward' in said;
    const parsed = (isOver ? Over : Shown).safeParse(said);
    if (parsed.success) return parsed.data;
    const found = z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' ');
    throw this.refusal(asked, `gave back ${describeValue(said)}: ${found}`);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.thread.close();
  }

  private async call(asked?: EnvironmentState): Promise<EnvironmentReply> {
    return this.thread
      .call('ask', asked === undefined ? [] : [asked])
      .catch((error: unknown): EnvironmentReply => {
        if (error instanceof StoppedError) return { error: error.message };
        throw error;
      });
  }

  private refusal({ messages, seed }: EnvironmentState, why: string): TraceRejected {
    const words = `${this.path} ${why} (${messages.length} messages, seed ${seed})`;
    return new TraceRejected('environment', `${words}, expected ${EXPECTED}: --environment <file>`);
  }
}
