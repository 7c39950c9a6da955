// Makes every trace's prompt what the policy read: messages through its chat template, stripped prompts fixed or named.
import { TraceRejected } from '../../errors.js';
import type { Log } from '../../report/log.js';
import { THOUGHT_TAGS } from '../../segment/span.js';
import { renderedTurns } from '../../segment/turn-parts.js';
import { MESSAGES_AS_TEXT, type Message, type Trace } from '../../trace.js';
import type { ChatRenderer } from './chat-template.js';
import type { PolicyTokenizer } from './tokenizer.js';

/** Characters of the first rendered prompt that the log shows. */
const SHOWN = 400;

/** What the log tells of the first prompt of a kind, by the code that its trace gets. */
const WARNINGS = {
  'prompt:messages-as-text':
    'prompts are messages written out as text, and are scored as that text: write the column as a list of {role, content}',
  'prompt:retemplated':
    'prompts were dumped without their special tokens; they are put back by the chat template',
  'prompt:stripped':
    'prompts were dumped without their special tokens, and are scored so; give their messages with --map prompt=<path>, or prompt_ids',
  'prompt:text-mismatch':
    'messages render to another text than the dump shows: --chat-template-arg enable_thinking=false, or another policy',
} as const;

export class Prompts {
  private shapes: readonly StrippedShape[] | undefined;
  private mark: string | undefined;
  private behind: Promise<string> | undefined;
  private readonly told = new Set<string>();

  constructor(
    private readonly chat: ChatRenderer | undefined,
    private readonly tokenizer: PolicyTokenizer,
    private readonly log: Pick<Log, 'info' | 'warn'>,
  ) {}

  /** The trace with a prompt of text and its ids, where anything had to be done; its status says what. @throws TraceRejected (`chat_template`) */
  async prepare(trace: Trace): Promise<Trace> {
    if (trace.turns !== undefined)
      return { ...trace, ...(await renderedTurns(trace, this.chat, this.tokenizer)) };
    // ids are what the policy read, whatever the row shows beside them
    if (trace.promptIds !== undefined) return trace;
    if (typeof trace.prompt === 'string' && MESSAGES_AS_TEXT.test(trace.prompt))
      return this.warned(trace, 'prompt:messages-as-text');
    if (this.chat === undefined) return this.plain(trace);
    if (typeof trace.prompt !== 'string') return this.rendered(trace);
    this.shapes ??= await strippedShapes(this.chat, this.tokenizer);
    const messages = readStripped(trace.prompt, this.shapes);
    if (messages === undefined) {
      this.mark ??= await templateMark(this.chat);
      const isRaw = this.mark !== '' && !trace.prompt.includes(this.mark);
      return this.plain(isRaw ? noted(trace, 'prompt:raw-question') : trace);
    }
    // what was found is right where rendering and stripping it gives the dump's text, and nothing else would
    if (!hasRoleLines(messages)) {
      const text = await this.chat.render(messages);
      if ((await withoutSpecials(text, this.tokenizer)) === trace.prompt)
        return this.withText(this.warned(trace, 'prompt:retemplated'), text);
    }
    return this.warned(trace, 'prompt:stripped');
  }

  /** What the template writes behind a turn of the policy: the token that ends it, and what opens the next one. */
  private behindTurn(): Promise<string> {
    const ask = async () => this.chat?.ask({ messages: ANSWERED, addGenerationPrompt: true });
    const behind = (text = '') => text.split('rredcot4assistant').at(-1) as string;
    // whoever renders messages says what is wrong with the template
    this.behind ??= ask().then(behind, () => '');
    return this.behind;
  }

  /** The token that ends a turn behind such a prompt; undefined where the template puts none, or has not made the prompt. */
  async turnEnd(prompt: Trace['prompt']): Promise<number | undefined> {
    if (this.chat === undefined) return undefined;
    this.mark ??= await templateMark(this.chat);
    if (typeof prompt === 'string' && !prompt.includes(this.mark)) return undefined;
    const behind = await this.tokenizer.encode(await this.behindTurn());
    return behind.find((id) => this.tokenizer.isSpecial(id));
  }

  /** How prompts of messages end, where that may open a thought. */
  async opening(): Promise<string> {
    const source = this.chat?.template.source ?? '';
    return THOUGHT_TAGS.some(([open]) => source.includes(open)) ? this.behindTurn() : '';
  }

  /** A prompt that is read as the text that it is. */
  private plain(trace: Trace): Trace {
    const { warning } = this.tokenizer.start;
    if (warning !== undefined && typeof trace.prompt === 'string') this.warn('add_bos_token', warning);
    return trace;
  }

  private async rendered(trace: Trace): Promise<Trace> {
    const { chat } = this;
    if (chat === undefined || typeof trace.prompt === 'string') return trace;
    const text = await chat.render(trace.prompt, trace.tools);
    if (!this.told.has('first')) {
      this.told.add('first');
      const more = text.length > SHOWN ? `… (${text.length} characters)` : '';
      this.log.info(`first prompt, by ${chat.template.file}: ${JSON.stringify(text.slice(0, SHOWN))}${more}`);
      if (/\bstrftime_now\b/.test(chat.template.source) && !('date_string' in chat.template.variables))
        this.warn(
          'chat_template_date',
          "the chat template may write today's date into prompts: --chat-template-arg date_string=<as it was>",
        );
    }
    const { promptText } = trace;
    const agrees =
      [undefined, text].includes(promptText) || promptText === (await withoutSpecials(text, this.tokenizer));
    return this.withText(agrees ? trace : this.warned(trace, 'prompt:text-mismatch'), text);
  }

  private async withText(trace: Trace, text: string): Promise<Trace> {
    const promptIds = await this.tokenizer.encodeTemplated(text);
    return { ...trace, prompt: text, promptIds, status: trace.status ?? [] };
  }

  private warned(trace: Trace, code: keyof typeof WARNINGS): Trace {
    this.warn(code, WARNINGS[code]);
    return noted(trace, code);
  }

  /** Once a run and code. */
  private warn(code: string, message: string): void {
    if (!this.told.has(code)) this.log.warn(code, message);
    this.told.add(code);
  }
}

function noted(trace: Trace, code: string): Trace {
  return { ...trace, status: [...(trace.status ?? []), code] };
}

// ------ prompts that a dump shows without their special tokens

/** How a conversation's text looks without special tokens: what stands before, between and behind its contents. */
interface StrippedShape {
  readonly roles: readonly string[];
  readonly around: readonly string[]; // (roles + 1)
}

/** Contents that no template trims, and that occur nowhere else. */
const USER = { role: 'user', content: 'rredcot4user' };
const PROBES = [[USER], [{ role: 'system', content: 'rredcot4system' }, USER]];
const ANSWERED = [USER, { role: 'assistant', content: 'rredcot4assistant' }];

/** A probe as the template writes it; undefined where it takes none such: whoever renders messages says what is wrong with it. */
function probed(chat: ChatRenderer, messages: readonly Message[]): Promise<string | undefined> {
  return chat.render(messages).catch((error: unknown) => {
    if (error instanceof TraceRejected) return undefined;
    throw error;
  });
}

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
async function strippedShapes(chat: ChatRenderer, tokenizer: PolicyTokenizer): Promise<StrippedShape[]> {
  const shapes: StrippedShape[] = [];
  for (const messages of PROBES) {
    const rendered = await probed(chat, messages);
    if (rendered === undefined) continue; // a template without system messages
    const stripped = await withoutSpecials(rendered, tokenizer);
    const own = await tokenizer.encodePrompt(stripped);
    const isWhole = own.join() === (await tokenizer.encodeTemplated(rendered)).join();
    const around = stripped.split(/rredcot4(?:user|system)/);
    const tells = /\p{L}/u.test(around[0] as string) && /\p{L}/u.test(around.at(-1) as string);
    if (isWhole || !tells || around.length !== messages.length + 1) continue;
    shapes.push({ roles: messages.map(({ role }) => role), around });
  }
  return shapes;
}

/** What stands first behind the user's words in every prompt that the template made, and not in a question on its own; empty where nothing does. */
async function templateMark(chat: ChatRenderer): Promise<string> {
  const [, behind = ''] = (await probed(chat, [USER]))?.split(USER.content) ?? [];
  const line = behind.trimStart().split(/[\r\n]/, 1)[0] as string;
  // an opened thought belongs to the switches of a run
  return line.replace(/<think>.*$/, '').trim();
}

/** The messages of a prompt's text, by the first shape that fits; undefined where none does. */
function readStripped(text: string, shapes: readonly StrippedShape[]): Message[] | undefined {
  for (const { roles, around } of shapes) {
    const contents = contentsOf(text, around);
    if (contents) return roles.map((role, n) => ({ role, content: contents[n] as string }));
  }
  return undefined;
}

/** Whether contents hold a line with nothing but a role on it: then it may have been a conversation of more turns. */
function hasRoleLines(messages: readonly Message[]): boolean {
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
