// cuda(), to() or float() on an RNN that is on the GPU already moves its weights, and a graph goes on with the old
// ones.
//
// For other modules such a call does nothing. RNN, LSTM and GRU end each of them with flatten_parameters(), which
// copies all weights into a new buffer, so that cuDNN finds them in one piece, and makes the parameters views of it. A
// graph keeps the address of the old buffer: it does not see what an optimizer or load_state_dict() writes from then
// on, and the memory that it reads is free. No error is raised. A call on the model that contains the RNN does the
// same, and so does flatten_parameters() itself.
//
// No document describes it. We found it by reading what moves between two replays.
//
// Only Python can state it, as the module is Python's: the program is rnn_weights_moved.py.
//
// Alone:  g++ cases/training/rnn_weights_moved.cpp $(tools/libtorch --flags) -o rnn_weights_moved

#include "harness/case/case.h"

using namespace recapture;

RECAPTURE_CASE = {
    .title = "In Python, cuda() or to() on an RNN that is on the GPU moves its weights: replays read the old ones",
    .sources = {{"PyTorch source", "torch/nn/modules/rnn.py: RNNBase._apply, flatten_parameters"}},
    .documented = "not documented; found by reading: the replay has the old weights",
    .nature = Nature::Defect,
    .fidelity = Fidelity::Translated,
    .tags = {"cuDNN"},
    .features = {"cuDNN"},
    .needs = "gpu python",
    .effect = Effect::SilentlyWrong,
    .fixes = {{"FixMoveBeforeTheCapture",
               "Call cuda(), to() and flatten_parameters() before the capture, and not while the graph is replayed."},
              {"FixCaptureAgain", "Capture again after such a call."}},
};
