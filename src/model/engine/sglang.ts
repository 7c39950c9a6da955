// An SGLang server as an engine: log-probabilities of an input from a place on; what stands before that place is taken from its cache.

import type { LogprobQuestion, Said, SampleQuestion } from './engine.js';
import { type Dialect, PLAIN } from './http.js';

/** [log p, id, text]; of an input's first token there is no log p. */
type SglangScored = readonly [logprob: number | null, id: number, ...text: unknown[]];
interface Generated {
  readonly output_ids?: number[];
  readonly meta_info?: {
    readonly prompt_tokens?: number;
    readonly cached_tokens?: number;
    readonly finish_reason?: { readonly matched?: unknown } | null;
    readonly input_token_logprobs?: readonly SglangScored[];
    readonly input_top_logprobs?: readonly (readonly SglangScored[] | null)[];
  };
}

export const sglang: Dialect = async ({ ask, took, vocabulary }) => {
  async function generate(ids: Int32Array, sampling: object, scoring: object): Promise<Generated[]> {
    const body = { input_ids: [...ids], sampling_params: { ...PLAIN, ...sampling }, ...scoring };
    const all = [(await ask('generate', body)) as Generated | Generated[]].flat();
    took(ids.length, all[0]?.meta_info?.prompt_tokens, all[0]?.meta_info?.cached_tokens);
    return all;
  }

  async function score({ ids, from, top, fresh }: LogprobQuestion): Promise<Said> {
    // nothing behind it is taken from the cache
    const start = fresh ? 0 : from - 1;
    const scoring = { return_logprob: true, logprob_start_len: start, top_logprobs_num: top ?? 0 };
    const [{ meta_info } = {}] = await generate(ids, { max_new_tokens: 0 }, scoring);
    const { input_token_logprobs = [], input_top_logprobs = [] } = meta_info ?? {};
    const scored = input_token_logprobs.slice(from - start);
    // it names the vocabulary's last id 0 (0.5.23), though it has scored it
    const named = (id = 0) => (id >= vocabulary - 1 ? 0 : id);
    const wrong = scored.find(([, id], i) => named(id) !== named(ids[from + i]));
    if (wrong !== undefined) return `has read ${wrong[1]}, which was not sent there`;
    const numbers = (row: readonly SglangScored[] | null) =>
      (row ?? []).map(([logprob]) => logprob ?? Number.NaN);
    const likeliest = input_top_logprobs.slice(from - start);
    return {
      logprobs: numbers(scored),
      top: likeliest.map(numbers),
      top_ids: likeliest.map((row) => (row ?? []).map(([, id]) => id)),
    };
  }

  async function sample({ ids, samples: n, maxTokens, stop }: SampleQuestion): Promise<Said> {
    const ends = { max_new_tokens: maxTokens, stop_token_ids: stop, ignore_eos: true };
    const all = await generate(ids, { n, ...ends }, {});
    return {
      ids: all.map(({ output_ids = [], meta_info }) => {
        const matched = meta_info?.finish_reason?.matched;
        // the token that ended it may have been left out
        const isCut = typeof matched === 'number' && output_ids.at(-1) !== matched;
        return isCut ? [...output_ids, matched] : output_ids;
      }),
    };
  }
  return (questions) =>
    Promise.all(questions.map((each) => ('samples' in each ? sample(each) : score(each))));
};
