// The codes that verify lets pass are those that docs/output.md explains.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { STATUS_CODES, statusFaults } from '../../dist/scored/status-codes.js';
import { ROOT } from '../support/program.js';

it('every code stands in the table of statuses, and every code there is known', async () => {
  const text = await readFile(join(ROOT, 'docs/output.md'), 'utf8');
  const [section = ''] = text.slice(text.indexOf('## Statuses')).split('\n## ');
  const listed = [...section.matchAll(/^\|([^|]*)\|/gm)].flatMap(([, cell]) =>
    [...(cell as string).matchAll(/`([a-z0-9:-]+)`/g)].map(([, code]) => code),
  );
  expect(listed.length).toBeGreaterThan(10);
  expect(['ok', ...listed].sort()).toEqual([...STATUS_CODES].sort());
});

it('an unknown code, two in the wrong order, and ok beside another are told', () => {
  for (const status of ['okay', 'truncated;references:row', 'ok;truncated'])
    expect(statusFaults(status).join()).toContain(status);
  for (const status of STATUS_CODES) expect(statusFaults(status)).toEqual([]);
});
