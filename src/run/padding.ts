// What of a trace's token ids and texts is padding, as they come out of a trainer's tensors: it is cut off, and a mask alike.
import { saidBy } from '../estimate/finished.js';
import type { FieldMap } from '../io/map/fields.js';
import { type EdgeTokens, edgePieces, edgeTokens } from '../model/text/edge-tokens.js';
import type { OwnTokens, Trace } from '../trace.js';

/** What cuts the padding of traces. @param policy null: none is known */
export async function openPadding(policy: string | null): Promise<NonNullable<FieldMap['unpadded']>> {
  const none = { pads: new Set<number>(), ends: new Set<number>(), texts: [] };
  const tokens = policy === null ? none : await edgeTokens(policy);
  return (trace) => unpadded(trace, tokens);
}

/** The trace without padding. */
export function unpadded(trace: Trace, tokens: EdgeTokens): Trace {
  const { completionMask: own, ...whole } = trace;
  const { promptIds: prompt = NO_IDS, completionIds: completion = NO_IDS, status = [] } = trace;
  const kind = saidBy(trace.source.columns, trace.item ?? 0) === false ? 'cut' : 'completion';
  const ofPrompt = attended(trace, 'prompt', [0, prompt.length, completion.length]);
  const ofCompletion = attended(trace, 'completion', [prompt.length, completion.length, 0]);
  const promptIds = prompt.subarray(...bounds(prompt, tokens, 'prompt', ofPrompt));
  const range = bounds(completion, tokens, kind, ofCompletion, own);
  const completionIds = completion.subarray(...range);
  const asked = inText(trace.prompt, tokens, 'prompt');
  const written = inText(trace.turns ?? trace.completion, tokens, kind);
  const padding =
    (trace.promptIds ? prompt.length - promptIds.length : asked.padding) +
    (trace.completionIds ? completion.length - completionIds.length : written.padding);
  if (padding === 0) return trace;
  const completionMask = own?.subarray(...range);
  return {
    ...{ ...whole, padding },
    ...(asked.padding > 0 && { prompt: asked.text }),
    ...(written.padding > 0 && { completion: written.text }),
    // its characters are at other places in the row
    ...(written.isShifted && !trace.completionIds && { status: [...status, 'ids:text-mismatch'] }),
    ...(trace.promptIds && { promptIds }),
    ...(trace.completionIds && { completionIds }),
    ...(completionMask?.includes(0) && { completionMask }),
    ...(trace.sampledLogprobs && { sampledLogprobs: trace.sampledLogprobs.subarray(...range) }),
  };
}

const NO_IDS = new Int32Array(0);

/** The attention mask beside so many ids: theirs alone, or of prompt and completion, one behind the other. */
function attended(
  { source: { columns }, item }: Trace,
  field: string,
  [before, length, behind]: readonly [number, number, number],
): OwnTokens | undefined {
  const found = [`${field}_attention_mask`, `${field}_mask`, 'attention_mask'].map((name) => columns[name]);
  const lists = found.filter(Array.isArray).map((all) => (item === undefined ? all : (all[item] ?? all)));
  const lengths = [length, before + length + behind];
  const list = lists.find((each) => Array.isArray(each) && lengths.includes(each.length));
  return list && Uint8Array.from(list.length === length ? list : list.slice(before, before + length), Number);
}

/** The same of a text. */
function inText(text: unknown, tokens: EdgeTokens, of: 'prompt' | 'completion' | 'cut') {
  const pieces = typeof text === 'string' ? edgePieces(text, tokens) : [];
  const ids = Int32Array.from(pieces, ([, id]) => id);
  const [from, to] = bounds(ids, tokens, of);
  const kept = pieces.slice(from, to).map(([piece]) => piece);
  return { text: kept.join(''), padding: pieces.length - kept.length, isShifted: from > 0 };
}

/** Where the ids begin and end that are no padding. @param of `cut`: a completion of which its row says so @param masks 0 for padding, but for what a tool said as well */
function bounds(
  ids: Int32Array,
  { pads, ends, start }: EdgeTokens,
  of: 'prompt' | 'completion' | 'cut',
  ...masks: readonly (OwnTokens | undefined)[]
): [from: number, to: number] {
  let [from, to] = [0, ids.length];
  for (const [n, mask] of masks.entries()) {
    if (!mask?.includes(1)) continue;
    // one id over and over is none of a tool's
    const isPadding = (part: Int32Array): boolean =>
      part.every((id) => id === part[0] && (n === 0 || part.length > 1 || pads.has(id)));
    const [first, last] = [mask.indexOf(1), mask.lastIndexOf(1) + 1];
    if (isPadding(ids.subarray(0, first))) from = Math.max(from, first);
    if (isPadding(ids.subarray(last))) to = Math.min(to, last);
  }
  const isPad = (id: number, count: number) => pads.has(id) || (ends.has(id) && count > 1);
  const [lead, last] = [ids[from] as number, ids[to - 1] as number];
  const tail = ids.subarray(from, to).findLastIndex((id) => id !== last) + from + 1;
  const hasEnded = tail > from && ends.has(ids[tail - 1] as number);
  if (isPad(last, to - tail) || (hasEnded && to - tail > 1)) {
    // an end token is the completion's own once, and the prompt's, or of what was cut, where it stands alone
    const isOwn = ends.has(last) && !hasEnded && (of === 'completion' || to - tail === 1);
    to = tail + (isOwn ? 1 : 0);
  }
  const head = ids.subarray(from, to).findIndex((id) => id !== lead) + from;
  if (head > from && isPad(lead, head - from)) from = head - (lead === start ? 1 : 0);
  return [from, to];
}
