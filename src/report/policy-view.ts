// What `policy info` tells of a model's architecture.
import type { Architecture } from '../model/graph/architecture.js';
import { count } from '../plural.js';

export function architectureLines(arch: Architecture): string[] {
  const { family, layers, hidden, heads, headDim, kvHeads, intermediate } = arch;
  const head = `${arch.tiedHead ? 'tied' : 'own'} head`;
  return [
    `architecture  ${family}: ${layers} layers, hidden ${hidden}, ${heads} heads of ${headDim} on ${kvHeads} key/value heads, MLP ${intermediate}, ${head}`,
    `rope          ${ropeText(arch)}`,
    `attention     ${windowText(arch)}`,
  ];
}

function ropeText({ ropeTheta, ropeScaling: scaling }: Architecture): string {
  const theta = `theta ${count(ropeTheta)}`;
  if (scaling === undefined) return theta;
  if (scaling.type === 'linear') return `${theta}, linear × ${scaling.factor}`;
  return `${theta}, ${scaling.type} × ${scaling.factor} from ${count(scaling.originalMaxTokens)} tokens`;
}

function windowText({ slidingWindow, layers }: Architecture): string {
  if (slidingWindow === undefined) return 'full';
  return `the last ${count(slidingWindow.tokens)} tokens in ${slidingWindow.layers.length} of ${layers} layers`;
}
