// AccumulateGrad steals a view of memory that belongs to somebody else, with a graph or without.
//
// AccumulateGrad is LibTorch's own; the producer is modelled. Its backward function writes to the same buffer each
// time, as a replay does, and returns it in one of three forms. The table has a row for each form, each state of .grad,
// with and without a post hook, and with the parameter's strides or others: whether .grad steals the returned tensor,
// copies it or is added to in place, and the sum of two micro-batches. Only a detached view is stolen: the buffer
// itself has two owners, so it is copied, and so is any tensor whose strides differ from the parameter's. Zeroing a
// stolen gradient in place does not help. The report has one of these rows; the other 35 are our own addition.
//
// Alone:  g++ cases/gradient/accumulate_grad_steals_alias.cpp $(tools/libtorch --flags) -o accumulate_grad_steals_alias

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>

#include "fixtures/torch/gpu.h"
#include "harness/case/case.h"

using namespace recapture;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

RECAPTURE_CASE = {
    .title = "AccumulateGrad steals a detached view of a buffer that its producer writes again",
    .sources = {{"gradient aliasing", "Bug description"}, {"upstream", "pytorch#181723"}},
    .documented = "If param.grad is None, AccumulateGrad may install/steal the incoming grad tensor as param.grad",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Modelled,
    .tags = {"graphed callables", "autograd"},
    .features = {"autograd"},
    .needs = "host",
    .effect = Effect::SilentlyWrong,
    .fixes =
        {{"FixReturnTheVeryTensor",
          "Return the buffer itself from Function.backward(), not buffer.detach(), so that AccumulateGrad copies it."},
         {"FixCloneParameterGradients",
          "Return buffer.detach().clone() from Function.backward() if the buffer will be written again."}},
};

namespace {

enum Form { Detached, Cloned, Itself };
enum Existing { Undefined, Preallocated, Zeroed };
const char* const kForms[] = {"detached", "detached and cloned", "the very tensor"};
const char* const kExisting[] = {"undefined", "preallocated", "zeroed in place"};

struct Buffer {
  at::Tensor memory = at::zeros({2, 2});
  Form form = Detached;
  const void* returned = nullptr;  // The memory of what was handed to autograd last.
};

struct Overwrite : torch::autograd::Function<Overwrite> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, Buffer* buffer) {
    context->saved_data["buffer"] = reinterpret_cast<int64_t>(buffer);
    context->saved_data["x"] = x;
    return x * weight;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto* buffer = reinterpret_cast<Buffer*>(context->saved_data["buffer"].toInt());
    buffer->memory.copy_(grads[0] * context->saved_data["x"].toTensor());
    variable_list out{at::Tensor(), buffer->memory, at::Tensor()};
    if (buffer->form != Itself) out[1] = out[1].detach();
    if (buffer->form == Cloned) out[1] = out[1].clone();
    buffer->returned = out[1].data_ptr();
    return out;
  }
};

struct Hook : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& outputs, const variable_list&) override { return outputs; }
};

// "steals: { 22, 44, 66, 88 }": what AccumulateGrad did with the first micro-batch's gradient, and the sum of both.
std::string accumulate(Form form, Existing existing, bool hook, bool same_strides) {
  at::Tensor weight = at::tensor({1, 2, 3, 4}, at::kFloat).view({2, 2});
  if (!same_strides) weight = weight.t();
  weight.requires_grad_();
  const auto node = torch::autograd::impl::grad_accumulator(weight);
  if (hook) node->add_post_hook(std::make_unique<Hook>());
  Buffer buffer;
  buffer.form = form;
  const auto step = [&](at::ArrayRef<float> x) {
    Overwrite::apply(at::tensor(x, at::kFloat).view({2, 2}), weight, &buffer).sum().backward();
  };
  if (existing == Preallocated) weight.mutable_grad() = at::zeros_like(weight);
  if (existing == Zeroed) {
    step({9, 9, 9, 9});
    weight.mutable_grad().zero_();
  }
  const void* before = weight.grad().defined() ? weight.grad().data_ptr() : nullptr;
  step({3, 5, 7, 9});
  const void* after = weight.grad().data_ptr();
  const char* action = after == before ? "adds in place" : after == buffer.returned ? "steals" : "copies";
  step({11, 22, 33, 44});
  return std::string(action) + ": " + text_of(values(weight.grad()));
}

// Records all 36 combinations, with `first` as the first of the three forms, and returns those with a wrong sum.
std::string wrong_sums(Form first) {
  std::string wrong;
  for (const Form form : {first, Cloned, Itself}) {
    for (const Existing existing : {Undefined, Preallocated, Zeroed}) {
      for (const bool hook : {false, true}) {
        for (const bool same_strides : {true, false}) {
          const std::string row = std::string(kForms[form]) + ", " + kExisting[existing] + (hook ? ", post hook" : "") +
                                  (same_strides ? "" : ", other strides");
          const std::string found = accumulate(form, existing, hook, same_strides);
          record("table." + row, found);
          if (found.find("{ 14, 27, 40, 53 }") == std::string::npos) wrong += row + ": " + found + "\n";
        }
      }
    }
  }
  return wrong.empty() ? "none" : wrong;
}

}  // namespace

TEST(AccumulateGradStealsAlias, Control) {
  const std::string sum = "{ 14, 27, 40, 53 }";
  for (const bool hook : {false, true}) {
    EXPECT_EQ(accumulate(Cloned, Undefined, hook, true), "steals: " + sum);  // A copy of its own may be stolen.
    EXPECT_EQ(accumulate(Cloned, Undefined, hook, false), "copies: " + sum);
    for (const Form form : {Detached, Cloned, Itself}) {
      EXPECT_EQ(accumulate(form, Preallocated, hook, true), "adds in place: " + sum);
    }
  }
}

TEST(AccumulateGradStealsAlias, Reproduces) {
  const Form form = trigger_on() ? Detached : Cloned;
  REPRODUCES(accumulate(form, Undefined, false, true), "steals: { 22, 44, 66, 88 }", "steals: { 14, 27, 40, 53 }");
}

TEST(AccumulateGradStealsAlias, ReproducesInFourOfThirtySixWays) {
  REPRODUCES(wrong_sums(trigger_on() ? Detached : Cloned),
             "detached, undefined: steals: { 22, 44, 66, 88 }\n"
             "detached, undefined, post hook: steals: { 22, 44, 66, 88 }\n"
             "detached, zeroed in place: adds in place: { 22, 44, 66, 88 }\n"
             "detached, zeroed in place, post hook: adds in place: { 22, 44, 66, 88 }\n",
             "none");
}

TEST(AccumulateGradStealsAlias, FixReturnTheVeryTensor) {
  Form form = Detached;
  REMEDY(form = Itself);
  for (const bool hook : {false, true}) {
    for (const bool same_strides : {true, false}) {
      EXPECT_EQ(accumulate(form, Undefined, hook, same_strides), "copies: { 14, 27, 40, 53 }");
    }
  }
}

TEST(AccumulateGradStealsAlias, FixCloneParameterGradients) {
  Form form = Detached;
  REMEDY(form = Cloned);
  for (const Existing existing : {Undefined, Preallocated, Zeroed}) {
    EXPECT_THAT(accumulate(form, existing, false, true), ::testing::HasSubstr("{ 14, 27, 40, 53 }"));
  }
}
