// unio/detail/boost_asio_frame.hpp: the names of Boost.Asio, for what takes the place of its headers, until
// asio_frame_end.hpp. Included after boost/asio/version.hpp.

#define UNIO_ASIO(name) BOOST_ASIO_##name
#define UNIO_ASIO_VERSION BOOST_ASIO_VERSION
#define UNIO_ASIO_IS_KNOWN (BOOST_ASIO_VERSION == 101800 || BOOST_ASIO_VERSION == 102600)
#define UNIO_ASIO_MARK_NAME(function) unio_boost_asio_marks_##function
// Of the class whose name, with its length, UNIO_ASIO_SERVICE is.
#define UNIO_ASIO_MANGLED "_ZN5boost4asio6detail" UNIO_ASIO_SERVICE
#define UNIO_ASIO_MANGLED_RUN UNIO_ASIO_MANGLED "3runElRNS1_8op_queueINS1_19scheduler_operationEEE"
#define UNIO_ASIO_MANGLED_INTERRUPT UNIO_ASIO_MANGLED "9interruptEv"
#define UNIO_ASIO_IS_CONTINUATION boost_asio_handler_cont_helpers::is_continuation
#define UNIO_ASIO_BEGIN namespace boost { namespace asio { namespace detail {
#define UNIO_ASIO_END } } }
