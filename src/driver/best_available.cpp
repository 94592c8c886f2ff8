// A file of its own: a program that has no multiplexer but those of its threads links nothing of the shared
// ones.

#include "driver/shared.hpp"

namespace unio::inline v0_1 {

result<std::unique_ptr<io_multiplexer>> io_multiplexer::best_available(int threads) noexcept {
  UNIO_EXPECTS(threads >= 1, "a multiplexer is for at least one thread");
  if (threads > 1) return driver::make_shared_multiplexer(threads);
  return driver::make_engine(nullptr);
}

} // namespace unio
