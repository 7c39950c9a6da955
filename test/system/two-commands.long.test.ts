// As two-commands.test.ts: some 50 rounds, over the four kinds of output; `npm run torture` does 50 of each.
import { twoCommands } from './two-commands.js';

twoCommands(process.env.RREDCOT_TORTURE === undefined ? 13 : 50);
