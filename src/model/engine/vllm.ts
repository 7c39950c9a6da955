// A vLLM server as an engine: a trace is read by prompt_logprobs, and behind its exits, whose prefixes are cached then, answers are forced.
import { sharingRoom } from '../onnx/layout.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import { modelOf, type NamedQuestion, numberOf, PLAIN, ServedEngine, type ServedOptions } from './served.js';

/** Tokens that are forced at most; more are read with their prefix. Those that are allowed one by one are a request each. */
const [MOST_REPLAYED, MOST_ALLOWED] = [256, 32];
/** Ids of one request. */
const MOST_IDS = 2 ** 20;

/** What is likely at a place, by token. */
type VllmRow = Readonly<Record<string, { readonly logprob?: number }>> | null;
interface VllmChoice {
  readonly token_ids?: readonly number[] | null;
  readonly prompt_logprobs?: readonly VllmRow[] | null;
  readonly logprobs?: {
    readonly tokens?: readonly string[];
    readonly token_logprobs?: readonly (number | null)[];
    readonly content?: readonly { readonly logprob?: number }[];
  } | null;
}
interface VllmAnswer {
  readonly choices?: readonly VllmChoice[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    /** of the last of several prompts */
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
  } | null;
}

export class Vllm extends ServedEngine {
  /** whether it replays what is forced; else it is allowed one token a request */
  private replays = true;

  private constructor(
    name: string,
    private readonly model: string,
    opts: ServedOptions,
  ) {
    super(name, { engine: name, engineModel: model }, opts);
  }

  /** @throws RredcotError (exit 69) for what is no server of vLLM, (exit 2) as {@link modelOf} */
  static async open(opts: ServedOptions, model: string | undefined): Promise<Engine> {
    const { version = '' } = (await opts.server.ask('version')) as { version?: string };
    const engine = new Vllm(`vllm ${version}`, await modelOf(opts, model), opts);
    const probe = { name: 'probe', ids: Int32Array.of(0, 1, 2, 3), shared: 2, from: 2 };
    await engine.replay(probe).catch(() => {
      engine.replays = false;
    });
    return engine;
  }

  protected async answer(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    const most = this.replays ? MOST_REPLAYED : MOST_ALLOWED;
    const isForced = ({ ids, from, top, fresh }: LogprobQuestion) =>
      top === undefined && !fresh && ids.length - from <= most;
    const answers = new Map<LogprobQuestion, LogprobAnswer>();
    // a trace before its exits, which begin as it does
    for (const question of questions)
      if (!isForced(question)) answers.set(question, await this.read(question));
    const exits = questions.filter(isForced);
    const forced = this.replays ? Promise.all(exits.map(this.replay, this)) : this.allow(exits);
    for (const [n, answer] of (await forced).entries()) answers.set(exits[n] as LogprobQuestion, answer);
    return questions.map((question) => answers.get(question) as LogprobAnswer);
  }

  protected async sample(question: SampleQuestion): Promise<number[][]> {
    const { ids, samples: n, maxTokens: max_tokens, stop: stop_token_ids } = question;
    const sampling = { n, max_tokens, stop_token_ids, ignore_eos: true, return_token_ids: true };
    const { choices } = await this.complete([ids], sampling, question);
    return choices.map(({ token_ids }) => [...(token_ids ?? [])]);
  }

  /** All of a list at once, of which nothing is taken from the cache. */
  private async read(question: LogprobQuestion): Promise<LogprobAnswer> {
    const { ids, from, top = 0 } = question;
    const { choices, cached } = await this.complete([ids], { max_tokens: 1, prompt_logprobs: top }, question);
    const rows = choices[0]?.prompt_logprobs?.slice(from) ?? [];
    const logprobs = rows.map((row, i) => numberOf(row?.[`${ids[from + i]}`]?.logprob));
    const likeliest = rows.map((row) => {
      const all = Object.values(row ?? {}).map(({ logprob }) => numberOf(logprob));
      return all.sort((a, b) => b - a).slice(0, top);
    });
    return this.checked({ logprobs, top: likeliest, cached }, question);
  }

  /** What is behind a prefix, as if it were sampled. */
  private async replay(question: LogprobQuestion): Promise<LogprobAnswer> {
    const { ids, from } = question;
    const [prompt, forced] = [ids.subarray(0, from), [...ids.subarray(from)]];
    const sampling = { ...PLAIN, max_tokens: forced.length, logprobs: 0, detokenize: false };
    const body = { token_ids: [...prompt], sampling_params: { ...sampling, trace_decode_token_ids: forced } };
    const { choices, cached } = await this.post('inference/v1/generate', body, [prompt], question);
    const { token_ids: written, logprobs: content } = choices[0] ?? {};
    const logprobs = content?.content?.map(({ logprob }) => numberOf(logprob)) ?? [];
    this.must(
      written?.join() === forced.join() || `it has written ${written}, forced was ${forced}`,
      question,
    );
    return this.checked({ logprobs, cached }, question);
  }

  /** Each token as the only one that is allowed behind its prefix; a request allows the same behind several, one is made at a time. */
  private async allow(questions: readonly LogprobQuestion[]): Promise<LogprobAnswer[]> {
    const found = questions.map((): { logprobs: number[]; cached?: number } => ({ logprobs: [] }));
    const places = questions.flatMap(({ ids, from, name }, n) =>
      Array.from(ids.subarray(from), (token, i) => ({ token, name, at: from + i, n, i })),
    );
    for (const token of new Set(places.map((place) => place.token))) {
      const own = places.filter((place) => place.token === token);
      for (const some of sharingRoom(own, MOST_IDS, ({ at }) => at)) {
        const prompts = some.map(({ n, at }) => (questions[n] as LogprobQuestion).ids.subarray(0, at));
        const forcing = { max_tokens: 1, ignore_eos: true, allowed_token_ids: [token], logprobs: 0 };
        const params = { ...forcing, return_tokens_as_token_ids: true };
        const { choices, cached } = await this.complete(prompts, params, some[0] as NamedQuestion);
        for (const [p, { n, i, ...of }] of some.entries()) {
          const { tokens: [written] = [], token_logprobs: [logprob] = [] } = choices[p]?.logprobs ?? {};
          this.must(written === `token_id:${token}` || `it has written ${written}, forced was ${token}`, of);
          const answer = found[n] as (typeof found)[number];
          answer.logprobs[i] = numberOf(logprob);
          if (cached !== undefined) answer.cached = cached;
        }
      }
    }
    return questions.map((question, n) => this.checked(found[n] ?? {}, question));
  }

  private complete(prompts: readonly Int32Array[], params: object, of: NamedQuestion) {
    const body = { prompt: prompts.map((ids) => [...ids]), ...PLAIN, ...params };
    return this.post('v1/completions', body, prompts, of);
  }

  private async post(path: string, body: object, prompts: readonly Int32Array[], of: NamedQuestion) {
    const said = await this.opts.server.ask(path, { model: this.model, ...body });
    const { choices = [], usage } = said as VllmAnswer;
    const sent = prompts.reduce((sum, { length }) => sum + length, 0);
    const cached = usage?.prompt_tokens_details?.cached_tokens;
    // as much as of the last is left of each
    const left = prompts.length * ((prompts.at(-1)?.length ?? 0) - (cached ?? 0));
    this.took(of, sent, usage?.prompt_tokens, cached === undefined ? 0 : Math.max(0, sent - left));
    return { choices, cached };
  }
}
