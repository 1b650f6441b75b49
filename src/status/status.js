'use strict';

/*
 * The status page: reads "json" each second and draws it.  What stands in the
 * document comes from configurations and requests, so it is only ever put into
 * the page as text.  Counters go up to 2^64 - 1 and are BigInt; rates and
 * parts of a whole are numbers.
 */

const HISTORY = 300, WINDOW = 60, SLOWEST = 30;

// the page is at the location, with a slash behind it or without
const BASE = location.pathname.replace(/\/*$/, '/');

const RESULTS = ['hit', 'stale', 'expired', 'negative', 'miss', 'bypass', 'none',
  'invalid', 'timeout', 'error'];

const SOURCES = {store: 'a store', cache: 'the cache', learned: 'a learned answer',
  signed: 'a signed token',
  app: 'the application', none: 'nobody'};

const $ = (id) => document.getElementById(id);
const ever = [];                // samples, the newest last
let first = null, last = null;  // whole documents
let paused = false, timer = null, asking = null, fails = 0;


// Numbers.

const big = (value) => {
  try {
    return BigInt(value ?? 0);
  } catch {
    return 0n;
  }
};

const ratio = (part, all) => all > 0n ? Number(part * 100000n / all) / 100000 : 0;

function exact(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ',');
}

function short(n, units = ['', ' k', ' M', ' G', ' T', ' P', ' E'], step = 1000) {
  let value = Number(n), unit = 0;
  if (value < 10000 && step === 1000) {
    return exact(Number.isInteger(value) ? value : value.toFixed(value < 10 ? 1 : 0));
  }
  while (value >= step && unit < units.length - 1) {
    value /= step;
    unit++;
  }
  return (unit === 0 ? value : value.toPrecision(value < 100 ? 3 : 4)) + units[unit];
}

const bytes = (n) =>
  short(n, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB', ' EiB'], 1024);

const percent = (x) => (x > 0.999 && x < 1 ? '99.9' : (x * 100).toFixed(1)) + ' %';

const rate = (x) => x === 0 ? '0' : x < 0.1 ? '< 0.1' : short(x < 100 ? x : Math.round(x));

function span(seconds) {
  const s = Math.max(0, Math.floor(seconds)), d = Math.floor(s / 86400);
  const h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  return d ? `${d} d ${h} h` : h ? `${h} h ${m} min` : m ? `${m} min ${s % 60} s` : `${s} s`;
}

function time(seconds, over) {
  const text = seconds < 0.001 ? `${Math.round(seconds * 1e6)} \u00b5s`
    : seconds < 1 ? `${Number((seconds * 1000).toPrecision(3))} ms` : `${seconds} s`;
  return over ? `> ${text}` : text;
}


// The document.  JSON.parse() would round what has more than 15 digits.

function parse(text) {
  return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|\d{16,}(?![\d.])/g,
    (token) => token[0] === '"' ? token : `"${token}"`));
}

const sum = (object) => Object.values(object ?? {}).reduce((all, n) => all + big(n), 0n);
const minus = (a, b) => big(a) > big(b) ? big(a) - big(b) : 0n;
const storeName = (s) => `${s.store}\n${s.server}`;
const placeName = (l) => `${l.host}\n${l.location}`;
const byName = (list, name) => new Map((list ?? []).map((item) => [name(item), item]));

// the document of about so many seconds before the last one
function before(seconds) {
  const from = last.time - seconds;
  return (ever.find((sample) => sample.time >= from) ?? ever[0]).doc;
}

// seconds at a part of the lookups between two histograms; null: there was none
function quantile(now, then, part) {
  const count = minus(now?.count, then?.count);
  if (count === 0n) {
    return null;
  }
  const want = Number(count) * part;
  let below = 0, from = 0;
  for (const [i, bucket] of now.buckets.entries()) {
    const n = Number(minus(bucket.count, then?.buckets?.[i]?.count));
    if (n >= want) {
      const at = from + (bucket.le - from) * (want - below) / Math.max(1, n - below);
      return time(at, false);
    }
    [below, from] = [n, bucket.le];
  }
  return time(from, true);
}

// one histogram of all stores
function together(stores) {
  const all = {count: 0n, buckets: []};
  for (const {duration} of stores ?? []) {
    all.count += big(duration?.count);
    for (const [i, bucket] of (duration?.buckets ?? []).entries()) {
      all.buckets[i] ??= {le: bucket.le, count: 0n};
      all.buckets[i].count += big(bucket.count);
    }
  }
  return all;
}


// Elements.  What has not changed is not touched: focus and selection stay.

function make(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) {
    element.textContent = text;
  }
  if (name) {
    element.className = name;
  }
  return element;
}

function set(element, text, name = '', title = '') {
  if (element.textContent !== text) {
    element.textContent = text;
  }
  if (element.className !== name) {
    element.className = name;
  }
  if (element.title !== title) {
    element.title = title;
  }
}

function fit(parent, count, build) {
  while (parent.children.length > count) {
    parent.lastElementChild.remove();
  }
  while (parent.children.length < count) {
    parent.append(build(parent.children.length));
  }
  return [...parent.children];
}

// rows of cells [text, class, title]; the first cell is the row's header
function table(id, rows, empty) {
  const body = $(id).tBodies[0], columns = $(id).tHead.rows[0].cells.length;
  if (rows.length === 0) {
    rows = [[[empty]].concat(Array.from({length: columns - 1}, () => ['']))];
  }
  fit(body, rows.length, () => {
    const row = make('tr');
    for (let i = 0; i < columns; i++) {
      row.append(make(i ? 'td' : 'th'));
    }
    row.firstChild.scope = 'row';
    return row;
  }).forEach((row, i) => {
    rows[i].forEach((cell, j) => set(row.cells[j], ...cell));
  });
}

const count = (n, name) => [short(n), name, exact(n)];


// What is drawn.

function tiles() {
  const then = before(WINDOW), now = last.requests, old = then.requests;
  const seconds = Math.max(1, last.time - then.time);
  const total = minus(now.total, old.total);
  const hits = minus(now.results.hit, old.results.hit);
  const sent = (r) => sum(r.sent.direct && {a: r.sent.direct.bytes, b: r.sent.redirect.bytes});
  const stores = together(last.stores), oldStores = together(then.stores);
  const failed = minus(sum(now.failures), sum(old.failures));
  const lost = ratio(failed, total);
  const found = [
    ['Requests a second', rate(Number(total) / seconds), `${short(now.total)} in all`],
    ['Hit rate', total ? percent(ratio(hits, total)) : '\u2013',
      now.total != 0 ? `${percent(ratio(big(now.results.hit), big(now.total)))} of all` : 'no request yet'],
    ['Lookup, median', quantile(stores, oldStores, 0.5) ?? '\u2013',
      `p99 ${quantile(stores, oldStores, 0.99) ?? '\u2013'}`],
    ['Application spared', short(now.app_avoided),
      `${rate(Number(minus(now.app_avoided, old.app_avoided)) / seconds)} a second`],
    ['Sent', bytes(sent(now)), `${bytes(Math.round(Number(minus(sent(now), sent(old))) / seconds))} a second`],
    ['Without a file', short(failed), total ? `${percent(lost)} of the last minute` : 'in the last minute']
  ];
  fit($('tiles'), found.length, () => {
    const tile = make('div');
    tile.append(make('dt'), make('dd'), make('dd'));
    return tile;
  }).forEach((tile, i) => found[i].forEach((text, j) => set(tile.children[j], text)));
}

function chart() {
  const svg = $('chart'), end = last.time, bars = [];
  let top = 0;
  for (let i = 1; i < ever.length; i++) {
    const a = ever[i - 1], b = ever[i], seconds = b.time - a.time;
    if (seconds <= 0 || end - b.time > HISTORY) {
      continue;
    }
    const parts = RESULTS.map((name) =>
      Number(minus(b.doc.requests.results[name], a.doc.requests.results[name])) / seconds);
    top = Math.max(top, parts.reduce((x, y) => x + y, 0));
    bars.push({from: Math.max(0, HISTORY - (end - a.time)), to: HISTORY - (end - b.time), parts});
  }
  const rects = [];
  for (const bar of bars) {
    let y = 180;
    bar.parts.forEach((value, i) => {
      if (value > 0) {
        const height = value / top * 172;
        y -= height;
        rects.push([bar.from * 3, y, (bar.to - bar.from) * 3 + 0.15, height, RESULTS[i]]);
      }
    });
  }
  const shapes = fit(svg, rects.length,
    () => document.createElementNS('http://www.w3.org/2000/svg', 'rect'));
  rects.forEach(([x, y, width, height, name], i) => {
    const shape = shapes[i];
    shape.setAttribute('x', x.toFixed(2));
    shape.setAttribute('y', y.toFixed(2));
    shape.setAttribute('width', width.toFixed(2));
    shape.setAttribute('height', height.toFixed(2));
    shape.setAttribute('class', `c-${name}`);
  });
  const words = ['5 minutes ago', top ? `highest: ${rate(top)} a second` : 'no request in this time', 'now'];
  fit($('axis'), 3, () => make('span')).forEach((s, i) => set(s, words[i]));

  const then = before(WINDOW).requests.results, begin = first.requests.results;
  const seen = last.requests.results;
  const shown = RESULTS.concat(Object.keys(seen).filter((name) => !RESULTS.includes(name)));
  const counted = shown.filter((name) => big(seen[name]) > 0n);
  fit($('legend'), counted.length, () => make('li'))
    .forEach((item, i) => set(item, counted[i], `c-${counted[i]}`));
  table('results', counted.map((name) => [[name], count(minus(seen[name], then[name])),
    count(minus(seen[name], begin[name])), count(big(seen[name]))]), 'no requests yet');
}

function sources() {
  const all = last.requests.sources, total = sum(all);
  const names = Object.keys(all).filter((name) => big(all[name]) > 0n);
  fit($('sources'), names.length, () => make('i')).forEach((part, i) => {
    part.className = `c-${names[i]}`;
    part.style.width = `${ratio(big(all[names[i]]), total) * 100}%`;
  });
  const texts = names.map((name) =>
    [`${SOURCES[name] ?? name}: ${percent(ratio(big(all[name]), total))}`, `c-${name}`,
      exact(big(all[name]))]);
  fit($('sources-list'), Math.max(1, texts.length), () => make('li'))
    .forEach((item, i) => set(item, ...(texts[i] ?? ['no requests yet'])));
}

function stores() {
  const then = before(WINDOW), old = byName(then.stores, storeName);
  const seconds = Math.max(1, last.time - then.time);
  table('stores', (last.stores ?? []).map((s) => {
    const was = old.get(storeName(s)), n = s.lookups;
    const name = s.server && !s.store.includes(s.server) ? `${s.store} ${s.server}` : s.store;
    const batches = big(s.batch?.count);
    const batch = batches ? ratio(big(s.batch.sum), batches).toFixed(1) : '\u2013';
    return [
      [name], s.up ? ['up', 'left good'] : ['down', 'left bad', 'lookups fail at once'],
      [rate(Number(minus(sum(n), sum(was?.lookups))) / seconds)],
      [quantile(s.duration, was?.duration, 0.5) ?? '\u2013'],
      [quantile(s.duration, was?.duration, 0.99) ?? '\u2013'],
      count(big(n.hit)), count(big(n.miss)),
      count(big(n.error), big(n.error) ? 'bad' : ''),
      count(big(n.timeout), big(n.timeout) ? 'bad' : ''),
      count(big(n.down) + big(n.cancelled)), count(big(s.joined)), [batch]
    ];
  }), 'no store in the configuration');
}

function zones() {
  const old = byName(before(WINDOW).zones, (z) => z.zone);
  const all = last.zones ?? [];
  fit($('zones'), Math.max(1, all.length), () => {
    const card = make('li'), bar = make('div');
    bar.append(make('i'));
    bar.setAttribute('role', 'meter');
    bar.setAttribute('aria-valuemin', '0');
    bar.setAttribute('aria-valuemax', '100');
    card.append(make('b'), bar, make('p'), make('p'), make('p'));
    return card;
  }).forEach((card, i) => {
    const [name, bar, ...lines] = card.children, z = all[i];
    bar.hidden = !z;
    if (!z) {
      set(name, 'no cache zone in the configuration');
      lines.forEach((line) => set(line, ''));
      return;
    }
    const part = Math.min(1, ratio(big(z.bytes), big(z.size)));
    const made = minus(sum(z.evictions), sum(old.get(z.zone)?.evictions));
    const hits = sum(z.hits), looks = hits + sum(z.misses);
    const full = part > 0.95 || made > 0n;
    set(name, z.zone);
    set(bar, '', full ? 'bar full' : 'bar');
    if (!bar.firstChild) {
      bar.append(make('i'));
    }
    bar.firstChild.style.width = `${part * 100}%`;
    bar.setAttribute('aria-label', `${z.zone}: how full`);
    bar.setAttribute('aria-valuenow', (part * 100).toFixed(1));
    set(lines[0], `${percent(part)} of ${bytes(big(z.size))}; ${short(big(z.entries.positive))} entries,`
      + ` ${short(big(z.entries.negative))} known not to exist`);
    set(lines[1], looks ? `${percent(ratio(hits, looks))} of ${short(looks)} looks found something`
      : 'not looked into yet');
    set(lines[2], `${short(sum(z.evictions))} evicted, ${short(sum(z.refusals))} not kept`
      + (made ? `: ${short(made)} had to make room in the last minute. A larger zone would keep them.`
        : ''), made ? 'bad' : '');
  });
}

function failures() {
  const now = last.requests.failures, then = before(WINDOW).requests.failures;
  table('failures', Object.keys(now).map((kind) => {
    const fresh = minus(now[kind], then[kind]);
    const bad = fresh > 0n && kind !== 'miss' && kind !== 'method';
    return [[kind.replace('_', ' ')], count(fresh, bad ? 'bad' : ''), count(big(now[kind])),
      [last.advice?.[kind] ?? '', 'say']];
  }), 'none');
}

// an ID, which may have been cut
const asked = (of) => of.id === undefined ? '' : of.id + (of.truncated ? '\u2026' : '');

function lastFailures() {
  table('last', (last.last_failures ?? []).map((f) => {
    const why = [f.reason, f.detail, f.error].filter(Boolean).join(': ');
    const store = f.server && !f.store.includes(f.server) ? `${f.store} ${f.server}` : f.store;
    return [[why], [`${span(last.time - f.time)} ago`, 'left', `first ${span(last.time - f.first)} ago`],
      count(big(f.count)), [f.status ? String(f.status) : '\u2013'],
      [f.location, 'left', f.host], [store || '\u2013', 'left any'],
      [asked(f) || '\u2013', 'left any'], [f.advice, 'say']];
  }), 'no request has failed yet');
}

function topIds() {
  const top = last.top_ids, all = big(top?.requests);
  $('top').hidden = !top;
  table('ids', (top?.ids ?? []).map((i) => {
    const n = big(i.requests), error = big(i.error);
    return [[asked(i)], [i.location, 'left', i.host],
      [`about ${short(n)}`, '', error ? `at least ${exact(n - error)}` : exact(n)],
      [percent(ratio(n, all))]];
  }), 'no request yet');
}

function locations() {
  const then = before(WINDOW), old = byName(then.locations, placeName);
  const seconds = Math.max(1, last.time - then.time);
  table('locations', (last.locations ?? []).map((l) => {
    const hits = l.requests.reduce((n, r) => r.result === 'hit' ? n + big(r.count) : n, 0n);
    return [[l.location], [l.host || '\u2013', 'left'],
      [rate(Number(minus(l.total, old.get(placeName(l))?.total)) / seconds)],
      count(big(l.total)), [big(l.total) ? percent(ratio(hits, big(l.total))) : '\u2013'],
      count(sum(l.failures)), count(big(l.app_avoided)),
      [bytes(big(l.sent.direct.bytes) + big(l.sent.redirect.bytes))]];
  }), 'no location with http_sendfile');
}

function learned() {
  const then = before(WINDOW).learn;
  const old = byName(then?.refused, (r) => r.reason);
  const rows = [['kept', big(last.learn?.kept), minus(last.learn?.kept, then?.kept)]];
  for (const {reason, count: n} of last.learn?.refused ?? []) {
    rows.push([`not kept: ${reason}`, big(n), minus(n, old.get(reason)?.count)]);
  }
  table('learn', rows.map(([name, n, fresh]) => [[name], count(fresh), count(n)]), '');
}

function rest() {
  const p = last.purges ?? {}, r = last.ruby ?? {};
  set($('about'), `${last.module} in nginx ${last.nginx}, counting for ${span(last.time - last.start)}`);
  set($('rest'), `Purged: ${short(big(p.key))} keys, ${short(big(p.url))} URLs, ${short(big(p.all))} `
    + `times all. Ruby: ${short(big(r.runs))} scripts run, ${short(big(r.stopped))} stopped by a limit.`);
  const down = (last.stores ?? []).filter((s) => !s.up);
  set($('note'), down.map((s) => `${s.server || s.store} is down: its lookups fail at once, `
    + 'and go to the fallback if there is one. See the error log for the reason.').join(' '), 'note');
  $('note').hidden = down.length === 0;
}

function draw() {
  for (const part of [rest, tiles, chart, sources, stores, zones, failures, lastFailures, topIds,
    locations, learned]) {
    part();
  }
}


// Asking.  One question at a time; none while nobody looks.

function state(text, name) {
  const pill = $('state');
  // it is read aloud: only when it changes
  set(pill, text, `pill ${name}`);
}

function keep(doc) {
  if (doc.version !== 1) {
    throw new Error(`json has version ${doc.version}, this page knows 1: reload it`);
  }
  if (last && (doc.start !== last.start || doc.time < last.time)) {
    ever.length = 0;
    first = null;
  }
  first ??= doc;
  last = doc;
  ever.push({time: doc.time, doc});
  while (ever.length > 2 && doc.time - ever[1].time > HISTORY) {
    ever.shift();
  }
}

async function ask() {
  timer = null;
  asking = new AbortController();
  const limit = setTimeout(() => asking?.abort(), 10000);
  let wait = 1;
  try {
    const response = await fetch(`${BASE}json`, {signal: asking.signal, cache: 'no-store'});
    if (!response.ok) {
      throw new Error(`nginx answers ${response.status} to ${BASE}json`);
    }
    keep(parse(await response.text()));
    fails = 0;
    if (!paused) {
      state('live', 'live');
    }
    draw();
  } catch (error) {
    fails++;
    wait = Math.min(SLOWEST, 2 ** fails);
    const why = error instanceof TypeError || error.name === 'AbortError'
      ? 'nginx does not answer' : error.message;
    if (!paused) {
      state(`${why}; asking again, each time later, at least every ${SLOWEST} s`, 'away');
    }
  }
  clearTimeout(limit);
  asking = null;
  plan(wait);
}

function plan(seconds) {
  if (!paused && !document.hidden && timer === null && asking === null) {
    timer = setTimeout(ask, seconds * 1000);
  }
}

function stop() {
  clearTimeout(timer);
  timer = null;
}

$('pause').addEventListener('click', () => {
  paused = !paused;
  set($('pause'), paused ? 'Go on' : 'Pause');
  if (paused) {
    stop();
    state('paused', '');
  } else {
    fails = 0;
    plan(0);
  }
});

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    stop();
  } else {
    plan(0);
  }
});


// Explain.

function words(value) {
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function explained(doc) {
  const nodes = [make('p', doc.verdict ?? 'explained', 'verdict')];
  if (doc.advice?.length) {
    const list = make('ul', undefined, 'advice');
    list.append(...doc.advice.map((text) => make('li', text)));
    nodes.push(list);
  }
  const steps = make('ol');
  for (const {step, state: how, text, ...more} of doc.steps ?? []) {
    const item = make('li');
    item.append(make('b', step ?? ''), ` ${how ?? ''}: `, make('span', text ?? '', how === 'failed' ? 'bad' : ''));
    const facts = Object.entries(more);
    if (facts.length) {
      const list = make('details');
      list.append(make('summary', facts.length === 1 ? '1 fact' : `${facts.length} facts`));
      for (const [name, value] of facts) {
        const values = name === 'folders' && Array.isArray(value) ? value : [value];
        for (const one of values) {
          list.append(make('div', `${name}: ${words(one)}`));
        }
      }
      item.append(list);
    }
    steps.append(item);
  }
  nodes.push(steps);
  for (const [name, value] of doc.headers ?? []) {
    const line = make('div');
    line.append(make('code', `${name}: ${value}`));
    nodes.push(line);
  }
  return nodes;
}

$('explain').addEventListener('submit', async (event) => {
  event.preventDefault();
  const place = $('explained'), url = $('url').value.trim();
  let nodes;
  try {
    const response = await fetch(`${BASE}explain?url=${encodeURIComponent(url)}`, {cache: 'no-store'});
    const text = await response.text();
    if (response.status === 404) {
      nodes = [make('p', 'This module has no explain: it is of a version before it.')];
    } else {
      const doc = parse(text);
      nodes = response.ok ? explained(doc) : [make('p', doc.error ?? `nginx answers ${response.status}`, 'bad')];
    }
  } catch (error) {
    nodes = [make('p', `no explanation: ${error.message}`, 'bad')];
  }
  place.replaceChildren(...nodes);
});

$('to-json').href = `${BASE}json`;
$('to-metrics').href = `${BASE}metrics`;
ask();
