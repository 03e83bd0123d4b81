// Whether cases/coverage.tsv, the documents line by line, is whole and names tests that exist. The documents' texts
// are not in the tree: what is known of them is how long they are.
#pragma once
#include <string>
#include <vector>

namespace recapture::lint {

// What a test says of a claim that names it.
enum class Shows {
  Documented,  // case.Test: it is right where the test comes out as documented, and nowhere else,
  Fails,       // case.Test:fails: and where it fails in other words or otherwise.
  Against,     // case.Test:against: it is wrong where the test comes out as documented.
  Any,         // case.Test:any: neither; what the test compares shows it, however the case comes out.
};

struct CoveringTest {
  std::string id;  // "case.Test"
  Shows shows = Shows::Documented;
  std::string releases = {};  // Those that the claim speaks of, as "@>=2.2,<2.6" before its tests says; "" for all.
  // case.Test?outstanding=no: not how the test comes out shows it, but this fact of its record: right where the record
  // has the value, and wrong where it has another. The fact "frames" is the culprit's, one of which has the value in
  // it.
  std::string fact = {}, value = {};
};

struct DocumentLine {
  std::string document, lines, heading, kind, says, covered;  // lines is "-" in a document that has pages.
  int first = 0, last = 0;  // The document's lines that say it, from "12" or "12-20"; 0 where the cell is neither.
  int number = 0;           // Of the line in the file.

  // Those that cover it; none where it is not covered, though the reason may name some. A word behind a name that is
  // none of the above stays with the name, and so does a fact without a value.
  std::vector<CoveringTest> tests() const;
};

std::vector<DocumentLine> read_documents(const std::string& root);

// One message each: a line without its six cells, of an unknown document or kind, said twice, out of the document's
// order or beyond its end, of a range of releases that is none, or that names no test and not "not covered: why", nor
// "not yet", which is for what needs DDP or NCCL; lines of a document of which nothing is said; a test that no case
// has; a case that cites one of the documents under a heading that is not there, or that stands at none of its lines;
// what says which releases are on record, which the next record makes wrong, and `recapture dev tables documents` has.
// Empty is good.
std::vector<std::string> document_errors(const std::string& root);

}  // namespace recapture::lint
