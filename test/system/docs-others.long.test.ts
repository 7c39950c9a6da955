// The commands of the documentation run, page by page, in the order in which a reader finds them: the pages that docs.long.test.ts leaves out.
import { expect, it } from 'vitest';
import { commandsOf, DOCS, readersFolder, readPage, runIn } from '../support/documentation.js';

it.each(DOCS.filter((_, n) => n % 2 === 1))('commands of %s run', async (page) => {
  const commands = commandsOf(await readPage(page)).filter(({ needs }) => needs === undefined);
  if (commands.length === 0) return;
  const folder = await readersFolder();
  for (const { line } of commands) {
    const { status, stderr } = runIn(folder, line);
    expect(status, `${line}: ${stderr}`).toBe(0);
  }
});
