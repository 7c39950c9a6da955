// Puts the parts of a page together as one HTML file: nothing in it is fetched, and only our own script runs.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { packageFile } from '../../package-files.js';
import { html, inertJson, Markup } from './html.js';

export interface PageParts {
  readonly title: string;
  readonly body: Markup;
  /** read by the page's script */
  readonly data: unknown;
}

/** The file's text. Its policy allows the script and the style that are in it, by their hashes, and nothing else. */
export function pageDocument({ title, body, data }: PageParts): string {
  const resolve = createRequire(import.meta.url).resolve;
  const own = (name: string) => readFileSync(packageFile(`web/${name}`), 'utf8');
  const plots = readFileSync(resolve('uplot/dist/uPlot.iife.min.js'), 'utf8');
  const styles = [readFileSync(resolve('uplot/dist/uPlot.min.css'), 'utf8'), own('page.css')].join('\n');
  const scripts = [plots, own('page.js')];
  for (const script of scripts)
    if (/<\/script|<!--/i.test(script)) throw new Error('a script of the page has its own end tag in it');
  const policy = [
    "default-src 'none'",
    `script-src ${scripts.map(hashSource).join(' ')}`,
    `style-src ${hashSource(styles)}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `${
    html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${new Markup(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${new Markup(styles)}</style>
</head>
<body>
${body}
<script type="application/json" id="data">${inertJson(data)}</script>
${scripts.map((script) => html`<script>${new Markup(script)}</script>\n`)}</body>
</html>`.text
  }\n`;
}

function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
