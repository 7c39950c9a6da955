// Mistral: Llama's layers, all of which see a sliding window where config.json has one.
import type { Family } from '../family.js';
import { llama } from './llama.js';

export const mistral: Family = {
  ...llama,
  defaults: { kvHeads: 8, slidingWindow: 4096 },
  windows: () => true,
};
