// As two-commands.test.ts: 16 rounds, over the four kinds of output; `npm run torture` does 50 of each.
import { twoCommands } from './two-commands.js';

twoCommands(process.env.RREDCOT_TORTURE === undefined ? 4 : 50);
