// Renders a conversation turn by turn: which tokens of it the policy wrote, and which it was shown between its turns.
import { TraceRejected } from '../errors.js';
import type { ChatRenderer } from '../model/text/chat-template.js';
import type { PolicyTokenizer } from '../model/text/tokenizer.js';
import type { Message, Trace } from '../trace.js';

type Rendered = Required<Pick<Trace, 'promptIds' | 'completionIds'>> &
  Pick<Trace, 'prompt' | 'completion' | 'completionMask'>;

/**
 * The prompt and completion of a trace of messages, as the policy's chat template makes them. The policy wrote what the template
 * adds with each message of the assistant behind what opens it, up to the end token; it was shown all else. Messages behind its last
 * turn are no part of the trace. Each part is tokenised by itself, as it was when it was read or written.
 * @throws TraceRejected (`turns`) where the template renders earlier messages otherwise once later ones are there, so that nobody
 * knows what the policy read
 */
export async function renderedTurns(
  { prompt, promptIds: given, turns = [], tools }: Trace,
  chat: ChatRenderer | undefined,
  tokenizer: PolicyTokenizer,
): Promise<Rendered> {
  if (chat === undefined || typeof prompt === 'string')
    throw refusal(
      chat === undefined ? 'the policy has no chat template' : 'its prompt is text, expected messages',
    );
  const messages: readonly Message[] = [...prompt, ...turns];
  const own = messages.flatMap(({ role }, n) => (n >= prompt.length && role === 'assistant' ? [n] : []));
  const upTo = (n: number, addGenerationPrompt: boolean) =>
    chat.ask({ messages: messages.slice(0, n), addGenerationPrompt, tools });
  const whole = await upTo((own.at(-1) as number) + 1, false);
  const placeOf = async (n: number, opens: boolean): Promise<number> => {
    const text = await upTo(n, opens);
    if (whole.startsWith(text)) return text.length;
    const role = JSON.stringify(messages[n - 1]?.role ?? '');
    throw refusal(
      `the chat template renders the messages up to number ${n - prompt.length} behind the prompt (${role}) otherwise once later ones are there`,
    );
  };
  const parts: { ids: Int32Array; isOwn: 0 | 1 }[] = [];
  let [start, at] = [0, 0];
  for (const n of own) {
    const from = await placeOf(n, true);
    if (parts.length === 0) start = from;
    else parts.push({ ids: await tokenizer.encode(whole.slice(at, from)), isOwn: 0 });
    const to = n === own.at(-1) ? whole.length : await placeOf(n + 1, false);
    const written = await writtenTurn(whole.slice(from, to), tokenizer);
    parts.push({ ids: written.ids, isOwn: 1 });
    at = from + written.text.length;
  }
  const text = whole.slice(0, start);
  const mask = Uint8Array.from(parts.flatMap(({ ids, isOwn }) => Array(ids.length).fill(isOwn)));
  return {
    prompt: text,
    promptIds: given ?? (await tokenizer.encodeTemplated(text)),
    completion: whole.slice(start, at),
    completionIds: Int32Array.from(parts.flatMap(({ ids }) => [...ids])),
    ...(mask.includes(0) && { completionMask: mask }),
  };
}

/** What the policy wrote of a turn: white space behind its end token is the template's. */
async function writtenTurn(text: string, tokenizer: PolicyTokenizer) {
  const ids = await tokenizer.encode(text);
  const end = ids.findLastIndex((id) => tokenizer.isSpecial(id)) + 1;
  const behind = tokenizer.decode(ids.subarray(end)).toString('utf8');
  const isClosed = end > 0 && behind.trim() === '' && text.endsWith(behind);
  return isClosed
    ? { ids: ids.subarray(0, end), text: text.slice(0, text.length - behind.length) }
    : { ids, text };
}

function refusal(why: string): TraceRejected {
  return new TraceRejected(
    'turns',
    `${why}, so that nobody knows which tokens the policy read and wrote: --map completion_ids=<path>,completion_mask=<path>, or another policy`,
  );
}
