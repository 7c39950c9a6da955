// The page of a scored file: hostile texts stay texts, its policy names what is in it and nothing else, it stays small.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { shortNumber } from '../../../dist/plural.js';
import { FileCounts } from '../../../dist/report/gathered.js';
import { html, visible } from '../../../dist/report/page/html.js';
import {
  type PageRecord,
  type PageTrace,
  packTrace,
  type ScoredPage,
  scoredPage,
} from '../../../dist/report/page/scored-page.js';
import { signed, traceRecord } from '../../../dist/report/trace-record.js';
import { seeded } from '../../oracle/toy.js';
import { bareRow } from '../../support/io-helpers.js';
import { ROOT } from '../../support/program.js';

/** What would run, close, or turn the page, were it markup. */
const HOSTILE =
  '</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;<!-- \u202e\u0000\u001b[31m\u2028 `$x` "\'';

function record(text: string, T = 4): PageTrace {
  const half = Math.ceil([...text].length / 2);
  const entropies = Float32Array.from({ length: T }, (_, t) => (t % 7) / 3);
  const segment = { kind: 'thought' as const, value: 0.5, delta: 0.1, noise: null, sigma: 0.5, entropy: 1 };
  const row = {
    ...bareRow({}),
    trace: { ...bareRow({}).trace, id: text.slice(0, 80), completion: text },
    ...{ reward: 1, baseline: 0.25, valueStart: 0.4, entropies, sigma: new Float32Array(T).fill(1 / T) },
    status: [],
    segments: [
      { ...segment, start: 0, end: T / 2, charStart: 0, charEnd: half },
      { ...segment, start: T / 2, end: T, charStart: half, charEnd: [...text].length },
    ],
  };
  const texts = { prompt: text.slice(0, 200), references: [text.slice(0, 50)] };
  return {
    ...traceRecord(row, texts),
    ...{ row: 0, kinds: ['right'], credits: [{ name: 'share', sigma: row.sigma }], entropies },
  };
}

function page(more: Partial<ScoredPage> = {}): string {
  const { numbers } = new FileCounts(true);
  const warning = { id: HOSTILE, row: 0, reward: 1, disagreement: 0.95 };
  const label_noise = { threshold: 0.9, count: 1, of: 1, traces: [warning] };
  return scoredPage({
    ...{ title: HOSTILE, numbers: { ...numbers, label_noise, status: { [HOSTILE]: 1 } } },
    ...{ valueName: 'v̂', facts: [[HOSTILE, HOSTILE]], warnings: [], fewer: undefined },
    traces: [packTrace(record(HOSTILE))],
    ...more,
  });
}

const scriptsOf = (text: string) => [...text.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];

describe('a page', () => {
  it('has three scripts, of which the first is data, whatever its texts are', () => {
    const text = page();
    const scripts = scriptsOf(text);
    expect(scripts.map(([, attributes]) => attributes)).toEqual([
      ' type="application/json" id="data"',
      '',
      '',
    ]);
    expect(text.match(/<\/?script/g)?.length).toBe(6);
    const body = text.slice(text.indexOf('<body>'), text.indexOf('<script'));
    expect(body).not.toMatch(/<img|alert\(1\)<|onerror=alert\(2\)>/);
    expect(body).toContain('&lt;/script&gt;&lt;script&gt;alert(1)');
    // nothing turns the text, or is hidden in it
    expect(text.replaceAll(/[\n\t]/g, '')).not.toMatch(/[\p{Cc}\u202e\u2028]/u);
    const { traces } = JSON.parse(scripts[0]?.[2] as string) as { traces: string[] };
    const stored = JSON.parse(
      gunzipSync(Buffer.from(traces[0] as string, 'base64')).toString(),
    ) as PageRecord;
    expect(stored.segments.map(({ text }) => text).join('')).toBe(visible(HOSTILE));
  });

  it('allows the scripts and the style that are in it, by their hashes, and no other source', () => {
    const text = page();
    const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(text)?.[1] as string;
    const hash = (part: string) => `'sha256-${createHash('sha256').update(part).digest('base64')}'`;
    const scripts = scriptsOf(text)
      .slice(1)
      .map(([, , script]) => hash(script as string));
    const style = /<style>([\s\S]*?)<\/style>/.exec(text)?.[1] as string;
    expect(policy).toBe(
      `default-src 'none'; script-src ${scripts.join(' ')}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'`,
    );
    const markup = text.replaceAll(/<script[\s\S]*?<\/script>|<style>[\s\S]*?<\/style>/g, '');
    expect(markup).not.toMatch(/<[^>]*\s(style|on\w+|src)=|<(link|iframe|img|object|base)\b|href="(?!#)/);
  });

  it('holds fifty traces of 25,000 tokens in less than 3 MB', () => {
    const random = seeded(7);
    const words = Array.from({ length: 3000 }, () => Math.floor(random() * 36 ** 5).toString(36));
    const long = () =>
      Array.from({ length: 16_000 }, () => words[Math.floor(3000 * random() ** 3)]).join(' ');
    const text = long();
    expect(text.length).toBeGreaterThan(90_000);
    const packed = Array.from({ length: 2 }, () => packTrace(record(long(), 25_000)));
    const bytes = packed.reduce((sum, each) => sum + each.packed.length, 0);
    expect(page({ traces: packed }).length - bytes + 25 * bytes).toBeLessThan(3e6);
  });
});

it('numbers are written as the terminal writes them', async () => {
  const script = await readFile(join(ROOT, 'web/page.js'), 'utf8');
  const functions = script.slice(script.indexOf('function number('), script.indexOf('// ------'));
  const inPage = runInNewContext(`${functions}; ({ number, signed })`) as {
    number(x: number | null): string;
    signed(x: number): string;
  };
  const random = seeded(3);
  for (let n = 0; n < 500; n++) {
    const x = Math.fround((random() - 0.5) * 10 ** Math.floor(7 * random() - 3));
    expect(inPage.number(x)).toBe(shortNumber(x));
    expect(inPage.signed(x)).toBe(signed(x));
  }
  expect([inPage.number(null), inPage.signed(-0.9136), inPage.number(123.45)]).toEqual([
    '–',
    '−0.914',
    '123.5',
  ]);
});

it('a template escapes what is put into it, and drops what is not there', () => {
  expect(html`<b title="${'"'}">${['<', null, false, html`<i>${1}</i>`]}</b>`.text).toBe(
    '<b title="&quot;">&lt;<i>1</i></b>',
  );
});
