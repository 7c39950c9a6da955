// Markup in which every text is inert, escaped unless it is markup itself, and the one HTML file that it becomes: nothing in it is fetched, and
// only our own script runs.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { packageFile } from '../../package-files.js';

/** Markup that was made here. */
export class Markup {
  constructor(readonly text: string) {}
}

type Content = Markup | string | number | null | undefined | false | readonly Content[];

/** A template of markup: texts in it are escaped, lists are joined, nothing stays nothing. */
export function html(parts: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  return new Markup(parts.reduce((all, part, n) => all + rendered(contents[n - 1]) + part));
}

function rendered(content: Content): string {
  if (content === null || content === undefined || content === false) return '';
  if (content instanceof Markup) return content.text;
  if (Array.isArray(content)) return content.map(rendered).join('');
  return escapeHtml(String(content));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return visible(text).replaceAll(/[&<>"']/g, (c) => ENTITIES[c] as string);
}

/** Control and format characters, but for line breaks, tabs and the two joiners that scripts need. */
const HIDDEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\u2028\u2029]|\p{Cs}/gu;

/** Such characters as \u{…}: none of them turns the text around it, or hides in it. */
export function visible(text: string): string {
  return text.replaceAll(HIDDEN, (c) => `\\u{${(c.codePointAt(0) as number).toString(16)}}`);
}

/** JSON for a data block of a page: nothing in it ends the block. */
export function inertJson(value: unknown): Markup {
  return new Markup(JSON.stringify(value).replaceAll('<', '\\u003c'));
}

export interface PageParts {
  readonly title: string;
  /** links between views, and what stands above them all */
  readonly nav?: Markup;
  readonly notice?: Markup;
  readonly main: Markup;
  /** read by the page's script */
  readonly data: unknown;
}

/** The file's text. Its policy allows the script and the style that are in it, by their hashes, and nothing else. */
export function pageDocument({ title, nav, notice, main, data }: PageParts): string {
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
<title>${title} · rredcot</title>
<style>${new Markup(styles)}</style>
</head>
<body>
<a class="skip" href="#main">to the content</a>
<header><strong>rredcot</strong><span class="file">${title}</span>
<nav aria-label="pages">${nav}</nav>
<button type="button" id="theme">Theme: as the system</button></header>
${notice}
<main id="main">
${main}
</main>
<script type="application/json" id="data">${inertJson(data)}</script>
${scripts.map((script) => html`<script>${new Markup(script)}</script>\n`)}</body>
</html>`.text
  }\n`;
}

function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
