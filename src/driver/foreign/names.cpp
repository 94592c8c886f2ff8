// unio/extend/foreign_names.hpp: where unio::net says that it is part of the program.

#include <unio/extend/foreign_names.hpp>

#include <atomic>

namespace unio::inline v0_1 {
namespace {

constinit std::atomic<foreign_names*> of_net{nullptr};

} // namespace

foreign_answer::~foreign_answer() = default;
foreign_asker::~foreign_asker() = default;
foreign_look_up::~foreign_look_up() = default;

foreign_names* foreign_names::linked() noexcept {
  return of_net.load(std::memory_order_acquire); // pairs with the release in is_linked()
}
void foreign_names::is_linked(foreign_names* names) noexcept {
  of_net.store(names, std::memory_order_release);
}

} // namespace unio
