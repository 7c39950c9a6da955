// Makes @huggingface/jinja keep what a round of a loop has written before `continue` or `break`, as Python does.
import { Environment, Interpreter } from '@huggingface/jinja';

type Node = { type: string; value: string; exit?: string; isDone?: true; body: Node[]; defaultBlock: Node[] };
type Step<Of = Node> = (this: Machine, node: Of, scope: Environment) => Node;
type Machine = { evaluate: Step<Partial<Node>>; evaluateFor: Step; evaluateBlock: Step<Node[]> };

const machine = Interpreter.prototype as unknown as Machine;
const Text = new Environment().set('text', '').constructor as unknown as new (text: string) => Node;
const left = (text: string, exit: string) => Object.assign(new Text(text), { exit });
const { evaluate, evaluateFor } = machine;

machine.evaluateBlock = function (nodes, scope) {
  let text = '';
  for (const node of nodes) {
    if (/^(Break|Continue)$/.test(node.type)) return left(text, node.type);
    const value = this.evaluate(node, scope);
    if (!/^(Null|Undefined)Value$/.test(value.type)) text += value;
    if (value.exit) return left(text, value.exit);
  }
  return new Text(text);
};
machine.evaluateFor = function (node, scope) {
  const round: Node = { ...node, type: 'Round' };
  const { value } = evaluateFor.call(this, { ...node, body: [round], defaultBlock: [] }, scope);
  return new Text(round.isDone ? value : value + this.evaluateBlock(node.defaultBlock, scope).value);
};
machine.evaluate = function (node, scope) {
  if (node?.type !== 'Round') return evaluate.call(this, node, scope);
  if (node.exit === 'Break') evaluate.call(this, { type: 'Break' }, scope); // ends the loop
  const { value, exit } = this.evaluateBlock(node.body as Node[], scope);
  Object.assign(node, exit ? { exit } : { exit: '', isDone: true });
  return new Text(value);
};
