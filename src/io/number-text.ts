// Numbers that come as text: decimals of Arrow and Parquet, whose digits no double holds.

/** The number that a text spells in plain decimal digits (`0.50`); any other value as it is. */
export function asNumber(value: unknown): unknown {
  return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
}
