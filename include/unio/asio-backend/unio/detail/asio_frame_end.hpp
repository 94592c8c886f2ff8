// unio/detail/asio_frame_end.hpp: takes back what asio_frame.hpp or boost_asio_frame.hpp has defined.

#undef UNIO_ASIO
#undef UNIO_ASIO_VERSION
#undef UNIO_ASIO_IS_KNOWN
#undef UNIO_ASIO_MARK_NAME
#undef UNIO_ASIO_SERVICE
#undef UNIO_ASIO_MANGLED
#undef UNIO_ASIO_MANGLED_RUN
#undef UNIO_ASIO_MANGLED_INTERRUPT
#undef UNIO_ASIO_IS_CONTINUATION
#undef UNIO_ASIO_BEGIN
#undef UNIO_ASIO_END
