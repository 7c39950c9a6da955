// `node bench/training/page.mjs`: writes the measured part of docs/training.md, its charts, and all figures (examples/grpo/logs/figures.csv), from the logs beside them.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../fidelity/program.mjs';
import { measured } from './measured.mjs';

const PAGE = join(ROOT, 'docs/training.md');
const MARKS = ['<!-- measured: bench/training/page.mjs -->', '<!-- end of what was measured -->'];

const page = readFileSync(PAGE, 'utf8');
const [start, end] = [page.indexOf(MARKS[0]), page.indexOf(MARKS[1])];
if (start < 0 || end < start) throw new Error(`${PAGE} lacks ${MARKS.join(' or ')}`);
const { text, charts, csv } = measured();
writeFileSync(join(ROOT, 'examples/grpo/logs/figures.csv'), csv);
for (const [name, svg] of charts) writeFileSync(join(ROOT, 'docs', name), svg);
writeFileSync(PAGE, `${page.slice(0, start + MARKS[0].length)}\n\n${text}\n\n${page.slice(end)}`);
