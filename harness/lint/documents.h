// Checks that cases/coverage.tsv covers the documents line by line and names existing tests. The documents' texts are
// not in the tree, only their lengths.
#pragma once
#include <string>
#include <vector>

namespace recapture::lint {

// What a test shows about a claim.
enum class Shows {
  Documented,  // case.Test: it is right only where the test comes out as documented,
  Fails,       // case.Test:fails: also where the test fails otherwise.
  Against,     // case.Test:against: it is wrong where the test comes out as documented.
  Any,         // case.Test:any: neither; the test's own comparison shows it in any case.
};

struct CoveringTest {
  std::string id;  // "case.Test"
  Shows shows = Shows::Documented;
  std::string releases = {};  // The releases that the claim is about, "@>=2.2,<2.6" before its tests; "" for all.
  // case.Test?outstanding=no: this fact of the test's record decides, not its result: right if the record has the
  // value, wrong if it has another. The fact "frames" is the culprit's; one frame must contain the value.
  std::string fact = {}, value = {};
};

struct DocumentLine {
  std::string document, lines, heading, kind, says, covered;  // lines is "-" in a document that has pages.
  int first = 0, last = 0;  // The document's lines, from "12" or "12-20"; 0 if the cell is neither.
  int number = 0;           // Of the line in the file.

  // The tests that cover it; empty if it is not covered, although the reason may name some. An unknown suffix stays
  // part of the name, and so does a fact without a value.
  std::vector<CoveringTest> tests() const;
};

std::vector<DocumentLine> read_documents(const std::string& root);

// Checks the table of claims and returns one message for each error. It reports:
// - a row that does not have six cells, repeats another, or names an unknown document, kind or test;
// - a row that is out of the document's order or past its end, or has an invalid range of releases;
// - a row without a test, "not covered: REASON" or "not yet" (for what needs DDP or NCCL);
// - document lines without a row;
// - a case that cites a missing heading, or that no row of its document names;
// - a claim about which releases are on record: the next record would make it wrong, and `recapture dev tables
//   documents` computes it.
std::vector<std::string> document_errors(const std::string& root);

}  // namespace recapture::lint
