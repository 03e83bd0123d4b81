// Packs and unpacks by liblzma, as `xz` does.
#pragma once
#include <functional>
#include <string>

namespace recapture {

// The same text always gives the same bytes.
std::string packed_by_xz(const std::string& text);

// At most `most` bytes. Stops early where `is_enough`, called with the text so far, is true. `path` is for messages.
// Throws ExitError(Usage) for what is damaged, cut or larger.
std::string unpacked_by_xz(const std::string& packed, const std::string& path, size_t most,
                           const std::function<bool(const std::string& text)>& is_enough = nullptr);

}  // namespace recapture
