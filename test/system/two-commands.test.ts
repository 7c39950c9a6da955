// A few rounds; two-commands.long.test.ts does more.
import { twoCommands } from './two-commands.js';

twoCommands(1);
