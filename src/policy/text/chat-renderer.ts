// Renders messages as the prompt's text by the policy's chat template, within bounds of time and memory.
import { TraceRejected, usageError } from '../../errors.js';
import type { Message } from '../../trace.js';
import { BoundedThread, StoppedError } from './bounded-thread.js';
import type { ChatTemplate } from './chat-template.js';
import type { ChatInit, ChatReply, ChatRequest, ChatThread } from './chat-thread.js';

/** Templates take milliseconds, on a busy machine too; what takes longer than this does not end. */
const TIMEOUT_MS = 30_000;
/** 16 Mi characters: more tokens than any policy's context has room for. */
const MAX_LENGTH = 2 ** 24;
const MEMORY_MB = 512;
const MOST_STOPPED = 3;
const HINT = 'build the policy with another chat_template.jinja, or give prompts as text';

/** Renders messages, one conversation at a time, in a process that is started when the first one comes. */
export class ChatRenderer {
  private readonly thread: BoundedThread<ChatThread>;

  constructor(
    readonly template: ChatTemplate,
    { timeoutMs = TIMEOUT_MS, signal }: { timeoutMs?: number; signal?: AbortSignal | undefined } = {},
  ) {
    const { source, variables, file } = template;
    const workerData: ChatInit = { source, variables, maxLength: MAX_LENGTH };
    const thread = new URL('./chat-thread.js', import.meta.url);
    this.thread = new BoundedThread(
      { title: `${file}: the chat template`, hint: HINT, file: thread, workerData, processMb: MEMORY_MB },
      { timeoutMs, mostStopped: MOST_STOPPED, signal },
    );
  }

  /**
   * The prompt's text, with what opens the assistant's turn; where the last message is the assistant's, the text ends
   * with its content, for the completion to go on.
   * @throws TraceRejected (`chat_template`) for messages that the template does not take
   * @throws RredcotError (exit 2) for a template that does not parse, or has not ended several times
   */
  async render(messages: readonly Message[]): Promise<string> {
    const last = messages.at(-1);
    const continues = last?.role === 'assistant';
    const text = await this.ask({ messages, addGenerationPrompt: !continues });
    return continues ? throughContent(text, last.content) : text;
  }

  close(): Promise<void> {
    return this.thread.close();
  }

  private async ask(request: ChatRequest): Promise<string> {
    const reply = await this.thread.call('render', [request]).catch((error: unknown): ChatReply => {
      if (error instanceof StoppedError) return { error: error.message };
      throw error;
    });
    if ('text' in reply) return reply.text;
    const { file } = this.template;
    if (reply.broken) throw usageError(`${file}: the chat template cannot be read (${reply.error})`, HINT);
    throw new TraceRejected(
      'chat_template',
      `the policy's chat template does not take the messages: ${reply.error}: give the prompt as text with --map prompt=<path>`,
    );
  }
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
