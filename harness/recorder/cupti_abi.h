// The part of the binary interface of CUPTI and the driver that the recorder uses, so that one build without CUDA works
// with all LibTorch releases. Sizes, offsets and values were compared with the headers of CUDA 12.1, 12.4, 12.8, 13.0
// and 13.2: they agree. Pointers to CUDA's types are untyped, and its enumerations are int.
#pragma once
#include <cstddef>
#include <cstdint>

namespace recapture::cupti {

constexpr int kSuccess = 0;  // For CUPTI and for the driver.

// CUPTI's results that a user can act on.
constexpr int kNotCompatible = 14;
constexpr int kNotInitialized = 15;
constexpr int kInsufficientPrivileges = 35;
constexpr int kMultipleSubscribers = 39;

constexpr int kDriverApi = 1;  // The domain of the driver's calls.
constexpr int kEnter = 0;      // The callback before the call; 1 is after it.

using CallId = uint32_t;  // Identifies a driver call; the number differs between releases, the name does not.
using Subscriber = void*;

// The argument of a callback about a driver call.
struct CallbackData {
  int site;
  const char* function;
  const void* parameters;  // One of the structs below.
  void* result;            // The driver's result, an int; valid only after the call.
  const char* kernel;
  void* context;
  uint32_t context_id;
  uint64_t* carried;  // For the subscriber: passed from the callback before the call to the one after it.
  uint32_t correlation_id;
};

using Callback = void (*)(void* subscribers_own, int domain, CallId id, const void* data);

struct SubscriberParameters {  // Of cuptiSubscribe_v2, since CUDA 13.
  size_t size = sizeof(SubscriberParameters);
  const char* name = nullptr;
  char* old_name = nullptr;
  size_t old_size = 0;
  uint8_t allows_others = 1;
};

struct Functions {
  int (*subscribe)(Subscriber* subscriber, Callback callback, void* subscribers_own);  // cuptiSubscribe
  int (*subscribe_beside)(Subscriber* subscriber, Callback callback, void* subscribers_own,
                          SubscriberParameters* parameters);                              // cuptiSubscribe_v2
  int (*enable_domain)(uint32_t enable, Subscriber subscriber, int domain);               // cuptiEnableDomain
  int (*enable_callback)(uint32_t enable, Subscriber subscriber, int domain, CallId id);  // cuptiEnableCallback
  int (*callback_name)(int domain, CallId id, const char** name);                         // cuptiGetCallbackName
};

// The parameters of driver calls. Variants with the suffix _ptsz have the same ones.
struct BeginCapture {  // cuStreamBeginCapture_v2
  void* stream;
  int mode;
};

struct BeginCaptureToGraph {  // cuStreamBeginCaptureToGraph, since CUDA 12.3
  void* stream;
  void* graph;
  const void* dependencies;
  const void* edges;
  size_t dependency_count;
  int mode;
};

struct EndCapture {  // cuStreamEndCapture
  void* stream;
  void** graph;
};

struct LaunchKernel {  // cuLaunchKernel, and the first members of cuLaunchCooperativeKernel.
  void* function;
  unsigned sizes[7];
  void* stream;
};

struct LaunchConfig {  // The first parameter of cuLaunchKernelEx.
  unsigned sizes[7];
  void* stream;
};

struct ExchangeMode {  // cuThreadExchangeStreamCaptureMode
  int* mode;           // In and out.
};

struct OnStream {  // The first parameter of all other stream calls: cuStreamBeginCapture, …EndCapture, …Destroy.
  void* stream;
};

}  // namespace recapture::cupti
