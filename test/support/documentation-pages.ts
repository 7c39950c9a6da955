// A part of the documentation's pages as tests: their commands run, in the order in which a reader finds them.
import { expect, it } from 'vitest';
import { commandsOf, readersFolder, readPage, runIn } from './documentation.js';
import { rredcotHere } from './in-process.js';

/** A call of the program alone: nothing in it means anything to a shell. */
const PLAIN = /^rredcot [\w\s./,:=+-]+$/;

/** Runs a line in a folder: in this process where it calls the program alone. */
export async function runLine(folder: string, line: string): Promise<void> {
  const call = line.replace(/\s+#.*$/, '');
  const { code, stderr } = PLAIN.test(call)
    ? await rredcotHere(call.split(/\s+/).slice(1), { cwd: folder })
    : runIn(folder, line);
  expect(code, `${line}: ${stderr}`).toBe(0);
}

export function itRuns(pages: readonly string[]): void {
  it.each(pages)('commands of %s run', async (page) => {
    const commands = commandsOf(await readPage(page)).filter(({ needs }) => needs === undefined);
    if (commands.length === 0) return;
    const folder = await readersFolder();
    for (const { line } of commands) await runLine(folder, line);
  });
}
