// The page of a comparison: its curves and points are those of the figures and of the table, hostile names are texts.
import { describe, expect, it } from 'vitest';
import { compareCredits } from '../../../dist/compare/compare.js';
import { comparePage } from '../../../dist/report/page/compare-page.js';

const N = 40;
const values = Float64Array.from({ length: N }, (_, k) => Math.sin(k));
const table = {
  offsets: Int32Array.from({ length: N / 4 + 1 }, (_, n) => 4 * n),
  rewards: Float64Array.from({ length: N / 4 }, (_, n) => n % 2),
  groups: Int32Array.from({ length: N / 4 }, (_, n) => n),
  firstWrong: new Int32Array(N / 4).fill(-2),
  credits: [
    { name: 'truth', values },
    { name: '<img src=x>', values: values.map((v) => 2 * v) },
    { name: 'other', values: values.map((_, k) => (k >= N - 5 ? Number.NaN : Math.cos(7 * k))) },
  ],
};
const opts = { truth: 'truth', seed: 0 };
const report = {
  figures: compareCredits(table, opts),
  ...{ files: [], traces: 10, right: 5, wrong: 5, segments: N, truth: 'truth', refused: {}, notes: [] },
};
const page = comparePage({ report, table, text: 'Pearson </pre><script>' });

describe('the page of a comparison', () => {
  it('draws a curve and a scatter plot for each credit, which say their numbers', () => {
    expect(page.match(/<svg class="chart"/g)?.length).toBe(3);
    // the curves' legend has a piece of each
    expect(page.match(/class="key"/g)?.length).toBe(2);
    // twice the truth goes with it everywhere; a last quarter of one segment has no correlation
    expect(page).toContain('&lt;img src=x&gt; 1.00, 1.00, 1.00;');
    const dots = [...page.matchAll(/<g class="one fill dots">(.*?)<\/g>/gs)].map(
      ([, marks]) => marks?.match(/<circle/g)?.length,
    );
    expect(dots.slice(1)).toEqual([N, N - 5]);
    // a credit that is not known has no place on an axis
    expect(page).not.toContain('NaN');
    expect(page).toContain('10 traces (5 right, 5 wrong), 40 thought segments; held against truth.');
  });

  it('draws equal curves side by side, each with its intervals, at marks that are round', () => {
    const equal = { ...table.credits[1], name: 'equal' } as (typeof table.credits)[0];
    const twice = { ...table, credits: [...table.credits, equal] };
    const again = { ...report, figures: compareCredits(twice, opts) };
    const drawn = comparePage({ report: again, table: twice, text: '' });
    const curve = /<figure class="wide-figure">(.*?)<\/figure>/s.exec(drawn)?.[1] as string;
    const places = (tone: string) =>
      [...curve.matchAll(new RegExp(`<polyline class="${tone} stroke" points="([^"]*)"`, 'g'))].map(
        ([, at]) => at,
      );
    expect(places('one')[0]).not.toBe(places('third')[0]);
    const up = (at = '') => at.split(' ').map((point) => point.split(',')[1]);
    expect(up(places('one')[0])).toEqual(up(places('third')[0]));
    // of the last quarter, one segment, there is none
    expect(/<g class="minus range">(.*?)<\/g>/s.exec(curve)?.[1]?.match(/<line/g)?.length).toBe(3);
    expect(curve).toMatch(/>0\.25<.*>0\.50<.*>0\.75<.*>1\.00</s);
  });

  it('marks what is not to be trusted, and says why', () => {
    const few = { ...table, groups: table.groups.map((group) => group >> 1) };
    const marks = (text: string) => text.match(/>\*<\/abbr>/g)?.length ?? 0;
    const drawn = comparePage({
      report: { ...report, figures: compareCredits(few, opts) },
      table: few,
      text: '',
    });
    expect(marks(drawn)).toBeGreaterThan(marks(page));
    expect(drawn).toContain('<p class="small">* few-groups: fewer than ten groups');
    const sure = '<td>1.00 <span class="small">[1.00, 1.00]</span></td>';
    expect(page).toContain(sure);
    expect(drawn).not.toContain(sure);
  });

  it('holds names and texts as text', () => {
    const markup = page.replaceAll(/<script[\s\S]*?<\/script>|<style>[\s\S]*?<\/style>/g, '');
    expect(markup.replaceAll(/"[^"]*"/g, '""')).not.toMatch(/<img|<script|<[^>]*\s(style|on\w+|src)=/);
    expect(markup).toContain('Pearson &lt;/pre&gt;&lt;script&gt;');
  });
});
