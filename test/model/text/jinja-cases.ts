// Chat templates with what they are given, as JSON text, and what Python and we make of them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { noteExact, parseJson } from '../../../dist/io/arrow/json.js';
import { parseMessages } from '../../../dist/io/map/messages.js';
import { givenTo } from '../../../dist/model/text/chat-template.js';
import { templateRenderer } from '../../../dist/model/text/render-template.js';
import type { Message } from '../../../dist/trace.js';
import { ROOT } from '../../support/program.js';

export const CASES = join(ROOT, 'test/model/text/jinja');
export const caseText = (name: string): string => readFileSync(join(CASES, name), 'utf8');
export const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');

/** What is rendered, or why it is not. */
export type Rendered = { readonly text: string } | { readonly error: string };

interface Request {
  readonly messages: readonly unknown[];
  readonly tools?: unknown;
  readonly variables?: Record<string, unknown>;
  readonly add_generation_prompt?: boolean;
}

/** A template rendered as a row's messages are. @param request JSON text, whose numbers count as they are spelled */
export function rendered(template: string, request: string): Rendered {
  const row = parseJson(request) as Request;
  noteExact(request, row);
  const { messages, tools, variables = {}, add_generation_prompt: addGenerationPrompt = true } = row;
  const conversation = { messages: parseMessages(messages) as Message[], addGenerationPrompt, tools };
  try {
    return { text: templateRenderer(template)(givenTo({ variables }, conversation)) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}
