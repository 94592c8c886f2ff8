// unio/extend/foreign_names.hpp: names of hosts for an event loop that is not unio's.
//
//   foreign_question   what is asked, in the terms of getaddrinfo(3) and getnameinfo(3)
//   foreign_answer     what came of it
//   foreign_asker      who is told
//   foreign_names      unio::net, if the program has it
//
// The names are those of unio::resolver (unio/resolver.hpp). This header is part of unio, which has none: a
// program whose objects refer to unio::net gets them, any other one finds that there are none, when it runs.
//
// This header is C++11, for loops that are. It includes nothing of unio.

#pragma once

#include <memory>

#define UNIO_API __attribute__((visibility("default"))) // as in config.hpp

struct addrinfo;
struct sockaddr;

namespace unio {
inline namespace v0_1 {

class resolver;

/// What is asked: the addresses of a host and a service; or, if `address` is given, their names.
///
/// Lifetime  the texts and the address are copied by ask(), and looked at by the others
struct foreign_question {
  char const* host = nullptr;    ///< null or "": as getaddrinfo(3) says
  char const* service = nullptr; ///< likewise: a number, or a name of services(5)
  int flags = 0;                 ///< AI_…
  int family = 0;                ///< AF_…
  int type = 0;                  ///< SOCK_…; with an address SOCK_DGRAM makes the service one of UDP
  int protocol = 0;
  sockaddr const* address = nullptr;
  unsigned address_size = 0;
};

/// What came of it.
///
/// Thread safety  distinct: safe; shared: any number of readers
struct UNIO_API foreign_answer {
  foreign_answer() = default;
  foreign_answer(foreign_answer const&) = delete;
  foreign_answer& operator=(foreign_answer const&) = delete;
  virtual ~foreign_answer();

  int error = 0;             ///< 0, or EAI_… of getaddrinfo(3)
  int system_error = 0;      ///< errno, if that is EAI_SYSTEM; ECANCELED: it was cancelled
  addrinfo* first = nullptr; ///< as getaddrinfo(3) lists them; they end with this
  char const* host = "";     ///< of an address: the name, or the address as text
  char const* service = "";  ///< of an address: likewise
};

/// Who is told an answer.
///
/// Thread safety  none: called once, on one thread
class UNIO_API foreign_asker {
 public:
  foreign_asker() = default;
  foreign_asker(foreign_asker const&) = delete;
  foreign_asker& operator=(foreign_asker const&) = delete;
  virtual ~foreign_asker();
  /// Called once for each ask(). It does not block, and tells the loop. Null: there was no memory for an
  /// answer.
  ///
  /// Concurrency  on a thread of unio's
  /// Cost         the program's
  virtual void answered(std::unique_ptr<foreign_answer> answer) noexcept = 0;
};

/// A look-up that was begun. It goes on if this is given up.
///
/// Thread safety  any thread
class UNIO_API foreign_look_up {
 public:
  foreign_look_up() = default;
  foreign_look_up(foreign_look_up const&) = delete;
  foreign_look_up& operator=(foreign_look_up const&) = delete;
  virtual ~foreign_look_up();
  /// Asks it to end soon, with an answer all the same.
  ///
  /// Concurrency  any thread; waits for nothing
  /// Cost         a system call if unio's thread sleeps
  virtual void cancel() noexcept = 0;
};

/// Looks names up as unio::resolver does, and all else that getaddrinfo(3) knows as that does.
///
/// Thread safety  all of it from any thread
/// Errors         those of getaddrinfo(3), in the answer: EAI_NONAME for what has no address, EAI_AGAIN where
///                no server answers or says that it cannot; std::bad_alloc; std::system_error where its
///                thread cannot be started
/// Lifetime       as long as the process
/// Fork           in a child it starts anew: what is under way is the parent's
/// Cost           one thread for the process, from the first ask() on, which runs all look-ups at once. See
///                unio::resolver
class UNIO_API foreign_names {
 public:
  /// Those of unio::net. Null where that is no part of the program.
  ///
  /// Concurrency  any thread; known before main()
  /// Cost         none
  static foreign_names* linked() noexcept;

  /// Whether the answer is as getaddrinfo(3) would give it. Not for canonical names, nor for families and
  /// flags that this does not know. Cost: none.
  virtual bool can_answer(foreign_question const& question) const noexcept = 0;
  /// Looks it up. Preconditions: can_answer(). Returns the look-up, to cancel it.
  virtual std::shared_ptr<foreign_look_up> ask(foreign_question const& question,
                                               std::shared_ptr<foreign_asker> asker) = 0;
  /// Looks it up, blocking. Preconditions: can_answer(). Returns the answer.
  virtual std::unique_ptr<foreign_answer> answer(foreign_question const& question) = 0;
  /// Look-ups that begin from now on ask `names`, or, null, resolver::of_the_system(). Waits until none asks
  /// the one before, which may end then: cancel what may take long. Not on unio's thread.
  virtual void use(resolver* names) noexcept = 0;

 protected:
  foreign_names() = default;
  ~foreign_names() = default;
  /// What linked() is from now on.
  static void is_linked(foreign_names* names) noexcept;
};

/// Defined by unio::net: an object that refers to it makes the linker take that.
extern UNIO_API char const unio_net_is_linked;

} // namespace v0_1
} // namespace unio
