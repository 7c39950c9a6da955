// The policy's chat template: found in its folder with the variables it is rendered with, and messages rendered by it as a prompt's text.
import { join } from 'node:path';
import { TraceRejected, usageError } from '../../errors.js';
import { type ExactObject, exactly, jsonOf } from '../../io/arrow/json.js';
import type { Message } from '../../trace.js';
import { boundedProcess } from './bounded-process.js';
import type { TextInit, TextThread } from './text-thread.js';
import { namedToken } from './tokenizer.js';
import { untrustedText } from './untrusted-files.js';

/** The files of a policy folder with their hashes: what its manifest does not name does not count. */
export interface PolicyFiles {
  readonly path: string;
  readonly files: Readonly<Record<string, string>>;
}

/** A template and everything but the messages that it is rendered with. */
export interface ChatTemplate {
  /** the file it comes from, for messages */
  readonly file: string;
  readonly source: string;
  /** special tokens by name (`bos_token`, …) and what `--chat-template-arg` gave */
  readonly variables: Readonly<Record<string, unknown>>;
}

/** Newer checkpoints keep the template in a file of its own, which wins. */
export const CHAT_TEMPLATE = 'chat_template.jinja';
const CONFIG = 'tokenizer_config.json';

/** The template of a policy; undefined where it has none. @throws RredcotError (exit 2) for several without a default, or a variable that it does not read */
export async function loadChatTemplate(
  { path, files }: PolicyFiles,
  args: Readonly<Record<string, unknown>> = {},
): Promise<ChatTemplate | undefined> {
  // only files of the manifest count: their hashes are in the output
  const own = CHAT_TEMPLATE in files ? await untrustedText(path, CHAT_TEMPLATE) : undefined;
  const config = JSON.parse((await untrustedText(path, CONFIG)) ?? '{}') as Record<string, unknown>;
  const file = join(path, own === undefined ? CONFIG : CHAT_TEMPLATE);
  const source = own ?? defaultTemplate(config.chat_template, file);
  const [first] = Object.keys(args);
  if (source === undefined) {
    if (first === undefined) return undefined;
    throw usageError(
      `--chat-template-arg ${first}: the policy has no chat template`,
      'leave it out, or build a policy with a chat_template.jinja',
    );
  }
  for (const name of Object.keys(args))
    if (!new RegExp(`\\b${name}\\b`).test(source))
      throw usageError(
        `--chat-template-arg ${name}: ${file} does not read it`,
        'leave it out, or name a variable that stands in that template',
      );
  return { file, source, variables: { ...specialTokens(config), ...args } };
}

/** The source of a checkpoint's template, empty where it has none. @throws RredcotError (exit 2) for one that cannot be rendered as Python does, naming what it has */
export async function checkedTemplate(path: string): Promise<string> {
  const template = await loadChatTemplate({ path, files: { [CHAT_TEMPLATE]: '' } });
  if (template === undefined) return '';
  const chat = chatRenderer(template);
  await chat.check().finally(chat.close);
  return template.source;
}

/** A template is a text, or one of a list of {name, template}. */
function defaultTemplate(value: unknown, file: string): string | undefined {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const named = value as { name?: unknown; template?: unknown }[];
  const chosen = named.length === 1 ? named[0] : named.find(({ name }) => name === 'default');
  if (typeof chosen?.template === 'string') return chosen.template;
  throw usageError(
    `${file}: has chat templates ${named.map(({ name }) => String(name)).join(', ')}, expected one called default`,
    `build the policy with the right one as ${CHAT_TEMPLATE}`,
  );
}

function specialTokens(config: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const named = ['bos', 'eos', 'unk', 'pad', 'sep', 'cls', 'mask'].map((kind) => `${kind}_token`);
  const spelled = named.map((name) => [name, namedToken(config[name])] as const);
  return Object.fromEntries(spelled.filter(([, text]) => text !== undefined));
}

/** Names that a template reads and nobody may set: `strftime_now` is the renderer's own. */
const RESERVED = ['messages', 'add_generation_prompt', 'strftime_now'];

/** The values of `--chat-template-arg`: `name=value`, the value a JSON value or text. @throws RredcotError (exit 2) */
export function parseTemplateArgs(given: readonly string[] = []): Record<string, unknown> {
  const args: Record<string, unknown> = {};
  for (const entry of given) {
    const [, name, value] = /^([a-zA-Z_]\w*)=(.*)$/s.exec(entry) ?? [];
    if (name === undefined || value === undefined || RESERVED.includes(name) || Object.hasOwn(args, name))
      throw usageError(
        `--chat-template-arg ${entry}: ${name === undefined ? 'is not name=value' : 'is given twice, or not yours to give'}`,
        '--chat-template-arg enable_thinking=false',
      );
    const found = jsonOf(value.replace(/^(?:True|False)$/, (word) => word.toLowerCase())); // as Python spells them
    args[name] = found === undefined ? value : found;
  }
  return args;
}

// ------ rendering, within bounds of time and memory

/** Templates take milliseconds, on a busy machine too; what takes longer than this does not end. */
const TIMEOUT_MS = 30_000;
/** 16 Mi characters: more tokens than any policy's context has room for. */
const MAX_LENGTH = 2 ** 24;
const MEMORY_MB = 512;
const HINT = 'build the policy with another chat_template.jinja, or give prompts as text';

interface Conversation {
  readonly messages: readonly Message[];
  readonly addGenerationPrompt: boolean;
  readonly tools?: unknown;
}

/** All that a template is given, as transformers calls it: what a caller leaves out is None. @param ofText contents are their text */
export function givenTo(
  { variables }: Pick<ChatTemplate, 'variables'>,
  { messages, addGenerationPrompt, tools }: Conversation,
  ofText = false,
): ExactObject {
  const own = { tools, documents: null, add_generation_prompt: addGenerationPrompt };
  const handedOn = messages.map((each) => asHandedOn(each, ofText));
  return (exactly({ ...variables, ...own }) as ExactObject).set('messages', handedOn);
}

/** A message as transformers hands it to a template: without what is None, and a thought under both its names. */
function asHandedOn(message: Message, ofText: boolean): ExactObject {
  const fields = new Map([...(exactly(message) as ExactObject)].filter(([, value]) => value !== null));
  if (ofText) fields.set('content', message.content);
  const names = ['reasoning_content', 'thinking', 'reasoning'];
  const thought = fields.get(names.find((name) => fields.has(name)) as string);
  if (thought === undefined) return fields;
  return new Map([['thinking', thought], ...fields, ['reasoning_content', thought]]);
}

export type ChatRenderer = ReturnType<typeof chatRenderer>;

/** Renders messages, one conversation at a time, in a process that is started when the first one comes. */
export function chatRenderer(
  template: ChatTemplate,
  { timeoutMs = TIMEOUT_MS, signal }: { timeoutMs?: number; signal?: AbortSignal | undefined } = {},
) {
  const { source, file } = template;
  const { call, close } = boundedProcess<TextThread>({
    ...{ title: `${file}: the chat template`, hint: HINT, memoryMb: MEMORY_MB, timeoutMs, signal },
    file: new URL('./text-thread.js', import.meta.url),
    workerData: { chat: { source, maxLength: MAX_LENGTH } } satisfies TextInit,
  });
  const rendered = async (given?: ExactObject): Promise<string> => {
    const reply = await call('render', [given]);
    if ('text' in reply) return reply.text;
    if ('broken' in reply)
      throw usageError(`${file}: the chat template cannot be read (${reply.error})`, HINT);
    throw new TraceRejected(
      'chat_template',
      `the policy's chat template does not take the messages: ${reply.error}: give the prompt as text with --map prompt=<path>`,
    );
  };
  const ask = (conversation: Conversation): Promise<string> =>
    rendered(givenTo(template, conversation)).catch((error: unknown) => {
      const hasParts = conversation.messages.some((each) =>
        Array.isArray(asHandedOn(each, false).get('content')),
      );
      // a template for texts alone takes no parts
      if (!(error instanceof TraceRejected) || !hasParts) throw error;
      return rendered(givenTo(template, conversation, true));
    });
  return {
    template,
    close,
    /** @throws RredcotError (exit 2) naming what the template has that is not rendered as Python does */
    check: () => rendered(),
    /** A conversation as it stands, whoever speaks last. @throws as `render` */
    ask,
    /**
     * The prompt's text, with what opens the assistant's turn; where the last message is the assistant's, the text ends
     * with its content, for the completion to go on.
     * @throws TraceRejected (`chat_template`) for messages that the template does not take
     * @throws RredcotError (exit 2) for a template that does not parse, or has not ended several times
     */
    async render(messages: readonly Message[], tools?: unknown): Promise<string> {
      const last = messages.at(-1);
      const continues = last?.role === 'assistant';
      const text = await ask({ messages, addGenerationPrompt: !continues, tools });
      return continues ? throughContent(text, last.content) : text;
    },
  };
}

/** A text up to the end of its last message's content, which templates may trim. */
function throughContent(text: string, content: string): string {
  const trimmed = content.trim();
  const at = text.lastIndexOf(trimmed);
  if (trimmed === '' || at < 0)
    throw new TraceRejected(
      'chat_template',
      "the last message is the assistant's, and its content is not in the rendered prompt: leave it out of the prompt",
    );
  const asGiven = content.trimStart();
  return text.slice(0, at + (text.startsWith(asGiven, at) ? asGiven : trimmed).length);
}
