// The flags that say who answers in the place of the policy's graph: files of answers, or a server.
import type { Command } from 'commander';
import { usageError } from '../errors.js';
import { addressOf, given, oneOf, parseNames, serverLimits } from '../flag-values.js';
import type { Engine } from '../model/engine/engine.js';
import type { OpenPolicy } from '../model/onnx/open-model.js';
import type { Log } from '../report/log.js';
import { appended } from './job-flags.js';

export interface EngineFlags {
  readonly answers?: string;
  readonly policyUrl?: string;
  readonly engine?: string;
  readonly engineModel?: string;
  readonly concurrency: string;
  readonly enginePatience: string;
}

/** @param isLive whether a server may answer */
export function engineFlags(command: Command, isLive: boolean): Command {
  const files = command
    .optionsGroup('Who answers:')
    .option(
      '--answers <file,…>',
      "what an engine has answered to rredcot requests, in the place of the policy's graph; several rounds add up",
      appended,
    );
  if (!isLive) return files;
  return files
    .option('--policy-url <address>', "a server that answers in the place of the policy's graph")
    .option('--engine <name>', 'vllm|sglang: what the server is')
    .option('--engine-model <name>', 'the one of its models that is asked (default: the only one)')
    .option('--concurrency <n>', 'traces that the server is asked about at a time', '16')
    .option('--engine-patience <seconds>', 'how long it may be silent or away, before exit 69', '600');
}

/** @returns paths of answers, and what opens who answers; without flags the policy's graph does. @throws RredcotError (exit 2) */
export function engineOf(flags: EngineFlags, log: Log, signal: AbortSignal) {
  const { policyUrl: url, engine } = flags;
  const paths = given(flags.answers, (text) => parseNames('--answers', text)) ?? [];
  if ((url === undefined) !== (engine === undefined) || (url !== undefined && paths.length > 0))
    throw usageError(
      'one answers, a server (--policy-url and --engine) or files (--answers)',
      '--policy-url http://localhost:8000 --engine vllm',
    );
  const ofFiles = async ({ policy }: OpenPolicy): Promise<Engine> => {
    const { openAnswers } = await import('../model/engine/answers-file.js');
    const { provedAnswers } = await import('../model/engine/proof.js');
    return provedAnswers(await openAnswers(paths), policy, log);
  };
  if (url === undefined) return { paths, open: paths.length === 0 ? undefined : ofFiles };
  const name = oneOf('--engine', engine as string, ['vllm', 'sglang']);
  const [address, { patience, width }] = [addressOf('--policy-url', url), serverLimits(flags)];
  const open = async (opened: OpenPolicy): Promise<Engine> => {
    const { openServer } = await import('../model/engine/http.js');
    const { openServed } = await import('../model/engine/served.js');
    const server = openServer(address, patience, log, signal);
    const naming = '--engine-model <one of them>';
    return openServed(name, { server, model: flags.engineModel, naming, width, opened, log });
  };
  return { paths, open };
}
