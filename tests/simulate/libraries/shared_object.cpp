#include "shared_object.hpp"

namespace programs {

shared_object of_library{.answer = [] { return 42; }, .value = 7};
int value_in_library() noexcept { return of_library.value; }

} // namespace programs
