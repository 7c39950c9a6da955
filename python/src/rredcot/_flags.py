# Made by flags.mjs from the program's declarations.
from os import PathLike
from typing import Any, Literal, Mapping, Sequence, TypedDict, Union


class SegmentFlags(TypedDict, total=False):
    preset: str
    """what the rows are: auto|none|<name> (docs/presets.md); auto tells by the first row"""
    map: Union[str, Mapping[str, Any]]
    """where the fields of a trace are in a row: prompt=question,completion=generations[].text; several flags add up (default: as the preset says)"""
    join: Union[str, PathLike]
    """a data set that has the prompts or the answers which the rows lack"""
    join_on: Union[str, Mapping[str, Any]]
    """a field of the rows and one of the joined file that are equal in both (default: the prompts)"""
    columns: Union[str, Sequence[Any]]
    """which of our columns are written beside the input's (default: all)"""
    drop: Union[str, Sequence[Any]]
    """columns of the input that are not written"""
    segmenter: Literal["hybrid", "newline", "sentence", "keyword", "fixed", "entropy", "cutpoint", "adaptive", "given"]
    """where a thought is cut: hybrid|newline|sentence|keyword|fixed|entropy|cutpoint|adaptive|given (hybrid: lines, sentences that open with a keyword; newline: lines; sentence: sentences; keyword: at keywords; fixed: every so many tokens; entropy: before uncertain tokens; cutpoint: before every 5th unlikely one; adaptive: hybrid, merged to a limit; given: by the row)"""
    max_segments: int
    """thought segments a trace at most (default: 40 for hybrid, as many as there are for the others)"""
    thought_tags: Union[str, Sequence[Any]]
    """what the policy thinks between, where it is not one of the known pairs (default: <think>, <reasoning>, <thinking>, <thought> or <|begin_of_thought|>, as the trace has it)"""
    keywords: Union[str, Sequence[Any]]
    """words that open a step at the start of a line or sentence, for hybrid, keyword and adaptive; a file has one a line (default: Wait, But, So, …: docs/method.md)"""
    fixed_length: int
    """tokens a segment of --segmenter fixed (default: 64)"""
    entropy_share: float
    """of --segmenter entropy: the share of tokens, those of most entropy, before which is cut (default: 0.05)"""
    entropy_threshold: float
    """in its place: cut before every token of at least so much entropy (default: none, --entropy-share says where)"""
    cutpoint_probability: float
    """of --segmenter cutpoint: a token less likely than this is a cutpoint (default: 0.9)"""
    cutpoint_every: int
    """cut before every m-th cutpoint (default: 5)"""
    adaptive_limit: float
    """of --segmenter adaptive: neighbours are merged while their entropies sum to at most so much; with --no-policy characters (default: none, adaptive needs one)"""
    end_token: Literal["auto", "add", "none"]
    """auto|add|none: which completions of text get the policy's end token back: those that were finished, all, none"""
    chat_template_arg: Union[str, Mapping[str, Any]]
    """variable of the policy's chat template, for prompts that are messages: enable_thinking=false"""
    join_columns: Union[str, Sequence[Any]]
    """columns of the joined file that are written beside the row's own"""
    device: str
    """auto|cpu|cuda|cuda:<n>: what the policy runs on (rredcot doctor shows what there is)"""
    threads: int
    """cores that the policy may use (default: the machine's, or RREDCOT_THREADS)"""
    limit: int
    """take the first n traces, rejected ones counted (default: all)"""
    max_line_bytes: int
    """longest input line, in bytes (default: 268435456, 256 MiB)"""


class ScoreFlags(SegmentFlags, total=False):
    references: Literal["row", "group"]
    """references: row|group; group: the answers of the group's other correct completions (snis: of the wrong ones too)"""
    teacher: Union[str, PathLike]
    """a policy folder, or the address of a vLLM or SGLang server (http://localhost:8000, of several models with #name), with the same tokenizer: also its log-probability and entropy of every token, and KL(policy ‖ teacher), of a server a lower bound; --estimator distill needs it"""
    answers: Union[str, Sequence[Any]]
    """what an engine has answered to rredcot requests, in the place of the policy's graph; several rounds add up"""
    policy_url: str
    """a server that answers in the place of the policy's graph"""
    engine: Literal["vllm", "sglang"]
    """vllm|sglang: what the server is"""
    engine_model: str
    """the one of its models that is asked (default: the only one)"""
    concurrency: int
    """traces that the server is asked about at a time"""
    engine_patience: float
    """how long it may be silent or away, before exit 69"""
    estimator: Union[Literal["auto", "pr", "pr-mean", "pr-geo", "joint", "joint-log", "snis", "calibrated", "probe", "siblings", "mc", "progress", "given", "loo", "surprise", "distill", "ask", "posterior"], str]
    """value of a state: auto|pr|pr-mean|pr-geo|joint|joint-log|snis|calibrated|probe|siblings|mc|progress|given|loo|surprise|distill|ask|posterior (auto: probe where the input has rewards to fit it to, else pr; docs/method.md), or ./mine.mjs, a module of your own (docs/your-own-credit.md)"""
    calibration: Union[str, PathLike, Mapping[str, Any]]
    """what rredcot calibrate has written, for calibrated and siblings, which need it, and for mc and probe; of siblings `none`: values from outcomes alone"""
    prover_estimator: Literal["pr", "pr-mean", "pr-geo", "snis"]
    """of --estimator progress, how the prover values a state: pr|pr-mean|pr-geo|snis (default: pr)"""
    best_of: int
    """of --estimator progress: the best of k answers of the prover, for pr and snis (default: 1)"""
    sigma: Union[str, Sequence[Any]]
    """from values to σ: share|rudder|signed|softmax|surprise|entropy|top-entropy|discounted|uniform (docs/method.md); the first in sigma, others in sigma_<rule>"""
    baseline: Union[str, float]
    """auto|group|rloo|value|<number> in 0..1; auto: the group's mean reward, v̂(s_0) without a group, and for values on the reward's scale; rloo: the mean of its other traces"""
    residual: Literal["uniform", "answer"]
    """of --sigma rudder, where the reward that no segment explains goes: uniform|answer"""
    within: Literal["uniform", "entropy", "unsure"]
    """weights inside a segment: uniform|entropy|unsure"""
    mix: float
    """of --sigma share, the part of σ that falls on all tokens alike, 0 to 1 (default: 0.1)"""
    cap: float
    """of --sigma share, most that a token weighs, σ·T: what is above falls on the tokens below, 1 or more (default: none)"""
    tau: float
    """temperature of --sigma softmax (default: 1)"""
    gamma: float
    """of --sigma discounted, what a token has of the next one's credit (default: 0.99)"""
    steps: Literal["free", "scaled", "smoothed"]
    """how far values may step where the policy was sure of the segment: free|scaled|smoothed (docs/method.md)"""
    reward_range: Union[str, Sequence[Any]]
    """the rewards' scale, mapped onto 0..1; auto: 0,1, and -1,1 where all rewards are -1 or 1; verdicts (true, false, acc) are on no scale"""
    method: Literal["sigma", "segment", "hierarchical"]
    """sigma|segment|hierarchical; segment: also token_advantage, segments as actions, not return-equivalent, for values on the reward's scale; hierarchical: also token_advantage of outcome, progress and token, not return-equivalent, implies --estimator progress (default: sigma)"""
    alpha: float
    """of --method hierarchical: what progress counts for beside the outcome (default: 1)"""
    beta: float
    """of --method hierarchical: how far a token's entropy takes its share (default: 0.5)"""
    keep_states: bool
    """of auto and probe: writes the hidden states that they read, for calibrate --probe"""
    peers: int
    """of siblings: peers a trace, the most similar of its group (default: 3)"""
    peer_tokens: int
    """of siblings: tokens of a peer's tail that are scored (default: 40)"""
    mc_samples: int
    """of mc: completions an exit point, with --mc-tokens at most (default: 4)"""
    mc_tokens: str
    """of mc: tokens of all, so many times the trace's, as foreseen (default: any)"""
    mc_max_tokens: int
    """of mc: tokens of a completion at most (default: 2048)"""
    judge_command: str
    """of mc: JSON lines in, a number 0..1 a line out (default: compares answers)"""
    prover: Union[str, PathLike]
    """of --estimator progress, which needs it: the policy folder under which states are valued (default: none)"""
    loo: str
    """of loo: a segment is deleted|masked (what follows moves up, or stays and does not see it; default: deleted)"""
    ask_template: Union[str, PathLike]
    """of ask: JSON file {'question', 'yes', 'no'}, what is asked at an exit and the two answers (default: the policy's own)"""
    hint: Literal["answer", "peer"]
    """of posterior: what a prompt tells: answer|peer (default: answer)"""
    contrast: str
    """of posterior: wrong: likelier than behind a wrong hint, the group's most frequent wrong answer, or else the reference with another last digit, or letter; of --hint peer a wrong peer's text (default: none)"""
    hint_template: Union[str, PathLike]
    """of posterior: how a prompt tells the answer, or the peer's text (default: the policy's own)"""
    hint_policy: Union[str, PathLike]
    """of posterior: a policy folder that reads the hint (default: --policy)"""


class RedistributeFlags(TypedDict, total=False):
    columns: Union[str, Sequence[Any]]
    """which of our columns are written (default: those that the file has)"""
    drop: Union[str, Sequence[Any]]
    """the input's columns that are not written"""
    estimator: Union[Literal["auto", "pr", "pr-mean", "pr-geo", "joint", "joint-log", "snis", "calibrated", "probe", "siblings", "mc", "progress", "given", "loo", "surprise", "distill", "ask", "posterior"], str]
    """value of a state: auto|pr|pr-mean|pr-geo|joint|joint-log|snis|calibrated|probe|siblings|mc|progress|given|loo|surprise|distill|ask|posterior (auto: probe where the input has rewards to fit it to, else pr; docs/method.md), or ./mine.mjs, a module of your own (docs/your-own-credit.md) (default: the file's own)"""
    calibration: Union[str, PathLike, Mapping[str, Any]]
    """what rredcot calibrate has written, for calibrated and siblings, which need it, and for mc and probe; of siblings `none`: values from outcomes alone"""
    prover_estimator: Literal["pr", "pr-mean", "pr-geo", "snis"]
    """of --estimator progress, how the prover values a state: pr|pr-mean|pr-geo|snis (default: the file's own)"""
    best_of: int
    """of --estimator progress: the best of k answers of the prover, for pr and snis (default: the file's own)"""
    sigma: Union[str, Sequence[Any]]
    """from values to σ: share|rudder|signed|softmax|surprise|entropy|top-entropy|discounted|uniform (docs/method.md); the first in sigma, others in sigma_<rule> (default: the file's own)"""
    baseline: Union[str, float]
    """auto|group|rloo|value|<number> in 0..1; auto: the group's mean reward, v̂(s_0) without a group, and for values on the reward's scale; rloo: the mean of its other traces (default: the file's own)"""
    residual: Literal["uniform", "answer"]
    """of --sigma rudder, where the reward that no segment explains goes: uniform|answer (default: the file's own)"""
    within: Literal["uniform", "entropy", "unsure"]
    """weights inside a segment: uniform|entropy|unsure (default: the file's own)"""
    mix: float
    """of --sigma share, the part of σ that falls on all tokens alike, 0 to 1 (default: the file's own)"""
    cap: float
    """of --sigma share, most that a token weighs, σ·T: what is above falls on the tokens below, 1 or more (default: the file's own)"""
    tau: float
    """temperature of --sigma softmax (default: the file's own)"""
    gamma: float
    """of --sigma discounted, what a token has of the next one's credit (default: the file's own)"""
    steps: Literal["free", "scaled", "smoothed"]
    """how far values may step where the policy was sure of the segment: free|scaled|smoothed (docs/method.md) (default: the file's own)"""
    reward_range: Union[str, Sequence[Any]]
    """the rewards' scale, mapped onto 0..1; auto: 0,1, and -1,1 where all rewards are -1 or 1; verdicts (true, false, acc) are on no scale (default: the file's own)"""
    method: Literal["sigma", "segment", "hierarchical"]
    """sigma|segment|hierarchical; segment: also token_advantage, segments as actions, not return-equivalent, for values on the reward's scale; hierarchical: also token_advantage of outcome, progress and token, not return-equivalent, implies --estimator progress (default: the file's own)"""
    alpha: float
    """of --method hierarchical: what progress counts for beside the outcome (default: the file's own)"""
    beta: float
    """of --method hierarchical: how far a token's entropy takes its share (default: the file's own)"""


class CalibrateFlags(TypedDict, total=False):
    probe: bool
    """fits the values of --estimator probe, to hidden states that --keep-states has kept"""
