// A chat template's tokens for the parser of @huggingface/jinja, made to mean what they mean to Python under trim_blocks and lstrip_blocks.
import { tokenize } from '@huggingface/jinja';

type Token = ReturnType<typeof tokenize>[number];

/** Of an operator: where the innermost bracket around it opens. */
const brackets = new WeakMap<object, number>();
/** Of `not in` nobody knows. */
export const areSideBySide = (a: object, b: object): boolean =>
  (brackets.get(a) ?? brackets.get(b)) === (brackets.get(b) ?? brackets.get(a));

/** transformers' own tag: a call of its body */
const GENERATION = /(?<=\{%-?\s*)(end)?generation(?=\s*-?%\})/g;

/** @throws SyntaxError for what is no template, or has what the tokenizer takes for something else */
export function tokensOf(source: string): Token[] {
  if (/[\ufeff\x85\p{Cc}]/u.test(source.replaceAll(/[\t\n\v\f\r]/g, '')))
    throw new SyntaxError('a control character or a byte order mark is not supported');
  const text = source
    .replaceAll(/\r\n?/g, '\n')
    .replace(/\n$/, '')
    .replaceAll(/(?<=^|\n)[^\S\n]+(?=\{[%#])/g, '')
    .replaceAll(/(?<=[%#]\})\n/g, '')
    .replaceAll(GENERATION, (_, end?: string) => (end ? 'endcall' : 'call generation()'));
  const tokens: Token[] = [];
  const open: number[] = [];
  const found = tokenize(`${text}\n`); // which takes one off
  for (let n = 0; n < found.length; n++) {
    const token = found[n] as Token;
    const { type, value } = token;
    const next = found[n + 1];
    if (/^(?:Text|StringLiteral)$/.test(type) && /\{[%#]|[%#]\}/.test(value))
      throw new SyntaxError(`a mark of a tag in the text ${JSON.stringify(value.slice(0, 40))}`);
    if (type === 'NumericLiteral' && !isPlain(value, next))
      throw new SyntaxError(`the number that begins with ${value} is not supported`);
    if (/^Open(?:Paren|Square|Curly)/.test(type)) open.push(n);
    if (/^Close(?:Paren|Square|Curly)/.test(type)) open.pop();
    brackets.set(token, open.at(-1) ?? -1);
    if (type !== 'Identifier' || value !== 'is') tokens.push(token);
    else {
      // the parser knows no tests with arguments: they become filters of that name
      const isNegated = next?.value === 'not';
      n += isNegated ? 2 : 1;
      tokens.push({ type: 'Pipe', value: '|' });
      tokens.push({ type: 'Identifier', value: `is ${isNegated ? 'not ' : ''}${found[n]?.value}` });
    }
  }
  return tokens;
}

/** No 1e5, 0x1F or 1_000, and nothing that a double rounds. */
function isPlain(number: string, next: Token | undefined): boolean {
  const isMore = next?.type === 'Identifier' && /^(?:e\d*|[xob_][\da-f_]+)$/i.test(next.value);
  return !isMore && (number.includes('.') || Number.isSafeInteger(Number(number)));
}
