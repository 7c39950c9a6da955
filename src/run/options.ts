// The options that commands share, and what a command says of its work before a row is read.
import type { EndToken } from '../estimate/finished.js';
import type { GroupReferences } from '../estimate/references.js';
import type { RewardCheck } from '../estimate/reward.js';
import type { Shard } from '../io/files/run-folder.js';
import type { Needs } from '../io/map/fields.js';
import type { MappingOptions } from '../io/map/mapping.js';
import type { InputPrint } from '../io/read/input-file.js';
import type { OutputFormat, OutputTarget } from '../io/write/output.js';
import type { DeviceChoice } from '../model/onnx/device.js';
import type { TextFolder } from '../model/onnx/folder.js';
import type { MaxRejects } from '../report/reject-limits.js';
import type { TextColumn, WrittenColumn } from '../scored/columns.js';
import type { SegmentOptions } from '../segment/segment.js';
import type { Trace } from '../trace.js';

/** What commands that make runs share. */
export interface JobOptions extends MappingOptions {
  /** undefined: the whole */
  readonly shard: Shard | undefined;
  /** undefined: by the number of rows */
  readonly rowsPerPart: number | undefined;
  /** put the output in the place of another run's, and drop what that has left */
  readonly overwrite: boolean;
  readonly limit: number | undefined;
  /** the column by whose values rows are dealt out to folders */
  readonly partition: string | undefined;
  readonly signal: AbortSignal;
  readonly device: DeviceChoice;
  readonly output: string | undefined;
  readonly answer?: OutputTarget['answer'];
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: all */
  readonly columns: readonly string[] | undefined;
  /** columns of the input that are not written */
  readonly drop: readonly string[] | undefined;
  readonly maxRejects: MaxRejects | undefined;
  /** variables for the policy's chat template */
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
}

/** What `score` and `segment` share. */
export interface CutOptions extends JobOptions {
  readonly endToken: EndToken;
  readonly segments: SegmentOptions;
}

/** What a command does, as far as it is known before a row is read. */
export interface Work {
  readonly command: 'score' | 'segment' | 'requests';
  /** beside the input's columns */
  readonly columns: readonly WrittenColumn[];
  /** texts that may be written besides; none where the user or an export says exactly what is written */
  readonly texts: readonly TextColumn[];
  /** flags that the bytes depend on, beside those that all jobs have */
  readonly config: Readonly<Record<string, unknown>>;
  readonly policy: TextFolder | undefined;
  /** others that run beside it, which have to stay what they are; their hashes are in `config` */
  readonly policiesBeside?: readonly Pick<TextFolder, 'path' | 'files'>[];
  /** files that are read beside the inputs, which have to stay what they are too */
  readonly printsBeside?: readonly InputPrint[] | undefined;
  readonly passes: { readonly precision: string } | null;
  readonly needs: Needs;
  /** the reward that counts, null where unknown, for what follows of a trace's group; undefined where nothing does */
  readonly reward?: ((trace: Trace) => number | null) | undefined;
  /** sees every reward before the first pass, and ends the run where they are of another scale */
  readonly rewards?: RewardCheck | undefined;
  /** whether traces are looked at together with others of their group, wherever these lie */
  readonly readsPeers?: boolean;
  /** whether the output's reward is the input's, on the same scale */
  readonly rewardAsIs: boolean;
  /** filled by the first pass, for references from a trace's group */
  readonly groupReferences?: GroupReferences | undefined;
  /** how values are called in the trace that is drawn at the end; undefined where there are none */
  readonly valueName?: string | undefined;
}
