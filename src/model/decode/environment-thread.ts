// The process of an environment: loads the user's module and asks it what follows the policy's turns.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { workerData } from 'node:worker_threads';
import { serve } from '../../thread.js';
import type { Message } from '../../trace.js';

export interface EnvironmentInit {
  /** absolute, in the process */
  readonly path: string;
  readonly sha256: string;
}

/** What an environment is told. */
export interface EnvironmentState {
  /** the conversation so far; the last message is the policy's */
  readonly messages: readonly Message[];
  /** the input's row */
  readonly row: unknown;
  /** the same in all turns of a completion */
  readonly seed: number;
}

/** What the module has given back, as it stands; `error` where it has not. */
export type EnvironmentReply = { readonly said: unknown } | { readonly error: string };

const { path, sha256 } = workerData as EnvironmentInit;
let environment: ((asked: EnvironmentState) => unknown) | undefined;

async function load(): Promise<(asked: EnvironmentState) => unknown> {
  const found = createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
  // a process that was stopped is followed by another, which has to run the same
  if (found !== sha256) throw new Error('was edited since the run began');
  const module = (await import(pathToFileURL(path).href)) as { readonly default?: unknown };
  if (typeof module.default === 'function') return module.default as (asked: EnvironmentState) => unknown;
  throw new Error(`its default export is ${typeof module.default}, expected a function`);
}

/** Without a question it is only loaded. */
async function ask(asked?: EnvironmentState): Promise<EnvironmentReply> {
  try {
    environment ??= await load();
    return { said: asked && structuredClone(await environment(asked)) };
  } catch (error) {
    return { error: String((error as Error)?.message ?? error) };
  }
}

const functions = { ask };
export type EnvironmentThread = typeof functions;
serve(functions);
