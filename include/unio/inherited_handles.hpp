// unio/inherited_handles.hpp: sockets that the service manager opened and passed at start (activation).
//
//   inherited_handles   the descriptors, with their names, until they are taken
//
//   std::string why;
//   auto inherited = inherited_handles::take_over(inherited_handles::environment::remove, &why);
//   if (!inherited) …                                  // what the environment says is wrong: why
//   auto listener = inherited->empty() ? listening_socket_handle::listen(at) : inherited->take_listener(0);

#pragma once

#include <unio/datagram_handle.hpp>
#include <unio/detail/standard.hpp>
#include <unio/handle.hpp>
#include <unio/socket_handle.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace unio::inline v0_1 {

/// The descriptors that this process was passed when it was executed: those from 3 on, as many as LISTEN_FDS
/// says, if LISTEN_PID is this process. They are close-on-exec from then on. What is not taken is closed with
/// this object.
///
/// Thread safety  distinct: safe; shared: no
/// Moved-from     empty
/// Cost           taking one: as adopt() of its kind; otherwise none
class UNIO_API inherited_handles {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// What becomes of LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES.
  enum class environment : bool {
    keep,   ///< they stay: for a second look. A child does not take them for its own: they name this process
    remove, ///< they are unset, whatever is returned
  };

  inherited_handles() = default;
  inherited_handles(inherited_handles&& other) noexcept
      : all_(std::move(other.all_)), count_(std::exchange(other.count_, 0)) {}
  inherited_handles& operator=(inherited_handles&& other) noexcept;
  ~inherited_handles() { close_all(); }

  /// Takes over what was passed. None where the variables are not set, or are another process's.
  ///
  /// Errors        EINVAL if a variable is not what it has to be; EBADF if a descriptor is not open. `*why`,
  ///               if given, is set to a sentence that names the variable. No descriptor was changed then
  /// Throws        std::bad_alloc
  /// Concurrency   before other threads use the environment (setenv(3)) or take descriptors from here
  /// Cost          two system calls for each descriptor; an allocation for all, and for names that are long
  /// Source        sd_listen_fds(3)
  static result<inherited_handles> take_over(environment after = environment::remove,
                                             std::string* why = nullptr);

  /// How many were passed, taken ones included.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// The name of the `i`-th (FileDescriptorName= of its unit), "unknown" where names were not passed; valid
  /// as long as this object. Preconditions: `i` < size().
  [[nodiscard]] std::string_view name(std::size_t i) const noexcept { return all_[i].name; }
  /// The first of that name that was not taken, or none.
  [[nodiscard]] std::size_t find(std::string_view name) const noexcept;

  /// Takes the `i`-th out, and returns it as what it is. Errors: as the handle's adopt, so
  /// wrong_protocol_type or ENOTSOCK if it is something else; EBADF if it was taken, or there is none. On
  /// failure it stays.
  result<listening_socket_handle> take_listener(std::size_t i) noexcept;
  /// A connection: a service with Accept=yes. See take_listener.
  result<socket_handle> take_stream(std::size_t i) noexcept;
  /// A socket of datagrams. See take_listener.
  result<datagram_handle> take_datagrams(std::size_t i) noexcept;
  /// A FIFO, a file, a device. See take_listener.
  result<io_handle> take(std::size_t i) noexcept;
  /// The descriptor of the `i`-th, which stays. -1 if it was taken, or there is none.
  [[nodiscard]] int native_handle(std::size_t i) const noexcept { return i < count_ ? all_[i].fd : -1; }
  /// Gives the `i`-th to the caller, as it is. -1 if there is none.
  [[nodiscard]] int release(std::size_t i) noexcept;

 private:
  struct one {
    std::string name;
    int fd = -1;
  };
  template <class Handle> result<Handle> take_as(std::size_t i) noexcept;
  void close_all() noexcept;
  std::unique_ptr<one[]> all_;
  std::size_t count_ = 0;
};

} // namespace unio
