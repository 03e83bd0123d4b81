// Shows the data embedded in the page. It counts, filters and arranges; results were judged when the page was made.
// Texts come from records, which anyone may have written: they become text nodes and attributes, never HTML.
'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const text = number => data.texts[number];
const list = number => data.lists[number];
const counted = (count, one, many = one + 's') => `${count} ${count === 1 ? one : many}`;

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter(child => child !== null && child !== ''));
  return element;
}

function link(url, words) {
  return /^https?:\/\//i.test(url) ? make('a', {href: url, rel: 'noreferrer'}, words) : make('span', {}, words);
}

// ---- The data, by name ----

const cases = data.cases.map((one, number) => {
  const all = {number, tests: []};
  for (const [key, value] of Object.entries(one))
    all[key] = key === 'cites' ? value : key === 'tags' ? list(value) : text(value);
  return all;
});
const tests = data.tests.map(([of, name, effect, fix], number) => {
  const one = {number, of: cases[of], name: text(name), effect: text(effect), fix: text(fix)};
  one.id = one.of.id + '.' + one.name;
  one.of.tests.push(one);
  return one;
});
// The site has a page of operators, and its brand leads to its first page.
if (byId('site')) {
  byId('tab-operators').hidden = true;
  document.querySelector('.brand').href = 'index.html';
  const [view, query] = location.hash.slice(1).split('?');
  if (view === 'operators')
    location.replace(`operators.html?q=${encodeURIComponent(new URLSearchParams(query).get('text') || '')}`);
}
// Operators have a table of their own, and simulated cases belong to no machine.
const matrixCases = cases.filter(one => one.family !== 'operators' && one.fidelity !== 'simulated');
const caseById = new Map(cases.map(one => [one.id, one]));
const testById = new Map(tests.map(one => [one.id, one]));
for (const one of cases) {
  const cited = (one.cites ||
    []).flatMap(([words, sources]) => [text(words), ...list(sources).flatMap(n => data.sources[n].map(text))]);
  one.words = [
    one.id, one.family, one.title, one.why, one.documented, ...cited, ...one.tests.flatMap(t => [t.name, t.fix])
  ].join('\n').toLowerCase();
}
const columns = data.columns.map((one, number) => {
  const host = text(one.machine), chosen = text(one.chosen);
  const failing = new Map(one.failing.map(([of, outcome]) => [of, data.outcomes[outcome]]));
  const partly = new Map(one.partly.map(([of, lacking, all]) => [of, `${lacking} of ${counted(all, 'test')}`]));
  return {
    ...one,
    failing,
    partly,
    number,
    host,
    chosen,
    machine: host + chosen,
    release: text(one.release),
    runtime: text(one.runtime),
    name: text(one.name)
  };
});
const runs = data.runs.map(
  (one, number) => ({...one, number, on: columns[one.column], started: text(one.started), path: text(one.path)}));
const machines = data.compared.map(one => ({name: text(one.name), releases: one.releases.map(text), pairs: one.pairs}));
const releases = data.releases.map(text);
const consequences =
  data.consequences.map(([word, meaning, hurts, tone, , one, several]) =>
                          ({word, meaning, hurts, tone, counted: count => `${count} ${count === 1 ? one : several}`}));
// Consequences of operators only if there are any.
const isShown = data.consequences.map(([, , , , ofOperators], n) => !ofOperators ||
    machines.some(one => one.pairs.flat().some(pair => pair && pair.counts[n])));
const consequenceTag = number => make('span', {class: `tag ${consequences[number].tone}`}, consequences[number].word);
const dateOf = run => run.started.slice(0, 10) || 'no date';
const timeOf = run => run.started.replace('T', ' ').slice(0, 16) || 'no date';
const titleOf = column => `${/^\d/.test(column.release) ? 'LibTorch ' : ''}${column.release}, ${column.machine}`;

function observation(number) {
  const [result, verdict, seen, effect, reason, call, stack, message, exception, after, documented, healthy, raisedBy] =
    data.observations[number];
  return {
    result: result < 0 ? 'not run' : data.results[result],
    ran: result >= 0,
    verdict: data.verdicts[verdict],
    tone: data.tones[verdict],
    seen: text(seen || 0),
    effect: text(effect || 0),
    reason: data.reasons[reason || 0],
    call: text(call || 0),
    stack: list(stack || 0).map(text),
    message: text(message || 0),
    exception: text(exception || 0),
    after: text(after || 0),
    documented: text(documented || 0),
    healthy: text(healthy || 0),
    raisedBy: text(raisedBy || 0)
  };
}

// The index of a test in a list of tests.
const known = new Map();
function positionIn(listNumber, test) {
  if (!known.has(listNumber)) known.set(listNumber, new Map(list(listNumber).map((number, at) => [number, at])));
  return known.get(listNumber).get(test.number);
}
function resultIn(run, test) {
  const at = positionIn(run.tests, test);
  return at === undefined ? null : {run, seen: observation(run.seen[at])};
}
function newestIn(column, test) {
  const at = positionIn(column.tests, test);
  return at === undefined ? null : {run: runs[column.runs[at]], seen: observation(column.seen[at])};
}

// ---- The selection, which is the part after the # ----

const kPlaces = {compare: ['from', 'to', 'on'], matrix: [], history: ['test'], operators: []};
const kQuery = {
  compare: ['show', 'text', 'case'],
  matrix: ['family', 'verdict', 'text', 'case', 'at'],
  history: ['case'],
  operators: ['text', 'verdict']
};
const kHeadings = {
  compare: 'What an upgrade changes',
  matrix: 'All results',
  history: 'The history of the records',
  operators: 'Which operators can be captured'
};
let state = {};

function fragment(chosen) {
  const places = kPlaces[chosen.view].map(key => encodeURIComponent(chosen[key] || ''));
  while (places.length && !places[places.length - 1]) places.pop();
  const query = new URLSearchParams();
  for (const key of kQuery[chosen.view]) if (chosen[key]) query.set(key, chosen[key]);
  const words = query.toString();
  return '#' + [chosen.view, ...places].join('/') + (words ? '?' + words : '');
}

function fromFragment() {
  const [path, query] = location.hash.slice(1).split('?');
  const decoded = part => { try { return decodeURIComponent(part); } catch (error) { return part; } };
  const places = path.split('/').map(decoded);
  const chosen = {view: Object.hasOwn(kPlaces, places[0]) ? places[0] : 'compare'};
  kPlaces[chosen.view].forEach((key, at) => { chosen[key] = places[at + 1] || ''; });
  for (const [key, value] of new URLSearchParams(query || ''))
    if (kQuery[chosen.view].includes(key)) chosen[key] = value;
  return chosen;
}

function choose(change, how = 'pushState') {
  const before = fragment(state);
  state = {...state, ...change};
  if (fragment(state) !== before) history[how](null, '', fragment(state));
  show();
}

const kept = {};   // The selection of each view, restored when the user returns to its tab.
const drawn = {};  // What each view shows: redrawn only if that changes, so that focus stays.
function show() {
  kept[state.view] = {...state, case: '', at: ''};
  byId('heading').textContent = kHeadings[state.view];
  for (const view of Object.keys(kPlaces)) {
    const tab = byId('tab-' + view), here = view === state.view;
    tab.setAttribute('aria-selected', here);
    tab.tabIndex = here ? 0 : -1;
    byId('view-' + view).hidden = !here;
  }
  const chosen = fragment({...state, case: '', at: ''});
  if (drawn[state.view] !== chosen) {
    drawn[state.view] = chosen;
    ({compare: showCompare, matrix: showMatrix, history: showHistory, operators: showOperators})[state.view]();
  }
  showDetail();
}

// ---- The filter ----

const vocabulary = vocabularyOf(data.tags.map(([name, , words]) => [name, words])), tagOf = vocabulary.of;
byId('tags').append(...data.tags.map(([name, meaning]) => make('option', {value: name, label: meaning})));

// Tags select the cases that a gate with that scope has; any other word is searched in texts. Of several words
// separated by commas, one match is enough.
function filterOf(words) {
  const wanted = (words || '').split(',').map(word => word.trim()).filter(Boolean),
        tags = wanted.map(tagOf).filter(tag => tag !== undefined);
  const scope = new Set(tags.length ? [...tags, data.any_program] : []),
        looked = wanted.filter(word => tagOf(word) === undefined).map(word => word.toLowerCase());
  return {
    isOn: wanted.length > 0,
    near: [...new Set(looked.flatMap(vocabulary.near))],
    scope: looked.length ? [] : [...new Set(tags)].map(tag => data.tags[tag][0]),
    has: (one, more = () => []) => !wanted.length || (one.tags || []).some(tag => scope.has(tag)) ||
      looked.some(word => one.words.includes(word) || more().some(other => other.toLowerCase().includes(word)))
  };
}

// ---- Compare ----

const comparable = machines.filter(one => one.releases.length > 1);
const changesOf = pair => pair.groups.map(group => group.map(change => changeOf(change, pair)));
function changeOf([number, before, after], {from, to}) {
  const [consequence, of, changed, was, is, note, fixes, advices, upstream] = data.changes[number];
  const words = {was: text(was), is: text(is), note: text(note), from, to};
  return {
    consequence,
    of: cases[of],
    tests: list(changed).map(n => tests[n]),
    sentence: data.sentence.replace(/{(\w+)}/g, (_, name) => words[name]),
    fixes: list(fixes).map((n, at) => ({words: text(n), advice: data.advice[list(advices)[at]]})),
    upstream: list(upstream).map(n => {
      const [what, id, since, title, url] = data.upstream[n].map(text);
      return {what, id, since, title, url};
    }),
    before: runs[before],
    after: runs[after]
  };
}

// Resolves a name as `compare` does: "2.6" is the newest release with that prefix.
function meantRelease(word) {
  const wanted = (word || '').split('+')[0];
  if (!wanted || releases.includes(word)) return word;
  return releases.filter(one => /^\d/.test(one) && (one === wanted || one.startsWith(wanted + '.'))).pop() || word;
}

// The chosen pair; of several machines the one that `compare` uses. If it is not recorded, `absent` has the message,
// and no other pair replaces it.
function chosenPair() {
  if (!comparable.length) return null;
  const [first, firstFrom, firstTo] = data.first || [], from = meantRelease(state.from), to = meantRelease(state.to);
  const ran = (one, name) => !name || one.releases.includes(name), has = one => ran(one, from) && ran(one, to);
  const isTaken = one => one.pairs[one.releases.indexOf(from)]?.[one.releases.indexOf(to)]?.taken;
  const begin = machines[first] || comparable[0];
  const machine = state.on ? comparable.find(one => one.name === state.on)
                           : comparable.find(isTaken) || [begin, ...comparable].find(has);
  const absent = absentWords(from, to, machine, ran);
  if (absent) return {absent, machine: machine || begin, from, to};
  let at = machine.releases.indexOf(from), next = machine.releases.indexOf(to);
  const last = machine.releases.length - 1;
  if (at < 0 && next < 0) [at, next] = machine === machines[first] ? [firstFrom, firstTo] : [0, last];
  if (at < 0) at = next === 0 ? 1 : 0;
  if (next < 0) next = at === last ? 0 : last;
  return {machine, from: machine.releases[at], to: machine.releases[next], ...machine.pairs[at][next]};
}

// The newest first, builds without LibTorch last.
const newestFirst = names =>
  [...names.filter(name => /^\d/.test(name)).reverse(), ...names.filter(name => !/^\d/.test(name))];

function absentWords(from, to, machine, ran) {
  const nowhere = [from, to].filter(name => name && !releases.includes(name));
  if (nowhere.length)
    return `There are no records of ${nowhere.join(' or of ')}, but of ${newestFirst(releases).join(', ')}.`;
  if (state.on && !machine)
    return `No machine that ran two releases is called ${state.on}; there are: ${
      comparable.map(one => one.name).join('; ')}.`;
  if (from && from === to) return `${from} is both sides; choose two releases.`;
  const names = [from, to].filter(Boolean),
        ranOn = name => machines.filter(one => one.releases.includes(name)).map(one => one.name).join('; ');
  if (!machine)
    return `No machine ran ${names.length > 1 ? 'both ' : ''}${names.join(' and ')}${
      names.length > 1
        ? ''
        : ' and another release'}; ${names.map(name => `${name} ran on ${ranOn(name)}`).join(', and ')}.`;
  const lacking = [from, to].filter(name => !ran(machine, name));
  return lacking.length ? `${machine.name} did not run ${lacking.join(' and ')}, but ${
                          newestFirst(machine.releases).join(', ')}.`
                        : '';
}

// The option of `recapture compare` that selects the machine, if there are several.
function machineOption(name) {
  const [gpu, driver] = name.split(', driver '), others = comparable.filter(one => one.name !== name);
  if (!others.length) return '';
  return ` --gpu '${gpu === 'no GPU' ? 'none' : gpu}'` +
    (others.some(one => one.name.startsWith(gpu)) && driver ? ` --driver ${driver.split(',')[0]}` : '') +
    name.split(', ')
      .map(word => word.replace(/^CUDA runtime (.*)/, ' --cuda-runtime $1').replace(/^NCCL (.*)/, ' --nccl $1'))
      .filter(word => word.startsWith(' --'))
      .join('');
}

const legend =
  consequences.flatMap(({word, meaning, tone}, n) =>
                         isShown[n] ? [[n, make('span', {class: tone}, make('b', {}, word), `: ${meaning}`)]] : []);

function options(select, words, chosen) {
  select.replaceChildren(...words.map(word => make('option', {}, word)));
  select.value = chosen;
}

const isChange = n => n !== data.same && n !== data.unknown;
const kAll = consequences.map((_, n) => n), kHurting = kAll.filter(n => consequences[n].hurts),
      kHarmless = kAll.filter(n => !consequences[n].hurts && isChange(n));
const sum = counts => counts.reduce((total, count) => total + count, 0);

// The headline counts the filtered changes. Its tone is that of the gate's answer; of any other filter that of the
// worst.
function headlineOf({counts, inTests, notMeasured, prices, hasOutside, gate}, filter) {
  const where = filter.isOn ? 'In this filter: ' : '';
  const countedOf = numbers => numbers.filter(n => counts[n]).map(n => consequences[n].counted(counts[n]));
  const hurting = countedOf(kHurting), harmless = [
    ...countedOf(kHarmless), ...prices ? [counted(prices, 'price of a fix changed', 'prices of fixes changed')] : []
  ];
  if (!sum(inTests) && !notMeasured)
    return {words: 'There is nothing in this filter.', tone: gate ? gate.tone : hasOutside ? 'amber' : 'grey'};
  const words = hurting.length ? hurting : harmless.length ? harmless : ['nothing changes'];
  const worst = hurting.length ? consequences[kHurting.find(n => counts[n])].tone : hasOutside ? 'amber' : 'grey';
  return {words: `${where}${words.join(', ')}.`, tone: gate ? gate.tone : worst};
}

// The answer of `recapture gate`, computed where the page was made: without a scope, or with one feature.
const gateAnswers = {0: ['passes', 'green'], 1: ['is blocked', 'red'], 6: ['cannot tell', 'amber']};
function gateOf(pair, filter) {
  if (!pair.gate || (filter.isOn && filter.scope.length !== 1)) return null;
  const [exit, judged, unknown, notMeasured, why] =
    data.gates[list(pair.gate)[filter.isOn ? tagOf(filter.scope[0]) + 1 : 0]],
                                             [words, tone] = gateAnswers[exit];
  return {
    exit,
    words,
    tone,
    why: list(why).map(text).join('; '),
    figures:
      `${judged} of ${judged + unknown + notMeasured} tests judged, ${unknown} unknown, ${notMeasured} not measured`
  };
}

// Regressions that are not shown: "outside this filter: 1 new damage (…)".
function outsideWords(groups) {
  return kHurting.flatMap(n => {
    const some = groups.filter(group => group[0].consequence === n);
    if (!some.length) return [];
    const names =
      [...new Set(some.flat().map(change => change.of))].flatMap((one, at) => [at ? ', ' : '', caseButton(one)]);
    return [['; ', `${some.length} `, consequenceTag(n), ' (', names, ')']];
  }).flat(2).slice(1);
}

function showCompare() {
  const pair = chosenPair(), focused = document.activeElement && document.activeElement.dataset.word;
  byId('compare-text').value = state.text || '';
  for (const id of ['outside', 'gate', 'figures', 'head', 'changes']) byId(id).replaceChildren();
  byId('legend').hidden = !pair || Boolean(pair.absent);
  byId('answer').className = '';
  if (!pair) {
    for (const id of ['from', 'to', 'machine', 'swap']) byId(id).disabled = true;
    byId('answer').replaceChildren(
      'No two releases on record ran on the same machine, so there is nothing to compare.');
    return;
  }
  options(byId('machine'), comparable.map(one => one.name), pair.machine.name);
  options(byId('from'), newestFirst(pair.machine.releases), pair.from);
  options(byId('to'), newestFirst(pair.machine.releases), pair.to);
  if (pair.absent) {
    byId('answer').replaceChildren(pair.absent);
    return;
  }
  const filter = filterOf(state.text);
  const fits = change => filter.has(change.of,
    () => [change.sentence, ...change.fixes.map(fix => fix.words), ...change.upstream.flatMap(Object.values)]);
  const whole = changesOf(pair), groups = whole.map(group => group.filter(fits)).filter(group => group.length);
  // Operators are listed only where they changed. The others count, as in `compare` and the gate.
  const ofOperators = count => caseById.has('operators') && filter.has(caseById.get('operators')) ? count || 0 : 0;
  const unknown = pair.unknown
                    .map(([why, which, isMeasured, count]) => {
                      const some = list(which).map(n => tests[n]).filter(t => filter.has(t.of)),
                            ops = ofOperators(count);
                      return {why: text(why), isMeasured, tests: some, operators: ops, count: some.length + ops};
                    })
                    .filter(one => one.count);
  const countOf = isMeasured => sum(unknown.filter(one => one.isMeasured === isMeasured).map(one => one.count)),
        notMeasured = countOf(false);
  const differ = new Set([
    ...pair.groups.flat().flatMap(([n]) => list(data.changes[n][2])),
    ...pair.unknown.flatMap(([, which]) => list(which))
  ]);
  const same = list(pair.tests).filter(n => !differ.has(n)).map(n => tests[n]).filter(t => filter.has(t.of));
  const counts = consequences.map(() => 0), inTests = consequences.map(() => 0);
  for (const group of groups) ++counts[group[0].consequence];
  for (const change of groups.flat()) inTests[change.consequence] += change.tests.length;
  counts[data.same] = inTests[data.same] = same.length + ofOperators(pair.operators);
  counts[data.unknown] = inTests[data.unknown] = countOf(true);
  const prices =
    (pair.prices || []).map(priceOf).filter(price => price.tests.some(t => filter.has(t.of, () => [price.work])));

  const all = sum(inTests), machine = pair.taken ? '' : machineOption(pair.machine.name), gate = gateOf(pair, filter);
  const outside =
    outsideWords(whole.map(group => group.filter(change => consequences[change.consequence].hurts && !fits(change)))
                   .filter(group => group.length));
  const {words, tone} =
    headlineOf({counts, inTests, notMeasured, prices: prices.length, hasOutside: outside.length > 0, gate}, filter);
  const headline = words[0].toUpperCase() + words.slice(1);
  byId('answer').className = tone;
  // One count of tests: the gate's, which also counts what neither side has run. Without a gate, that of `compare`.
  byId('answer').replaceChildren(make('b', {}, headline),
    ...gate ? [`${gate.figures}. `]
      : all + notMeasured ? [`${all - inTests[data.unknown]} of ${all + notMeasured} tests judged${
                             notMeasured ? `, ${notMeasured} not measured` : ''}. `]
                         : nearWords(filter.near),
    make('span', {class: 'faint'}, make('code', {}, `recapture compare ${pair.from} ${pair.to}${machine}`),
      ` ends with exit status ${pair.exit}.`));
  byId('outside').replaceChildren(...outside.length ? ['outside this filter: ', ...outside] : []);
  const scope = filter.scope.length ? [' --policy policy.toml'] : [];
  byId('gate').replaceChildren(...filter.isOn && !scope.length ? [] : [
    ...gate
      ? [make('b', {class: gate.tone}, `The gate ${gate.words}`), gate.why ? `: ${gate.why}. ` : '. ']
      : ['The gate of this filter: '],
    make('code', {}, `recapture gate ${pair.from} ${pair.to}${machine}${scope.join('')}`),
    ...scope.length
      ? [' with ', make('code', {}, `scope = ${JSON.stringify(filter.scope).replaceAll('","', '", "')}`),
         ' in that file.']
      : []]);
  byId('head').replaceChildren(...pair.head.flatMap((line, at) => [at ? ' · ' : '', text(line)]));
  // Initially all regressions; without any, the worst of the changes.
  const pressed = kAll.filter(n => consequences[n].word === state.show),
        worst = kAll.find(n => isChange(n) && counts[n]);
  const shown = pressed.length ? pressed : [...new Set([...kHurting, ...worst === undefined ? [] : [worst]])];
  byId('figures').replaceChildren(...consequences.flatMap(({word, meaning, tone}, n) => !isShown[n]
      ? []
      : make('button', {
          type: 'button',
          'data-word': word,
          'data-tests': String(inTests[n]),
          title: meaning,
          class: `figure ${tone}${counts[n] ? '' : ' none'}${shown.includes(n) && counts[n] ? ' shown' : ''}`,
          'aria-pressed': String(state.show === word),
          click: () => choose({show: state.show === word ? '' : word})
        },
          make('b', {}, String(counts[n])),
          make('span', {}, word, inTests[n] > counts[n] ? make('small', {}, ` ${counted(inTests[n], 'test')}`) : ''))));
  for (const [n, item] of legend) item.classList.toggle('none', !counts[n]);
  if (focused) for (const figure of byId('figures').children) if (figure.dataset.word === focused) figure.focus();

  const rows = [];
  let last = null;
  for (const group of groups) {
    if (!shown.includes(group[0].consequence)) continue;
    const isMore = last && last[0].consequence === group[0].consequence && isAlike(last, group);
    if (isMore) rows.pop();
    last = [...isMore ? last : [], ...group];
    rows.push(changeRow(last, pair));
  }
  if (shown.includes(data.same)) rows.push(...sameRows(same), ...operatorsRow(ofOperators(pair.operators)));
  if (!rows.length && !shown.includes(data.unknown))
    rows.push(make('p', {},
      `${pressed.length ? 'None' : 'No change'}${
        filter.isOn ? ' in this filter' : ''}, as far as both sides are known.`));
  if (shown.includes(data.unknown) || (!pressed.length && gate && gate.exit === 6)) {
    for (const [isMeasured, words] of [
           [true, 'Why tests are unknown:'], [false, 'Not measured, new or changed since the records:']]) {
      const some = unknown.filter(one => one.isMeasured === isMeasured);
      if (some.length) rows.push(make('p', {}, words));
      rows.push(...some.map(one => make('div', {class: 'why'}, make('b', {}, String(one.count)),
        make('details', {}, make('summary', {}, one.why), caseNames([...new Set(one.tests.map(t => t.of))]),
          one.operators ? make('p', {}, counted(one.operators, 'operator')) : ''))));
    }
  }
  if (!pressed.length) rows.push(...prices.map(price => priceRow(price, pair)));
  byId('changes').replaceChildren(...rows);
}

const priceOf = ([which, work, isDearer, before, now]) => ({
  tests: list(which).map(n => tests[n]),
  work: text(work),
  isDearer: isDearer > 0,
  before: text(before),
  now: text(now)
});
function priceRow(price, pair) {
  const of = [...new Set(price.tests.map(t => t.of))];
  return make('div', {class: `change price ${price.isDearer ? 'amber' : 'green'}`},
    make('span', {class: `tag ${price.isDearer ? 'amber' : 'green'}`}, price.isDearer ? 'costs more' : 'costs less'),
    make('div', {}, make('p', {class: 'title'}, price.work), make('p', {}, `${pair.from}: ${price.before}`),
      make('p', {}, `${pair.to}: ${price.now}`)),
    make('div', {},
      of.map(one => make('div', {class: 'case'}, make('p', {}, caseButton(one)),
               price.tests.filter(t => t.of === one).map(t => make('p', {}, t.fix || t.name))))));
}

// "Did you mean DDP?"
function nearWords(names) {
  if (!names.length) return [];
  return [
    'Did you mean ',
    ...names.flatMap(
      (name, at) => [at ? ' or ' : '',
        make('button', {type: 'button', class: 'more', click: () => choose({text: name}, 'replaceState')}, name)]),
    '? '
  ];
}

// A long name breaks after an underscore.
const breakable = name => name.split('_').flatMap((part, at) => at ? ['_', make('wbr'), part] : [part]);
function caseButton(one) {
  return make('button', {type: 'button', class: 'name mono', click: () => choose({case: one.id})}, breakable(one.id));
}
const caseNames = some => make('div', {class: 'names'}, some.map(one => caseButton(one)));

function sameRows(same) {
  const families = new Map();
  for (const one of new Set(same.map(t => t.of))) families.set(one.family, [...families.get(one.family) || [], one]);
  return [...families].sort().map(([family, some]) => make('div', {class: 'why'}, make('b', {}, String(some.length)),
                                    make('div', {}, family, caseNames(some))));
}

function operatorsRow(count) {
  return count ? [make('div', {class: 'why'}, make('b', {}, String(count)),
    make('div', {}, count === 1 ? 'operator' : 'operators'))] : [];
}

function upstreamWords(one, isChange) {
  const since = one.since ? `, since ${one.since}` : '';
  return [
    isChange ? '' : 'see ', isChange ? `${one.what}: ` : '', link(one.url, one.id), since,
    isChange || !one.title ? '' : `: ${one.title}`
  ];
}

// Whether two groups of changes have the same case and reason, so that only the consequence differs.
function isAlike(some, others) {
  const key = change => JSON.stringify([change.of.id, change.fixes, change.upstream]);
  return others.length === 1 && some.every(change => key(change) === key(others[0]));
}

function advised(label, fixes) {
  if (!fixes.length) return '';
  const more = fixes.length - 1, left = counted(more, 'other fix', 'other fixes');
  return make('p', {class: 'do', 'data-label': label}, fixes[0].words,
    more > 0 ? make('span', {class: 'faint'}, ` (${label === 'do' ? 'or' : 'and'} ${left})`) : '');
}

function changeRow(group, pair) {
  const first = group[0], isOne = group.every(change => change.of === first.of);
  const isChange = first.upstream.length > 0 && first.upstream[0].what !== '';
  const few = isChange ? first.upstream : first.upstream.slice(0, 1), left = first.upstream.length - few.length;
  const what = make('div', {}, isOne ? make('p', {class: 'title'}, first.of.title || '') : '',
    [...new Set(group.map(change => change.sentence))].map(words => make('p', {}, words)));
  const where = make('div', {});
  if (group.length > 12) {
    const count = group.reduce((sum, change) => sum + change.tests.length, 0);
    where.append(make('p', {}, `${count} tests of ${group.length} cases:`), caseNames(group.map(change => change.of)));
  } else {
    for (const change of isOne ? [first] : group) {
      const names = (isOne ? group : [change]).flatMap(each => each.tests.map(t => t.name));
      where.append(make('div', {class: 'case'},
        make('p', {}, caseButton(change.of), ' ', make('span', {class: 'faint'}, names.join(', '))),
        isOne ? '' : make('p', {}, change.of.title || ''),
        ...data.advice.map(label => advised(label, change.fixes.filter(fix => fix.advice === label)))));
    }
  }
  where.append(...few.map((one, at) => make('p', {class: 'faint'}, upstreamWords(one, isChange && at === 0),
                            at === few.length - 1 && left > 0 ? `, and ${counted(left, 'other thread')}` : '')));
  const {word, tone} = consequences[first.consequence];
  return make('div', {class: `change ${tone}`, 'data-word': word}, consequenceTag(first.consequence), what, where);
}

// ---- Matrix ----

const kPartly = 'partly unavailable';
const letters =
  {...Object.fromEntries(data.verdicts.map((word, number) => [word, data.letters[number]])), [kPartly]: 'p'};
const kMostWords = 9;  // With more columns, cells have letters.
const matrix = {rows: [], families: [], chips: new Map(), turn: 0};

// The text of a case's cell: with a part that could not run it is neither a pass nor unavailable.
const wordOf = (column, one) => column.cells[one.number] < 0 ? 'not run'
  : column.partly.has(one.number)                            ? kPartly
                                                             : data.verdicts[column.cells[one.number]];

// Where a result is as it should be, a failure still has the color of what a program meets: that of the site's table.
const toneClass = (tone, outcome) => tone === 0 && outcome ? outcome.replaceAll(' ', '-') : `tone${tone}`;
const kFailing = ['reproduced', 'different', 'crashed', 'hung'];
const toneOf = seen => toneClass(seen.tone, kFailing.includes(seen.result) ? seen.effect : '');

// What a case or a test has in a column; null if it was not run there.
function caseIn(column, one) {
  const verdict = column.cells[one.number];
  if (verdict < 0 || data.verdicts[verdict] === 'not run') return null;
  const word = wordOf(column, one), part = column.partly.get(one.number);
  return {
    word,
    full: part ? `${word}: ${part}` : word,
    tone: toneClass(data.tones[verdict], column.failing.get(one.number))
  };
}
function testIn(column, test) {
  const found = newestIn(column, test);
  if (!found || !found.seen.ran) return null;
  return {word: found.seen.verdict, full: found.seen.verdict, tone: toneOf(found.seen)};
}

function verdictCell(content, column) {
  const full = content ? content.full : 'not run', isShort = matrix.narrow || !content;
  return make('td', {
    class: `cell ${content ? content.tone : 'tone1'}${matrix.firsts.has(column) ? ' first' : ''}`,
    tabindex: '-1',
    'aria-label': isShort ? full : null,
    title: isShort ? full : null
  },
    !content ? '' : matrix.narrow ? letters[content.word] : full);
}
const verdictCells = contentIn => matrix.order.map(column => verdictCell(contentIn(column), column));

// A narrow window has no room for columns: a case has, for each machine, ranges of releases with the same content, the
// newest first. Machines with the same ranges share them. Other libraries, and builds without LibTorch, are folded.
const narrowWindow = matchMedia('(max-width: 700px)');
const isOwn = column => !column.chosen && /^\d/.test(column.release);
function rangesIn(some, contentIn) {
  const ranges = [];
  for (const column of some) {
    const content = contentIn(column), last = ranges[ranges.length - 1];
    if (last && last.content && content && last.content.full === content.full && last.content.tone === content.tone)
      last.oldest = column;
    else ranges.push({content, newest: column, oldest: column});
  }
  return ranges.filter(range => range.content);
}
const whenOf = ({newest, oldest}) => newest === oldest ? newest.label : `${oldest.label} to ${newest.label}`;
function rangeLists(one, machines, contentIn) {
  const lists = new Map();
  for (const [name, some] of machines) {
    const ranges = rangesIn(some, contentIn);
    if (!ranges.length) continue;
    const key = JSON.stringify(ranges.map(range => [range.content.full, range.content.tone, whenOf(range)]));
    if (!lists.has(key)) lists.set(key, {names: [], ranges});
    lists.get(key).names.push(name);
  }
  return [...lists.values()].flatMap(({names, ranges}) => [
    make('div', {class: 'group'}, names.join(', ')),
    make('ul', {class: 'ranges'}, ranges.map(range => make('li', {},
      make('button', {
        type: 'button',
        class: `tag range ${range.content.tone}`,
        click: () => choose({case: one.id, at: range.newest.name})
      },
        range.content.full),
      ' ', make('span', {class: 'when'}, whenOf(range)))))
  ]);
}
function rangesCell(one, contentIn) {
  const hasOthers = matrix.others.some(([, some]) => some.some(contentIn));
  const fill = event => {
    if (event.target.open && event.target.children.length === 1)
      event.target.append(...rangeLists(one, matrix.others, contentIn));
  };
  return make('td', {}, rangeLists(one, matrix.own, contentIn), hasOthers
    ? make('details', {toggle: fill}, make('summary', {class: 'faint'}, 'with other libraries, or without LibTorch'))
    : '');
}

const contentCells = (one, contentIn) =>
  matrix.isList ? [rangesCell(one, contentIn)] : verdictCells(contentIn);

// The machines of the list, each with its columns by the newest release.
function machinesOf(ordered, isWanted) {
  const groups = new Map();
  for (const [host, some] of ordered) {
    const gpu = text(some[0].gpu), isOnly = ordered.filter(([, other]) => text(other[0].gpu) === gpu).length === 1;
    for (const column of some.filter(isWanted)) {
      const name = (isOnly ? gpu : host) + column.chosen.replace('CUDA runtime', 'CUDA');
      groups.set(name, [...groups.get(name) || [], column]);
    }
  }
  return [...groups];
}

function drawMatrix() {
  const groups = new Map();
  for (const column of columns) groups.set(column.host, [...groups.get(column.host) || [], column]);
  const ordered = [...groups].sort(
    ([a, one], [b, other]) => (a === 'no GPU') - (b === 'no GPU') || other.length - one.length || (a < b ? -1 : 1));
  // The newest release first, builds without LibTorch last.
  for (const [, some] of ordered) some.reverse().sort((a, b) => /^\d/.test(b.release) - /^\d/.test(a.release));
  const order = ordered.flatMap(([, some]) => some), firsts = new Set(ordered.map(([, some]) => some[0]));
  const narrow = order.length > kMostWords, isList = narrowWindow.matches;
  for (const [, some] of ordered) for (const column of some)
    column.label = column.release +
      (some.filter(one => one.release === column.release && one.chosen === column.chosen).length > 1
        ? `, CUDA ${column.runtime}${column.packed ? ', packed' : ''}` : '');
  const hasNoRoom = some => narrow && some.length < 4;  // For the GPU's name above them.
  const label = (column, some) => column.label.replace(column.release,
    column.release + column.chosen.replace('CUDA runtime', 'CUDA')) +
    (hasNoRoom(some) ? `, ${text(column.gpu).replace(/^NVIDIA (\S+).*/, '$1')}` : '');
  const head = make('thead', {}, make('tr', {}, make('th', {scope: 'col', rowspan: 2, class: 'corner'}, 'Case'),
    ordered.map(([machine, some]) => make('th',
      {scope: 'colgroup', colspan: some.length, title: machine, 'aria-label': machine},
      hasNoRoom(some) ? '' : [
        make('div', {}, make('b', {}, text(some[0].gpu))),
        make('div', {class: 'faint'}, machine.slice(text(some[0].gpu).length + 2))]))),
    make('tr', {}, ordered.flatMap(([, some]) => some.map(column => make('th',
      {scope: 'col', class: 'release' + (firsts.has(column) ? ' first' : ''), title: titleOf(column)},
      label(column, some))))));
  const families = new Map();
  for (const one of matrixCases) families.set(one.family || '', [...families.get(one.family || '') || [], one]);
  matrix.chips.clear();
  Object.assign(matrix, {
    rows: [],
    families: [],
    narrow,
    isList,
    order,
    firsts,
    own: machinesOf(ordered, isOwn),
    others: machinesOf(ordered, column => !isOwn(column))
  });
  const bodies = [...families].sort().map(([family, some]) => {
    const title = make('tr', {class: 'family'},
      make('th', {scope: 'rowgroup', colspan: isList ? 2 : order.length + 1}, make('span', {}, family || 'no family')));
    const rows = some.sort((a, b) => a.id < b.id ? -1 : 1).map(one => {
      const row = make('tr', {},
        make('th', {scope: 'row', title: one.title},
          make('button', {
            type: 'button',
            class: 'open',
            'aria-expanded': 'false',
            'aria-label': `Tests of ${one.id}`,
            click: () => openTests(entry)
          },
            '▸'),
          caseButton(one)),
        contentCells(one, column => caseIn(column, one)));
      const entry = {one, row, verdicts: new Set(order.map(column => wordOf(column, one))), tests: []};
      matrix.rows.push(entry);
      return entry;
    });
    matrix.families.push({family, title, rows});
    for (const each of [title, ...rows.map(entry => entry.row)]) each.hidden = true;  // Until it is known which match.
    return make('tbody', {}, title, rows.map(entry => entry.row));
  });
  const table = isList ? make('table', {class: 'results', 'aria-label': 'Verdicts by case and machine'}, bodies)
                       : make('table',
    {role: 'grid', class: narrow ? 'grid narrow' : 'grid', 'aria-label': 'Verdicts by case and kind of machine'},
    narrow ? make('colgroup', {}, make('col', {class: 'names-column'}), order.map(() => make('col', {}))) : '', head,
    bodies);
  if (!isList) {
    if (narrow) table.style.width = `calc(28em + ${order.length * 25}px)`;
    table.addEventListener('click', event => openCell(event.target.closest('td.cell')));
    table.addEventListener('keydown', moveInGrid);
    table.addEventListener('focusin', event => { if (event.target.matches('td.cell')) stopAt(event.target); });
  }
  byId('cells').replaceChildren(table);
  stopAt(table.querySelector('td.cell'));
  options(byId('family'), ['all', ...[...families.keys()].sort()], 'all');
  const counts = new Map();
  for (const {one} of matrix.rows) for (const column of order) {
    const word = wordOf(column, one);
    counts.set(word, (counts.get(word) || 0) + 1);
  }
  byId('verdicts').replaceChildren(...[...data.verdicts, kPartly].filter(word => counts.has(word)).map(word => {
    const chip = make('button', {
      type: 'button',
      class: `chip tone${data.tones[data.verdicts.indexOf(word === kPartly ? 'unavailable' : word)] || 1}`,
      title: data.meanings[data.verdicts.indexOf(word)] || 'some tests of the case could not run',
      click: () => choose({verdict: state.verdict === word ? '' : word})
    },
      narrow && !isList && letters[word] ? make('b', {}, letters[word]) : '', `${word} `,
      make('span', {class: 'faint'}, String(counts.get(word))));
    matrix.chips.set(word, chip);
    return chip;
  }));
}

function openTests(entry) {
  const button = entry.row.querySelector('.open'), opens = !entry.tests.length;
  button.setAttribute('aria-expanded', opens);
  button.textContent = opens ? '▾' : '▸';
  if (opens) {
    entry.tests = entry.one.tests.map(
      test => make('tr', {class: 'of-test'}, make('th', {scope: 'row', title: test.fix || null}, test.name),
        contentCells(entry.one, column => testIn(column, test))));
    entry.row.after(...entry.tests);
  } else {
    for (const row of entry.tests) row.remove();
    entry.tests = [];
  }
}

function stopAt(cell) {  // Exactly one cell of the table is in the tab order.
  if (matrix.stop) matrix.stop.tabIndex = -1;
  matrix.stop = cell;
  if (cell) cell.tabIndex = 0;
}

function openCell(cell) {
  if (!cell) return;
  const row = cell.parentElement, entry = matrix.rows.find(one => one.row === row || one.tests.includes(row));
  cell.focus();
  choose({case: entry.one.id, at: matrix.order[cell.cellIndex - 1].name});
}

function moveInGrid(event) {
  const cell = event.target;
  if (!cell.matches('td.cell')) return;
  const across = {ArrowLeft: -1, ArrowRight: 1}[event.key],
        down = {ArrowUp: 'previousElementSibling', ArrowDown: 'nextElementSibling'}[event.key];
  let next = null;
  if (across) {
    next = cell.parentElement.cells[cell.cellIndex + across];
  } else if (down) {
    let row = cell.parentElement;
    do {
      const body = row.parentElement;
      row =
        row[down] || (body[down] && body[down].rows[down === 'nextElementSibling' ? 0 : body[down].rows.length - 1]);
    } while (row && (row.hidden || !row.cells[cell.cellIndex]));
    next = row && row.cells[cell.cellIndex];
  } else if (event.key === 'Home' || event.key === 'End') {
    next = cell.parentElement.cells[event.key === 'Home' ? 1 : cell.parentElement.cells.length - 1];
  } else if (event.key === 'Enter' || event.key === ' ') {
    openCell(cell);
  } else {
    return;
  }
  event.preventDefault();
  if (next && next.matches('td.cell')) {
    next.focus({preventScroll: true});
    next.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }
}

// Drawing thousands of cells takes time: visible ones come first, the others frame by frame.
function reveal(rows, turn = ++matrix.turn) {
  if (turn !== matrix.turn) return;  // The filter has changed meanwhile.
  const most = matrix.narrow || matrix.isList ? 24 : rows.length;
  for (const row of rows.slice(0, most)) row.hidden = false;
  if (rows.length > most) requestAnimationFrame(() => setTimeout(() => reveal(rows.slice(most), turn)));
}

function showMatrix() {
  if (!matrix.rows.length) drawMatrix();
  byId('matrix-text').value = state.text || '';
  byId('family').value = state.family || 'all';
  const filter = filterOf(state.text), fitting = [];
  let count = 0;
  for (const {family, title, rows} of matrix.families) {
    let some = false;
    for (const {one, row, verdicts, tests: opened} of rows) {
      const fits = (!state.family || family === state.family) && (!state.verdict || verdicts.has(state.verdict)) &&
        filter.has(one);
      if (fits) fitting.push(...some ? [] : [title], row, ...opened);
      else for (const each of [row, ...opened]) each.hidden = true;
      some = some || fits;
      count += fits ? 1 : 0;
    }
    if (!some) title.hidden = true;
  }
  reveal(fitting);
  for (const [word, chip] of matrix.chips) chip.setAttribute('aria-pressed', String(state.verdict === word));
  byId('matrix-count').textContent =
    count === matrixCases.length ? counted(count, 'case') : `${count} of ${counted(matrixCases.length, 'case')}`;
  if (matrix.stop && matrix.stop.parentElement.hidden) {
    const entry = !matrix.isList && matrix.rows.find(one => !one.row.hidden);
    if (entry) stopAt(entry.row.cells[1]);
  }
}

// ---- History ----

function showHistory() {
  const words = (state.test || '').trim(), test = testById.get(words);
  if (byId('test').value !== (state.test || '')) byId('test').value = state.test || '';
  if (!byId('tests').children.length) byId('tests').append(...tests.map(one => make('option', {value: one.id})));
  if (test) {
    showTest(test);
  } else if (words) {
    const found = tests.filter(one => one.id.toLowerCase().includes(words.toLowerCase()));
    byId('history-count').textContent = counted(found.length, 'test');
    byId('runs').replaceChildren(make('div', {class: 'names'}, found.slice(0, 200).map(one =>
      make('button', {type: 'button', class: 'name mono', click: () => choose({test: one.id})}, one.id))));
  } else {
    showRuns();
  }
}

function showRuns() {
  byId('history-count').textContent = `${counted(runs.length, 'run')}, by release and month, the newest first`;
  // Builds without LibTorch come last.
  const place = name => /^\d/.test(name) ? releases.length - releases.indexOf(name) : Infinity;
  const byRelease = [...grouped([...runs].reverse(), run => run.on.release)]
    .sort(([a], [b]) => place(a) === place(b) ? 0 : place(a) - place(b));
  byId('runs').replaceChildren(lastDay(), ...byRelease.map(([name, some]) => foldedRuns(name, some, () => {
    const months = [...grouped(some, run => dateOf(run).slice(0, 7))];
    return months.length === 1 ? [runsTable(some)]
                               : months.map(([month, its]) => foldedRuns(month, its, () => [runsTable(its)]));
  })));
}

function grouped(some, keyOf) {
  const groups = new Map();
  for (const one of some) groups.set(keyOf(one), [...groups.get(keyOf(one)) || [], one]);
  return groups;
}

// What is inside is made when it is opened.
function foldedRuns(name, some, inside) {
  const differ = some.filter(run => run.changed && isCompared(run.changed) && run.changed.groups.length).length;
  const fill = event => {
    if (event.target.open && event.target.children.length === 1) event.target.append(...inside());
  };
  return make('details', {class: 'runs', toggle: fill}, make('summary', {}, make('b', {}, name), ' ',
    make('span', {class: 'faint'}, `${counted(some.length, 'run')}, the newest ${dateOf(some[0])}`,
      differ ? `; ${counted(differ, 'differs', 'differ')} from an earlier one` : '')));
}

function runsTable(some) {
  return listTable(['Began', 'CUDA runtime', 'Machine', 'Verdicts', 'Against earlier runs on such a machine'],
    some.map(run => [{}, [
      nowrap(timeOf(run)), nowrap(`${run.on.runtime}${run.on.packed ? ' (packed)' : ''}`), run.on.machine,
      [verdictCounts(run), run.notes.map(note => make('div', {class: 'faint'}, text(note)))], changedSince(run)
    ]]));
}

const nowrap = (...words) => make('span', {class: 'nowrap'}, ...words);
// `rows` have [attributes, the content of each cell]. In a narrow window each cell begins with its heading.
function listTable(headings, rows) {
  return make('table', {class: 'list'},
    make('thead', {}, make('tr', {}, headings.map(word => make('th', {scope: 'col'}, word)))),
    make('tbody', {},
      rows.map(([attributes, cells]) => make('tr', attributes,
                 cells.map((cell, at) => make('td', {'data-side': headings[at]}, ...[cell].flat(2)))))));
}

// Whether a test has a result on both sides.
const isCompared = pair => pair.counts.some((count, n) => count && n !== data.unknown);

// Whether anything changed last night.
function lastDay() {
  const day = dateOf(runs[runs.length - 1]), some = runs.filter(run => dateOf(run) === day),
        compared = some.filter(run => run.changed && isCompared(run.changed));
  const differ = compared.filter(run => run.changed.groups.length);
  const words = !compared.length ? 'none of them can be compared with an earlier run on such a machine'
                                 : `${compared.length} can be compared with an earlier run on such a machine, and ${
                                     differ.length             ? counted(differ.length, 'differs', 'differ')
                                       : compared.length === 1 ? 'does not differ'
                                                               : 'none differs'} from it`;
  return make('p', {class: 'lead'}, make('b', {}, `${day}, the newest day on record: `),
    `${counted(some.length, 'run')}; ${words}.`, make('span', {class: 'faint'},
      ' (packed): with the libraries of tools/pack, which leaves some out. Nothing to compare: no test has a result ' +
        'on both sides.'));
}

function verdictCounts(run) {
  const counts = data.verdicts.map(() => 0);
  for (const number of run.seen) ++counts[data.observations[number][1]];
  return data.verdicts.flatMap((word, n) => counts[n] ? [`${counts[n]} ${word}`] : []).join(', ') || 'operators only';
}

function changedSince(run) {
  if (!run.changed) return make('span', {class: 'faint'}, 'the first run of its kind');
  const pair = {...run.changed, from: timeOf(runs[run.changed.before]), to: timeOf(run)};
  const parts = consequences.flatMap(({word, tone}, n) => pair.counts[n] && isChange(n)
      ? [make('span', {class: `tag ${tone}`}, `${pair.counts[n]} ${word}`), ' ']
      : []);
  const unknown = pair.counts[data.unknown] ? `, ${pair.counts[data.unknown]} unknown` : '';
  const isNone = !parts.length,
        same = isCompared(pair) ? `${pair.counts[data.same]} the same${unknown}` : unknown.slice(2);
  if (isNone) parts.push(isCompared(pair) ? 'no change' : 'nothing to compare');
  const rest = make('span', {class: 'faint'}, `${isNone && same ? '; ' : ' '}${same}`);
  if (!pair.groups.length && !pair.unknown.length) return make('span', {}, parts, rest);
  return make('details', {}, make('summary', {}, parts, rest),
    make('ul', {}, changesOf(pair).map(group => make('li', {}, group[0].sentence, ': ',
      group.flatMap(change => change.tests.map(test => [testButton(test), ' '])).flat())),
    pair.unknown.map(([why, which]) => make('li', {class: 'faint'}, `${list(which).length} unknown: ${text(why)}: `,
      list(which).slice(0, 20).flatMap(n => [testButton(tests[n]), ' '])))));
}

function testButton(test) {
  return make('button',
    {type: 'button', class: 'name mono', click: () => choose({view: 'history', test: test.id, case: '', at: ''})},
    test.id);
}

// A test's outcome in a run, used to detect changes.
const outcome = seen => seen.result === 'unavailable' || !seen.ran ? ''
  : /^\d+ of \d+ tries$/.test(seen.seen)                           ? seen.result
                                                                   : `${seen.result}\n${seen.seen}`;

function showTest(test) {
  const found = runs.flatMap(run => { const one = resultIn(run, test); return one ? [one] : []; });
  byId('history-count').textContent = counted(found.length, 'run');
  const byMachine = new Map();
  for (const one of found) byMachine.set(one.run.on.machine, [...byMachine.get(one.run.on.machine) || [], one]);
  const differs = new Set(), last = new Map();
  for (const one of found) {
    const kind = one.run.column, now = outcome(one.seen);
    if (!now) continue;
    if (last.has(kind) && last.get(kind) !== now) differs.add(one);
    last.set(kind, now);
  }
  byId('runs')
    .replaceChildren(make('h2', {class: 'mono'}, test.id),
      make('p', {}, test.of.title || '', ' ',
        make('button', {type: 'button', class: 'more', click: () => choose({case: test.of.id})},
          'All on record of this case')),
      make('ul', {},
        [...byMachine].flatMap(([machine, some]) =>
                                 sinceWhen(some).map(words => make('li', {}, make('b', {}, `${machine}: `), words)))),
      listTable(['Began', 'Release', 'CUDA runtime', 'Machine', 'Result', 'Verdict', 'What was seen'],
        [...found]
          .reverse()
          .map(one => [{class: differs.has(one) ? 'differs' : null},
                 [
                   nowrap(timeOf(one.run)), nowrap(one.run.on.release), nowrap(one.run.on.runtime), one.run.on.machine,
                   nowrap(one.seen.result), make('span', {class: `tag nowrap ${toneOf(one.seen)}`}, one.seen.verdict),
                   [
                     differs.has(one) ? make('b', {}, 'differs from the run before: ') : '',
                     one.seen.ran ? make('span', {class: 'mono'}, one.seen.seen)
                                  : make('span', {class: 'faint'}, 'the run ended before it')
                   ]
                 ]])));
}

// The ranges of releases with a result, the newest first; within each release by date.
function sinceWhen(some) {
  const sorted = [...some]
                   .sort((a, b) => a.run.column - b.run.column || a.run.number - b.run.number)
                   .filter(one => outcome(one.seen));
  if (!sorted.length) return [`${some[some.length - 1].seen.result}, ${some[some.length - 1].seen.seen || 'not run'}`];
  const parts = [];
  for (const one of sorted) {
    const part = parts[parts.length - 1];
    if (part && outcome(part[0].seen) === outcome(one.seen)) part.push(one);
    else parts.push([one]);
  }
  const when = one => `${one.run.on.release} (${dateOf(one.run)})`;
  return parts.map((part, at) => {
    const {seen} = part[0], isRate = outcome(seen) === seen.result;
    const since = when(part[0]), until = when(part[part.length - 1]), isFirst = at === 0,
          isLast = at === parts.length - 1;
    const times = isFirst && isLast
      ? `${since === until ? 'in' : 'always, from'} ${since}${since === until ? '' : ` to ${until}`}`
      : isFirst                                                                    ? `until ${until}`
                                                                         : isLast ? `since ${since}`
                                                                                  : `since ${since}, until ${until}`;
    return `${seen.result} ${times}, ${counted(part.length, 'run')}${isRate || !seen.seen ? '' : `: ${seen.seen}`}`;
  }).reverse();
}

// ---- Operators ----

const operators = {rows: [], chips: new Map(), captured: null};

const operatorCount = some => counted(some.length, 'operator');

function drawOperators() {
  const {releases, words, rows} = data.operators, colors = new Map(words);
  operators.rows = rows.map(([call, name, on, phrases, isCaptured, why, instead, lines]) => {
    const one =
      {call: text(call), name: text(name), words: list(on).map(text), isCaptured, lines: list(lines).map(text)};
    one.bare = [bareName(one.call), bareName(one.name)];
    one.text = [one.call, one.name, text(why), text(instead)].join('\n').toLowerCase();
    const open = make('button', {
      type: 'button',
      class: 'open',
      'aria-expanded': 'false',
      'aria-label': `Forms of ${one.name}`,
      click: () => openForms(one)
    },
      '▸');
    const variant = one.bare[0] === one.bare[1] ? '' : make('span', {class: 'faint'}, ` (${one.name})`);
    one.row = make('tr', {}, make('th', {scope: 'row'}, open, make('span', {class: 'mono'}, one.call), variant),
      list(phrases).map(
        (phrase, at) =>
          make('td', {class: 'nowrap', 'data-side': text(releases[at]), 'aria-label': phrase ? null : 'not on record'},
            phrase ? make('span', {class: `tag ${colors.get(one.words[at])}`}, text(phrase)) : '')).reverse(),
      make('td', {'data-side': 'why not', 'aria-label': why ? null : 'none'}, text(why)),
      make('td', {'data-side': 'instead', 'aria-label': instead ? null : 'none'}, text(instead)));
    return one;
  });
  operators.captured =
    operators.rows.filter(one => one.isCaptured && one.words.some(word => colors.get(word) === 'green'));
  operators.columns = 3 + releases.length;
  operators.body = make('tbody', {});
  byId('operator-rows')
    .replaceChildren(make('table', {class: 'list'},
      make('thead', {}, make('tr', {}, ['Operator', ...releases.map(text).reverse(), 'Why not',
        'Capture instead'].map(word => make('th', {scope: 'col'}, word)))),
      operators.body));
  byId('operators-words').replaceChildren(...words.flatMap(([word, color]) => {
    const count = operators.rows.filter(one => one.words.includes(word)).length;
    if (!count) return [];
    const chip = make('button',
      {type: 'button', class: `chip ${color}`, click: () => choose({verdict: state.verdict === word ? '' : word})},
      `${word} `, make('span', {class: 'faint'}, String(count)));
    operators.chips.set(word, chip);
    return [chip];
  }));
}

function openForms(one) {
  const button = one.row.querySelector('.open'), opens = !one.forms;
  button.setAttribute('aria-expanded', opens);
  button.textContent = opens ? '▾' : '▸';
  if (one.forms) one.forms.remove();
  one.forms = opens
    ? make('tr', {}, make('td', {colspan: operators.columns}, make('pre', {class: 'mono'}, one.lines.join('\n'))))
    : null;
  if (opens) one.row.after(one.forms);
}

// Exact matches come first. Without a filter, operators that every release captures are folded.
function showOperators() {
  if (!operators.rows.length) drawOperators();
  byId('operators-text').value = state.text || '';
  const word = (state.text || '').trim().toLowerCase(), bare = bareName(word), isOf = one => one.bare.includes(bare);
  const fits = one => (!state.verdict || one.words.includes(state.verdict)) &&
    (!word || one.text.includes(word) || (bare && one.bare.some(name => name.includes(bare))));
  const fitting = operators.rows.filter(one => fits(one) && (word || state.verdict || !one.isCaptured));
  const ordered = word ? [...fitting.filter(isOf), ...fitting.filter(one => !isOf(one))] : fitting;
  operators.body.replaceChildren(...ordered.flatMap(one => one.forms ? [one.row, one.forms] : [one.row]));
  for (const [each, chip] of operators.chips) chip.setAttribute('aria-pressed', String(state.verdict === each));
  byId('operators-count').textContent = !operators.rows.length ? 'No operators are on record.'
    : word || state.verdict
    ? `${fitting.length} of ${operatorCount(operators.rows)}`
    : `${operatorCount(fitting)} that some release on record cannot capture, or that are inconclusive there; ${
        operators.captured.length} more are captured in all that have them`;
}

// ---- The records of a case ----

// Side by side in a table: {title, column, find: test → {run, seen}}; several such tables one below the other.
function showDetail() {
  const dialog = byId('detail'), one = caseById.get(state.case);
  if (!one) {
    if (dialog.open) dialog.close();
    return;
  }
  let tables, sentences = [];
  const pair = state.view === 'compare' && chosenPair();
  if (pair && !pair.absent) {
    sentences = changesOf(pair).flat().filter(change => change.of === one);
    tables = [[['from', 'before'], ['to', 'after']].map(([side, which]) => {
      const column = columns.filter(c => c.machine === pair.machine.name && c.release === pair[side]).pop();
      const compared =
        new Map(sentences.flatMap(change => one.tests.map(test => [test, resultIn(change[which], test)])));
      return {title: pair[side], column, find: test => compared.get(test) || newestIn(column, test)};
    })];
  } else {
    const at = columns.filter(column => column.name === state.at);
    tables = (at.length ? at : columns).filter(column => one.tests.some(test => newestIn(column, test)))
      .map(column => [{title: titleOf(column), column, find: test => newestIn(column, test)}]);
  }
  dialog.replaceChildren(
    make('div', {class: 'top'},
      make('div', {}, make('h2', {id: 'detail-name', class: 'mono'}, one.id),
        make('p', {}, one.title || '',
          byId('site') && one.file ? [' ', make('a', {href: `failures/${one.id}.html`}, 'Its page')] : [])),
      make('button', {type: 'button', click: () => dialog.close()}, 'Close')),
    ...sentences.map(
      change => make('p', {style: 'padding-top:10px'}, consequenceTag(change.consequence), ' ', change.sentence,
        change.upstream.map(
          (up, at) => make('div', {class: 'faint'}, upstreamWords(up, change.upstream[0].what !== '' && at === 0))))),
    ...(tables.length ? tables.flatMap(places => resultTable(one, places, sentences))
                      : [make('p', {style: 'padding-top:14px'}, 'Not run here.')]),
    ...ratesOf(one), ...aboutCase(one));
  dialog.scrollTop = 0;
  if (!dialog.open) dialog.showModal();
}

function definitions(pairs) {
  const some = pairs.filter(([, value]) => value && value.length !== 0);
  return some.length
    ? make('dl', {class: 'facts'}, some.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]))
    : '';
}

const mono = words => words && make('span', {class: 'mono'}, words);

function resultTable(one, places, changes) {
  const shown = one.tests.map(test => ({test, found: places.map(place => place.find(test))}))
                  .filter(({found}) => found.some(Boolean));
  const changeOfTest = test => changes.find(change => change.tests.includes(test));
  const hasTwo = places.length > 1;
  const used =
    places.map((place, at) => [...new Set(shown.map(({found}) => found[at] && found[at].run).filter(Boolean))]);
  return [
    hasTwo ? '' : make('h3', {}, places[0].title),
    make('table', {}, make('colgroup', {}, make('col', {class: 'test'}), places.map(() => make('col', {}))),
      make('thead', {},
        make('tr', {}, make('th', {scope: 'col'}, 'Test'),
          places.map(
            (place, at) => make('th', {scope: 'col'}, hasTwo ? place.title : 'What was seen',
              used[at].map(run => make('details', {class: 'faint'},
                             make('summary', {},
                               make('span', {},
                                 `${timeOf(run)}, CUDA runtime ${run.on.runtime}${run.on.packed ? ' (packed)' : ''}`)),
                             machineOf(run))))))),
      make('tbody', {}, shown.map(({test, found}) => {
        const change = changeOfTest(test);
        return make('tr', {class: change ? `changed ${consequences[change.consequence].tone}` : null},
          make('th', {scope: 'row'},
            make('button', {
              type: 'button',
              class: 'name mono',
              title: 'Its history',
              click: () => choose({view: 'history', test: test.id, case: '', at: ''})
            },
              test.name),
            change ? make('div', {}, consequenceTag(change.consequence)) : '',
            test.fix ? make('div', {}, test.fix) : '',
            !test.fix && test.effect ? make('div', {class: 'faint'}, test.effect) : ''),
          found.map((each, at) => make('td', {'data-side': hasTwo ? places[at].title : null},
                      each ? resultOf(each.seen, hasTwo, at > 0 && found[0] ? found[0].seen : null)
                           : make('span', {class: 'faint'}, 'not run'))));
      })))
  ].filter(Boolean);
}

// Beside another side, shows only the differences. Sides of a comparison are judged by the code that they ran.
function resultOf(seen, isSide, beside) {
  if (!seen.ran) return make('span', {class: 'faint'}, 'not run');
  const facts = factsOf(seen), before = beside && new Map(factsOf(beside));
  const differ = before ? facts.filter(([name, words]) => String(words) !== String(before.get(name))) : facts;
  const shown = differ.map(([name, words]) => [name, kShown[name] ? kShown[name](words) : mono(words)]);
  return make('div', {}, make('b', {}, seen.result), ' ',
    isSide && seen.verdict === 'stale' ? '' : make('span', {class: `tag ${toneOf(seen)}`}, seen.verdict),
    seen.seen ? make('div', {class: 'mono'}, seen.seen) : '', definitions(shown),
    differ.length < facts.length
      ? make('div', {class: 'faint'}, differ.length ? 'otherwise as on the left' : 'as on the left')
      : '');
}

// Further facts of a result, by name. A good result needs only its expected values.
function factsOf(seen) {
  const fails = ['reproduced', 'different', 'broken', 'crashed', 'hung'].includes(seen.result);
  return [
    ['expected', seen.reason], ['effect', fails ? seen.effect : ''],
    ['documented', fails || seen.result === 'healthy' ? seen.documented : ''], ['healthy', fails ? seen.healthy : ''],
    ['raised by', seen.raisedBy], ['call', seen.call], ['stack', seen.stack], ['message', seen.message],
    ['type', seen.exception], ['after', seen.after]
  ].filter(([, words]) => words.length);
}

const kShown = {
  expected: ([why, source, cited]) => [text(why), ' ',
    ...(list(cited).length ? list(cited).flatMap(n => {
      const [id, title, url] = data.sources[n].map(text);
      return [link(url, id), `: ${title} `];
    })
                           : [text(source)])],
  effect: words => words,
  after: words => words,
  message: words => folded(words),
  stack: frames => make('details', {}, make('summary', {}, counted(frames.length, 'frame')),
    make('ol', {class: 'stack mono'}, frames.map(frame => make('li', {}, frame)))),
};

function folded(words) {
  const at = words.indexOf('\n');
  return at < 0 ? mono(words)
                : make('details', {}, make('summary', {class: 'mono'}, words.slice(0, at)),
                    make('span', {class: 'mono'}, words.slice(at + 1)));
}

function machineOf(run) {
  const facts = list(run.facts).map(text), pairs = [];
  for (let at = 0; at < facts.length; at += 2) pairs.push([facts[at], facts[at + 1]]);
  return definitions(
    [['machine', run.on.machine], ...pairs, ['record', mono(run.path)], ['notes', run.notes.map(text).join('; ')]]);
}

function ratesOf(one) {
  const rates = data.rates.filter(([test]) => tests[test].of === one);
  return rates.length ? [make('h3', {}, 'How often the race shows, over all runs'),
    definitions(rates.map(([test, machine, words]) => [`${tests[test].name}, ${text(machine)}`, text(words)]))] : [];
}

function aboutCase(one) {
  const cites = (one.cites || []).flatMap(([heading, sources]) => list(sources).map(n => {
    const [id, title, url] = data.sources[n].map(text);
    return make('div', {}, link(url, id), text(heading) ? `, ${text(heading)}: ` : ': ', title);
  }));
  return [
    make('h3', {}, 'Why it fails'),
    make('div', {class: 'paragraphs'},
      (one.why || 'The catalogue has nothing on it.').split('\n\n').map(words => make('p', {}, words))),
    make('h3', {}, 'The case'), definitions([
      ['documented', one.documented], ['nature', one.nature], ['fidelity', one.fidelity], ['needs', one.needs],
      ['family', one.family], ['file', mono(one.file)], ['sources', cites], ['more', mono(`recapture show ${one.id}`)]
    ])
  ];
}

// ---- Events ----

// The part after the # is the selection.
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();
  byId('main').focus();
});

const tabs = Object.keys(kPlaces).map(view => byId('tab-' + view)).filter(tab => !tab.hidden);
for (const [at, tab] of tabs.entries()) {
  tab.addEventListener('click', () => openView(at));
  tab.addEventListener('keydown', event => {
    const last = tabs.length - 1, next = {ArrowLeft: at + last, ArrowRight: at + 1, Home: 0, End: last}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    openView(next % tabs.length);
    tabs[next % tabs.length].focus();
  });
}
function openView(at) {
  const view = Object.keys(kPlaces)[at];
  const before = fragment(state);
  state = kept[view] || {view};
  if (fragment(state) !== before) history.pushState(null, '', fragment(state));
  show();
}

// Choosing the same release on both sides swaps them.
function side(chosen, other) {
  byId(chosen).addEventListener('change', () => {
    const pair = chosenPair(), word = byId(chosen).value;
    choose({on: pair.machine.name, [chosen]: word, [other]: word === pair[other] ? pair[chosen] : pair[other]});
  });
}
side('from', 'to');
side('to', 'from');
// A machine without one of the sides starts with a pair of its own.
byId('machine').addEventListener('change', () => {
  const on = byId('machine').value, ran = machines.find(one => one.name === on).releases;
  const hasBoth = [state.from, state.to].every(name => !name || ran.includes(meantRelease(name)));
  choose({on, ...hasBoth ? {} : {from: '', to: ''}});
});
byId('swap').addEventListener('click', () => {
  const pair = chosenPair();
  choose({on: pair.machine.name, from: pair.to, to: pair.from});
});
for (const view of ['compare', 'matrix', 'operators'])
  byId(view + '-text').addEventListener('input', event => choose({text: event.target.value}, 'replaceState'));
byId('family').addEventListener(
  'change', event => choose({family: event.target.value === 'all' ? '' : event.target.value}));
byId('test').addEventListener('input', event => choose({test: event.target.value}, 'replaceState'));
byId('detail').addEventListener('close', () => { if (state.case) choose({case: '', at: ''}); });
byId('detail').addEventListener('click', event => {
  if (event.target === byId('detail') && event.clientX < byId('detail').getBoundingClientRect().left)
    byId('detail').close();
});
narrowWindow.addEventListener('change', () => {
  matrix.rows = [];  // Drawn again when it is shown.
  delete drawn.matrix;
  show();
});
for (const name of ['hashchange', 'popstate']) addEventListener(name, () => { state = fromFragment(); show(); });

byId('legend').append(...legend.map(([, item]) => item));
byId('figures').classList.toggle('many', legend.length > 12);
const {newest, records, broken, unreadable} = data.made;
byId('made').textContent = `Made from ${counted(records, 'record')}, the newest of ${
                             newest.replace('T', ' ').replace('Z', ' UTC') || 'no date'}` +
  (broken ? `; ${counted(broken, 'run')} broken on purpose left out` : '') +
  (unreadable ? `; ${counted(unreadable, 'file')} could not be read` : '') + '.';
state = fromFragment();
show();
})();
