// Whether input files are what they were: while a process reads them, and from one attempt at a run to the next.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { dataError } from '../../errors.js';
import { factsOf, failed, HEAD_BYTES, type OpenFile } from '../files/files.js';

/** How `run.json` holds it. */
export const InputPrintSchema = z.object({
  path: z.string(),
  bytes: z.int().nonnegative().nullable(),
  mtime_ms: z.number().nullable(),
  /** sha256 of its first and of its last MiB */
  head: z.string().nullable(),
  tail: z.string().nullable(),
  /** of an object, which says more than its time and edges: these are null */
  etag: z.string().optional(),
});

/** Size, time and edges of an input file; what can be read only once has none of these. */
export type InputPrint = Readonly<z.infer<typeof InputPrintSchema>>;

const EDGE_BYTES = 2 ** 20;

/** Of what can be read only once. */
export const printOfStream = (path: string): InputPrint => ({
  ...{ path, bytes: null, mtime_ms: null, head: null, tail: null },
});

/** The print of a file that is open. @returns with its first bytes; few of an object, whose ETag says more */
export async function fingerprintOf(
  file: OpenFile,
  path: string,
): Promise<{ readonly print: InputPrint; readonly head: Buffer }> {
  const { size: bytes, mtimeMs, version } = await file.stat();
  const [length, ...places] =
    version === undefined ? [EDGE_BYTES, 0, Math.max(0, bytes - EDGE_BYTES)] : [HEAD_BYTES, 0];
  const edges: Buffer[] = [];
  for (const place of places) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, place);
    edges.push(buffer.subarray(0, bytesRead));
  }
  const [head] = edges as [Buffer];
  if (version !== undefined) return { print: { ...printOfStream(path), bytes, etag: version.etag }, head };
  const [ofHead = null, ofTail = null] = edges.map((edge) => createHash('sha256').update(edge).digest('hex'));
  return { print: { path, bytes, mtime_ms: Math.floor(mtimeMs), head: ofHead, tail: ofTail }, head };
}

/** @throws RredcotError (exit 65) where a file is no longer what it was: rows may come from two versions of it */
export async function assertSameInputs(prints: readonly InputPrint[]): Promise<void> {
  const said = (bytes: number, time: number | null, etag: string | undefined): string =>
    `${bytes} bytes of ${etag === undefined ? new Date(time ?? 0).toISOString() : `ETag ${etag}`}`;
  for (const { path, bytes, mtime_ms, etag } of prints) {
    if (bytes === null) continue;
    const { size, mtimeMs, version } = await factsOf(path).catch(failed(path, 'read'));
    const isSame = etag === undefined ? mtime_ms === Math.floor(mtimeMs) : etag === version?.etag;
    if (isSame && bytes === size) continue;
    const [before, now] = [said(bytes, mtime_ms, etag), said(size, Math.floor(mtimeMs), version?.etag)];
    throw dataError(
      `${path}: changed while it was read: ${before}, now ${now}; nothing is published`,
      'when it is whole, the same command with --overwrite',
    );
  }
}
