// Worker thread: blocks of input rows in by message, the same blocks segmented and encoded out.
import { parentPort, workerData } from 'node:worker_threads';
import { type BlockJob, openBlockWork } from './segment-block.js';
import { answerEach } from './threads.js';

if (parentPort === null) throw new Error('segment-thread runs as a worker thread');
const work = await openBlockWork(workerData as BlockJob);
answerEach(parentPort, work, ({ parts }) => parts.map(({ bytes }) => bytes.buffer));
