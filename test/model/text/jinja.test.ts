// Chat templates as Python renders them: what transformers made of each construct, recorded by jinja/render.py.
import { type Data, Field, Float64, Int32, List, Struct, vectorFromArray } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { exactly } from '../../../dist/io/arrow/json.js';
import { valueAt } from '../../../dist/io/arrow/values.js';
import { parseFieldMap } from '../../../dist/io/map/fields.js';
import { mapRow } from '../../../dist/io/map/map.js';
import { givenTo } from '../../../dist/model/text/chat-template.js';
import { templateRenderer } from '../../../dist/model/text/render-template.js';
import type { InputRow } from '../../../dist/rows.js';
import type { Message, Trace } from '../../../dist/trace.js';
import { rowsOf } from '../../support/io-helpers.js';
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
const REFUSED = 172;

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

  it('comes through a line of JSONL, as columns of it or as JSON in a text', async () => {
    const turns = [
      '{"role": "assistant", "content": null, "tool_calls": [{"x": 4.0}]}',
      '{"role": "tool", "content": "2"}, {"role": "assistant", "content": "It is 2."}',
    ].join();
    const prompt = '"prompt": [{"role": "user", "content": "?", "n": 1.0}], "answer": "2"';
    const [row] = await rowsOf(
      `{"tools": "[{\\"d\\": 12345678901234567890}]", ${prompt}, "completion": [${turns}]}`,
    );
    const needs = { prompt: true, references: true };
    const [trace] = [...mapRow(row as InputRow, parseFieldMap(undefined), needs)] as [Trace];
    const messages = [...(trace.prompt as Message[]), ...(trace.turns ?? [])].slice(0, 2);
    const given = givenTo({ variables: {} }, { messages, tools: trace.tools, addGenerationPrompt: true });
    expect(templateRenderer('{{ tools }}{{ messages }}')(given)).toBe(
      "[{'d': 12345678901234567890}][{'role': 'user', 'content': '?', 'n': 1.0}, {'role': 'assistant', 'tool_calls': [{'x': 4.0}]}]",
    );
  });

  it('is of a columnar row what the types of its columns say', () => {
    const floats = new List(new Field('item', new Float64()));
    const fields = [new Field('a', new Float64()), new Field('b', new Int32()), new Field('c', floats)];
    const [data] = vectorFromArray([{ a: 1, b: 2, c: [1, 2.5] }], new Struct(fields)).data;
    const found = new Map<string, unknown>(Object.entries({ a: 1, b: 2n, c: [1, 2.5] }));
    expect(exactly([valueAt(data as Data, 0)])).toEqual([found]);
  });

  it('holds a text of 30 MB', () => {
    const text = `{"messages": [{"role": "user", "content": "${'a\\n\\"'.repeat(6e6)}", "n": 1.0}]}`;
    expect(rendered('{{ messages[0].content | length }} {{ messages[0].n }}', text)).toEqual({
      text: '18000000 1.0',
    });
  });
});
