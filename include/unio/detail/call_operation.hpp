// unio/detail/call_operation.hpp: operations that are one call which may block, made from the list of their
// arguments.
//
//   UNIO_CALL_OPERATION(relink, void, (handle const&, h), (path_handle const&, base), (path_view, name), …)
//
// declares async_relink: its constructor, its state, its result and the forms of UNIO_SENDER_FORMS. It is
// done on its first argument, a handle, or the directory from which a name leads. The call is a plain
// function of the same arguments in src/op, which src/op/call.hpp makes the faces of the operation:
//
//   int relink(int fd, int base, path_view name, …) noexcept;   // >= 0, or -errno
//
//   UNIO_CALL_VERB                the same, and its functions (rename, co_rename, …)
//   UNIO_CALL_OF_HANDLE_OR_NAME   on what a handle has open, or on what a name leads to; and its functions
//   UNIO_CALL_WITHOUT_HANDLE      of arguments alone, and last of all who runs it; and its functions
//
// The result is void; or a type, a value of which is the function's last argument; or one of
//
//   detail::filled<T>             how much of the argument `into` was filled, as a T
//   detail::filled_or_needed<T>   the same, or how much is needed: that is the function's last argument
//   detail::opened<T>             a handle of the descriptor that the function has returned
//   detail::opened_as<T>          the same, of a kind that is the function's last argument

#pragma once

#include <unio/detail/forms.hpp>
#include <unio/detail/operations.hpp>
#include <unio/path_view.hpp>

namespace unio::inline v0_1 {

class path_handle;
class directory_handle;
class symlink_handle;

namespace detail {

/// A directory as the system's calls take it.
struct directory_number {
  directory_number() = default;
  explicit directory_number(int number) noexcept : fd(number) {}
  UNIO_API directory_number(path_handle const& base) noexcept; // NOLINT: implicit
  operator int() const noexcept { return fd; }                 // NOLINT: implicit
  int fd = -1;
};

/// What the function is given first: the descriptor of a handle, or a directory; or that there is none.
template <class T>
using first_argument = std::conditional_t<std::is_same_v<T, path_handle const&>, directory_number, int>;
struct no_handle {};

/// What a handle has open, or what a name leads to from a directory.
struct handle_or_name {
  int fd; // of the one or the other
  handle_kind kind;
  bool is_named; // a name may be empty too
  path_view name;
};

/// How an operation keeps an argument.
template <class T> struct stored_argument {
  using type = std::remove_cvref_t<T>;
};
template <> struct stored_argument<path_handle const&> {
  using type = directory_number;
};
template <class T> using stored = typename stored_argument<T>::type;

/// Its constructors are in src/op, so that no header needs the handles.
class UNIO_API call_base : public io_operation {
 protected:
  call_base() = default;
  call_base(driver::operation_faces const& table, handle const& h, unio::deadline d) noexcept;
  call_base(driver::operation_faces const& table, directory_handle const& h, unio::deadline d) noexcept;
  call_base(driver::operation_faces const& table, symlink_handle const& h, unio::deadline d) noexcept;
  call_base(driver::operation_faces const& table, path_handle const& base, unio::deadline d) noexcept;
  call_base(driver::operation_faces const& table, io_multiplexer* m, unio::deadline d) noexcept
      : io_operation(table, handle_kind::none, -1, m, d) {}
};

struct call_access; // src/op/call.hpp

template <class T> struct filled;
template <class T> struct filled_or_needed;
/// How a handle is made of what was opened. It may be a friend of its handle.
template <class T> struct opened {
  static T made(auto const& operation) noexcept { return T(operation.outcome_value()); }
};
template <class T> struct opened_as;

/// What the result decides.
template <class Operation, class Result>
class call_operation : public call_base, public standard_sender<Operation> {
 public:
  using result_type = io_result<Result>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return {result_value_, static_cast<std::size_t>(outcome_value())};
  }

 protected:
  using call_base::call_base;

 private:
  friend struct call_access;
  Result result_value_{};
};

template <class Operation>
class call_operation<Operation, void> : public call_base, public standard_sender<Operation> {
 public:
  using result_type = io_result<void>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return {};
  }

 protected:
  using call_base::call_base;
};

/// The first `n` bytes of a buffer.
template <class T> T first_of(mutable_buffer into, std::size_t n) noexcept {
  if constexpr (requires { T(into.data(), n); })
    return T(into.data(), n);
  else
    return T(reinterpret_cast<char const*>(into.data()), n);
}

template <class Operation, class T>
class call_operation<Operation, filled<T>> : public call_base, public standard_sender<Operation> {
 public:
  using result_type = io_result<T>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    auto const n = static_cast<std::size_t>(outcome_value());
    auto const& into = static_cast<Operation const&>(*this).into();
    if constexpr (requires { into.first(n); })
      return into.first(n);
    else
      return {first_of<T>(into, n), n};
  }

 protected:
  using call_base::call_base;
};

template <class Operation, class T>
class call_operation<Operation, filled_or_needed<T>> : public call_base, public standard_sender<Operation> {
 public:
  using result_type = io_result<T>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return {failed(), result_value_};
    auto const n = static_cast<std::size_t>(outcome_value());
    return {first_of<T>(static_cast<Operation const&>(*this).into(), n), n};
  }

 protected:
  using call_base::call_base;

 private:
  friend struct call_access;
  std::size_t result_value_ = 0;
};

template <class Operation, class T>
class call_operation<Operation, opened<T>> : public call_base, public standard_sender<Operation> {
 public:
  using result_type = io_result<T>;
  /// Once: the handle is the caller's from then on.
  [[nodiscard]] result_type result() noexcept {
    if (outcome_value() < 0) return failed();
    return opened<T>::made(static_cast<Operation&>(*this));
  }

 protected:
  using call_base::call_base;

 private:
  friend struct call_access;
  static constexpr bool opens = true;
};

template <class Operation, class T>
class call_operation<Operation, opened_as<T>> : public call_operation<Operation, opened<T>> {
 public:
  [[nodiscard]] handle_kind opened_kind() const noexcept { return result_value_; }

 protected:
  using call_operation<Operation, opened<T>>::call_operation;

 private:
  friend struct call_access;
  handle_kind result_value_ = handle_kind::file;
};

} // namespace detail
} // namespace unio

#define UNIO_CALL_VERB(verb, result, ...)        \
  UNIO_CALL_OPERATION(verb, result, __VA_ARGS__) \
  UNIO_FREE_VERB_FORMS(verb, async_##verb, __VA_ARGS__)

#define UNIO_CALL_OPERATION(verb, result, subject, ...)                                         \
  class UNIO_API async_##verb : public detail::call_operation<async_##verb, result> {           \
   public:                                                                                      \
    async_##verb() = default;                                                                   \
    explicit async_##verb(UNIO_PARAMETERS(subject, __VA_ARGS__) unio::deadline d = {}) noexcept \
        : call_operation(table_, UNIO_NAME_ONLY subject, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__) {} \
    UNIO_CALL_STATE(detail::first_argument<UNIO_TYPE_ONLY subject>(fd()), __VA_ARGS__)          \
  };                                                                                            \
  UNIO_SENDER_FORMS(async_##verb, subject, __VA_ARGS__)

#define UNIO_CALL_WITHOUT_HANDLE(verb, result, ...)                                   \
  class UNIO_API async_##verb : public detail::call_operation<async_##verb, result> { \
   public:                                                                            \
    async_##verb() = default;                                                         \
    explicit async_##verb(UNIO_PARAMETERS(__VA_ARGS__) io_multiplexer* m = nullptr,   \
                          unio::deadline d = {}) noexcept                             \
        : call_operation(table_, m, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__) {}            \
    UNIO_CALL_STATE(detail::no_handle(), __VA_ARGS__)                                 \
  };                                                                                  \
  UNIO_CALL_FORMS(verb, __VA_ARGS__, (io_multiplexer*, m, = nullptr))

// `last` is a list in parentheses: arguments that only names have.
#define UNIO_CALL_OF_HANDLE_OR_NAME(verb, result, handle_type, last, ...)                                    \
  class UNIO_API async_##verb : public detail::call_operation<async_##verb, result> {                        \
   public:                                                                                                   \
    async_##verb() = default;                                                                                \
    explicit async_##verb(handle_type const& h, UNIO_PARAMETERS(__VA_ARGS__) unio::deadline d = {}) noexcept \
        : call_operation(table_, h, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__) {}                                   \
    explicit async_##verb(path_handle const& base, path_view name,                                           \
                          UNIO_PARAMETERS(__VA_ARGS__) UNIO_PARAMETERS last unio::deadline d = {}) noexcept  \
        : call_operation(table_, base, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__ UNIO_AND last),                    \
          is_named_(true),                                                                                   \
          name_(name) {}                                                                                     \
    UNIO_CALL_STATE((detail::handle_or_name{fd(), kind(), is_named_, name_}), __VA_ARGS__ UNIO_AND last)     \
    bool is_named_ = false;                                                                                  \
    path_view name_;                                                                                         \
  };                                                                                                         \
  UNIO_SENDER_FORMS(async_##verb, (handle_type const&, h), __VA_ARGS__)                                      \
  UNIO_CALL_FORMS(verb, (path_handle const&, base), (path_view, name), __VA_ARGS__ UNIO_AND last)

#define UNIO_CALL_FORMS(verb, ...)             \
  UNIO_SENDER_FORMS(async_##verb, __VA_ARGS__) \
  UNIO_FREE_VERB_FORMS(verb, async_##verb, __VA_ARGS__)

#define UNIO_CALL_STATE(first, ...)                                                    \
  UNIO_ALL(UNIO_ACCESSOR, __VA_ARGS__)                                                 \
 private:                                                                              \
  friend struct detail::call_access;                                                   \
  auto given_to(auto f) noexcept { return f(first UNIO_ALL(UNIO_GIVE, __VA_ARGS__)); } \
  static driver::operation_faces const table_;                                         \
  UNIO_ALL(UNIO_KEPT, __VA_ARGS__)

#define UNIO_KEEP(type, name, ...) , name##_(name)
#define UNIO_GIVE(type, name, ...) , name##_
#define UNIO_ACCESSOR(type, name, ...) \
  [[nodiscard]] detail::stored<type> const& name() const noexcept { return name##_; }
#define UNIO_KEPT(type, name, ...) detail::stored<type> name##_{};
#define UNIO_AND(...) __VA_OPT__(, ) __VA_ARGS__
