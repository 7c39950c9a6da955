// As two-commands.test.ts, with more rounds.
import { twoCommands } from './two-commands.js';

twoCommands(50);
