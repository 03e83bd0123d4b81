// Filters rows by what is typed, and columns by the release that is chosen. The tables are complete without it.
'use strict';
(() => {
// Links of the page that was one file.
if (/^#(compare|matrix|history)\b/.test(location.hash) && document.body.dataset.upgrade) {
  location.replace(document.body.dataset.upgrade + location.hash);
}
const box = document.getElementById('search');
if (!box) return;
const release = document.getElementById('release'), count = document.getElementById('count');
const tables = [...document.querySelectorAll('table[data-rows]')].map(table => ({
  table, part: table.closest('section'),
  groups: [...table.tBodies].map(body => ({body, rows: [...body.querySelectorAll('tr[data-text]')]})),
}));
// A number or a name in a longer text counts; so do a message's words in any order.
const words = text => text.toLowerCase().split(/[\s"'`,;:()]+/).filter(Boolean);

function show() {
  const wanted = words(box.value), at = release ? release.selectedIndex - 1 : -1, totals = [];
  for (const {table, part, groups} of tables) {
    let found = 0;
    for (const {body, rows} of groups) {
      let here = 0;
      for (const row of rows) {
        const isShown = wanted.every(word => row.dataset.text.includes(word));
        row.hidden = !isShown;
        if (isShown) ++here;
      }
      body.hidden = here === 0;
      found += here;
    }
    totals.push(`${found} ${found === 1 ? table.dataset.one : table.dataset.rows}`);
    if (part.dataset.folded !== undefined) part.querySelector('details').open = wanted.length > 0 && found > 0;
    if (table.dataset.releases === undefined) continue;
    for (const row of table.rows) {
      for (const [n, cell] of [...row.cells].entries()) {
        if (cell.colSpan === 1 && n > 0) cell.hidden = at >= 0 && n - 1 !== at;
      }
    }
  }
  count.textContent = totals.join(', ');
  const query = new URLSearchParams();
  if (box.value.trim()) query.set('q', box.value.trim());
  if (at >= 0) query.set('release', release.value);
  history.replaceState(null, '', location.pathname + (String(query) ? '?' + query : '') + location.hash);
}

const asked = new URLSearchParams(location.search);
box.value = asked.get('q') || '';
if (release && asked.get('release')) {
  const names = [...release.options].map(option => option.value), name = asked.get('release');
  // 2.6 is the newest release of that line; the newest stands first.
  const found = names.find(each => each === name || each.startsWith(name + '.'));
  if (found) release.value = found;
}
box.addEventListener('input', show);
if (release) release.addEventListener('change', show);
show();
})();
