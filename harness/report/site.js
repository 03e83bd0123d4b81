// Answers what is typed: the cause of an error text by the table of `recapture explain`, an operator by any of its
// names, a comparison of two releases, what is not on record. Filters the table, which is complete without it. What is
// typed, and what comes from records, becomes text nodes and attributes, never HTML.
'use strict';
(() => {
const upgrade = document.body.dataset.upgrade;
// Links of the former single-file page.
if (/^#(compare|matrix|history)\b/.test(location.hash) && upgrade) location.replace(upgrade + location.hash);
const byId = id => document.getElementById(id);

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== ''));
  return element;
}

const box = byId('search');
const data = JSON.parse(byId('data').textContent);
const release = byId('release'), outcome = byId('outcome'), count = byId('count'), answer = byId('answer'),
      first = byId('first');
const columns = data.columns.map(([name, detail], at) => ({at, release: name, detail}));
const releases = [...new Set(columns.map(column => column.release))];
const causes = (data.causes || []).map((cause, order) => ({...cause, order, met: cause.met || 0}));
const causeById = new Map(causes.map(cause => [cause.id, cause]));
const errors = (data.errors || [])
                 .map(([code, name, text, words, cause, shownBy, follows]) =>
                        ({code, name: name.toLowerCase(), text: text.toLowerCase(), words, cause, shownBy, follows}));
const machines = data.machines || {gpus: [], drivers: [], nightlies: []};
const plural = (number, one, more = one + 's') => `${number} ${number === 1 ? one : more}`;
const counted = (number, table) => `${number} ${number === 1 ? table.dataset.one : table.dataset.rows}`;
const join = words => words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;

const tables = [...document.querySelectorAll('table[data-rows]')].map(table => {
  const rows = [...table.querySelectorAll('tr[data-text]')].map((row, order) => ({
    row,
    order,
    text: row.dataset.text,
    name: row.dataset.name,
    id: row.dataset.id,
    met: Number(row.dataset.met || 0),
    severity: Number(row.dataset.severity || 0),
    title: row.cells[0].querySelector('a').textContent.toLowerCase(),
    tags: (row.dataset.tags || '').split(',').filter(Boolean).map(Number),
    words: [...row.dataset.words].map(letter => data.outcomes[letter.charCodeAt(0) - 97]),
    ranges: [...row.querySelectorAll('.ranges > li')]
  }));
  return {table, part: table.closest('section'), body: table.tBodies[0], rows, count: 0};
});
const main = tables[0], isFailures = main.table.dataset.rows === 'failures';
const isByRelease = releases.length === columns.length;
// Outcomes that a run has shown.
const shownOutcomes = new Set(
  ['works', ...[...outcome.options].flatMap(each => each.dataset.words?.split('|') || [])]);
const tags =
  [...document.querySelectorAll('#tags option')].map(option => [option.value, option.dataset.words.split('|')]);
const features = vocabularyOf(tags), kAnyProgram = tags.findIndex(([name]) => name === 'any program');

// ---- What is typed ----

// 2.6 is the newest release of that line; the newest comes first.
const meantRelease = word => releases.find(each => each === word || each.startsWith(word + '.'));
const isRuntime = (detail, version) =>
  detail.split(' and ').some(each => `${each.replace('CUDA ', '')}.`.startsWith(`${version}.`));
const hasRuntime = version => columns.some(column => isRuntime(column.detail, version));
const kConnecting = new Set(('a an and are between by can does fail fails for from go how i in is it move my of on ' +
  'or safe the to upgrade upgrading update what when which will with work works changes break breaks').split(' '));

// Finds releases, a CUDA runtime, features and other words in a text. Of features separated by commas one match is
// enough; a pasted message also has commas, and all of its words count.
function read(text) {
  const wanted = {text: text.trim(), rest: '', releases: [], unknown: [], runtime: '', scope: [], words: []};
  // The address of a thread, as the cases cite it: pytorch#168912.
  text = text.replace(/(?:https?:\/\/)?github\.com\/[\w.-]+\/([\w.-]+)\/(?:issues|pull)\/(\d+)\S*/gi, '$1#$2');
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
  if (wanted.releases.length)
    text = text.split(/\s+/).filter(word => !kConnecting.has(word.toLowerCase().replace(/\?$/, ''))).join(' ');
  wanted.rest = text.trim();
  const parts = text.split(',').map(part => part.trim()).filter(Boolean);
  wanted.scope = [...new Set(parts.map(features.of).filter(tag => tag !== undefined))];
  const rest = wanted.scope.length ? parts.filter(part => features.of(part) === undefined).join(' ') : text;
  wanted.words = rest.toLowerCase().split(/[\s"'`,;:()?]+/).filter(Boolean);
  return wanted;
}

// ---- The cause of a text, by explain's table, which `data` has ----
// One line that somebody typed needs fewer rules than a log. tools/page holds the answers to those of explain.

const isOfWord = letter => letter !== undefined && /\w/.test(letter);
function has(low, cue) {
  return cue.toLowerCase().split(' + ').every(part => {
    const isOpen = part.endsWith('*');
    if (isOpen) part = part.slice(0, -1);
    for (let at = low.indexOf(part); at >= 0; at = low.indexOf(part, at + 1)) {
      if (isOfWord(part[0]) && isOfWord(low[at - 1])) continue;
      if (isOpen || !isOfWord(part.at(-1)) || !isOfWord(low[at + part.length])) return true;
    }
    return false;
  });
}

// An error of CUDA's by its number, name or text; of several the one that does not follow from another.
function errorIn(low) {
  const number = /^(?:cuda\s*)?(?:error|failure|code)?\s*[:#(]*\s*(9\d\d)\)?\s*$/.exec(low) ||
    /\b(?:error|failure|code)\b[\s:#(]*(9\d\d)\b/.exec(low);
  const found = errors.filter(one => Number(number?.[1]) === one.code || low.includes(one.name) ||
                                     low.includes(one.text));
  const error = found.find(one => !one.follows) || found[0];
  return error && {...error, isNumber: !low.includes(error.name) && !low.includes(error.text)};
}

const patterns = new Map();
function matchLength(pattern, text) {
  if (!patterns.has(pattern)) {
    try {
      const isAnyCase = pattern.startsWith('(?i)');
      patterns.set(pattern, new RegExp(isAnyCase ? pattern.slice(4) : pattern, isAnyCase ? 'i' : ''));
    } catch (error) {  // An expression that only RE2 has.
      patterns.set(pattern, null);
    }
  }
  return patterns.get(pattern)?.exec(text)?.[0].length || 0;
}

const better = (a, b) => b.score - a.score || b.cause.met - a.cause.met || a.cause.order - b.cause.order;
// What a text proves, the strongest evidence first.
function evidenceFor(text, error) {
  const low = text.toLowerCase(), isName = !/\s/.test(text),
        isCode = /[([]/.test(text) && text.length < 120 && text.split(/\s+/).length < 7;
  const found = [];
  for (const cause of causes) {
    if (cause.only_possible) continue;
    const said = Math.max(0, ...(cause.says || []).filter(cue => has(low, cue)).map(cue => cue.length));
    let score = 0;
    if (said) {
      // As in explain: a case, then an entry that stands for several.
      score = (cause.victim ? 6 : cause.no_case ? 7.8 : 8) + said / 1000;
    } else if (error && !error.isNumber) {
      const named = [...cause.names || [], ...cause.calls || []].filter(cue => has(low, cue)).length;
      if (named && (cause.codes || []).includes(error.code)) score = 5 + named / 10;
    } else if (isCode) {
      const length = Math.max(0, ...(cause.statements || []).map(pattern => matchLength(pattern, text)));
      if (length) score = 7 + (cause.no_case ? 0 : 0.5) + length / 1000;
      else if (cause.title.toLowerCase().startsWith(bareName(text) + '(')) score = 6.5;
    } else if (isName && [...cause.names || [], ...cause.calls || []].some(name => name.toLowerCase() === low)) {
      score = 6 + ((cause.names || []).some(name => name.toLowerCase() === low) ? 0 : 0.1);
    } else if (isName && !operatorsFor(text).exact.length) {  // The name of a method.
      const length = Math.max(0, ...(cause.statements || []).map(pattern => matchLength(pattern, `x.${text}()`)));
      if (length > text.length) score = 5.5 + length / 1000;
    } else if (!isName && /captur|graph/.test(low)) {
      const count = (cause.symptoms || []).filter(pattern => matchLength(pattern, low)).length;
      if (count) score = 4 + count / 10;
    }
    if (score) found.push({cause, score, isSaid: said > 0});
  }
  return found.sort(better).slice(0, 5);
}

// The words of a text without endings, as explain's table has them.
const kEndings = data.endings || [];
function termsOf(text) {
  const terms = new Set();
  const add = word => {
    word = word.replace(/^_+|_+$/g, '');
    if (word.length < 3 || /^\d/.test(word)) return;
    const ending = kEndings.find(each => word.length >= each.length + 4 && word.endsWith(each));
    terms.add(ending ? word.slice(0, -ending.length) : word);
  };
  for (const word of text.toLowerCase().match(/[a-z0-9_]+/g) || []) {
    add(word);
    if (word.includes('_')) word.split('_').forEach(add);
  }
  return terms;
}
let weights = null;
// The causes whose words a text has most of: a guess.
function guessFor(text) {
  weights = weights ||
    causes.filter(cause => cause.terms).map(cause => ({
      cause,
      terms: new Map(cause.terms.split(' ').map(each => each.split(':'))
                       .map(([term, weight]) => [term, Number(weight)]))
    }));
  const known = [...termsOf(text)].filter(term => weights.some(one => one.terms.has(term)));
  if (known.length < 2) return [];
  const found = weights.map(({cause, terms}) => {
    const some = known.filter(term => terms.has(term));
    return {cause, covered: some.length, score: some.reduce((sum, term) => sum + terms.get(term), 0)};
  });
  const best = Math.max(...found.map(one => one.score));
  return found.filter(one => one.covered >= Math.max(2, known.length * 0.4) && one.score >= best * 0.6)
    .sort(better)
    .slice(0, 5);
}

// ---- Operators ----

const operators = (data.operators || []).map(([call, name, course, advice, later]) => ({
  call, name, course, advice, later, bare: [bareName(call), bareName(name)], isCaptured: course.startsWith('captured')
}));
function operatorsFor(text) {
  const bare = bareName(text);
  if (!bare || /\s/.test(text.trim())) return {exact: [], near: []};
  const exact = operators.filter(one => one.bare.includes(bare));
  const near = bare.length < 3 ? []
    : operators.filter(one => !exact.includes(one) && one.bare.some(name => name.includes(bare)));
  return {exact, near};
}

// ---- What differs between two releases ----

const badge = word => make('span', {class: `o ${word.replaceAll(' ', '-')}`}, word);

// What a row has in a column: the outcome, and of several tests how many show it.
function contentIn(one, at) {
  const range =
    isByRelease && one.ranges.find(each => at >= Number(each.dataset.from) && at <= Number(each.dataset.to));
  return {word: one.words[at], part: range && range.querySelector('.part')?.textContent || ''};
}

// The first place where a row differs, in the order in which the releases were typed: a release has a column, or one
// for each GPU.
function differenceOf(one, from, to) {
  for (const before of columns.filter(column => column.release === from)) {
    const after = columns.find(column => column.release === to && (isByRelease || column.detail === before.detail));
    if (!after || !shownOutcomes.has(one.words[before.at]) || !shownOutcomes.has(one.words[after.at])) continue;
    const [was, is] = [before, after].map(column => contentIn(one, column.at));
    if (was.word !== is.word || was.part !== is.part) return {was, is, detail: isByRelease ? '' : before.detail};
  }
  return null;
}

function markDifference(one, difference, from, to) {
  one.row.querySelector('.differs')?.remove();
  if (!difference) return;
  const {was, is, detail} = difference;
  const side = (name, {word, part}) =>
    make('div', {}, `${name}: `, badge(word), part ? make('span', {class: 'note part'}, ` ${part}`) : '');
  one.row.cells[1].prepend(make('div', {class: 'differs'}, make('b', {}, detail ? `changes on ${detail}` : 'changes'),
    side(from, was), side(to, is)));
}

// ---- The table ----

const titleRank = (one, words) => words.every(word => one.title.includes(word)) ? 0
  : words.every(word => one.name.includes(word))                               ? 1
                                                                               : 2;

function show() {
  const wanted = read(box.value), isTyped = wanted.text !== '';
  const outcomes = outcome.value ? outcome.selectedOptions[0].dataset.words?.split('|') || [outcome.value] : [];
  const isUpgrade = wanted.releases.length > 1;
  if (release.value && !wanted.releases.length) wanted.releases = [release.value];
  wanted.error = isUpgrade ? undefined : errorIn(wanted.rest.toLowerCase());
  wanted.evidence = isUpgrade || !isTyped ? [] : evidenceFor(wanted.rest, wanted.error);
  wanted.operators = isUpgrade || !isTyped ? {exact: [], near: []} : operatorsFor(wanted.rest);
  const words = wanted.operators.exact.length ? [bareName(wanted.rest)] : wanted.words;
  const scope = new Set(wanted.scope.length ? [...wanted.scope, kAnyProgram] : []);
  const shown = columns.filter(column => (!wanted.releases.length || wanted.releases.includes(column.release)) &&
    (!wanted.runtime || isRuntime(column.detail, wanted.runtime)));
  const places = shown.length ? shown : columns, at = new Set(places.map(column => column.at));
  const isChosen = one => !outcomes.length || places.some(column => outcomes.includes(one.words[column.at]));
  const hasWords = one => words.every(word => one.text.includes(word)) ||
    (!isFailures && wanted.text && wanted.text.length > 2 && one.name.includes(bareName(wanted.text)));

  const failing = main.rows.filter(
    one => isChosen(one) && (!wanted.scope.length || one.tags.some(tag => scope.has(tag))) && hasWords(one));
  wanted.guess = isFailures && isTyped && !isUpgrade && !wanted.evidence.length && !wanted.error && !failing.length &&
      !wanted.operators.exact.length
    ? guessFor(wanted.rest) : [];
  const proved = new Map();
  for (const {cause} of [...wanted.evidence, ...wanted.guess])
    for (const id of [cause.id, ...cause.also || []]) if (!proved.has(id)) proved.set(id, proved.size);

  const [from, to] = wanted.releases;
  const differences = new Map();
  for (const one of isFailures ? main.rows : []) {
    const difference = isUpgrade ? differenceOf(one, from, to) : null;
    if (difference) differences.set(one, difference);
    markDifference(one, difference, from, to);
  }
  for (const each of tables) {
    const isMain = each === main;
    let fitting = isMain ? failing
                         : each.rows.filter(one => !isTyped || one.name.includes(bareName(wanted.text)));
    if (isMain && proved.size) {
      const more = each.rows.filter(one => proved.has(one.id) && isChosen(one) && !fitting.includes(one));
      fitting = [...more, ...fitting];
    }
    // What only follows from another failure stands above the table.
    if (isMain && wanted.error?.follows) fitting = fitting.filter(one => one.id !== wanted.error.shownBy);
    const isSorted = isMain && isFailures && isTyped && (isUpgrade || words.length > 0 || wanted.scope.length > 0);
    const exact = new Set(wanted.operators.exact.map(one => one.name));
    const rank = one => isFailures
      ? [differences.has(one) ? 0 : 1, proved.get(one.id) ?? 1000,
         wanted.scope.length && !one.tags.some(tag => wanted.scope.includes(tag)) ? 1 : 0,
         words.length ? titleRank(one, words) : 0, -one.met, -one.severity, one.order]
      : [one.name.split(' ').some(name => bareName(name) === bareName(wanted.text)) ? 0 : 1, one.order];
    const compare = (a, b) => rank(a).reduce((so, value, n) => so || value - rank(b)[n], 0);
    const sorted = isSorted || !isFailures && isTyped ? [...fitting].sort(compare) : each.rows;
    each.body.append(...sorted.map(one => one.row));
    const here = new Set(fitting);
    for (const one of each.rows) {
      one.row.hidden = !here.has(one);
      if (!isMain) continue;
      for (const item of one.ranges)
        item.hidden = (isByRelease && differences.has(one)) ||
          ![...at].some(place => place >= item.dataset.from && place <= item.dataset.to);
    }
    each.count = fitting.length;
    each.fitting = isSorted ? sorted : fitting;
    each.part.hidden = fitting.length === 0;
  }
  if (first) first.hidden = isTyped;
  if (isFailures) {
    const changed = failing.filter(one => differences.has(one)).length;
    byId('failures').textContent = isUpgrade
      ? `${changed} of ${counted(main.count, main.table)} change from ${from} to ${to}`
      : isTyped ? 'Failures' : 'All failures';
  }
  document.body.classList.toggle('answers', isTyped);
  const named = isFailures ? wanted.operators.exact.length + wanted.operators.near.length : 0;
  count.textContent = [...tables.filter(each => each.count).map(each => counted(each.count, each.table)),
    ...named ? [plural(named, 'operator')] : []].join(', ');
  answer.replaceChildren(...answerTo(wanted, isUpgrade));
  for (const each of main.rows) each.row.removeAttribute('data-hit');
  const top = main.fitting.find(one => !one.row.hidden);
  if (top && isTyped) top.row.dataset.hit = isFailures ? `failure ${top.id}` : `operator ${top.row.id}`;
  const query = new URLSearchParams();
  for (const [key, value] of [['q', wanted.text], ['release', release.value], ['outcome', outcome.value]])
    if (value) query.set(key, value);
  history.replaceState(null, '', location.pathname + (String(query) ? '?' + query : '') + location.hash);
}

// ---- The answer above the table ----

function suggestion(words) {
  return make('button', {type: 'button', click: () => { box.value = words; show(); box.focus(); }}, words);
}
const link = (url, words, hit) => make('a', {href: url, 'data-hit': hit}, words);
const card = (hit, ...children) => make('div', {class: 'card', 'data-hit': hit}, children);
const hitOf = cause => `${cause.no_case ? 'cause' : 'failure'} ${cause.id}`;

function metWords(cause) { return cause.met ? ` Met in ${plural(cause.met, 'thread')}.` : ''; }

// "`recapture blame` names it", with its code.
const withCode = words => words.split('`').map((part, at) => at % 2 ? make('code', {}, part) : part);

// A cause with what to do, and the page that has the rest.
function causeCard(cause, words) {
  return card(hitOf(cause), words ? make('p', {}, withCode(words)) : '',
    make('p', {class: 'title'}, link(cause.url, cause.title)),
    cause.fix ? make('p', {}, make('b', {}, 'Instead: '), cause.fix) : '', make('p', {class: 'note'}, metWords(cause)));
}

// The case's row has what the table of causes lacks.
function causeOrCase(id) {
  const row = main.rows.find(one => one.id === id);
  const anchor = row?.row.querySelector('a');
  return causeById.get(id) || anchor && {id, title: anchor.textContent, url: anchor.href};
}

function errorCard({code, words, cause, shownBy, follows, isNumber}) {
  const one = causeOrCase(isNumber || follows ? shownBy : cause);
  const below = [make('p', {}, 'To see the call: ', make('code', {}, 'recapture blame -- python train.py')),
    make('p', {class: 'note'}, 'Below: the failures that give it, those first that people meet most.')];
  if (follows && one) {  // Its own fix is none for the call that broke the capture.
    const shown = causeCard({...one, fix: ''}, words);
    shown.append(...below);
    return shown;
  }
  if (one && cause) return causeCard(one, words);
  return card(`error ${code}`, make('p', {}, withCode(words)), below);
}

// What is asked for and is not on record, or is only part of it, with what is.
const kGpus = new RegExp('^(?:nvidia |amd )?(?:geforce |tesla )?(?:[abhlptv]\\d{2,3}s?|gh200|gb[23]00|' +
                           'rtx ?\\w*\\d+\\w*|mi\\d{3}\\w*|' +
                           'jetson\\w*|orin|thor|ampere|hopper|blackwell|turing|volta|ada|rocm|amd|mps)$', 'i');
function notesOn(wanted) {
  const {text} = wanted, gpu = kGpus.exec(text.replace(/ (?:gpu|80gb|40gb|sxm\d?|pcie)$/i, '')),
        driver = /^(?:nvidia[ -]?)?drivers?(?: version)?\s*(?:r)?([\d.]*)$/i.exec(text), notes = [];
  const measured = ['What another one does is not measured: what CUDA forbids in a capture does not depend on it, ' +
      'memory and timing may. ', make('code', {}, 'recapture run'), ' runs the cases on yours.'];
  if (gpu) {
    const known = machines.gpus.filter(name => name.toLowerCase().includes(gpu[0].toLowerCase()));
    notes.push(card('note gpu', make('p', {},
      known.length ? `On record: ${join(known)}. ` : `${text} is not on record. `,
      known.length ? link('gpus.html', 'Each failure by GPU') : `The records are of ${join(machines.gpus)}. `,
      known.length ? `. All records are of ${join(machines.gpus)}.` : measured)));
  }
  if (driver) {
    const known = machines.drivers.filter(name => name.startsWith(driver[1]));
    notes.push(card('note driver', make('p', {},
      driver[1] && !known.length ? `Driver ${driver[1]} is not on record. ` : '',
      `The records are of driver ${join(machines.drivers)}. `, measured)));
  }
  if (/\bnightl(?:y|ies)\b|\.dev\d/i.test(text))
    notes.push(card('note nightly', make('p', {},
      machines.nightlies.length ? `On record: ${join(machines.nightlies)}. `
                                : 'No nightly build of PyTorch is on record. ',
      `The newest release on record is ${releases[0]}. `, make('code', {}, 'recapture nightly'),
      ' plans, collects and compares a night of your own.')));
  if (wanted.unknown.length)
    notes.push(card('note release', make('p', {},
      `${join(wanted.unknown)} is not on record; there are ${join(releases)}.`)));
  return notes;
}

function operatorRows({exact, near}) {
  const most = 8, some = [...exact, ...near].slice(0, most);
  if (!some.length) return [];
  const rest = exact.length + near.length - some.length;
  return [make('section', {class: 'card'}, make('h2', {}, exact.length ? 'As an operator' : 'Operators with this name'),
    make('ul', {class: 'plain'}, some.map(one => make('li', {'data-hit': `operator ${one.name}`},
      link(`operators.html?q=${encodeURIComponent(one.call)}`, make('code', {}, one.call)),
      one.call.endsWith(one.name) ? '' : make('span', {class: 'note'}, ` (${one.name})`), ': ', one.course, ' ',
      one.isCaptured || !one.advice ? '' : make('span', {class: 'note'}, one.advice),
      one.later ? make('div', {class: 'note'}, make('strong', {}, 'Later: '), withCode(one.later)) : ''))),
    rest > 0 ? link(`operators.html?q=${encodeURIComponent(bareName(box.value))}`, `${rest} more`) : '')];
}

function answerTo(wanted, isUpgrade) {
  const parts = [], names = wanted.scope.map(tag => tags[tag][0]),
        text = [...names, ...names.length ? [] : wanted.words].join(names.length ? ', ' : ' ');
  if (isUpgrade && upgrade) {
    const typed = read(box.value).releases, asked = text ? `?text=${encodeURIComponent(text)}` : '';
    const [from, to] = [typed[0], typed[1]];
    parts.push(card(null, make('p', {class: 'title'},
      link(`${upgrade}#compare/${from}/${to}${asked}`, `What ${from} to ${to} changes${text ? ` for ${text}` : ''}`,
        `upgrade ${from} ${to}${text ? ` ${text}` : ''}`),
      '.'),
      isFailures ? make('p', {class: 'note'}, 'There each test is compared, and the gate answers. Below: each ' +
        'failure by its worst test; those that change stand first.') : ''));
  }
  if (isFailures && !isUpgrade) parts.push(...notesOn(wanted));
  const {evidence, guess, error} = wanted, best = evidence[0];
  if (best && (best.isSaid || !error)) {
    parts.push(causeCard(best.cause, best.isSaid ? best.cause.answer : ''));
  } else if (best) {
    parts.push(causeCard(best.cause, `The text names it, beside CUDA error ${error.code}.`));
  } else if (error) {
    const named = causeById.get(error.cause);
    parts.push(error.isNumber || error.follows || !named ? errorCard(error) : causeCard(named, error.words));
  } else if (guess.length) {
    parts.push(causeCard(guess[0].cause, 'Perhaps, by the words:'));
  }
  if (isFailures) {
    const ofOperators = operatorRows(wanted.operators);
    if (wanted.operators.exact.length || !main.count) parts.push(...ofOperators);
  }
  if (wanted.runtime && upgrade && isFailures) {
    const those = columns.filter(column => isRuntime(column.detail, wanted.runtime)), oldest = those.at(-1),
          before = columns[columns.indexOf(oldest) + 1];
    const words = [`CUDA ${wanted.runtime} comes with ${join(those.map(column => column.release))}; ${
      oldest.release} is the first on record. `];
    if (before)
      words.push(`${before.release} has ${before.detail}: `,
        link(`${upgrade}#compare/${before.release}/${oldest.release}`,
          `what ${before.release} to ${oldest.release} changes`), '. ');
    words.push(link(`libraries.html?q=${encodeURIComponent('CUDA ' + wanted.runtime)}`,
      `CUDA ${wanted.runtime} with other releases, and alone`), '.');
    parts.push(make('p', {}, words));
  }
  if (names.length && main.count) {
    const any =
      main.fitting.filter(one => one.tags.includes(kAnyProgram) && !one.tags.some(tag => wanted.scope.includes(tag)))
        .length;
    parts.push(make('p', {}, `${counted(main.count, main.table)} can affect a program with ${join(names)}${
      any ? `; ${any} of them can affect any program`
          : ''}. A gate with scope = ${JSON.stringify(names)} judges the same.`));
  }
  if (wanted.text && !parts.length && !tables.some(each => each.count)) {
    const near = [...new Set(wanted.words.flatMap(features.near))];
    parts.push(card('note nothing', make('p', {}, 'Nothing on record has these words. ',
      near.length ? ['Did you mean ', near.flatMap((name, at) => [at ? ' or ' : '', suggestion(name)]), '?']
                  : ['Paste the error line, or name a call such as ', suggestion('loss.item()'),
                     ', an operator such as ', suggestion('F.one_hot'),
                     ', or two releases such as ', suggestion('2.9 to 2.13'), '.'])));
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
