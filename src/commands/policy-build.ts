// `rredcot policy build`: a Hugging Face checkpoint becomes a policy folder, or one of a process reward model.
import { usageError } from '../errors.js';
import { assertHere } from '../io/files/elsewhere.js';
import { isPrmCheckpoint } from '../model/graph/checkpoint.js';
import { CUDA_PRECISIONS, type CudaPrecision } from '../model/graph/precision.js';
import { buildPolicyFolder, buildPrmFolder } from '../model/onnx/build.js';
import { openTokenizer } from '../model/text/open-tokenizer.js';
import { readExitTemplate } from '../model/text/templates.js';
import { askLines, prmLines, templateLines, writingLines } from './policy-info.js';

export interface BuildFlags {
  readonly output: string;
  readonly exitTemplate?: string;
  readonly cudaPrecision?: string;
  readonly stepToken?: string;
  readonly correctLabel?: string;
  readonly prmTemplate?: string;
}

/** The flags of the one kind of folder and of the other. */
const POLICY_FLAGS = ['exitTemplate'] as const;
const PRM_FLAGS = ['stepToken', 'correctLabel', 'prmTemplate'] as const;

/** @param print gets what was built and from what, a line at a time */
export async function policyBuild(
  checkpoint: string,
  flags: BuildFlags,
  print: (line: string) => void,
): Promise<void> {
  const cudaPrecision = precisionOf(flags.cudaPrecision);
  assertHere(flags.output);
  const isPrm = await isPrmCheckpoint(checkpoint);
  refuseOthers(checkpoint, flags, isPrm);
  if (isPrm) {
    const { stepToken, correctLabel, prmTemplate: template } = flags;
    const choice = { stepToken, correctLabel, template, cudaPrecision, log: print };
    const prm = await buildPrmFolder(checkpoint, flags.output, choice);
    print('process reward model:');
    for (const line of prmLines(prm)) print(`  ${line}`);
    print(`graphs: float32 for the CPU, ${prm.cuda.precision} for CUDA`);
    print(`folder for --prm written to ${flags.output}`);
    return;
  }
  const { exitTemplate: file } = flags;
  const given = await readExitTemplate(checkpoint, file);
  const template = given ?? {};
  const policy = await buildPolicyFolder(checkpoint, flags.output, template, {
    log: print,
    cudaPrecision,
  });
  const parts = Object.keys(template).length;
  const origin = parts === 3 ? 'given' : parts === 0 ? 'from the checkpoint' : 'given in part';
  print(`exit template, ${origin}:`);
  const tokenizer = await openTokenizer(policy.path);
  for (const line of await templateLines(policy.exitTemplate, tokenizer)) print(`  ${line}`);
  for (const line of await askLines(policy, tokenizer)) print(line);
  for (const line of writingLines(policy, tokenizer)) print(line);
  await tokenizer.close();
  print(`graphs: float32 for the CPU, ${policy.cuda?.precision} for CUDA`);
  print(`policy folder written to ${flags.output}`);
}

/** Flags that say nothing of the checkpoint's kind. @throws RredcotError (exit 2) */
function refuseOthers(checkpoint: string, flags: BuildFlags, isPrm: boolean): void {
  const given = (isPrm ? POLICY_FLAGS : PRM_FLAGS).find((name) => flags[name] !== undefined);
  if (given === undefined) return;
  const flag = `--${given.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw usageError(
    isPrm
      ? `${flag} has no meaning: the head of ${checkpoint} classifies, it gives no answers`
      : `${flag} is of process reward models, and the head of ${checkpoint} names tokens`,
    'leave it out',
  );
}

/** Reads `--cuda-precision`. @throws RredcotError (exit 2) */
function precisionOf(text: string | undefined): CudaPrecision | undefined {
  const precision = CUDA_PRECISIONS.find((name) => name === text);
  if (text !== undefined && precision === undefined)
    throw usageError(
      `--cuda-precision ${text}: expected ${CUDA_PRECISIONS.join(' or ')}`,
      '--cuda-precision bf16',
    );
  return precision;
}
