// Whether cases/documents.tsv, the documents line by line, is whole and names tests that exist.
#pragma once
#include <string>
#include <vector>

namespace recapture {

struct DocumentLine {
  std::string document, heading, kind, says, covered;
  int number = 0;  // Of the line in the file.
};

std::vector<DocumentLine> read_documents(const std::string& root);

// One message each: a line without its five cells, of an unknown document or kind, said twice, or that names no test
// and not "not yet" or "not covered: why"; a test that no case has; a case that cites one of the documents under a
// heading that is not there, or that stands at none of its lines. Empty is good.
std::vector<std::string> document_errors(const std::string& root);

}  // namespace recapture
