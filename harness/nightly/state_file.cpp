#include "harness/nightly/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/reason.h"
#include "harness/case/source_hash.h"

namespace recapture::nightly {
namespace fs = std::filesystem;
namespace {

std::string required(const Json& json, const char* key) {
  const std::string text = escape_control(text_at(json, key));
  if (text.empty()) throw std::runtime_error(fmt::format("it has no '{}'", key));
  return text;
}

Json json_of(const MissingSince& missing) {
  return {{"task", render_json(NightPlan{missing.task}).at(0)},
          {"since", missing.since},
          {"reason", missing.reason},
          {"incomplete", missing.is_incomplete}};
}

MissingSince missing_from(const Json& json) {
  const NightPlan plan = plan_from(Json::array({json.at("task")}), "missing");
  return {plan.front(), escape_control(text_at(json, "reason")), required(json, "since"),
          json.at("incomplete").get<bool>()};
}

// Tasks as facts: without their commands.
Json tasks_of(const NightPlan& plan) {
  Json tasks = Json::array();
  for (const NightTask& task : plan) {
    tasks.push_back({{"release", task.release}, {"gpu", task.gpu}, {"shard", task.shard_words()}});
  }
  return tasks;
}

}  // namespace

bool SavedState::knows(const Night& night) const {
  return std::ranges::any_of(
      nights, [&](const auto& each) { return each.first == night.started && each.second == night.name; });
}

Json to_json(const SavedState& state) {
  Json nights = Json::array(), missing = Json::array(), places = Json::array();
  for (const auto& [started, name] : state.nights) nights.push_back({started, name});
  for (const MissingSince& each : state.missing) {
    missing.push_back(json_of(each));
    missing.back()["task"] = tasks_of({each.task}).at(0);
  }
  for (const auto& [key, place] : state.places) places.push_back(place.to_json());
  return {{"night", state.night},
          {"started", state.started},
          {"first",
           {{"night", state.first.night},
            {"started", state.first.started},
            {"chosen", state.first.chosen},
            {"date", state.first.date}}},
          {"plan", tasks_of(state.plan)},
          {"nights", nights},
          {"runs", state.runs},
          {"missing", missing},
          {"places", places}};
}

SavedState state_from(const Json& json, const compare::CompareContext& background) {
  SavedState state;
  state.night = required(json, "night");
  state.started = required(json, "started");
  const Json& first = json.at("first");
  state.first = {required(first, "night"), required(first, "started"), required(first, "chosen"),
                 required(first, "date")};
  state.plan = plan_from(json.at("plan"), "plan");
  for (const Json& night : json.at("nights")) {
    state.nights.emplace_back(escape_control(night.at(0).get<std::string>()),
                              escape_control(night.at(1).get<std::string>()));
  }
  for (const auto& [id, night] : json.at("runs").items()) state.runs[id] = escape_control(night.get<std::string>());
  for (const Json& missing : json.at("missing")) state.missing.push_back(missing_from(missing));
  for (const Json& each : json.at("places")) {
    PlaceHistory place = PlaceHistory::from_json(each, background);
    const MachineKind key = place_of(place.environment());
    if (!state.places.emplace(key, std::move(place)).second) throw std::runtime_error("it has one place twice");
  }
  return state;
}

// The hash is that of the text without it.
std::string text_of(const SavedState& state) {
  const std::string body = to_text(to_json(state));
  return fmt::format("{{\"state\":{},\"hash\":\"{}\",\n\"body\":{}}}\n", kStateFormat, hash_of(body), body);
}

SavedState read_state(const std::string& path, const compare::CompareContext& background) {
  const auto wrong = [&](const std::string& why) {
    return ExitError(Exit::Usage, fmt::format("{}: {}", escape_control(path), escape_control(why)));
  };
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (fs::is_symlink(status)) throw wrong("it is a link, and a state is a file beside the night's records");
  if (!fs::is_regular_file(status)) throw wrong("it is not a file");
  const auto size = fs::file_size(path, error);
  if (!error && size > kMostStateBytes) {
    throw wrong(fmt::format("it has {} bytes, and a state has at most {}", size, kMostStateBytes));
  }
  const std::string text = contents_of(path);
  const auto json = try_parse_json(text);
  if (!json || !json->is_object()) throw wrong("it is cut or is not JSON");
  const auto format = int_at(*json, "state");
  if (!format) throw wrong("it is not what `recapture nightly diff` writes");
  if (*format != kStateFormat) {
    throw wrong(fmt::format("its format is {}, and this program reads {}", *format, kStateFormat));
  }
  const Json* body = member(*json, "body");
  if (body == nullptr || text_at(*json, "hash") != hash_of(to_text(*body))) {
    throw wrong("it has changed since it was written: its hash is another");
  }
  try {
    return state_from(*body, background);
  } catch (const std::exception& e) {
    throw wrong(fmt::format("it is not a state: {}", reason_of(e)));
  }
}

void write_state(const std::string& path, const SavedState& state) {
  const auto cannot = [&](const std::string& why) {
    return ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it: {}", escape_control(path), why));
  };
  const std::string text = text_of(state);
  if (text.size() > kMostStateBytes) {
    throw cannot(fmt::format("it would have {} bytes, and a state has at most {}", text.size(), kMostStateBytes));
  }
  std::error_code error;
  if (fs::is_regular_file(fs::symlink_status(path, error)) && fs::file_size(path, error) == text.size() &&
      contents_of(path) == text) {
    return;
  }
  // Two that write at once each have a file of their own; the last to rename it wins, with the same text.
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) throw cannot(std::strerror(errno));
  int wrong = 0;
  for (size_t done = 0; done < text.size() && wrong == 0;) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote > 0) done += static_cast<size_t>(wrote);
    if (wrote < 0 && errno != EINTR) wrong = errno;
  }
  if (wrong == 0 && fsync(fd) != 0) wrong = errno;
  if (close(fd) != 0 && wrong == 0) wrong = errno;
  if (wrong == 0 && std::rename(part.c_str(), path.c_str()) != 0) wrong = errno;
  if (wrong == 0) return;
  unlink(part.c_str());
  throw cannot(std::strerror(wrong));
}

}  // namespace recapture::nightly
