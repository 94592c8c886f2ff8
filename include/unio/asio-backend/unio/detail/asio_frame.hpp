// unio/detail/asio_frame.hpp: the names of standalone Asio, for what takes the place of its headers, until
// asio_frame_end.hpp. Included after asio/version.hpp.

#define UNIO_ASIO(name) ASIO_##name
#define UNIO_ASIO_VERSION ASIO_VERSION
#define UNIO_ASIO_IS_KNOWN (ASIO_VERSION == 102201 || ASIO_VERSION == 103802)
#define UNIO_ASIO_MARK_NAME(function) unio_asio_marks_##function
// Of the class whose name, with its length, UNIO_ASIO_SERVICE is.
#define UNIO_ASIO_MANGLED "_ZN4asio6detail" UNIO_ASIO_SERVICE
#define UNIO_ASIO_MANGLED_RUN UNIO_ASIO_MANGLED "3runElRNS0_8op_queueINS0_19scheduler_operationEEE"
#define UNIO_ASIO_MANGLED_INTERRUPT UNIO_ASIO_MANGLED "9interruptEv"
#ifndef ASIO_INLINE_NAMESPACE_BEGIN // before 1.38.1
#define UNIO_ASIO_IS_CONTINUATION asio_handler_cont_helpers::is_continuation
#define UNIO_ASIO_BEGIN namespace asio { namespace detail {
#define UNIO_ASIO_END } }
#else
#define UNIO_ASIO_IS_CONTINUATION ASIO_VERSIONED_NAME(handler_cont_helpers)::is_continuation
#define UNIO_ASIO_BEGIN namespace asio { ASIO_INLINE_NAMESPACE_BEGIN namespace detail {
#define UNIO_ASIO_END } ASIO_INLINE_NAMESPACE_END }
#endif
