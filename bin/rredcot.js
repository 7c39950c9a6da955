#!/usr/bin/env node
// Starts the command line: everything else is in dist/cli/.
import { main } from '../dist/cli/program.js';

process.exitCode = await main(process.argv);
