// Scores of search results: as in Sphinx, except that pages for developers come after pages for users.
// `var`, because Sphinx declares `Scorer` again.
const FOR_DEVELOPERS = /^(decisions|development|src|bench|changelog|contributing|roadmap|reference\/schemas)/;

var Scorer = {
  score: ([page, , , , score]) => (FOR_DEVELOPERS.test(page) ? score - 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
