// A walk through layers of places, some of whose turns decide and some of which do not: every value is computed by enumeration.
import { randomStream } from '../../dist/compare/bootstrap.js';

const LAYERS = 8;
const WIDTH = 3;
/** Odds of a place's ways: one, two alike, a likely and an unlikely one. */
const ODDS = [[1], [0.5, 0.5], [0.8, 0.2]];

/** ways[layer][place]: [place of the next layer, its odds]; wins: whether a place of the last layer does. */
function drawMap(random) {
  const below = (n) => random() % n;
  const ways = Array.from({ length: LAYERS - 1 }, () =>
    Array.from({ length: WIDTH }, () => {
      const first = below(WIDTH);
      return ODDS[below(ODDS.length)].map((odds, n) => [(first + n) % WIDTH, odds]);
    }),
  );
  // of the last places one wins, so that the way decides
  return { ways, wins: Array.from({ length: WIDTH }, (_, place) => place === 0) };
}

/** The probability of a win: a sum over every way to the end, none left out. */
export function enumerated({ ways, wins }, layer, place) {
  if (layer === ways.length) return wins[place] ? 1 : 0;
  return ways[layer][place].reduce(
    (sum, [to, odds]) => sum + odds * enumerated({ ways, wins }, layer + 1, to),
    0,
  );
}

const named = (layer, place) => `${'abcdefgh'[layer]}${place}`;
/** Lines that change nothing, written at even odds. */
const FILLER = 'on we go.\n';

/** One walk as a trace of bytes, with what was sure at each of them: a choice is made by one byte, all others are certain. */
function walk(map, random) {
  const [logprobs, entropies] = [[], []];
  let [text, layer, place] = ['<think>\n', 0, 0];
  const write = (piece, at, odds) => {
    for (const [n] of [...piece].entries()) {
      logprobs.push(n === at ? Math.log(odds.p) : 0);
      entropies.push(n === at ? odds.entropy : 0);
    }
    return piece;
  };
  write(text);
  const entropy = (all) => all.reduce((sum, p) => sum - p * Math.log(p), 0);
  const ends = [];
  const values = [enumerated(map, 0, 0)];
  const end = () => {
    ends.push(text.length);
    values.push(enumerated(map, layer, place));
  };
  while (layer < map.ways.length) {
    if (layer > 0 && random() % 2 === 0) {
      text += write(FILLER, 0, { p: 0.5, entropy: Math.log(2) });
      end();
    }
    const ways = map.ways[layer][place];
    const drawn = random() / 2 ** 32;
    const n = ways.findIndex((_, k) => drawn < ways.slice(0, k + 1).reduce((sum, [, odds]) => sum + odds, 0));
    const [to, odds] = ways[n];
    const line = `${named(layer, place)} to ${named(layer + 1, to)}\n`;
    text += write(line, line.length - 2, { p: odds, entropy: entropy(ways.map(([, own]) => own)) });
    [layer, place] = [layer + 1, to];
    end();
  }
  const answer = `</think>\nanswer: ${named(layer, place)}\n`;
  text += write(answer);
  return { text, ends, values, logprobs, entropies, reward: map.wins[place] ? 1 : 0 };
}

/** Rows of the set. @param groups maps, @param walks of each */
export function bifurcationRows(groups, walks) {
  const random = randomStream(31);
  return Array.from({ length: groups }, (_, g) => {
    let map = drawMap(random);
    // a map on which nothing is left to decide is none
    while (!(enumerated(map, 0, 0) > 0.15 && enumerated(map, 0, 0) < 0.85)) map = drawMap(random);
    const listed = map.ways.flatMap((places, layer) =>
      places.map(
        (ways, place) =>
          `${named(layer, place)}>${ways.map(([to, p]) => `${named(layer + 1, to)} ${p}`).join('|')}`,
      ),
    );
    const prompt = `${listed.join(' ')} from a0 to h0?\n`;
    const bytes = (text) => [...Buffer.from(text)];
    return Array.from({ length: walks }, (_, n) => {
      const { text, ends, values, logprobs, entropies, reward } = walk(map, random);
      const group = `bifurcation-${String(g).padStart(4, '0')}`;
      return {
        ...{
          half: g % 2 === 0 ? 'choose' : 'judge',
          id: `${group}/${n}`,
          group,
          prompt,
          prompt_ids: bytes(prompt),
        },
        ...{ completion: text, completion_ids: bytes(text), answer: named(LAYERS - 1, 0), reward },
        ...{ segment_ends: ends, logprobs, entropies, exact: true, values },
      };
    });
  }).flat();
}
