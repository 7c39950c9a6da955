// `rredcot policy build`: a Hugging Face checkpoint becomes a policy folder.
import { usageError } from '../errors.js';
import { oneOf } from '../flag-values.js';
import { assertHere } from '../io/write/target.js';
import { assertCheckpoint } from '../model/graph/checkpoint.js';
import { CUDA_PRECISIONS } from '../model/graph/onnx.js';
import { buildPolicyFolder, buildTextFolder } from '../model/onnx/build.js';
import { openTokenizer } from '../model/text/open-tokenizer.js';
import { readExitTemplate } from '../model/text/templates.js';
import { NO_GRAPH, templateLines, textLines } from './policy-info.js';

export interface BuildFlags {
  readonly output: string;
  readonly exitTemplate?: string;
  readonly cudaPrecision?: string;
  readonly adapter?: string;
  readonly tokenizerOnly?: true;
}

/** @param print gets what was built and from what, a line at a time */
export async function policyBuild(
  checkpoint: string,
  { output, exitTemplate: file, cudaPrecision: type, adapter, tokenizerOnly }: BuildFlags,
  print: (line: string) => void,
): Promise<void> {
  const cudaPrecision = type === undefined ? undefined : oneOf('--cuda-precision', type, CUDA_PRECISIONS);
  if (adapter !== undefined && tokenizerOnly)
    throw usageError(
      '--adapter has no meaning with --tokenizer-only, which builds no graph',
      'leave one out',
    );
  assertHere(output);
  await assertCheckpoint(checkpoint);
  const template = (await readExitTemplate(checkpoint, file)) ?? {};
  const built = tokenizerOnly
    ? undefined
    : await buildPolicyFolder(checkpoint, output, template, { log: print, cudaPrecision, adapter });
  const policy = built ?? (await buildTextFolder(checkpoint, output, template, print));
  const parts = Object.keys(template).length;
  const origin = parts === 3 ? 'given' : parts === 0 ? 'from the checkpoint' : 'given in part';
  print(`exit template, ${origin}:`);
  const tokenizer = await openTokenizer(policy.path);
  for (const line of await templateLines(policy.exitTemplate, tokenizer)) print(`  ${line}`);
  for (const line of await textLines(policy, tokenizer)) print(line);
  await tokenizer.close();
  print(`graphs: ${built ? `float32 for the CPU, ${built.cuda?.precision} for CUDA` : NO_GRAPH}`);
  print(`policy folder written to ${output}`);
}
