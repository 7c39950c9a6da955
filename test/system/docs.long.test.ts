// The commands of the documentation run, page by page, in the order in which a reader finds them.
import { expect, it } from 'vitest';
import { commandsOf, DOCS, readersFolder, readPage, runIn, wordsOf } from '../support/documentation.js';
import { rredcotHere } from '../support/in-process.js';

it.each(DOCS)('commands of %s run', async (page) => {
  const commands = commandsOf(await readPage(page)).filter(({ needs }) => needs === undefined);
  if (commands.length === 0) return;
  const folder = await readersFolder();
  for (const { line } of commands) {
    const [program, ...args] = wordsOf(line) ?? [];
    if (program === 'rredcot') {
      const { code, stderr } = await rredcotHere(args, { cwd: folder });
      expect(code, `${line}: ${stderr}`).toBe(0);
    } else {
      const { status, stderr } = runIn(folder, line);
      expect(status, `${line}: ${stderr}`).toBe(0);
    }
  }
});
