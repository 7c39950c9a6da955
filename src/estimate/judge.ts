// The user's command that judges completions: JSON lines to its stdin, a number from 0 to 1 a line back, in their order.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { deviceError, TraceRejected, throwIfInterrupted } from '../errors.js';
import { afterRunning } from '../model/text/bounded-process.js';

const EXPECTED = 'expected a number from 0 to 1 for each line, at once (flushed), until the input ends';

/** @param patienceMs what a line may take */
export function openJudge(command: string, signal: AbortSignal, patienceMs = 60_000) {
  let running: ReturnType<typeof start> | undefined;
  let hasAnswered = false;
  const failed = (why: string, costsTrace = hasAnswered): Error => {
    const what = `--judge-command ${command}: ${why}, ${EXPECTED}`;
    return costsTrace ? new TraceRejected('judge', what) : deviceError(what);
  };
  return {
    /**
     * ζ of completions of one trace. A command that stalls, and has answered before, is started anew.
     * @throws TraceRejected (`judge`) where one has none; RredcotError (exit 69) where it is gone, (75) where the program is to end
     */
    async verdicts(completions: readonly { readonly id: string }[]): Promise<number[]> {
      running ??= start(command, signal);
      const { child, lines } = running;
      child.stdin.write(completions.map((each) => `${JSON.stringify(each)}\n`).join(''));
      const said: string[] = [];
      while (said.length < completions.length) {
        let isLate = false;
        const timer = afterRunning(patienceMs, () => {
          isLate = true;
          kill(child);
        });
        const { done, value } = await lines.next().finally(() => clearInterval(timer));
        throwIfInterrupted(signal);
        if (done) running = undefined;
        if (done && isLate) throw failed(`said nothing for ${patienceMs / 1000} s`);
        if (done) throw failed(`has ended at completion ${said.length} of a trace`, false);
        hasAnswered = true;
        said.push(value);
      }
      const odd = said.find((line) => !(line.trim() !== '' && Number(line) >= 0 && Number(line) <= 1));
      if (odd === undefined) return said.map(Number);
      throw failed(`said ${JSON.stringify(odd.slice(0, 100))}`);
    },
    async [Symbol.asyncDispose](): Promise<void> {
      running?.child.stdin.end();
      AbortSignal.timeout(5_000).onabort = () => running && kill(running.child);
      await running?.ended;
    },
  };
}

/** Starts it in a group of its own: an interrupt from the keyboard is for the program, which ends it. */
function start(command: string, signal: AbortSignal) {
  const child = spawn(command, { shell: true, detached: true, stdio: ['pipe', 'pipe', 'inherit'] });
  for (const each of [child, child.stdin]) each.on('error', () => {}); // its output ends, and that is told
  const interrupt = () => kill(child);
  signal.addEventListener('abort', interrupt);
  const ended = once(child, 'close').finally(() => signal.removeEventListener('abort', interrupt));
  ended.catch(() => {});
  return { child, ended, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

/** With all that it has started. */
function kill({ pid }: ChildProcess): void {
  try {
    process.kill(-(pid as number), 'SIGKILL');
  } catch {
    // it has ended
  }
}
