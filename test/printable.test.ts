// What a terminal, a shell and a Markdown page get of texts that somebody else chose.
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { escapeControls, markdownCode, printableJson, shellWord } from '../dist/printable.js';

const EVIL = '\u007f\u0085\u009b31m\u202e\u2066\u061c\u2028\u{e0001}\u001b[2J\n';
const CONTROLS = /[\p{Cc}\p{Cf}\u2028\u2029]/u;
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({
    unit: fc.constantFrom('a', "'", '\\', '`', '|', ' ', '$', '-', '\u009b', '\u202e', '\u{e0001}', 'é'),
  }),
);

describe('JSON', () => {
  it('says the same without control characters', () => {
    expect(printableJson(JSON.stringify(EVIL))).not.toMatch(CONTROLS);
    fc.assert(
      fc.property(anyText, (text) => {
        const json = printableJson(JSON.stringify({ [text]: text }));
        expect(json).not.toMatch(CONTROLS);
        expect(Object.entries(JSON.parse(json) as object)).toEqual([[text, text]]);
      }),
    );
  });

  it('keeps the line breaks between values, and what can be read', () => {
    const json = JSON.stringify({ a: ['é 漢 🙂', 1] }, null, 2);
    expect(printableJson(json)).toBe(json);
  });
});

describe('a word of a command', () => {
  it.each([
    ['out/', 'out/'],
    ['two words', "'two words'"],
    ["it's", "'it'\\''s'"],
    ['$(touch owned)', "'$(touch owned)'"],
    ['-rf', './-rf'],
    ['', "''"],
    ['a\u001b[31mb', "$'a\\U0000001b[31mb'"],
  ])('%j is %s', (name, word) => expect(shellWord(name)).toBe(word));

  it('is that name to bash, and nothing that moves a terminal', () => {
    // a name has no NUL, and bash no half characters
    const anyName = anyText.filter((name) => !name.includes('\0') && !/\p{Cs}/u.test(name));
    const names = fc.sample(anyName, 200);
    const words = names.map(shellWord);
    for (const word of words) expect(word).not.toMatch(CONTROLS);
    const env = { ...process.env, LC_ALL: 'C.UTF-8' };
    const said = execFileSync('bash', ['-c', `printf '%s\\0' ${words.join(' ')}`], { env, encoding: 'utf8' });
    expect(said.split('\0').slice(0, -1)).toEqual(
      names.map((name) => (name.startsWith('-') ? `./${name}` : name)),
    );
  });
});

describe('a name in a Markdown page', () => {
  it.each([
    ['plain', '`plain`'],
    ['a`b', '``a`b``'],
    ['`', '`` ` ``'],
    ['', '`  `'],
    ['x\n# heading', '`x⏎# heading`'],
    ['\u202e', '`\\u{202e}`'],
  ])('%j is %s', (name, code) => expect(markdownCode(name)).toBe(code));

  it('cannot end its code', () => {
    fc.assert(
      fc.property(anyText, (name) => {
        const code = markdownCode(name);
        const fence = /^`+/.exec(code)?.[0] ?? '';
        const inside = code.slice(fence.length, -fence.length);
        expect(code.endsWith(fence)).toBe(true);
        expect(Array.from(inside.matchAll(/`+/g), ([run]) => run)).not.toContain(fence);
        expect(code).not.toMatch(/[\n\r]/);
        expect(escapeControls(name)).not.toMatch(CONTROLS);
      }),
    );
  });
});
