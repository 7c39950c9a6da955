// The user's command that judges completions: JSON lines to its stdin, a number from 0 to 1 a line back, in their order.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { EXIT, RredcotError, TraceRejected, throwIfInterrupted } from '../errors.js';
import { afterRunning } from '../model/text/bounded-process.js';

const EXPECTED = 'expected a number from 0 to 1 for each line, at once (flushed), until the input ends';

export class JudgeCommand implements AsyncDisposable {
  private running: ReturnType<typeof start> | undefined;

  /** @param patienceMs what a line may take */
  constructor(
    private readonly command: string,
    private readonly signal: AbortSignal,
    private readonly patienceMs = 60_000,
  ) {}

  /**
   * ζ of completions of one trace. A command that does not answer for a minute, and has answered before, is started anew.
   * @throws TraceRejected (`judge`) where one has none
   * @throws RredcotError: exit 69 where the command is gone, 75 where the program is to end
   */
  async verdicts(completions: readonly { readonly id: string }[]): Promise<number[]> {
    throwIfInterrupted(this.signal);
    this.running ??= start(this.command, this.signal);
    const { child, lines, told } = this.running;
    child.stdin.write(completions.map((each) => `${JSON.stringify(each)}\n`).join(''));
    const said: string[] = [];
    while (said.length < completions.length) {
      const timer = afterRunning(this.patienceMs, () => {
        told.isLate = true;
        kill(child);
      });
      const { done, value } = await lines.next().finally(() => clearInterval(timer));
      throwIfInterrupted(this.signal);
      if (done) throw this.gone(told, said.length);
      told.hasAnswered = true;
      said.push(value);
    }
    const odd = said.find((line) => !(line.trim() !== '' && Number(line) >= 0 && Number(line) <= 1));
    if (odd === undefined) return said.map(Number);
    const text = JSON.stringify(odd.slice(0, 100));
    throw new TraceRejected('judge', `--judge-command ${this.command}: said ${text}, ${EXPECTED}`);
  }

  private gone({ isLate, hasAnswered }: Told, n: number): Error {
    this.running = undefined;
    const why = isLate ? `said nothing for ${this.patienceMs / 1000} s` : 'has ended';
    const what = `--judge-command ${this.command}: ${why} at completion ${n} of a trace`;
    if (isLate && hasAnswered) return new TraceRejected('judge', `${what}, ${EXPECTED}`);
    return new RredcotError(what, { exitCode: EXIT.device, hint: EXPECTED });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.running === undefined) return;
    const { child, ended } = this.running;
    child.stdin.end();
    AbortSignal.timeout(5_000).onabort = () => kill(child);
    await ended;
  }
}

type Told = Record<'isLate' | 'hasAnswered', boolean>;
type Child = ChildProcessByStdio<Writable, Readable, null>;

/** Starts it in a group of its own: an interrupt from the keyboard is for the program, which ends it. */
function start(command: string, signal: AbortSignal) {
  const child: Child = spawn(command, { shell: true, detached: true, stdio: ['pipe', 'pipe', 'inherit'] });
  for (const each of [child, child.stdin]) each.on('error', () => {}); // its output ends, and that is told
  const interrupt = () => kill(child);
  signal.addEventListener('abort', interrupt);
  const ended = once(child, 'close').finally(() => signal.removeEventListener('abort', interrupt));
  ended.catch(() => {});
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const told: Told = { isLate: false, hasAnswered: false };
  return { child, lines, ended, told };
}

/** With all that it has started. */
function kill({ pid }: Child): void {
  try {
    process.kill(-(pid as number), 'SIGKILL');
  } catch {
    // it has ended
  }
}
