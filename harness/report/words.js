// The words for features, as `recapture list --features` prints them, and the names of operators. Shared by both kinds
// of pages.
'use strict';
// "torch.nn.functional.one_hot(x)", "F.one_hot" and "aten::one_hot" are one name, as for `recapture operators`.
const bareName = word => word.trim()
                           .replace(/\(.*/, '')
                           .replace(/^(?:(?:torch|ops|aten|Tensor|F|x|(?:nn\.)?functional)\.|aten::|at::)+/i, '')
                           .replace(/\.default$/, '')
                           .replace(/([^_])_$/, '$1')
                           .toLowerCase();
// `tags` has [name, words for it in the form of folded()]. of() returns the number of the tag that a word names, as
// tag_of() does; near() returns the names near to a wrong word.
function vocabularyOf(tags) {
  const folded = word => word.toLowerCase().replace(/[ _-]/g, '').replace(/(.)s$/, '$1');
  const byWord = new Map(tags.flatMap(([, words], number) => words.map(word => [word, number])));
  const slips = (a, b) => {
    let row = [...b].map((_, at) => at + 1);
    row.unshift(0);
    for (const [i, letter] of [...a].entries()) {
      const next = [i + 1];
      for (const [j, other] of [...b].entries())
        next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + (letter !== other)));
      row = next;
    }
    return row[b.length];
  };
  const isNear = (word, known) => known.startsWith(word) || slips(word, known) <= (word.length > 4 ? 2 : 1);
  return {
    of: word => byWord.get(folded(word)),
    near: word => {
      const wanted = folded(word);
      return wanted.length < 3
        ? []
        : tags.filter(([, words]) => words.some(known => isNear(wanted, known))).map(([name]) => name).slice(0, 3);
    },
  };
}
