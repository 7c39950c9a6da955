#!/usr/bin/env node
// Starts the command line: everything else is in dist/cli.js.
import { main } from '../dist/cli.js';

process.exitCode = await main(process.argv);
