// An SGLang server as an engine: log-probabilities of an input from a place on; what stands before that place is taken from its cache.
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';
import { modelOf, numberOf, PLAIN, ServedEngine, type ServedOptions } from './served.js';

/** [log p, id, text]; of an input's first token there is no log p. */
type Scored = readonly [logprob: number | null, id: number, ...text: unknown[]];
interface Generated {
  readonly output_ids?: readonly number[];
  readonly meta_info?: {
    readonly prompt_tokens?: number;
    readonly cached_tokens?: number;
    readonly finish_reason?: { readonly matched?: unknown } | null;
    readonly input_token_logprobs?: readonly Scored[];
    readonly input_top_logprobs?: readonly (readonly Scored[] | null)[];
  };
}

export class Sglang extends ServedEngine {
  /** @throws RredcotError (exit 69) for what is no server of SGLang, (exit 2) as {@link modelOf} */
  static async open(opts: ServedOptions, model: string | undefined): Promise<Engine> {
    const { version = '' } = (await opts.server.ask('get_server_info')) as { version?: string };
    const engine = `sglang ${version}`;
    return new Sglang(engine, { engine, engineModel: await modelOf(opts, model) }, opts);
  }

  protected async answer([first, ...others]: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]> {
    // a trace before its exits, which begin as it does
    const whole = first === undefined ? [] : [await this.score(first)];
    return [...whole, ...(await Promise.all(others.map(this.score, this)))];
  }

  protected async sample(question: SampleQuestion): Promise<number[][]> {
    const { samples: n, maxTokens: max_new_tokens, stop: stop_token_ids } = question;
    const sampling = { n, max_new_tokens, stop_token_ids, ignore_eos: true };
    const said = await this.generate(sampling, {}, question);
    return said.map(({ output_ids = [], meta_info }) => {
      const matched = meta_info?.finish_reason?.matched;
      // the token that ended it may have been left out
      const isCut = typeof matched === 'number' && output_ids.at(-1) !== matched;
      return isCut ? [...output_ids, matched] : [...output_ids];
    });
  }

  private async score(question: LogprobQuestion): Promise<LogprobAnswer> {
    const { ids, from, top, fresh } = question;
    // nothing behind it is taken from the cache
    const start = fresh ? 0 : from - 1;
    const scoring = { return_logprob: true, logprob_start_len: start, top_logprobs_num: top ?? 0 };
    const [said] = await this.generate({ max_new_tokens: 0 }, scoring, question);
    const {
      input_token_logprobs = [],
      input_top_logprobs = [],
      cached_tokens: cached,
    } = said?.meta_info ?? {};
    const scored = input_token_logprobs.slice(from - start);
    const wrong = scored.find(([, id], i) => id !== ids[from + i]);
    this.must(wrong === undefined || `it has read ${wrong[1]}, which was not sent there`, question);
    const [logprobs = [], ...rows] = [scored, ...input_top_logprobs.slice(from - start)].map((row) =>
      (row ?? []).map(([logprob]) => numberOf(logprob)),
    );
    return this.checked({ logprobs, top: rows, cached }, question);
  }

  private async generate(sampling: object, scoring: object, question: LogprobQuestion | SampleQuestion) {
    const { ids } = question;
    const body = { input_ids: [...ids], sampling_params: { ...PLAIN, ...sampling }, ...scoring };
    const all = [(await this.opts.server.ask('generate', body)) as Generated | Generated[]].flat();
    const { prompt_tokens, cached_tokens } = all[0]?.meta_info ?? {};
    this.took(question, ids.length, prompt_tokens, cached_tokens);
    return all;
  }
}
