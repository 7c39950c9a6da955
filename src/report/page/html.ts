// Markup in which every text is inert: what is put into it is escaped, unless it is markup itself.

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
