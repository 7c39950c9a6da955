// The thread that renders chat templates: a template that never ends, or grows without end, is stopped from outside.
import { workerData } from 'node:worker_threads';
import { Template } from '@huggingface/jinja';
import { serve } from '../../thread.js';
import type { Message } from '../../trace.js';

export interface ChatInit {
  readonly source: string;
  readonly variables: Readonly<Record<string, unknown>>;
  /** longest text that is handed back, UTF-16 units */
  readonly maxLength: number;
}

export interface ChatRequest {
  readonly messages: readonly Message[];
  readonly addGenerationPrompt: boolean;
  readonly tools?: unknown;
}

/** `broken`: the template itself does not parse. */
export type ChatReply = { readonly text: string } | { readonly error: string; readonly broken?: boolean };

const { source, variables, maxLength } = workerData as ChatInit;
let template: Template | undefined;

function render({ messages, addGenerationPrompt, tools }: ChatRequest): ChatReply {
  try {
    template ??= new Template(source);
  } catch (error) {
    return { error: String((error as Error)?.message ?? error), broken: true };
  }
  try {
    const own = { messages, add_generation_prompt: addGenerationPrompt, ...(tools ? { tools } : {}) };
    const text = template.render({ ...variables, ...own });
    if (text.length <= maxLength) return { text };
    return { error: `made ${text.length} characters, expected at most ${maxLength}` };
  } catch (error) {
    return { error: String((error as Error)?.message ?? error) };
  }
}

const functions = { render };
export type ChatThread = typeof functions;
serve(functions);
