// The user's command that judges completions: JSON lines to its stdin, a number from 0 to 1 a line back, in their order.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { EXIT, RredcotError, TraceRejected, throwIfInterrupted } from '../errors.js';
import { afterRunning } from '../model/text/bounded-process.js';

const EXPECTED = 'expected a number from 0 to 1 for each line, at once (flushed), until the input ends';

export class JudgeCommand implements AsyncDisposable {
  private running: ReturnType<typeof start> | undefined;
  private hasAnswered = false;

  /** @param patienceMs what a line may take */
  constructor(
    private readonly command: string,
    private readonly signal: AbortSignal,
    private readonly patienceMs = 60_000,
  ) {}

  /**
   * ζ of completions of one trace. A command that stalls, and has answered before, is started anew.
   * @throws TraceRejected (`judge`) where one has none
   * @throws RredcotError: exit 69 where the command is gone, 75 where the program is to end
   */
  async verdicts(completions: readonly { readonly id: string }[]): Promise<number[]> {
    this.running ??= start(this.command, this.signal);
    const { child, lines } = this.running;
    child.stdin.write(completions.map((each) => `${JSON.stringify(each)}\n`).join(''));
    const said: string[] = [];
    while (said.length < completions.length) {
      let why = 'has ended';
      const timer = afterRunning(this.patienceMs, () => {
        why = `said nothing for ${this.patienceMs / 1000} s`;
        kill(child);
      });
      const { done, value } = await lines.next().finally(() => clearInterval(timer));
      throwIfInterrupted(this.signal);
      if (done) throw this.gone(`${why} at completion ${said.length} of a trace`, why !== 'has ended');
      this.hasAnswered = true;
      said.push(value);
    }
    const odd = said.find((line) => !(line.trim() !== '' && Number(line) >= 0 && Number(line) <= 1));
    if (odd === undefined) return said.map(Number);
    throw this.gone(`said ${JSON.stringify(odd.slice(0, 100))}`, true, this.running);
  }

  private gone(why: string, mayGoOn: boolean, running?: ReturnType<typeof start>): Error {
    this.running = running;
    const what = `--judge-command ${this.command}: ${why}`;
    if (mayGoOn && this.hasAnswered) return new TraceRejected('judge', `${what}, ${EXPECTED}`);
    return new RredcotError(what, { exitCode: EXIT.device, hint: EXPECTED });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.running?.child.stdin.end();
    AbortSignal.timeout(5_000).onabort = () => this.running && kill(this.running.child);
    await this.running?.ended;
  }
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
