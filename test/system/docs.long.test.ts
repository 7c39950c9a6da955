// The commands of the documentation run: every second page.
import { DOCS } from '../support/documentation.js';
import { itRuns } from '../support/documentation-pages.js';

itRuns(DOCS.filter((_, n) => n % 2 === 0));
