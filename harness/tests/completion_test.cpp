// Features of a terminal: shell completion and the man page, both from the same options as --help, and colours.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "harness/tests/shell.h"

namespace recapture {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kProgram = RECAPTURE_BUILD "/recapture";

std::vector<std::string> completions(const std::string& words) {
  const ShellResult said = shell("'" + kProgram + "' --root '" RECAPTURE_ROOT "' dev complete -- " + words);
  EXPECT_EQ(said.code, 0) << words << "\n" << said.out;
  std::vector<std::string> all;
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);) all.push_back(line.substr(0, line.find('\t')));
  return all;
}

TEST(Completion, LastWord_IsAVerbAnOptionACaseOrARelease) {
  EXPECT_THAT(completions("''"), AllOf(Contains("gate"), Contains("nightly"), Contains("help")));
  EXPECT_THAT(completions("co"), ElementsAre("compare"));
  EXPECT_THAT(completions("nightly ''"), ElementsAre("plan", "collect", "diff"));
  EXPECT_THAT(completions("nightly diff --ma"), ElementsAre("--markdown"));
  EXPECT_THAT(completions("gate --poli"), ElementsAre("--policy"));
  EXPECT_THAT(completions("gate --ro"), ElementsAre("--root")) << "options of the program itself";
  EXPECT_THAT(completions("gate 2.6"), ElementsAre("2.6.0"));
  EXPECT_EQ(completions("gate 2.6 ''").front(), "2.15.0") << "the newest first";
  EXPECT_THAT(completions("gate 2.6 2.11 --policy ''"), IsEmpty()) << "a file";
  EXPECT_THAT(completions("run --release 2.1"), Contains("2.11.0"));
  EXPECT_THAT(completions("show item_in_c"), ElementsAre("item_in_capture"));
  EXPECT_THAT(completions("show item_in_capture.R"),
              ElementsAre("item_in_capture.Reproduces", "item_in_capture.ReproducesCold"));
  EXPECT_THAT(completions("list syn"), Contains("sync"));
  EXPECT_THAT(completions("list DD"), ElementsAre("DDP"));
  EXPECT_THAT(completions("operators F.one"), ElementsAre("F.one_hot"));
  EXPECT_THAT(completions("operators torch.linalg.inv"), ElementsAre("torch.linalg.inv", "torch.linalg.inv_ex"));
  EXPECT_THAT(completions("show 2.6"), ElementsAre("2.6.0"));
  EXPECT_THAT(completions("run --release cuda"), IsEmpty()) << "no version";
  EXPECT_THAT(completions("help nightly d"), ElementsAre("diff"));
  EXPECT_THAT(completions("help no_verb ''"), IsEmpty());
  EXPECT_THAT(completions("help gate ''"), IsEmpty());
  EXPECT_THAT(completions("blame -- python tr"), IsEmpty()) << "another program's words";
  EXPECT_THAT(completions("no_verb ''"), IsEmpty());
  EXPECT_THAT(completions("--root /nowhere show item_in_capture --al"), ElementsAre("--all"));
}

// In the shells that are installed.
TEST(Completion, Shells_OfferWhatTheProgramSays) {
  const std::string files = RECAPTURE_ROOT "/harness/completion/";
  const std::string path = "PATH='" RECAPTURE_BUILD "':$PATH ";
  const std::string script = ::testing::TempDir() + "recapture-completion-" + std::to_string(getpid());
  const auto in_bash = [&](const std::string& line) {
    std::ofstream(script) << "source '" << files << "recapture.bash'\nCOMP_LINE='" << line
                          << "' COMP_POINT=" << line.size() << "\nread -ra COMP_WORDS <<<\"$COMP_LINE\"\n"
                          << "[[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                          << "_recapture\necho \"${COMPREPLY[@]}\"\n";
    return shell(path + "bash '" + script + "'").out;
  };
  EXPECT_EQ(in_bash("recapture nightly "), "plan collect diff\n");
  EXPECT_EQ(in_bash("recapture show item_in_capture.FixR"), "item_in_capture.FixReadAfterReplay\n");
  std::filesystem::remove(script);
  if (shell("command -v fish").code == 0) {
    const ShellResult said =
        shell(path + "fish --no-config -c \"source '" + files + "recapture.fish'; complete -C 'recapture nightly '\"");
    EXPECT_THAT(said.out, AllOf(HasSubstr("plan\t"), HasSubstr("diff\t"))) << said.out;
  }
  if (shell("command -v zsh").code == 0) {
    EXPECT_EQ(shell("zsh -n '" + files + "_recapture'").code, 0);
  }
}

TEST(ManPage, Committed_IsWhatTheProgramPrints) {
  std::ifstream file(RECAPTURE_ROOT "/docs/reference/recapture.1");
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(committed, shell("'" + kProgram + "' --root '" RECAPTURE_ROOT "' dev tables man").out)
      << "run `build/recapture dev tables man > docs/reference/recapture.1`";
  EXPECT_THAT(committed, AllOf(HasSubstr("\n.SS recapture nightly diff\n"), HasSubstr("\\-\\-policy"),
                               HasSubstr("\n.SH EXIT STATUS\n")));
  if (shell("command -v man").code == 0) {
    const ShellResult shown = shell("MANROFFSEQ= LC_ALL=C.UTF-8 man --warnings -l '" RECAPTURE_ROOT
                                    "/docs/reference/recapture.1' 2>&1 >/dev/null");
    EXPECT_THAT(shown.out, IsEmpty());
  }
}

// In a terminal, by `script` of util-linux.
TEST(Colours, Terminal_HasThemAndAPipeDoesNot) {
  const std::string gate = "'" + kProgram + "' --root '" RECAPTURE_ROOT "' gate 2.6 2.11";
  const auto in_terminal = [&](const std::string& before) {
    return shell(before + " script -qec \"" + gate + "\" /dev/null").out;
  };
  EXPECT_THAT(in_terminal("env -u NO_COLOR TERM=xterm"), HasSubstr(": \x1b[31mblocked\x1b[0m"));
  EXPECT_THAT(in_terminal("NO_COLOR=1 TERM=xterm"), Not(HasSubstr("\x1b")));
  EXPECT_THAT(in_terminal("env -u NO_COLOR TERM=dumb"), Not(HasSubstr("\x1b")));
  EXPECT_THAT(shell("env -u NO_COLOR TERM=xterm " + gate).out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace recapture
