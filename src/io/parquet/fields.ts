// What Parquet's footer is called by: the magic behind it, and the numbers of the fields in its structs (parquet.thrift).

export const MAGIC = Buffer.from('PAR1');

export const FILE = { schema: 2, rows: 3, groups: 4, keyValues: 5 } as const;
export const GROUP = { columns: 1, bytes: 2, rows: 3, fileOffset: 5, ordinal: 7 } as const;
export const CHUNK = { filePath: 1, fileOffset: 2, metadata: 3, indexes: [4, 5, 6, 7], crypto: 8 } as const;
export const COLUMN = {
  compressed: 7,
  dataPage: 9,
  indexPage: 10,
  dictionaryPage: 11,
  bloom: [14, 15],
} as const;
export const ELEMENT = { name: 4, children: 5, converted: 6, logical: 10 } as const;
/** of the metadata */
export const PAIR = { key: 1, value: 2 } as const;
