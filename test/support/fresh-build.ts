// Refuses to test a program that is older than the modules that it is made of: tsc alone does not make it.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAM = 'dist/program/';

export default function setup(): void {
  const files = readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
    .map((name) => join('dist', name))
    .filter((name) => name.endsWith('.js'));
  const newest = (of: readonly string[]) =>
    Math.max(0, ...of.map((name) => statSync(join(ROOT, name)).mtimeMs));
  const program = newest(files.filter((name) => name.startsWith(PROGRAM)));
  const modules = newest(files.filter((name) => !name.startsWith(PROGRAM)));
  if (program < modules) throw new Error(`${PROGRAM} is older than dist/: npm run build`);
}
