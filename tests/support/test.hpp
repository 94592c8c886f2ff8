// What every test begins with: googletest, unio.hpp, what most tests want of the standard library, and in
// namespace test the words of unio and the units of time. A test says `using namespace test`.

#pragma once

#include "sys/barrier.hpp"

#include <unio/unio.hpp>

#include <gtest/gtest.h>

#include <fcntl.h> // before names of unio are visible: it has a file_handle too

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace test {

using namespace std::chrono_literals;
using namespace unio;

inline constexpr auto long_time = 30s; // nothing takes so long unless it hangs

inline bool contains(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

/// Asked for while the program has one thread, which takes no time, and inherited by children. Each process
/// that asks when it has threads waits some 10 ms.
inline bool const has_barriers = sys::has_barriers();

} // namespace test
