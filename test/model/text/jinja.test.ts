// Chat templates as Python renders them: what transformers made of each construct, recorded by jinja/render.py.
import { describe, expect, it } from 'vitest';
import { exactly, hasFloats } from '../../../dist/io/arrow/exact.js';
import { caseText, linesOf, type Rendered, rendered } from './jinja-cases.js';

const SNIPPETS = linesOf(caseText('snippets.jsonl')).map(
  (line) => JSON.parse(line) as { template: string } & Rendered,
);
const REQUEST = caseText('request.json');

it('each construct gives the text that Python gives, or is refused by name', () => {
  const refused: string[] = [];
  for (const { template, ...python } of SNIPPETS) {
    const ours = rendered(template, REQUEST);
    if ('text' in ours) expect(ours, template).toEqual(python);
    else if ('text' in python) refused.push(template);
    if ('error' in ours)
      expect(ours.error, template).not.toMatch(/is not a function|properties of (undefined|null)/);
  }
  // each that is rendered one day makes this less
  expect(refused.length, refused.join('\n')).toBeLessThanOrEqual(REFUSED);
  expect(SNIPPETS.length).toBeGreaterThan(480);
});
const REFUSED = 118;

it.each([
  ["{{ 'x' | wordcount }}", 'the filter wordcount'],
  ["{{ 'x' is filter }}", 'the test is filter'],
  ["{% if false %}{{ 'x'.zfill(3) }}{% endif %}", '.zfill()'],
  ['{% if 1 < 2 < 3 %}{% endif %}', 'a chain of comparisons'],
  ['{% with x = 1 %}{% endwith %}', 'with'],
  ['{{ [1e5] }}', 'the number that begins with 1'],
  ['{{ joiner() }}', 'joiner'],
])('%s is refused before anything is rendered, by name', (template, name) => {
  expect(rendered(template, '{"messages": []}')).toEqual({ error: expect.stringContaining(name) });
});

describe('what a template is given of a row', () => {
  const shown = (request: string) => rendered('{{ tools | tojson }}|{{ messages | tojson }}', request);

  it('is what the JSON text says: floats, large numbers, the order of keys, what is null', () => {
    const tools = '[{"10": 1.0, "2": 1e-7, "a": 12345678901234567890, "e": [1E5, -0.0, "\\"1.0"]}]';
    const message = '{"role": "user", "content": null, "n": 4.0, "z": null, "k": {"b": [{"c": 2.0}]}}';
    const found = shown(`{"messages": [${message}], "tools": ${tools}}`);
    const [first, second] = [
      '[{"10": 1.0, "2": 1e-07, "a": 12345678901234567890, "e": [100000.0, -0.0, "\\"1.0"]}]',
      '[{"role": "user", "n": 4.0, "k": {"b": [{"c": 2.0}]}}]',
    ];
    expect(found).toEqual({ text: `${first}|${second}` });
  });

  it('is of a columnar row what the types of its columns say', () => {
    const row = { a: 1, b: 2, c: [1, 2.5], d: null };
    hasFloats(row, ['a', 'c']);
    expect(exactly([row])).toEqual([
      new Map<string, unknown>([...Object.entries({ a: 1, b: 2n, c: [1, 2.5], d: null })]),
    ]);
  });

  it('holds a text of 30 MB', () => {
    const text = `{"messages": [{"role": "user", "content": "${'a\\n\\"'.repeat(6e6)}", "n": 1.0}]}`;
    expect(rendered('{{ messages[0].content | length }} {{ messages[0].n }}', text)).toEqual({
      text: '18000000 1.0',
    });
  });
});
