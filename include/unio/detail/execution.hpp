// unio/detail/execution.hpp: which implementation of senders and receivers is used.
//
// Here because a program has the vocabulary from its standard library, from stdexec, its predecessor, or from
// a header of its own (UNIO_EXECUTION_HEADER, whose namespace is UNIO_EXECUTION_NAMESPACE), and no feature of
// the language chooses between headers. UNIO_HAS_EXECUTION says whether there is one. Without one the names
// are declared and do nothing.
//
// start_scheduler_t asks for the scheduler on which an operation is started: get_scheduler in the first
// versions, get_start_scheduler from then on.

#pragma once

#include <version>

#if defined(UNIO_EXECUTION_HEADER)
#define UNIO_HAS_EXECUTION 1
#include UNIO_EXECUTION_HEADER
namespace unio::inline v0_1::detail {
namespace ex = UNIO_EXECUTION_NAMESPACE;
using start_scheduler_t = ex::get_scheduler_t;
} // namespace unio::detail
#elif defined(__cpp_lib_senders)
#define UNIO_HAS_EXECUTION 1
#include <execution>
#include <stop_token>
namespace unio::inline v0_1::detail::ex {
using namespace std::execution;
using std::get_stop_token;
using std::get_stop_token_t;
using std::stop_callback_for_t;
using std::stop_token_of_t;
} // namespace unio::detail::ex
namespace unio::inline v0_1::detail {
#if __cpp_lib_senders > 202506L
using start_scheduler_t = ex::get_start_scheduler_t;
#else
using start_scheduler_t = ex::get_scheduler_t;
#endif
} // namespace unio::detail
#elif __has_include(<stdexec/execution.hpp>)
#define UNIO_HAS_EXECUTION 1
#include <stdexec/execution.hpp>
namespace unio::inline v0_1::detail {
namespace ex = stdexec;
using start_scheduler_t = ex::get_start_scheduler_t;
} // namespace unio::detail
#else
#define UNIO_HAS_EXECUTION 0
#include <unio/detail/no_execution.hpp>
namespace unio::inline v0_1::detail {
using start_scheduler_t = ex::get_scheduler_t;
}
#endif
