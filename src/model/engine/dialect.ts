// What vLLM and SGLang have in common: how they are asked, and how numbers are written.
import type { Engine } from './engine.js';
import type { Server } from './http.js';

/** How a kind of server is asked. */
export type Dialect = (of: Served) => Promise<Engine['answer']>;

export interface Served extends Pick<Server, 'ask'> {
  /** by its name */
  readonly model: string;
  /**
   * Counts what was asked.
   * @param sent ids @param read how many the server has read @param cached of these
   * @throws TraceRejected where that is something else
   */
  took(sent: number, read: number | undefined, cached: number | undefined): void;
}

/** What a server does with a distribution by default is none of the policy's: all that shapes one is named, and off. */
export const PLAIN = {
  ...{ temperature: 1, top_p: 1, top_k: -1, min_p: 0 },
  ...{ repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0 },
};
