// Filters rows by the typed text, and columns by releases. The tables are complete without it.
'use strict';
(() => {
const upgrade = document.body.dataset.upgrade;
// Links of the former single-file page.
if (/^#(compare|matrix|history)\b/.test(location.hash) && upgrade) location.replace(upgrade + location.hash);
const byId = id => document.getElementById(id);
const box = byId('search');
if (!box) return;
if (box.dataset.leads) {
  box.addEventListener('keydown', event => {
    if (event.key === 'Enter' && box.value.trim())
      location.assign(`${box.dataset.leads}?q=${encodeURIComponent(box.value.trim())}`);
  });
  return;
}
const release = byId('release'), outcome = byId('outcome'), count = byId('count'), answer = byId('answer');
const counted = (number, table) => `${number} ${number === 1 ? table.dataset.one : table.dataset.rows}`;

// A row may be followed by its notes.
const tables = [...document.querySelectorAll('table[data-rows]')].map(table => {
  const part = table.closest('section'), found = document.createElement('tbody');
  const columns = [...table.tHead.rows[0].cells]
                    .map((cell, at) => ({at, release: cell.dataset.release, detail: cell.dataset.detail || ''}))
                    .filter(each => each.release);
  const rows = [...table.querySelectorAll('tr[data-text]')].map((row, order) => {
    const notes = row.nextElementSibling && row.nextElementSibling.matches('.notes') ? row.nextElementSibling : null;
    return {
      row,
      notes,
      order,
      body: row.parentElement,
      text: row.dataset.text,
      name: row.dataset.name,
      title: row.cells[0].textContent.toLowerCase(),
      tags: (row.dataset.tags || '').split(',').filter(Boolean).map(Number),
      words: [...row.cells].map(cell => cell.querySelector('.o')?.textContent)
    };
  });
  table.append(found);
  return {table, part, columns, rows, found, bodies: [...table.tBodies].filter(body => body !== found), shown: ''};
});
const main = tables[0], isByRelease = 'runtimes' in main.table.dataset;
const releases = [...new Set(main.columns.map(column => column.release))];
const tags =
  [...document.querySelectorAll('#tags option')].map(option => [option.value, option.dataset.words.split('|')]);
const features = vocabularyOf(tags), kAnyProgram = tags.findIndex(([name]) => name === 'any program');
const join = words => words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;

// 2.6 is the newest release of that line; the newest comes first.
const meantRelease = word => releases.find(each => each === word || each.startsWith(word + '.'));

// Finds releases, a CUDA runtime, features and other words in a text. Of features separated by commas one match is
// enough; a pasted message also has commas, and all of its words count.
function read(text) {
  const wanted = {releases: [], unknown: [], runtime: '', scope: [], words: []};
  text = text.replace(/(\d)\s*(?:→|->|\.\.\.?|\bto\b)\s*v?(?=\d+\.\d)/g, '$1 ');
  text = text.replace(
    /(^|\s)(?:cuda[ -]?(\d+(?:\.\d+)?)|cu(\d\d)(\d)?)(?=[\s,?]|$)/gi, (all, before, plain, major, minor) => {
      const version = plain || (minor ? `${major}.${minor}` : major);
      if (!hasRuntime(version)) return all;
      wanted.runtime = version;
      return before;
    });
  text = text.replace(/(^|\s)v?(2\.\d+(?:\.\d+)?)(?:\+\w+)?(?=[\s,?]|$)/g, (all, before, version) => {
    const name = meantRelease(version);
    if (!name) wanted.unknown.push(version);
    else if (!wanted.releases.includes(name)) wanted.releases.push(name);
    return name ? before : all;
  });
  const parts = text.split(',').map(part => part.trim()).filter(Boolean);
  wanted.scope = [...new Set(parts.map(features.of).filter(tag => tag !== undefined))];
  const rest = wanted.scope.length ? parts.filter(part => features.of(part) === undefined).join(' ') : text;
  wanted.words = rest.toLowerCase().split(/[\s"'`,;:()?]+/).filter(Boolean);
  return wanted;
}
const isRuntime = (detail, version) =>
  detail.split(' and ').some(each => `${each.replace('CUDA ', '')}.`.startsWith(`${version}.`));
const hasRuntime = version => main.columns.some(column => isRuntime(column.detail, version));

function rankOf(one, words) {
  if (!words.length) return 0;
  const named = words.filter(word => one.name.includes(word)).length;
  return one.title.startsWith(words[0]) ? 0
    : one.name.startsWith(words[0])     ? 1
    : named === words.length            ? 2
    : named                             ? 3
                                        : 4;
}

function show() {
  const wanted = read(box.value), totals = [],
        outcomes = outcome.value ? outcome.selectedOptions[0].dataset.words?.split('|') || [outcome.value] : [];
  if (release.value && !wanted.releases.length) wanted.releases = [release.value];
  const scope = new Set(wanted.scope.length ? [...wanted.scope, kAnyProgram] : []);
  const isAsked = wanted.words.length > 0 || wanted.scope.length > 0;
  for (const each of tables) {
    const isColumn = column => (!wanted.releases.length || wanted.releases.includes(column.release)) &&
      (!wanted.runtime || isRuntime(column.detail, wanted.runtime));
    const some = each.columns.filter(each === main || !wanted.runtime ? isColumn : () => true),
          columns = some.length ? some : each.columns;
    const fits = one => (!outcomes.length || columns.some(column => outcomes.includes(one.words[column.at]))) &&
      (!wanted.scope.length || one.tags.some(tag => scope.has(tag))) &&
      wanted.words.every(other => one.text.includes(other));
    const fitting = each.rows.filter(fits), isSorted = wanted.words.length > 0;
    if (isSorted) fitting.sort((a, b) => rankOf(a, wanted.words) - rankOf(b, wanted.words) || a.order - b.order);
    const here = new Set(fitting);
    for (const one of isSorted ? fitting : each.rows) {
      (isSorted ? each.found : one.body).append(one.row, ...one.notes ? [one.notes] : []);
    }
    for (const one of each.rows) for (const row of [one.row, one.notes]) if (row) row.hidden = !here.has(one);
    for (const body of each.bodies) body.hidden = isSorted || !fitting.some(one => one.body === body);
    if (fitting.length || each === main) totals.push(counted(fitting.length, each.table));
    each.count = fitting.length;
    each.fitting = fitting;
    if (each.part.dataset.folded !== undefined)
      each.part.querySelector('details').open = location.hash === '#operators' || isAsked && fitting.length > 0;
    const shown = columns.map(column => column.at).join();
    if (shown === each.shown) continue;
    each.shown = shown;
    const places = new Set(columns.map(column => column.at)), all = new Set(each.columns.map(column => column.at));
    for (const row of [each.table.tHead.rows[0], ...each.rows.map(one => one.row)]) {
      for (const at of all) row.cells[at].hidden = !places.has(at);
    }
  }
  count.textContent = totals.join(', ');
  answer.replaceChildren(...answerTo(wanted));
  const query = new URLSearchParams();
  for (const [key, value] of [['q', box.value.trim()], ['release', release.value], ['outcome', outcome.value]])
    if (value) query.set(key, value);
  history.replaceState(null, '', location.pathname + (String(query) ? '?' + query : '') + location.hash);
}

function link(url, words) {
  const element = document.createElement('a');
  element.href = url;
  element.textContent = words;
  return element;
}
function suggestion(words) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = words;
  button.addEventListener('click', () => { box.value = words; show(); box.focus(); });
  return button;
}

// The answer to a search beyond the filtered table.
function answerTo(wanted) {
  const parts = [], names = wanted.scope.map(tag => tags[tag][0]),
        text = [...names, ...names.length ? [] : wanted.words].join(names.length ? ', ' : ' ');
  if (wanted.releases.length > 1 && upgrade) {
    const [from, to] = [...wanted.releases].sort((a, b) => releases.indexOf(b) - releases.indexOf(a)).slice(0, 2);
    const asked = text ? `?text=${encodeURIComponent(text)}` : '';
    parts.push(
      link(`${upgrade}#compare/${from}/${to}${asked}`, `What ${from} to ${to} changes${text ? ` for ${text}` : ''}`),
      '. ');
  }
  if (wanted.runtime && isByRelease) {
    const those = main.columns.filter(column => isRuntime(column.detail, wanted.runtime)), first = those.at(-1),
          before = main.columns[main.columns.indexOf(first) + 1];
    parts.push(`CUDA ${wanted.runtime} comes with ${join(those.map(column => column.release))}; ${
      first.release} is the first on record. `);
    if (before && upgrade)
      parts.push(`${before.release} has ${before.detail}: `,
        link(`${upgrade}#compare/${before.release}/${first.release}`,
          `what ${before.release} to ${first.release} changes`),
        '. ');
    if (upgrade)
      parts.push(link(`libraries.html?q=${encodeURIComponent('CUDA ' + wanted.runtime)}`,
                   `CUDA ${wanted.runtime} with other releases, and alone`),
        '.');
  }
  if (names.length) {
    const any =
      main.fitting.filter(one => one.tags.includes(kAnyProgram) && !one.tags.some(tag => wanted.scope.includes(tag)))
        .length;
    parts.push(`${counted(main.count, main.table)} can affect a program with ${join(names)}${
      any ? `; ${any} of them can affect any program`
          : ''}. A gate with scope = ${JSON.stringify(names)} judges the same. `);
  }
  if (!tables.some(each => each.count)) {
    const near = [...new Set(wanted.words.flatMap(features.near))];
    parts.push('Nothing on record has these words. ');
    if (wanted.unknown.length)
      parts.push(`${join(wanted.unknown)} is not on record; there are ${join([...releases].reverse())}. `);
    if (near.length)
      parts.push('Did you mean ', ...near.flatMap((name, at) => [at ? ' or ' : '', suggestion(name)]), '?');
  }
  return parts;
}

const asked = new URLSearchParams(location.search);
box.value = asked.get('q') || '';
if (asked.get('release')) release.value = meantRelease(asked.get('release')) || '';
if (asked.get('outcome')) outcome.value = asked.get('outcome');
box.addEventListener('input', show);
for (const list of [release, outcome]) list.addEventListener('change', show);
addEventListener('hashchange', show);
show();
})();
