// Draws a chart of the calls of each module, and updates the counts in the table. Without this
// script, the page shows the counts at the time of the request.
const DATA = '/admin/modules.json';
const INTERVAL = 2000;
// The number of samples in a chart. With one sample every two seconds, a chart shows the last two
// minutes.
const SAMPLES = 60;
const [WIDTH, HEIGHT] = [120, 32];
const SVG = 'http://www.w3.org/2000/svg';

const button = document.getElementById('charts-button');
const problem = document.getElementById('charts-problem');
const charts = new Map();
// The object that identifies the running loop, or null if the charts are paused.
let loop = null;

function element(name, attributes) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  return created;
}

function createChart(cell) {
  const svg = element('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': 'No data yet' });
  const lines = ['calls', 'failed'].map((name) => element('polyline', { class: name }));
  svg.append(...lines);
  const text = document.createElement('span');
  cell.replaceChildren(svg, text);
  return { row: cell.closest('tr'), svg, lines, text, samples: [], last: null };
}

function draw(chart, name) {
  const now = chart.samples.at(-1);
  const highest = Math.max(...chart.samples.map((sample) => sample.calls));
  const scale = (HEIGHT - 2) / Math.max(highest, 1);
  for (const line of chart.lines) {
    const first = SAMPLES - chart.samples.length;
    const points = chart.samples.map((sample, index) => {
      const x = ((first + index) * WIDTH) / (SAMPLES - 1);
      const y = HEIGHT - 1 - sample[line.getAttribute('class')] * scale;
      return `${x.toFixed(1)},${y.toFixed(1)}`;
    });
    line.setAttribute('points', points.join(' '));
  }
  const [calls, failed, most] = [now.calls, now.failed, highest].map((value) => value.toFixed(1));
  chart.text.textContent = `${calls}/s, failed ${failed}/s`;
  const label = `${name}: ${calls} calls per second, ${failed} failed; at most ${most} calls per second in the last two minutes`;
  chart.svg.setAttribute('aria-label', label);
}

function update(module, at) {
  const chart = charts.get(module.name);
  if (!chart) return;
  for (const [name, text] of Object.entries(module.texts)) {
    chart.row.querySelector(`[data-text="${name}"]`).textContent = text;
  }
  chart.row.querySelector('[data-text="state"]').className = module.class;
  const last = chart.last;
  chart.last = { ...module, at };
  // Each version has its own counts, which start at 0 when the service starts. So after a change of
  // the version or a restart, the difference from the last counts is not a rate.
  if (!last || last.texts.version !== module.texts.version || last.calls > module.calls) return;
  const rate = (count) => (Math.max(module[count] - last[count], 0) * 1000) / (at - last.at);
  chart.samples.push({ calls: rate('calls'), failed: rate('failed') });
  chart.samples.splice(0, chart.samples.length - SAMPLES);
  draw(chart, module.name);
}

// Reads the counts every two seconds until the charts are paused. `own` identifies the loop of this
// call. A later start replaces the loop, which ends this loop.
async function poll(own) {
  if (loop !== own) return;
  try {
    // Do not follow a redirect, because a redirect leads to the sign-in page.
    const response = document.hidden ? null : await fetch(DATA, { redirect: 'manual' });
    if (loop !== own) return;
    if (response?.type === 'opaqueredirect') {
      pause();
      problem.textContent = 'The session has ended. Reload the page to sign in.';
      return;
    }
    if (response && !response.ok) throw new Error(response.statusText);
    const data = await response?.json();
    const at = performance.now();
    for (const module of data?.modules ?? []) update(module, at);
    problem.textContent = '';
  } catch {
    problem.textContent = 'The service does not respond. The numbers are not current.';
  }
  setTimeout(poll, INTERVAL, own);
}

function pause() {
  loop = null;
  button.textContent = 'Start the charts';
}

function start() {
  for (const chart of charts.values()) chart.last = null;
  loop = {};
  button.textContent = 'Pause the charts';
  poll(loop);
}

for (const cell of document.querySelectorAll('[data-chart]')) charts.set(cell.dataset.chart, createChart(cell));
button.addEventListener('click', () => (loop ? pause() : start()));
button.hidden = false;
if (matchMedia('(prefers-reduced-motion: reduce)').matches) pause();
else start();
