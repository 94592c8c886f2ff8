// A file of its own: a program that has no multiplexer but those of its threads links nothing of the shared
// ones.

#include "core/failed_with.hpp"
#include "driver/shared.hpp"

namespace unio::inline v0_1 {

result<std::unique_ptr<io_multiplexer>> io_multiplexer::best_available(int threads) noexcept {
  UNIO_EXPECTS(threads >= 1, "a multiplexer is for at least one thread");
  result<std::unique_ptr<io_multiplexer>> made =
      threads > 1 ? driver::make_shared_multiplexer(threads) : driver::make_engine(nullptr);
  if (!made.has_value()) return detail::failed_with(made.error(), "best_available", detail::failed_object());
  return made;
}

} // namespace unio
