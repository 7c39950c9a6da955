// A vLLM server as an engine: a trace is read by prompt_logprobs, and behind its exits, whose prefixes are cached then, answers are forced.
import { sharingRoom } from '../onnx/layout.js';
import type { EngineQuestion, LogprobQuestion, Said, SampleQuestion } from './engine.js';
import { type Dialect, PLAIN } from './http.js';
import { checked } from './wire.js';

/** Tokens that are forced at most; more are read with their prefix. Those that are allowed one by one are a request each. */
const [MOST_REPLAYED, MOST_ALLOWED] = [256, 32];
/** Ids of one request. */
const MOST_IDS = 2 ** 20;
const PROBE = { name: 'probe', ids: Int32Array.of(0, 1, 2, 3), shared: 2, from: 2 };

interface VllmScored {
  readonly logprob?: number;
}
interface VllmChoice {
  readonly token_ids?: number[] | null;
  /** (prompt) what is likely at a place, by token */
  readonly prompt_logprobs?: readonly (Readonly<Record<string, VllmScored>> | null)[] | null;
  readonly logprobs?: {
    tokens?: string[];
    token_logprobs?: (number | null)[];
    content?: VllmScored[];
  } | null;
}
interface Completed {
  readonly choices?: readonly VllmChoice[];
  readonly usage?: {
    prompt_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number } | null;
  } | null;
}

export const vllm: Dialect = async ({ ask, model, took }) => {
  async function post(path: string, prompts: readonly Int32Array[], body: object) {
    const { choices = [], usage } = (await ask(path, { model, ...body })) as Completed;
    const sent = prompts.reduce((total, { length }) => total + length, 0);
    const { cached_tokens: cached } = usage?.prompt_tokens_details ?? {};
    // as much as of the last is left of each
    const left = prompts.length * ((prompts.at(-1)?.length ?? 0) - (cached ?? 0));
    took(sent, usage?.prompt_tokens, cached === undefined ? 0 : Math.max(0, sent - left));
    return choices;
  }
  const complete = (prompts: readonly Int32Array[], params: object) =>
    post('v1/completions', prompts, { prompt: prompts.map((ids) => [...ids]), ...PLAIN, ...params });

  /** All of a list at once, of which nothing is taken from the cache. */
  async function read({ ids, from, top = 0 }: LogprobQuestion): Promise<Said> {
    const [choice] = await complete([ids], { max_tokens: 1, prompt_logprobs: top });
    const rows = choice?.prompt_logprobs?.slice(from) ?? [];
    const likeliest = rows.map((row) => {
      const all = Object.entries(row ?? {}).map(([id, { logprob = Number.NaN }]) => [Number(id), logprob]);
      return (all as [id: number, logprob: number][]).sort(([, a], [, b]) => b - a).slice(0, top);
    });
    return {
      logprobs: rows.map((row, i) => row?.[`${ids[from + i]}`]?.logprob ?? Number.NaN),
      top: likeliest.map((all) => all.map(([, logprob]) => logprob)),
      top_ids: likeliest.map((all) => all.map(([id]) => id)),
    };
  }

  /** What is behind a prefix, as if it were sampled. */
  async function replay({ ids, from }: LogprobQuestion): Promise<Said> {
    const [prompt, forced] = [ids.subarray(0, from), [...ids.subarray(from)]];
    const sampling = { ...PLAIN, max_tokens: forced.length, logprobs: 0, detokenize: false };
    const body = { token_ids: [...prompt], sampling_params: { ...sampling, trace_decode_token_ids: forced } };
    const [{ token_ids: written, logprobs } = {}] = await post('inference/v1/generate', [prompt], body);
    if (`${written}` !== `${forced}`) return `has written ${written}, forced was ${forced}`;
    return { logprobs: (logprobs?.content ?? []).map(({ logprob }) => logprob ?? Number.NaN) };
  }

  /** Each token as the only one that is allowed behind those before it; a request allows the same behind several, one is made at a time. */
  async function allow(questions: readonly LogprobQuestion[]): Promise<Said[]> {
    const found = questions.map((): (number | string)[] => []);
    const places = questions.flatMap(({ ids, from }, n) =>
      Array.from(ids.subarray(from), (token, i) => ({ token, prompt: ids.subarray(0, from + i), n, i })),
    );
    for (const token of new Set(places.map((place) => place.token))) {
      const own = places.filter((place) => place.token === token);
      const forcing = { max_tokens: 1, ignore_eos: true, allowed_token_ids: [token], logprobs: 0 };
      for (const some of sharingRoom(own, MOST_IDS, ({ prompt }) => prompt.length)) {
        const prompts = some.map(({ prompt }) => prompt);
        const choices = await complete(prompts, { ...forcing, return_tokens_as_token_ids: true });
        for (const [p, { n, i }] of some.entries()) {
          const { tokens: [written] = [], token_logprobs: [logprob] = [] } = choices[p]?.logprobs ?? {};
          const isForced = written === `token_id:${token}`;
          (found[n] ?? [])[i] = isForced
            ? (logprob ?? Number.NaN)
            : `has written ${written}, forced was ${token}`;
        }
      }
    }
    return found.map((all) => all.find((each) => typeof each === 'string') ?? { logprobs: all.map(Number) });
  }

  async function sample({ ids, samples: n, maxTokens, stop }: SampleQuestion): Promise<Said> {
    const ends = { max_tokens: maxTokens, stop_token_ids: stop, ignore_eos: true };
    const choices = await complete([ids], { n, ...ends, return_token_ids: true });
    return { ids: choices.map(({ token_ids }) => token_ids ?? []) };
  }

  // whether it replays what is forced; else it is allowed one token a request
  const replays = await replay(PROBE).then(
    (said) => typeof checked(said, PROBE, Number.POSITIVE_INFINITY) !== 'string',
    () => false,
  );
  const isForced = (question: EngineQuestion): question is LogprobQuestion => {
    if ('samples' in question || question.top || question.fresh) return false;
    return question.ids.length - question.from <= (replays ? MOST_REPLAYED : MOST_ALLOWED);
  };
  return async (questions) => {
    const forced = questions.filter(isForced);
    const found = replays ? Promise.all(forced.map(replay)) : allow(forced);
    const said = questions.map(async (question) => {
      if ('samples' in question) return sample(question);
      return isForced(question) ? ((await found)[forced.indexOf(question)] as Said) : read(question);
    });
    return Promise.all(said);
  };
};
