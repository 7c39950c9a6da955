// `survey.json` of a run folder: what its first process found in the inputs, with a hash of the file's own text.
import { createHash } from 'node:crypto';
import { writeText } from '../files/json-file.js';
import { textOf } from './success.js';

const BEGIN = /^\{"sha256":"([0-9a-f]{64})",/;

/** Writes it. @param run identity of the run */
export function writeSurveyFile(path: string, run: string, survey: object): Promise<void> {
  const rest = `${JSON.stringify({ run, ...survey }).slice(1)}\n`;
  return writeText(path, `{"sha256":"${hashOf(rest)}",${rest}`);
}

/** What was written; undefined where there is none of this run, or it was changed: it is made again. */
export async function readSurveyFile<T>(path: string, run: string): Promise<T | undefined> {
  const text = await textOf(path);
  if (text === undefined || faultOf(text, run) !== undefined) return undefined;
  const { sha256: _, run: __, ...survey } = JSON.parse(text);
  return survey as T;
}

/** What is wrong with it; undefined where nothing is, or where there is none. */
export async function surveyFault(path: string, run: string): Promise<string | undefined> {
  const text = await textOf(path);
  return text === undefined ? undefined : faultOf(text, run);
}

function faultOf(text: string, run: string): string | undefined {
  const [begin, sha256] = BEGIN.exec(text) ?? [];
  const rest = begin === undefined ? '' : text.slice(begin.length);
  if (sha256 === undefined || hashOf(rest) !== sha256) return 'was changed since it was written';
  return rest.startsWith(`"run":${JSON.stringify(run)}`) ? undefined : 'is of another run than run.json';
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
