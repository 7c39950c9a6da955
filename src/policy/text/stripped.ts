// Recognises prompts that a dump shows without their special tokens, and finds the messages they were made of.
import { TraceRejected } from '../../errors.js';
import type { Message } from '../../trace.js';
import type { ChatRenderer } from './chat-renderer.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** How a conversation's text looks without special tokens: what stands before, between and behind its contents. */
export interface StrippedShape {
  readonly roles: readonly string[];
  /** (roles + 1) */
  readonly around: readonly string[];
}

/** Contents that no template trims, and that occur nowhere else. */
const PROBES: readonly (readonly Message[])[] = [
  [{ role: 'user', content: 'rredcot4user' }],
  [
    { role: 'system', content: 'rredcot4system' },
    { role: 'user', content: 'rredcot4user' },
  ],
];

/** A text as decoders write it that leave out special tokens (TRL, verl). */
export async function withoutSpecials(text: string, tokenizer: PolicyTokenizer): Promise<string> {
  const ids = (await tokenizer.encodeTemplated(text)).filter((id) => !tokenizer.isSpecial(id));
  const spelled = tokenizer.decode(ids).toString('utf8');
  return tokenizer.kind === 'sentencepiece' ? spelled.replace(/^ /, '') : spelled;
}

/**
 * The shapes of a policy's stripped prompts. There are none where nothing is lost (the tokenizer puts the tokens back by
 * itself) or nothing is left to tell by: role words must stand before the first content and behind the last.
 */
export async function strippedShapes(
  chat: ChatRenderer,
  tokenizer: PolicyTokenizer,
): Promise<StrippedShape[]> {
  const shapes: StrippedShape[] = [];
  for (const messages of PROBES) {
    const rendered = await chat.render(messages).catch((error: unknown) => {
      if (error instanceof TraceRejected) return undefined; // a template without system messages
      throw error;
    });
    if (rendered === undefined) continue;
    const stripped = await withoutSpecials(rendered, tokenizer);
    const [own, templated] = [
      await tokenizer.encodePrompt(stripped),
      await tokenizer.encodeTemplated(rendered),
    ];
    const isWhole = own.join() === templated.join();
    const around = stripped.split(/rredcot4(?:user|system)/);
    const tells = /\p{L}/u.test(around[0] as string) && /\p{L}/u.test(around.at(-1) as string);
    if (isWhole || !tells || around.length !== messages.length + 1) continue;
    shapes.push({ roles: messages.map(({ role }) => role), around });
  }
  return shapes;
}

/**
 * What every prompt that the template made has in it, and a question on its own has not: what stands first behind the user's words.
 * Empty where nothing does.
 */
export async function templateMark(chat: ChatRenderer): Promise<string> {
  const [probe] = PROBES;
  const rendered = await chat.render(probe as readonly Message[]).catch((error: unknown) => {
    if (error instanceof TraceRejected) return ''; // whoever renders messages says what is wrong with it
    throw error;
  });
  const [, behind = ''] = rendered.split('rredcot4user');
  const line = behind.trimStart().split(/[\r\n]/, 1)[0] as string;
  // an opened thought belongs to the switches of a run
  return line.replace(/<think>.*$/, '').trim();
}

/** The messages of a prompt's text, by the first shape that fits; undefined where none does. */
export function readStripped(text: string, shapes: readonly StrippedShape[]): Message[] | undefined {
  for (const { roles, around } of shapes) {
    const contents = contentsOf(text, around);
    if (contents === undefined) continue;
    return roles.map((role, n) => ({ role, content: contents[n] as string }));
  }
  return undefined;
}

/** Whether contents hold a line with nothing but a role on it: then it may have been a conversation of more turns. */
export function hasRoleLines(messages: readonly Message[]): boolean {
  return messages.some(({ content }) =>
    /^\s*(?:system|user|assistant|model|tool|developer)\s*:?\s*$/im.test(content),
  );
}

function contentsOf(text: string, around: readonly string[]): string[] | undefined {
  // an opened, or an empty, thought belongs to the switches of the run that made the dump
  const [body, tail] = [text, around.at(-1) as string].map((part) =>
    part.replace(/<think>(?:\s*<\/think>)?\s*$/, ''),
  ) as [string, string];
  const [head = '', ...between] = around.slice(0, -1);
  if (!body.startsWith(head) || !body.endsWith(tail) || body.length < head.length + tail.length)
    return undefined;
  const contents: string[] = [];
  let from = head.length;
  for (const part of between) {
    const at = body.indexOf(part, from);
    if (at < 0) return undefined;
    contents.push(body.slice(from, at));
    from = at + part.length;
  }
  const end = body.length - tail.length;
  return from <= end ? [...contents, body.slice(from, end)] : undefined;
}
