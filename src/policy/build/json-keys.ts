// Finds an object key that a JSON text gives twice: JSON.parse keeps the last one and says nothing.

/**
 * @param json a text that JSON.parse takes
 * @returns the first key that an object of the text repeats, after escapes; undefined: none does
 */
export function repeatedKey(json: string): string | undefined {
  const open: (Set<string> | null)[] = []; // keys so far of every object we are in, null for a list
  let name: string | undefined; // the string read last: a key if a colon follows
  for (let i = 0; i < json.length; i++) {
    const character = json[i];
    if (character === '"') {
      const from = i++;
      while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
      name = JSON.parse(json.slice(from, i + 1)) as string;
    } else if (character === '{') open.push(new Set());
    else if (character === '[') open.push(null);
    else if (character === '}' || character === ']') open.pop();
    else if (character === ':' && name !== undefined) {
      const keys = open.at(-1);
      if (keys?.has(name)) return name;
      keys?.add(name);
    }
  }
  return undefined;
}
