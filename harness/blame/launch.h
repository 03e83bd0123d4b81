// A program, started as a shell starts it: its input, output and signals are its own.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace recapture::blame {

// Returns its wait status. Signals that are sent to this process meanwhile are sent on to it: one that is sent to the
// whole process group reaches it twice, as we cannot know that the others got it too. Throws ExitError(Usage) if it
// cannot be started.
int launch(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables);

// Ends this process as that status says: the exit code is returned, a signal is raised.
int end_like(int status);

}  // namespace recapture::blame
