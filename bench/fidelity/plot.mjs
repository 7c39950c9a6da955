// A comparison in, the curves of the paper's figure 4 out as SVG: agreement with Monte Carlo over the last part of each trace.
import { finder, methodsOf } from './page.mjs';

const LASTS = [0.25, 0.5, 0.75, 1];
const [WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM] = [720, 380, 56, 40, 190, 48];
const COLOURS = [
  '#4477aa',
  '#ee6677',
  '#228833',
  '#ccbb44',
  '#66ccee',
  '#aa3377',
  '#888888',
  '#000000',
  '#dd8800',
  '#004488',
  '#997700',
];

export function curves(title, comparison) {
  const figure = finder(comparison);
  const names = methodsOf(comparison);
  const x = (last) => LEFT + ((last - 0.25) / 0.75) * (WIDTH - LEFT - RIGHT);
  const low = -0.4;
  const y = (value) => TOP + ((1 - value) / (1 - low)) * (HEIGHT - TOP - BOTTOM);
  const lines = names.map((name, n) => {
    const points = LASTS.map((last) => [last, figure('pearson', name, 'all', last)?.value]).filter(
      ([, v]) => typeof v === 'number',
    );
    const path = points
      .map(([last, value]) => `${x(last).toFixed(1)},${y(Math.max(low, value)).toFixed(1)}`)
      .join(' ');
    const colour = COLOURS[n % COLOURS.length];
    const at = TOP + 8 + n * 20;
    return `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>
<line x1="${WIDTH - RIGHT + 16}" x2="${WIDTH - RIGHT + 40}" y1="${at}" y2="${at}" stroke="${colour}" stroke-width="2"/>
<text x="${WIDTH - RIGHT + 46}" y="${at + 4}">${name}</text>`;
  });
  const grid = [-0.25, 0, 0.25, 0.5, 0.75, 1].map(
    (v) =>
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(v)}" y2="${y(v)}" stroke="#ddd"/><text x="${LEFT - 8}" y="${y(v) + 4}" text-anchor="end">${v}</text>`,
  );
  const ticks = LASTS.map(
    (last) => `<text x="${x(last)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${last * 100} %</text>`,
  );
  const ceiling = comparison.ceiling?.value;
  const top =
    typeof ceiling === 'number'
      ? `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(ceiling)}" y2="${y(ceiling)}" stroke="#000" stroke-dasharray="4 4"/><text x="${LEFT + 6}" y="${y(ceiling) - 5}">ceiling</text>`
      : '';
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="${LEFT}" y="22" font-size="14">${title}: Pearson of differences with Monte Carlo, inside traces</text>
${grid.join('\n')}
${ticks.join('\n')}
<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 10}" text-anchor="middle">last part of each trace</text>
${top}
${lines.join('\n')}
</svg>
`;
}
