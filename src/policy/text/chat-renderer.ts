// Messages in, the prompt's text out, by the policy's chat template and within bounds of time and memory.
import { EXIT, RredcotError, TraceRejected, usageError } from '../../errors.js';
import { startThread, type Thread } from '../../thread.js';
import type { Message } from '../../trace.js';
import type { ChatTemplate } from './chat-template.js';
import type { ChatInit, ChatReply, ChatRequest, ChatThread } from './chat-thread.js';

/** Templates take milliseconds, on a busy machine too; what takes longer than this does not end. */
const TIMEOUT_MS = 30_000;
/** 16 Mi characters: more tokens than any policy's context has room for. */
const MAX_LENGTH = 2 ** 24;
const MEMORY_MB = 512;
/** One trace may be strange; a template that is stopped so often would hold up the whole run. */
const MAX_STOPPED = 3;

/** Renders messages, one conversation at a time, in a thread that is started when the first one comes. */
export class ChatRenderer {
  private thread: Thread<ChatThread> | undefined;
  private stopped = 0;

  constructor(
    readonly template: ChatTemplate,
    private readonly limits: { readonly timeoutMs: number } = { timeoutMs: TIMEOUT_MS },
  ) {}

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

  async close(): Promise<void> {
    await this.thread?.terminate();
    this.thread = undefined;
  }

  private async ask(request: ChatRequest): Promise<string> {
    const reply = await this.reply(request);
    if ('text' in reply) return reply.text;
    const { file } = this.template;
    if (reply.broken)
      throw usageError(
        `${file}: the chat template cannot be read (${reply.error})`,
        'build the policy with another chat_template.jinja, or give prompts as text',
      );
    throw new TraceRejected(
      'chat_template',
      `the policy's chat template does not take the messages: ${reply.error}: give the prompt as text with --map prompt=<path>`,
    );
  }

  private async reply(request: ChatRequest): Promise<ChatReply> {
    const { timeoutMs } = this.limits;
    this.thread ??= this.start();
    const { thread } = this;
    thread.ref();
    const timer = setTimeout(
      () => void thread.terminate(new Error(`not done after ${timeoutMs / 1000} s`)),
      timeoutMs,
    );
    try {
      return await thread.call('render', [request]);
    } catch (error) {
      await this.close();
      const why = (error as Error).message;
      if (++this.stopped < MAX_STOPPED) return { error: why };
      throw new RredcotError(
        `${this.template.file}: the chat template was stopped ${MAX_STOPPED} times (${why})`,
        {
          exitCode: EXIT.usage,
          hint: 'build the policy with another chat_template.jinja, or give prompts as text',
          cause: error,
        },
      );
    } finally {
      clearTimeout(timer);
      thread.unref(); // an idle thread keeps no process alive
    }
  }

  private start(): Thread<ChatThread> {
    const { source, variables } = this.template;
    const workerData: ChatInit = { source, variables, maxLength: MAX_LENGTH };
    const resourceLimits = { maxOldGenerationSizeMb: MEMORY_MB };
    return startThread('its thread', new URL('./chat-thread.js', import.meta.url), {
      workerData,
      resourceLimits,
    });
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
