// recapture news: what a night shows that the nights before it did not.
#include "harness/night/news.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "harness/commands/commands.h"
#include "harness/record/output.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string nights, since;
  NewsChoice choice;
  bool json = false, markdown = false, issue = false;
};

Exit tell_news(const Places& places, Options options) {
  if ((options.json ? 1 : 0) + (options.markdown ? 1 : 0) + (options.issue ? 1 : 0) > 1) {
    throw Stop(Exit::Usage, "--json, --markdown and --issue cannot be combined");
  }
  options.choice.since_good = options.since == "good";
  Background background{rules_of(places.root), read_changes(places.root), read_sources(places.root), {}};
  if (std::filesystem::exists(catalogue_path(places.root))) background.catalogue = read_catalogue(places.root);
  const News news = news_of(options.nights, options.choice, background);
  Json issues = Json::array();
  for (const NewsIssue& issue : news.issues) {
    issues.push_back({{"fingerprint", issue.fingerprint}, {"title", issue.title}, {"body", issue.body}});
  }
  if (options.json || options.issue) {
    print("{}\n", (options.json ? as_json(news) : issues).dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    print("{}", options.markdown ? as_markdown(news) : as_text(news));
  }
  return exit_for(news);
}

}  // namespace

Verb news_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("news", "What a night shows that the nights before it did not");
  command->add_option("nights", options->nights, "The folder of all nights, each made by `recapture gather`")
      ->required();
  command->add_option("--night", options->choice.night, "One of them, by its folder or its name (default: the newest)");
  command->add_option("--since", options->since, "good: since the last run marked good or, without a mark, whole")
      ->check(CLI::IsMember({"good"}));
  command->add_flag("--json", options->json, "A JSON object");
  command->add_flag("--markdown", options->markdown, "For the summary of a job on GitHub");
  command->add_flag("--issue", options->issue,
                    "A JSON list of issues, one for each cause: fingerprint, title, body with the fingerprint");
  command->footer(
      "Exit codes: 0 nothing new, 1 something appeared or is flaky now, 5 something vanished, 6 the night is not "
      "whole\n"
      "or tests of it have nothing to be compared with.");
  return {command, [options, &root] { return tell_news(Places::find(root), *options); }};
}

}  // namespace recapture
