// The pictures of the documentation, made of the fixtures: a trace in a terminal (SVG), and the report's pages (PNG, where there is a Chromium).
// `pictures.mjs <folder>` makes the first of them there.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = process.argv[2] ?? join(root, 'docs');
const folder = mkdtempSync(join(tmpdir(), 'rredcot-pictures-'));
const rredcot = (...args) =>
  execFileSync(process.execPath, [join(root, 'bin/rredcot.js'), ...args], { cwd: folder, encoding: 'utf8' });

try {
  rredcot(
    'score',
    join(root, 'fixtures/chains.jsonl'),
    '-o',
    'scored.parquet',
    '--sigma',
    'share,rudder',
    '--quiet',
  );
  writeFileSync(join(out, 'inspect.svg'), terminal(await drawn()));
  if (process.argv[2] === undefined) {
    rredcot('report', 'scored.parquet', '-o', 'report.html', '--quiet');
    rredcot('redistribute', 'scored.parquet', '--sigma', 'share', '-o', 'share.parquet', '--quiet');
    rredcot('report', 'share.parquet', '-o', 'share.html', '--quiet');
    await screenshots(join(folder, 'report.html'), join(folder, 'share.html'));
  }
} finally {
  rmSync(folder, { recursive: true });
}

/** The lines of `inspect --worst` as a terminal of 256 colors has them. */
async function drawn() {
  const { inspect } = await import('../dist/commands/inspect.js');
  process.chdir(folder);
  let text = '';
  const { signal } = new AbortController();
  const opts = { preset: 'auto', worst: true, where: [], isColored: true, width: 92, signal };
  await inspect('scored.parquet', opts, (more) => {
    text += more;
  });
  return text.trimEnd().split('\n');
}

/** Lines with colours as an SVG; blocks are drawn as characters of a fixed width. */
function terminal(lines) {
  const [size, height, across] = [13, 18, 7.8];
  const width = Math.ceil(94 * across);
  const texts = lines.map((line, n) => {
    let at = 0;
    const y = 14 + n * height;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are control characters
    const parts = line.split(/\u001b\[([\d;]*)m/).map((part, k, all) => {
      if (k % 2 === 1) return '';
      const style = k === 0 ? '' : all[k - 1];
      const [, back] = /48;5;(\d+)/.exec(style) ?? [];
      const [, fore] = /38;5;(\d+)/.exec(style) ?? [];
      const x = 8 + at * across;
      const long = [...part].filter((character) => !/\p{M}/u.test(character)).length;
      at += long;
      const box =
        back === undefined
          ? ''
          : `<rect x="${x.toFixed(1)}" y="${y - 13}" width="${(long * across).toFixed(1)}" height="${height}" fill="${rgb(back)}"/>`;
      const colour = fore === undefined ? '' : ` fill="${rgb(fore)}"`;
      return part.trim() === ''
        ? ''
        : `${box}<text x="${x.toFixed(1)}" y="${y}" textLength="${(long * across).toFixed(1)}"${colour}>${escaped(part)}</text>`;
    });
    return parts.join('');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${lines.length * height + 16}" font-family="monospace" font-size="${size}" fill="#1b1f24">
<title>rredcot inspect scored.parquet --worst, in a terminal</title>
<rect width="100%" height="100%" fill="#fff" stroke="#d5dae1"/>
${texts.filter((text) => text !== '').join('\n')}
</svg>
`;
}

/** A color of the cube of 6 × 6 × 6, of 256. */
function rgb(color) {
  const n = Number(color) - 16;
  const levels = [0, 95, 135, 175, 215, 255];
  return `rgb(${[Math.floor(n / 36), Math.floor(n / 6) % 6, n % 6].map((at) => levels[at])})`;
}

// SVG takes several spaces for one
function escaped(text) {
  return text
    .replaceAll(' ', '\u00a0')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;');
}

/** The first screen of the run's page, a trace's page, and for the front page a trace down to its text. */
async function screenshots(path, ofOneRule) {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
  if (executablePath === undefined) {
    console.log('no Chromium here: report.png, report-trace.png and trace.png stay as they are');
    return;
  }
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  const page = await browser.newPage({ viewport: { width: 1100, height: 860 }, colorScheme: 'light' });
  const url = pathToFileURL(path).href;
  await page.goto(url);
  await page.screenshot({ path: join(out, 'report.png') });
  await page.setViewportSize({ width: 1100, height: 1080 });
  await page.goto(`${url}#trace-3`);
  await page.waitForSelector('#tokens .u-wrap');
  await page.evaluate('document.activeElement?.blur()');
  await page.screenshot({ path: join(out, 'report-trace.png') });
  await page.setViewportSize({ width: 760, height: 2600 });
  await page.goto(`${pathToFileURL(ofOneRule).href}#traces`);
  await page.click('#list a:has-text("top-0007/5")');
  await page.waitForSelector('#values .u-wrap');
  await page.evaluate('document.activeElement?.blur()');
  const box = (selector) => page.locator(selector).boundingBox();
  const [whole, text] = await Promise.all(['#trace', '#trace .text'].map(box));
  const height = text.y + text.height + 8 - whole.y;
  const clip = { x: whole.x - 8, y: whole.y, width: whole.width + 16, height };
  await page.screenshot({ path: join(out, 'trace.png'), clip });
  await browser.close();
}
