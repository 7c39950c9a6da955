// Lets the policy go on in turns with an environment: from each state until the environment ends the episode, or a limit of tokens does.

import { TraceRejected } from '../../errors.js';
import { stringifyJson } from '../../io/arrow/json.js';
import { type BadRow, eachTrace, isBad } from '../../rows.js';
import { shownBehind } from '../../segment/turn-parts.js';
import { type Message, type OwnTokens, type Trace, turnsIn } from '../../trace.js';
import { inHalves } from '../onnx/layout.js';
import { joinIds, spelledText } from '../text/encode.js';
import type { Prompts } from '../text/prompts.js';
import type { PolicyTokenizer } from '../text/tokenizer.js';
import { type Begun, type ContinueOptions, continueTraces, type PolicyWrites } from './continue.js';
import type { Environment } from './environment.js';
import { type RowKey, rowKey, type Written } from './sampling.js';

/** What an episode came to; T tokens, those that the policy was shown among them, whose log-probabilities are 0. */
export interface Episode extends Written {
  /** (T) */
  readonly own: OwnTokens;
  /** behind those before its state; the first is the turn in which that lay, whole */
  readonly messages: readonly Message[];
  /** null where the environment has not said it */
  readonly reward: number | null;
}

/** What turns are played with. */
export interface Players {
  readonly environment: Environment;
  readonly prompts: Pick<Prompts, 'chat'>;
  readonly tokenizer: PolicyTokenizer;
}

/** A conversation up to a state of its trace. */
export interface EpisodeState {
  /** all before the turn in which the policy goes on */
  readonly before: readonly Message[];
  /** the state's last tokens: what it has written of that turn */
  readonly begun: Int32Array;
}

/** A trace with the states from which it is continued. */
export interface Continuable {
  readonly trace: Trace;
  readonly begun: Begun;
  /** of each start, where turns are played */
  readonly standings?: readonly EpisodeState[] | undefined;
}

/**
 * Where a trace stands after so many tokens of its completion.
 * @param own which of these the policy wrote; undefined: all
 * @throws TraceRejected (`turns`) where nobody knows its messages, or they are others than its turns
 */
export function standingAt(
  { dialogue }: Trace,
  completionIds: Int32Array,
  own: OwnTokens | undefined,
  end: number,
): EpisodeState {
  const refuse = (found: string, field: string) =>
    new TraceRejected(
      'turns',
      `${found}, which --environment goes on with: --map ${field}=<path of messages>`,
    );
  if (dialogue === undefined || dialogue.prompt.at(-1)?.role === 'assistant') {
    const found = dialogue === undefined ? 'text' : "messages that end with the assistant's";
    throw refuse(`its prompt is ${found}, expected messages before its turn`, 'prompt');
  }
  const { prompt, behind } = dialogue;
  if (own === undefined) return { before: prompt, begun: completionIds.subarray(0, end) };
  const turns = turnsIn(own);
  const said = behind.flatMap(({ role }, n) => (role === 'assistant' ? [n] : []));
  if (said.length !== turns.length)
    throw refuse(
      `the policy has ${turns.length} turns by completion_mask and ${said.length} messages, expected as many`,
      'completion',
    );
  const n = turns.findLastIndex(([from], i) => i === 0 || from <= end);
  const [from] = turns[n] as (typeof turns)[number];
  const before = [...prompt, ...behind.slice(0, said[n])];
  return { before, begun: completionIds.subarray(Math.min(from, end), end) };
}

/**
 * Ids decide what the policy reads, and messages what the environment is told: these have to be one conversation.
 * @throws TraceRejected (`turns`) for a message that the ids do not spell, in its order: the last of the prompt, and all behind it
 */
export function assertOneConversation(
  { dialogue }: Trace,
  promptIds: Int32Array,
  completionIds: Int32Array,
  tokenizer: PolicyTokenizer,
): void {
  if (dialogue === undefined) return;
  const sides = [
    ['prompt', dialogue.prompt.slice(-1), promptIds],
    ['completion', dialogue.behind, completionIds],
  ] as const;
  for (const [field, messages, ids] of sides) {
    const text = spelledText(ids, tokenizer);
    let at = 0;
    for (const { role, content } of messages) {
      const said = content.trim();
      const found = text.indexOf(said, at);
      if (found < 0)
        throw new TraceRejected(
          'turns',
          `${field}_ids do not spell the ${role}'s message ${JSON.stringify(said.slice(0, 40))}, and --environment would be told it: --map ${field}=<path of messages>`,
        );
      at = found + said.length;
    }
  }
}

/** An episode under way: the start `n` of the trace `b`. */
interface Live {
  readonly b: number;
  readonly n: number;
  readonly key: RowKey;
  /** tokens that it may still have */
  readonly left: number;
  /** all that the policy reads, its state included */
  readonly ids: Int32Array;
  readonly standing: EpisodeState;
  readonly row: unknown;
  readonly tools: unknown;
  readonly parts: readonly (Pick<Written, 'ids' | 'logprobs'> & { readonly isOwn: 0 | 1 })[];
  readonly messages: readonly Message[];
}

/**
 * Plays every trace on from each of its starts, whose `most` tokens hold what the policy is shown, too. A turn is written for all
 * episodes at once, then each is answered.
 * @returns a list a trace in the order of its starts; what its environment, or its template, cannot take costs the trace alone
 */
export async function playEpisodes(
  session: PolicyWrites,
  stages: readonly Continuable[],
  opts: ContinueOptions,
  players: Players,
): Promise<(Episode[] | TraceRejected)[]> {
  const played: (Episode[] | TraceRejected)[] = stages.map(() => []);
  let live: Live[] = stages.flatMap(({ trace, begun: { ids, starts }, standings = [] }, b) => {
    const row = JSON.parse(stringifyJson({ ...trace.source.columns, ...trace.joined }));
    return starts.map(({ exit, key, most }, n) => {
      const standing = standings[n] as EpisodeState;
      const own = { row, tools: trace.tools, standing, parts: [], messages: [] };
      return { b, n, key, left: most, ids: ids.subarray(0, exit), ...own };
    });
  });
  let begun = stages.map((stage) => stage.begun);
  for (let turn = 1; live.length > 0; turn++) {
    const written = (await continueTraces(session, begun, opts)).flat();
    const next: Live[] = [];
    for (const [i, one] of live.entries()) {
      const own = played[one.b] as Episode[] | TraceRejected;
      if (own instanceof TraceRejected) continue;
      try {
        const after = await afterTurn(one, written[i] as Written, players);
        if ('finish' in after) own[one.n] = after;
        else next.push(after);
      } catch (error) {
        if (!(error instanceof TraceRejected)) throw error;
        played[one.b] = error;
      }
    }
    live = next.filter(({ b }) => !(played[b] instanceof TraceRejected));
    // other random numbers than those of the turn before
    begun = live.map(({ ids, key, left }) => {
      return { ids, starts: [{ exit: ids.length, key: rowKey(...key, turn), most: left }] };
    });
  }
  return played;
}

/** What becomes of an episode behind one more turn of the policy's. @throws TraceRejected */
async function afterTurn(
  one: Live,
  { ids, logprobs, finish }: Written,
  { environment, prompts, tokenizer }: Players,
): Promise<Live | Episode> {
  const { standing, key, row, tools } = one;
  const begun = one.messages.length === 0 ? standing.begun : NONE;
  const turn = { role: 'assistant', content: spelledText(joinIds(begun, ids), tokenizer) };
  const messages = [...one.messages, turn];
  const parts = [...one.parts, { ids, logprobs, isOwn: 1 } as const];
  const ended = (reward: number | null, why: Written['finish']): Episode => ({
    ids: joinIds(...parts.map((part) => part.ids)),
    logprobs: Float32Array.from(parts.flatMap((part) => [...part.logprobs])),
    own: Uint8Array.from(parts.flatMap((part) => Array(part.ids.length).fill(part.isOwn))),
    ...{ finish: why, messages, reward },
  });
  if (finish === 'length') return ended(null, finish);
  const all = [...standing.before, ...messages];
  const answer = await environment.answer({ messages: all, row, seed: rowKey(...key, 'environment')[0] });
  if ('reward' in answer) return ended(answer.reward, finish);
  const isClosed = tokenizer.isSpecial(ids.at(-1) as number);
  const shown = await shownBehind(
    { messages: all, tools },
    answer.messages,
    isClosed,
    prompts.chat,
    tokenizer,
  );
  const left = one.left - ids.length - shown.length;
  // an answer without room for a turn behind it is not shown
  if (left < 1) return ended(null, 'length');
  return {
    ...{ ...one, left, ids: joinIds(one.ids, ids, shown), messages: [...messages, ...answer.messages] },
    parts: [...parts, { ids: shown, logprobs: new Float32Array(shown.length), isOwn: 0 }],
  };
}

const NONE = new Int32Array(0);

// ------ a stream of traces that are to be continued: neighbours share a batch, results in input order

export interface Continued<T> {
  readonly item: T;
  readonly trace: Trace;
  /** in the order of the starts */
  readonly written: readonly (Written & Partial<Episode>)[] | TraceRejected;
}

/**
 * Continues every trace; what was set aside passes by in its place.
 * @param windowOf the window of an input row, by its number over all inputs: traces of other windows never share a run
 */
export async function* continued<T extends Continuable>(
  items: AsyncIterable<T | BadRow>,
  session: PolicyWrites,
  opts: ContinueOptions & { readonly players?: Players | undefined },
  windowOf: (ordinal: number) => number,
): AsyncGenerator<Continued<T> | BadRow> {
  const { players } = opts;
  const begun = (each: readonly T[]) => each.map((one) => one.begun);
  const write = (each: readonly T[]): Promise<(Written[] | TraceRejected)[]> =>
    players ? playEpisodes(session, each, opts, players) : continueTraces(session, begun(each), opts);
  let held: (T | BadRow)[] = [];
  let [rows, window] = [0, -1];
  async function* flush(): AsyncGenerator<Continued<T> | BadRow> {
    const whole = held;
    [held, rows] = [[], 0];
    const own = whole.filter((item) => !isBad(item)) as T[];
    const written = await inHalves(
      own,
      write,
      ({ begun: { ids } }) =>
        new TraceRejected(
          'out_of_memory',
          `the machine has not enough memory to continue its ${ids.length} tokens: run it where there is more`,
        ),
    );
    yield* eachTrace(whole, (item) => {
      return { item, trace: item.trace, written: written[own.indexOf(item)] as Written[] };
    });
  }
  for await (const item of items) {
    const current = windowOf(isBad(item) ? item.ordinal : item.trace.source.ordinal);
    if (held.length > 0 && (current !== window || rows >= opts.batch)) yield* flush();
    window = current;
    held.push(item);
    if (!isBad(item)) rows += item.begun.starts.length;
  }
  yield* flush();
}
