// A part of the documentation's pages as tests: their commands run, in the order in which a reader finds them.
import { expect, it } from 'vitest';
import { commandsOf, readersFolder, readPage, runIn } from './documentation.js';
import { rredcotHere } from './in-process.js';

/** A call of the program alone: nothing in it means anything to a shell. */
const PLAIN = /^rredcot [\w\s./,:=+-]+$/;

export function itRuns(pages: readonly string[]): void {
  it.each(pages)('commands of %s run', async (page) => {
    const commands = commandsOf(await readPage(page)).filter(({ needs }) => needs === undefined);
    if (commands.length === 0) return;
    const folder = await readersFolder();
    for (const { line } of commands) {
      const call = line.replace(/\s+#.*$/, '');
      if (PLAIN.test(call)) {
        const { code, stderr } = await rredcotHere(call.split(/\s+/).slice(1), { cwd: folder });
        expect(code, `${line}: ${stderr}`).toBe(0);
      } else {
        const { status, stderr } = runIn(folder, line);
        expect(status, `${line}: ${stderr}`).toBe(0);
      }
    }
  });
}
