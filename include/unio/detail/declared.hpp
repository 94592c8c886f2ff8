// unio/detail/declared.hpp: operations made from the list of their arguments.
//
//   UNIO_OPERATION(relink, void, (handle const&, h), (path_handle const&, base), (path_view, name), …)
//
// declares async_relink: its constructor, its state, its result (unio/detail/operation_with.hpp) and the
// forms of UNIO_SENDER_FORMS. It is done on its first argument, a handle, or the directory from which a name
// leads. Its faces are async_relink::table_, in src/op. Where it is one call that may block, that is a plain
// function of the same arguments, which src/op/call.hpp makes the faces:
//
//   int relink(int fd, int base, path_view name, …) noexcept;   // >= 0, or -errno
//
//   UNIO_OPERATION_AND_VERB            the same, and its functions (rename, co_rename, …)
//   UNIO_OPERATION_ON_HANDLE_OR_NAME   on what a handle has open, or on what a name leads to; with functions
//   UNIO_OPERATION_WITHOUT_HANDLE      of arguments alone, and last of all who runs it; with functions

#pragma once

#include <unio/detail/forms.hpp>
#include <unio/detail/operation_with.hpp>
#include <unio/detail/operations.hpp>
#include <unio/path_view.hpp>

namespace unio::inline v0_1::detail {

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

/// What the caller has, and the operation refers to.
template <class T> class referred {
 public:
  referred() = default;
  referred(T& to) noexcept : to_(&to) {} // NOLINT: implicit
  T& operator*() const noexcept { return *to_; }
  T* operator->() const noexcept { return to_; }

 private:
  T* to_ = nullptr;
};

/// How an operation keeps an argument.
template <class T> struct stored_argument {
  using type = std::remove_cv_t<T>;
};
template <class T> struct stored_argument<T const&> {
  using type = T;
};
template <class T> struct stored_argument<T&> {
  using type = referred<T>;
};
template <> struct stored_argument<path_handle const&> {
  using type = directory_number;
};
template <class T> using stored = typename stored_argument<T>::type;

} // namespace unio::detail

#define UNIO_OPERATION_AND_VERB(verb, result, ...) \
  UNIO_OPERATION(verb, result, __VA_ARGS__)        \
  UNIO_FREE_VERB_FORMS(verb, async_##verb, __VA_ARGS__)

#define UNIO_OPERATION(verb, result, subject, ...)                                              \
  class UNIO_API async_##verb : public detail::operation_with<async_##verb, result> {           \
   public:                                                                                      \
    async_##verb() = default;                                                                   \
    UNIO_EXPLICIT(__VA_ARGS__)                                                                  \
    async_##verb(UNIO_PARAMETERS(subject, __VA_ARGS__) unio::deadline d = {}) noexcept          \
        : operation_with(table_, UNIO_NAME_ONLY subject, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__) {} \
    UNIO_OPERATION_STATE(detail::first_argument<UNIO_TYPE_ONLY subject>(fd()), __VA_ARGS__)     \
  };                                                                                            \
  UNIO_SENDER_FORMS(async_##verb, subject, __VA_ARGS__)

#define UNIO_OPERATION_WITHOUT_HANDLE(verb, result, ...)                              \
  class UNIO_API async_##verb : public detail::operation_with<async_##verb, result> { \
   public:                                                                            \
    async_##verb() = default;                                                         \
    explicit async_##verb(UNIO_PARAMETERS(__VA_ARGS__) io_multiplexer* m = nullptr,   \
                          unio::deadline d = {}) noexcept                             \
        : operation_with(table_, m, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__) {}            \
    UNIO_OPERATION_STATE(detail::no_handle(), __VA_ARGS__)                            \
  };                                                                                  \
  UNIO_OPERATION_FORMS(verb, __VA_ARGS__, (io_multiplexer*, m, = nullptr))

// `last` is a list in parentheses: arguments that only names have.
#define UNIO_OPERATION_ON_HANDLE_OR_NAME(verb, result, handle_type, last, ...)                               \
  class UNIO_API async_##verb : public detail::operation_with<async_##verb, result> {                        \
   public:                                                                                                   \
    async_##verb() = default;                                                                                \
    explicit async_##verb(handle_type const& h, UNIO_PARAMETERS(__VA_ARGS__) unio::deadline d = {}) noexcept \
        : operation_with(table_, h, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__) {}                                   \
    explicit async_##verb(path_handle const& base, path_view name,                                           \
                          UNIO_PARAMETERS(__VA_ARGS__) UNIO_PARAMETERS last unio::deadline d = {}) noexcept  \
        : operation_with(table_, base, d) UNIO_ALL(UNIO_KEEP, __VA_ARGS__ UNIO_AND last),                    \
          is_named_(true),                                                                                   \
          name_(name) {}                                                                                     \
    UNIO_OPERATION_STATE((detail::handle_or_name{fd(), kind(), is_named_, name_}),                           \
                         __VA_ARGS__ UNIO_AND last)                                                          \
    bool is_named_ = false;                                                                                  \
    path_view name_;                                                                                         \
  };                                                                                                         \
  UNIO_SENDER_FORMS(async_##verb, (handle_type const&, h), __VA_ARGS__)                                      \
  UNIO_OPERATION_FORMS(verb, (path_handle const&, base), (path_view, name), __VA_ARGS__ UNIO_AND last)

#define UNIO_OPERATION_FORMS(verb, ...)        \
  UNIO_SENDER_FORMS(async_##verb, __VA_ARGS__) \
  UNIO_FREE_VERB_FORMS(verb, async_##verb, __VA_ARGS__)

#define UNIO_OPERATION_STATE(first, ...)                                               \
  UNIO_ALL(UNIO_ACCESSOR, __VA_ARGS__)                                                 \
 private:                                                                              \
  friend struct detail::declared_access;                                               \
  template <class, class> friend class detail::operation_with;                         \
  auto given_to(auto f) noexcept { return f(first UNIO_ALL(UNIO_GIVE, __VA_ARGS__)); } \
  static driver::operation_faces const table_;                                         \
  UNIO_ALL(UNIO_KEPT, __VA_ARGS__)

// Not of several arguments: a function may return {handle, request}.
#define UNIO_EXPLICIT(...) explicit(true __VA_OPT__(&&false))
#define UNIO_KEEP(type, name, ...) , name##_(name)
#define UNIO_GIVE(type, name, ...) , name##_
#define UNIO_ACCESSOR(type, name, ...) \
  [[nodiscard]] detail::stored<type> const& name() const noexcept { return name##_; }
#define UNIO_KEPT(type, name, ...) detail::stored<type> name##_{};
#define UNIO_AND(...) __VA_OPT__(, ) __VA_ARGS__
