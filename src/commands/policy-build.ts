// `rredcot policy build`: a Hugging Face checkpoint becomes a policy folder.

import { usageError } from '../errors.js';
import { CUDA_PRECISIONS, type CudaPrecision } from '../policy/build/precision.js';
import { buildPolicyFolder } from '../policy/folder.js';
import { type ExitTemplate, readExitTemplate } from '../policy/text/exit-template.js';
import { openTokenizer } from '../policy/text/open-tokenizer.js';
import { templateLines } from './policy-info.js';

export interface BuildFlags {
  readonly output: string;
  readonly exitTemplate?: string;
  readonly exitClose?: string;
  readonly exitOpen?: string;
  readonly exitCloser?: string;
  readonly cudaPrecision?: string;
}

/** @param print gets what was built and from what, a line at a time */
export async function policyBuild(
  checkpoint: string,
  flags: BuildFlags,
  print: (line: string) => void,
): Promise<void> {
  const template = await givenTemplate(flags);
  const cudaPrecision = precisionOf(flags.cudaPrecision);
  const policy = await buildPolicyFolder(checkpoint, flags.output, template, {
    log: print,
    ...(cudaPrecision && { cudaPrecision }),
  });
  const given = Object.keys(template).length;
  const origin = given === 3 ? 'given' : given === 0 ? 'from the checkpoint' : 'given in part';
  print(`exit template, ${origin}:`);
  const tokenizer = await openTokenizer(policy.path);
  for (const line of await templateLines(policy.exitTemplate, tokenizer)) print(`  ${line}`);
  await tokenizer.close();
  print(`graphs: float32 for the CPU, ${policy.cuda?.precision} for CUDA`);
  print(`policy folder written to ${flags.output}`);
}

/** The parts that the flags give; a part's own flag wins over the file. */
async function givenTemplate(flags: BuildFlags): Promise<Partial<ExitTemplate>> {
  const file = flags.exitTemplate === undefined ? {} : await readExitTemplate(flags.exitTemplate);
  return {
    ...file,
    ...(flags.exitClose === undefined ? {} : { close: flags.exitClose }),
    ...(flags.exitOpen === undefined ? {} : { open: flags.exitOpen }),
    ...(flags.exitCloser === undefined ? {} : { closer: flags.exitCloser }),
  };
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
