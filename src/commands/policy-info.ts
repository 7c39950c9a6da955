// `rredcot policy info`: what a policy folder holds, without running it.
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { dataError } from '../errors.js';
import { continuationMaker } from '../estimate/references.js';
import type { Architecture } from '../model/graph/architecture.js';
import { expectedWeights } from '../model/graph/families.js';
import { readSafetensorsHeader } from '../model/graph/safetensors.js';
import { openTextFolder, type PolicyFolder, type TextFolder } from '../model/onnx/folder.js';
import { chatRenderer, loadChatTemplate, type PolicyFiles } from '../model/text/chat-template.js';
import { openTokenizer } from '../model/text/open-tokenizer.js';
import { ASK_TEMPLATE, askedIds, type ExitTemplate, readAskTemplate } from '../model/text/templates.js';
import type { PolicyTokenizer } from '../model/text/tokenizer.js';
import { count, plural } from '../plural.js';
import type { Continuation } from '../question.js';
import { architectureLines } from '../report/policy-view.js';

/** Prints line by line. @throws RredcotError: exit 2 for a folder that is none; 65 at the end where the chat template takes no question */
export async function policyInfo(
  path: string,
  chatTemplateArgs: Readonly<Record<string, unknown>>,
  print: (line: string) => void,
): Promise<void> {
  const policy = await openTextFolder(path, { verify: false });
  const { architecture: arch, files } = policy;
  const tokenizer = await openTokenizer(path);
  const chat = await chatLines(policy, tokenizer, chatTemplateArgs);
  const lines = [
    `policy        ${path}`,
    ...('canary' in policy ? await graphLines(policy) : [`graphs        ${NO_GRAPH}`]),
    `vocabulary    ${count(arch.vocab)}, ${tokenizer.kind} tokenizer`,
    `limit         ${count(arch.maxTokens)} tokens, prompt, completion and reference together`,
    ...under('exit template', await templateLines(policy.exitTemplate, tokenizer)),
    ...(await textLines(policy, tokenizer, [
      `none: --estimator ask needs ${ASK_TEMPLATE}, or --ask-template`,
    ])),
    ...under('chat template', chat.lines),
  ];
  await tokenizer.close();
  const listed: string[] = [];
  for (const [name, sha256] of Object.entries(files)) {
    const { size } = await stat(join(path, name));
    listed.push(`${sha256.slice(0, 12)}…  ${count(size).padStart(14)} bytes  ${name}`);
  }
  for (const line of [...lines, ...under('files', listed)]) print(line);
  if (chat.fault !== undefined)
    throw dataError(`${path}: ${chat.fault}`, 'build the policy with another chat_template.jinja');
}

/** What is told in the place of graphs. */
export const NO_GRAPH = 'none: an engine answers (--policy-url, --answers)';

async function graphLines({ path, files, architecture: arch }: PolicyFolder): Promise<string[]> {
  if ('exported' in arch)
    return [`graphs        float32, for the CPU: ${arch.exported}, exported by ${arch.by}`];
  return [
    ...architectureLines(arch),
    `parameters    ${count(parametersOf(arch))} in ${await dtypesOf(path, files, arch)}`,
  ];
}

/** Where the chat template comes from, and a message rendered by it, or why it cannot be. */
async function chatLines(
  policy: PolicyFiles,
  tokenizer: PolicyTokenizer,
  args: Readonly<Record<string, unknown>>,
): Promise<{ readonly lines: readonly string[]; readonly fault?: string }> {
  const template = await loadChatTemplate(policy, args);
  if (template === undefined) return { lines: ['none: prompts have to be text or token ids'] };
  const chat = chatRenderer(template);
  const messages = [{ role: 'user', content: 'What is 2+2?' }];
  const about = `${basename(template.file)}, ${count(template.source.length)} characters`;
  try {
    const text = await chat.render(messages);
    const tokens = plural((await tokenizer.encodeTemplated(text)).length, 'token');
    return { lines: [about, `a question → ${JSON.stringify(text)} (${tokens})`] };
  } catch (error) {
    return { lines: [about], fault: (error as Error).message };
  } finally {
    await chat.close();
  }
}

/** Each part of a template as JSON text, and the branch of a short answer as tokens, with those that are scored of it. */
export async function templateLines(template: ExitTemplate, tokenizer: PolicyTokenizer): Promise<string[]> {
  const suffixesOf = await continuationMaker(template, { scores: 'answers' }, tokenizer.encode);
  const [branch] = await suffixesOf([{ answer: SHOWN_ANSWER, utility: 1 }]);
  const { ids, scoredFrom } = branch as Continuation;
  const tokens = Array.from(ids, (id) => spelled(tokenizer, [id]));
  const parts = ['close', 'open', 'closer'] as const;
  return [
    ...parts.map((part) => `${part.padEnd(6)} ${JSON.stringify(template[part])}`),
    `branch ${tokens.join(' ')} (${plural(ids.length, 'token')} for the answer ${SHOWN_ANSWER})`,
    `scored ${tokens.slice(scoredFrom).join(' ')}`,
  ];
}

/**
 * What is asked at an exit, and what of the answers is scored; with what a prompt begins, and by what a completion ends.
 * @param unasked what is told where the folder has no question
 * @throws RredcotError (exit 2) for a template of the question that is none
 */
export async function textLines(
  { path, architecture: { vocab }, stops }: TextFolder,
  tokenizer: PolicyTokenizer,
  unasked: readonly string[] = [],
): Promise<string[]> {
  const { id, warning } = tokenizer.start;
  const named = (token: number) => `${spelled(tokenizer, [token])} (${token})`;
  return [
    ...under('question', (await askLines(path, tokenizer, vocab)) ?? unasked),
    ...under('prompt start', [id === null ? 'none' : named(id), ...(warning === undefined ? [] : [warning])]),
    ...under('end tokens', [stops.length === 0 ? 'none named' : stops.map(named).join(', ')]),
  ];
}

async function askLines(path: string, tokenizer: PolicyTokenizer, vocab: number) {
  const template = await readAskTemplate(path);
  if (template === undefined) return undefined;
  const { scoredFrom, yes, no } = await askedIds(template, tokenizer, vocab);
  const scored = (ids: Int32Array) =>
    `${spelled(tokenizer, ids.subarray(scoredFrom))} (${plural(ids.length - scoredFrom, 'token')})`;
  return [JSON.stringify(template.question), `scored ${scored(yes)} against ${scored(no)}`];
}

/** What tokens spell, as JSON text. */
function spelled(tokenizer: PolicyTokenizer, ids: ArrayLike<number>): string {
  return JSON.stringify(tokenizer.decode(Int32Array.from(ids)).toString('utf8'));
}

/** An answer that every tokenizer can spell. */
const SHOWN_ANSWER = '7';

function parametersOf(arch: Architecture): number {
  let total = 0;
  for (const shape of expectedWeights(arch).values()) total += shape.reduce((product, n) => product * n, 1);
  return total;
}

/** e.g. `bf16`, or `bf16 and f32` where tensors differ */
async function dtypesOf(
  path: string,
  files: PolicyFolder['files'],
  architecture: Architecture,
): Promise<string> {
  const expected = expectedWeights(architecture);
  const dtypes = new Set<string>();
  for (const name of Object.keys(files).filter((file) => file.endsWith('.safetensors')))
    for (const tensor of (await readSafetensorsHeader(join(path, name))).values())
      if (expected.has(tensor.name)) dtypes.add(tensor.dtype);
  return [...dtypes].sort().join(' and ');
}

function under(title: string, lines: readonly string[]): string[] {
  return lines.map((line, i) => (i === 0 ? title : '').padEnd(14) + line);
}
