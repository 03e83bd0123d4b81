// The remedies for the freeze race under ThreadSanitizer: without an interpreter lock that makes the steps atomic, each
// must provide all synchronisation itself. Exits with 0 if no call raised, every result was right and the model is
// restored; ThreadSanitizer's own report makes it 66. With --broken the lock is left out, and there must be a report.
//
// Alone:  g++ -std=c++17 -fsanitize=thread -O1 -g -I. harness/tests/freeze_tsan.cpp -o freeze_tsan

#include <cstdio>
#include <cstring>

#include "fixtures/freeze/freeze_model.h"

using namespace recapture;

namespace {

// Two plain numbers: an unordered access is a data race.
class PlainPart {
 public:
  using Value = double;
  explicit PlainPart(const std::string& name) : scale_(name == "encoder" ? 2 : 3) {}
  const std::vector<std::string>& parameters() const {
    static const std::vector<std::string> names = {"weight", "bias"};
    return names;
  }
  bool requires_grad(size_t i) const { return grad_[i]; }
  void set_requires_grad(size_t i, bool on) { grad_[i] = on; }
  bool training() const { return training_; }
  void train(bool on) { training_ = on; }
  double forward(double input, bool training) const { return training ? 0 : input * scale_ + 1; }

 private:
  const double scale_;
  std::array<bool, 2> grad_ = {true, true};
  bool training_ = true;
};

using Model = Transcriber<PlainPart, NoInterpreterLock>;
constexpr int kCallers = 33, kRounds = 300;

double alone(double input) { return ((input * 2 + 1) * 3 + 1) * 3 + 1; }

// How many calls failed, and whether the model is restored.
template <class F>
bool holds(const char* remedy, Model& model, F&& call) {
  std::atomic<int> bad{0};
  together(kCallers, [&](int i) {
    for (int round = 0; round < kRounds; ++round) {
      double result = 0;
      if (outcome_of([&] { result = call(i); }) != "ok" || result != alone(i)) ++bad;
    }
  });
  bool intact = model.settings() == "as configured" && model.log() == "info";
  for (auto* part : model.parts()) intact = intact && part->grad() == "trainable" && part->map() == "no map";
  std::printf("%s: %d of %d calls bad, model %s\n", remedy, bad.load(), kCallers * kRounds,
              intact ? "intact" : "changed");
  return bad == 0 && intact;
}

// Checks the scheduler itself: two calls in the order that raises the report's error.
bool scheduled() {
  Model model;
  Caller a([&] { model.transcribe(1); });
  Caller b([&] { model.transcribe(2); });
  a.until("encoder.unfreeze looks for the map");
  b.until("encoder.unfreeze looks for the map");
  a.finish();
  b.finish();
  std::printf("scheduled: %s, %s\n", a.outcome().c_str(), b.outcome().c_str());
  return a.outcome() == "ok" && b.outcome().rfind("ValueError", 0) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--broken") == 0) {
    Model model;
    together(2, [&](int i) { outcome_of([&] { model.transcribe(i); }); });
    return 0;  // Unless there is a report.
  }
  bool good = scheduled();
  {
    Model model;
    std::mutex mutex;
    good &= holds("mutex", model, [&](int i) {
      const std::lock_guard<std::mutex> hold(mutex);
      return model.transcribe(i);
    });
  }
  {
    Model model;
    Semaphore semaphore(1);
    good &= holds("semaphore", model, [&](int i) {
      const std::unique_lock<Semaphore> hold(semaphore);
      return model.transcribe(i);
    });
  }
  {
    Model model;
    SharedFreeze<Model> shared(model);
    good &= holds("shared freeze", model, [&](int i) { return shared.transcribe(i); });
  }
  {
    Model model;
    good &= holds("no freezing", model, [&](int i) { return model.forward(i); });
  }
  return good ? 0 : 1;
}
