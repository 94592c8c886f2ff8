// A library with an object of which an executable has a copy (R_X86_64_COPY).

#pragma once

namespace programs {

struct shared_object {
  int (*answer)();
  int value;
};
[[gnu::visibility("default")]] extern shared_object of_library;
[[gnu::visibility("default")]] int value_in_library() noexcept;

} // namespace programs
