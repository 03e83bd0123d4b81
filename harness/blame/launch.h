// Starts a program as a shell does, with our input and output.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace recapture::blame {

// Returns its wait status. Signals sent to this process are forwarded; a signal sent to the whole process group reaches
// the program twice, since the two cannot be told apart. Throws ExitError(Usage) if it cannot be started.
int launch(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables);

// Ends this process as that status does: returns the exit code, or raises the signal.
int end_like(int status);

}  // namespace recapture::blame
